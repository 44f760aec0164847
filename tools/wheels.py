"""Builds what is published, and tries each of it in an environment that has nothing else.

    dist/ottla-*.tar.gz                  the source distribution
    dist/ottla-*-py3-none-any.whl        a wheel without compiled parts, for any machine
    dist/ottla-*-cp3*-*.whl              a wheel with them, for this machine and this Python

Wheels are built from the unpacked source distribution, never from the working tree: what is missing
there is missing for everybody who builds from source.  A try is: install, ask for the version, and
let a broker, a producer and a consumer work together.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
CONSTRAINTS: Final = ROOT / "requirements" / "constraints.txt"
TIMEOUT_S: Final = 900

PURE: Final = {"OTTLA_BUILD_PURE": "1"}
NO_COMPILER: Final = {"CC": "/bin/false", "CXX": "/bin/false"}

BUILD_SDIST: Final = "import setuptools.build_meta as b, sys; b.build_sdist(sys.argv[1])"
BUILD_WHEEL: Final = "import setuptools.build_meta as b, sys; b.build_wheel(sys.argv[1])"

SMOKE: Final = """\
import ottla

with ottla.Broker() as broker:
    with ottla.Producer(broker.bootstrap_servers) as producer:
        producer.send_many("orders", [b"order %d" % n for n in range(1_000)])
    reading = {"bootstrap_servers": broker.bootstrap_servers, "auto_offset_reset": "earliest"}
    with ottla.Consumer("orders", group_id="kitchen", **reading) as consumer:
        read = [next(consumer).value for _ in range(1_000)]
assert sorted(read) == sorted(b"order %d" % n for n in range(1_000))
"""


class UnfitError(Exception):
    """Something that was built does not work."""


def build_sdist(source: Path, dist: Path) -> Path:
    """Make a source distribution of `source`, in `dist`."""
    return _build(BUILD_SDIST, source, dist, PURE, "*.tar.gz")


def build_wheel(source: Path, dist: Path, environment: Mapping[str, str]) -> Path:
    """Make a wheel of an unpacked source distribution, in `dist`."""
    return _build(BUILD_WHEEL, source, dist, environment, "*.whl")


def _build(
    program: str, source: Path, dist: Path, environment: Mapping[str, str], what: str
) -> Path:
    dist.mkdir(parents=True, exist_ok=True)
    before = set(dist.glob(what))
    _run([sys.executable, "-c", program, str(dist)], environment, cwd=source)
    (made,) = set(dist.glob(what)) - before
    return made


def unpacked(sdist: Path, folder: Path) -> Path:
    """The only folder in a source distribution, after unpacking it into `folder`."""
    with tarfile.open(sdist) as archive:
        archive.extractall(folder, filter="data")
    (source,) = folder.iterdir()
    return source


def try_out(package: Path, folder: Path, environment: Mapping[str, str], twin: str) -> None:
    """Install `package` where nothing else is, and use it; `twin` is which codecs must run."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    install = ["-m", "pip", "install", "--disable-pip-version-check", "--quiet"]
    _run([str(python), *install, "-c", str(CONSTRAINTS), str(package)], environment, cwd=folder)
    version = _run([str(folder / "bin" / "ottla"), "version", "-v"], {}, cwd=folder)
    codecs = version.partition("codecs:\n")[2].partition("packages:")[0].splitlines()
    if not codecs or not all(twin in line for line in codecs):
        raise UnfitError(f"{package.name}: {twin} codecs should run:\n{version}")
    _run([str(python), "-c", SMOKE], {}, cwd=folder)
    if not (folder / "share" / "man" / "man1" / "ottla.1").exists():
        raise UnfitError(f"{package.name} has no manual page")


def _run(command: list[str], environment: Mapping[str, str], *, cwd: Path) -> str:
    # The environment of whoever builds must not be found by what is built.
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        command,
        cwd=cwd,
        env={**kept, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if ran.returncode != 0:
        raise UnfitError(f"{' '.join(command)}\n{ran.stdout}")
    return ran.stdout


def main(dist: Path) -> int:
    """Build all three, and try them; the source distribution without a compiler."""
    for old in [*dist.glob("ottla-*.whl"), *dist.glob("ottla-*.tar.gz")]:
        old.unlink()
    try:
        with tempfile.TemporaryDirectory(prefix="ottla-wheels-") as name:
            _build_and_try(dist.absolute(), Path(name))
    except UnfitError as unfit:
        print(f"error: {unfit}", file=sys.stderr)
        return 1
    return 0


def _build_and_try(dist: Path, folder: Path) -> None:
    sdist = build_sdist(ROOT, dist)
    source = unpacked(sdist, folder / "source")
    trials: dict[str, tuple[Callable[[], Path], Mapping[str, str], str]] = {
        "pure": (lambda: build_wheel(source, dist, PURE), {}, "python"),
        "compiled": (lambda: build_wheel(source, dist, {}), {}, "compiled"),
        "source": (lambda: sdist, NO_COMPILER, "python"),
    }
    for name, (build, environment, twin) in trials.items():
        package = build()
        print(f"==> {package.name}: {package.stat().st_size / 1024:,.0f} KB", flush=True)
        try_out(package, folder / name, environment, twin)
        print("    installs, and works", flush=True)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
