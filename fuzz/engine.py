"""Runs one target under Atheris: `python -m fuzz.engine <module> <options of libFuzzer>`.

Atheris owns the process: it takes over the arguments, and ends the process when it is done, with
code 0, or as soon as the target raises.  `fuzz.runner` starts it.
"""

import sys
from importlib import import_module


def main() -> None:
    """Fuzz the module named by the first argument."""
    # Here, and not above: the import itself prints, and is not possible everywhere.
    import atheris

    module, options = sys.argv[1], sys.argv[2:]
    with atheris.instrument_imports(include=["ottla"]):
        target = import_module(module)
    atheris.Setup([module, *options], target.one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
