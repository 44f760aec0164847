"""A pytest plugin for `make asan`: refuses to run on anything but the sanitized twins.

Without it, a wrong path would test the ordinary build and prove nothing.
"""

import importlib.util
import os
from pathlib import Path

import pytest

TWINS = ("ottla.wire._interpreter", "ottla.records._codec", "ottla.client.producer._quick")


def pytest_configure() -> None:
    """End the run before the first test if a twin is not the sanitized one."""
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        raise pytest.UsageError("AddressSanitizer is not preloaded")
    for name in TWINS:
        found = importlib.util.find_spec(name)
        path = Path(found.origin or "") if found else None
        if path is None or Path("build/asan").resolve() not in path.resolve().parents:
            raise pytest.UsageError(f"{name} would be {path}, which is not the sanitized build")
