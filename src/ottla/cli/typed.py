"""What people have to type to run this program again, where they are now."""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Final

NAME: Final = "ottla"


def typed_name(argv: Sequence[str] = sys.orig_argv, folder: str | None = None) -> str:
    """`ottla` where the shell finds it, else the way to it: `.venv/bin/ottla`, `python -m ottla`.

    `folder` is where they are.
    """
    program = next((word for word in argv if os.path.basename(word) == NAME), None)
    if program is None:
        return f"{os.path.basename(argv[0]) if argv else 'python'} -m {NAME}"
    found = shutil.which(NAME)
    if found is not None and os.path.realpath(found) == os.path.realpath(program):
        return NAME
    here = os.path.relpath(program, folder)
    return os.path.abspath(program) if here.startswith(os.pardir) else here
