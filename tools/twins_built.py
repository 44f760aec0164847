"""Says whether the compiled twins were built, and fails where they should have been.

Without a C compiler, or without Python's headers, the Python twins run and all is well.  Where a
trivial extension compiles and one of ours does not, something is wrong with ours: the build only
warned, because for users a twin is optional.
"""

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

PACKAGE = Path("src/ottla")


def missing_twins() -> list[Path]:
    """The compiled modules that this Python would not find."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    sources = sorted(PACKAGE.rglob("_*.pyx"))
    return [path for path in sources if not path.with_name(path.stem + suffix).exists()]


def can_compile() -> bool:
    """Whether the compiler that builds extensions can read Python's headers."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    command = [*compiler, "-I", sysconfig.get_path("include"), "-fsyntax-only", "-x", "c", "-"]
    try:
        done = subprocess.run(
            command, input=b"#include <Python.h>\n", capture_output=True, check=False
        )
    except FileNotFoundError:
        return False
    return done.returncode == 0


def main() -> int:
    """The exit code is 1 if a twin is missing that could have been built."""
    missing = missing_twins()
    if not missing or os.environ.get("OTTLA_BUILD_PURE"):
        return 0
    names = ", ".join(str(path) for path in missing)
    if can_compile():
        print(f"error: {names}: not built, although the compiler works; see its messages above")
        return 1
    print("==> no working C compiler: the Python twins run, with the same results, only slower")
    return 0


if __name__ == "__main__":
    sys.exit(main())
