"""The pinned versions: everything we ask for is pinned, and nothing says where it comes from."""

import re
import tomllib

from tests.architecture.source import ROOT

PINNED = (ROOT / "requirements" / "constraints.txt").read_text("utf-8").splitlines()


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_every_line_is_a_name_and_a_version() -> None:
    odd = [line for line in PINNED if not re.fullmatch(r"#.*|[\w.-]+==[\w.]+", line)]
    assert odd == []


def test_everything_we_ask_for_is_pinned() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    asked = [
        *declared["project"]["dependencies"],
        *(r for extra in declared["project"]["optional-dependencies"].values() for r in extra),
        *(r for group in declared["dependency-groups"].values() for r in group),
    ]
    names = {canonical(re.split(r"[^\w.-]", requirement)[0]) for requirement in asked}
    pinned = {canonical(line.partition("==")[0]) for line in PINNED}
    assert names - pinned == set()
