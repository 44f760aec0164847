"""Published jars of other people's software, fetched from Maven Central with everything they need.

A set of jars is fetched once, into `build/jars`, and is either whole or not there: a download that
was interrupted leaves nothing behind that could be taken for it.  `UnavailableError` says, in one
line, why jars cannot be had here; tests and benchmarks skip with it.
"""

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
JARS: Final = ROOT / "build" / "jars"
PLUGIN: Final = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
TIMEOUT_S: Final = 600.0


class UnavailableError(Exception):
    """What is missing on this machine, in one line."""


def program(name: str) -> str:
    """The path of a program; `UnavailableError` if there is none of this name."""
    if (found := shutil.which(name)) is None:
        raise UnavailableError(f"there is no {name} on this machine")
    return found


def jars(name: str, *coordinates: str) -> Path:
    """A folder with the jars of `group:artifact:version`, and of all that they need to run.

    Args:
        name: Of the folder, e.g. `kafka-4.3.1`: the same coordinates, the same name.
        coordinates: What to fetch.
    """
    folder = JARS / name
    if folder.is_dir():
        return folder
    maven = program("mvn")
    JARS.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=JARS, prefix=f".{name}-") as work:
        fetched = Path(work) / "jars"
        (Path(work) / "pom.xml").write_text(_project(coordinates), "utf-8")
        options = ("-q", "-B", PLUGIN, "-DincludeScope=runtime", f"-DoutputDirectory={fetched}")
        _run([maven, *options], Path(work))
        try:
            fetched.rename(folder)
        except OSError:
            if not folder.is_dir():  # it is, if somebody else was faster
                raise
    return folder


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"Maven did not end within {TIMEOUT_S:g} s") from None
    if done.returncode:
        errors = (line.partition("[ERROR] ")[2] for line in done.stdout.splitlines())
        first = next(filter(None, errors), f"it ended with {done.returncode}")
        raise UnavailableError(f"Maven could not fetch the jars: {first}")


def _project(coordinates: tuple[str, ...]) -> str:
    """The smallest project that depends on them: at these versions, whatever others ask for."""
    wanted = []
    for coordinate in coordinates:
        group, artifact, version = coordinate.split(":")
        wanted.append(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId>"
            f"<version>{version}</version></dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>ottla</groupId><artifactId>jars</artifactId><version>1</version>"
        f"<dependencyManagement><dependencies>{''.join(wanted)}</dependencies>"
        f"</dependencyManagement><dependencies>{''.join(wanted)}</dependencies></project>"
    )
