"""Runs one target under Atheris: `python -m fuzz.engine <module> <options of libFuzzer>`.

Atheris owns the process: it takes over the arguments, and ends the process when it is done, with
code 0, or as soon as the target raises.  `fuzz.runner` starts it.
"""

import resource
import sys
from importlib import import_module
from typing import Final

MAX_RSS_MB: Final = 1024
"""What a target may take."""


def main() -> None:
    """Fuzz the module named by the first argument."""
    # Here, and not above: the import itself prints, and is not possible everywhere.
    import atheris

    # The system takes the most that our parent ever had for ours, and so does libFuzzer.
    inherited_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    module, options = sys.argv[1], [f"-rss_limit_mb={inherited_mb + MAX_RSS_MB}", *sys.argv[2:]]
    with atheris.instrument_imports(include=["ottla"]):
        target = import_module(module)
    atheris.Setup([module, *options], target.one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
