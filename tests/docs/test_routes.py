"""Whoever tests with Ottla gets what the pages promise: their tests run, with the plugin alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import DOCS, ROOT, blocks


def file_of(page: Path) -> str:
    """Every block of Python on a page that has a test, as one file."""
    found = [
        block.text
        for block in blocks(page)
        if block.language == "python" and "def test_" in block.text
    ]
    return "\n\n".join(found)


@pytest.mark.parametrize(
    ("page", "test_count"),
    [(ROOT / "README.md", 1), (DOCS / "how-to" / "test-with-ottla.md", 2)],
    ids=["README", "test-with-ottla"],
)
def test_the_tests_on_the_page_pass(page: Path, test_count: int, tmp_path: Path) -> None:
    (tmp_path / "test_page.py").write_text(file_of(page), "utf-8")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"],
        cwd=tmp_path,
        env=kept,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=240,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout
    assert f"{test_count} passed" in ran.stdout
