"""A pipeline from a Python file: the steps that its variables hold, in the order they stand there.

The file is run as it is, in a module that nobody can import.  So Spark sends functions that it
defines to the workers whole, instead of telling them to import a file that they do not have.
"""

import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Final

from ottla.errors import ConfigError
from ottla.pipeline.graph import check
from ottla.pipeline.spec import Pipeline, Step
from ottla.pipeline.words import place_of

MODULE_NAME: Final = "__ottla_pipeline__"
NAME_VARIABLE: Final = "PIPELINE"
"""A file may set it to the name of the pipeline; otherwise it is called as the file."""


def load(path: str | Path) -> Pipeline:
    """The pipeline that a file declares.

    Raises:
        ConfigError: The file cannot be run, or what it declares cannot work.
    """
    file = Path(path)
    found = _run(file)
    named = found.get(NAME_VARIABLE, file.stem)
    if not isinstance(named, str):
        raise ConfigError(f"{file}: {NAME_VARIABLE} is {named!r}, not the name of the pipeline")
    steps: list[Step] = []
    for variable, value in found.items():
        if isinstance(value, Step) and value not in steps:
            steps.append(value if value.name else replace(value, name=variable))
    if not steps:
        error = ConfigError(f"{file} declares no steps")
        error.add_note("decorate a function with @pipeline.step(source=..., sink=...)")
        raise error
    pipeline = Pipeline(named, tuple(steps))
    check(pipeline)
    return pipeline


def _run(file: Path) -> dict[str, object]:
    try:
        source = file.read_bytes()
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    module = ModuleType(MODULE_NAME)
    module.__file__ = str(file)
    folder = str(file.parent.absolute())
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as Python does for a script
    try:
        exec(compile(source, file, "exec"), vars(module))
    except Exception as error:
        # The file is the user's: whatever it raises is told with its line, and is no bug of ours.
        place = place_of(error, str(file))
        raise ConfigError(f"{place}: {type(error).__name__}: {error}") from error
    return vars(module)
