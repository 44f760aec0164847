"""Both twins of the record codec, for tests that must hold for each."""

import importlib
from importlib.util import find_spec
from types import ModuleType

import pytest

from ottla.records import codec

IS_COMPILED = find_spec("ottla.records._codec") is not None


def compiled_twin() -> ModuleType:
    """The compiled twin; the test is skipped where it was not built."""
    if not IS_COMPILED:
        pytest.skip("the compiled twin was not built")
    return importlib.import_module("ottla.records._codec")


BOTH = [
    pytest.param(codec, id="python"),
    pytest.param(
        importlib.import_module("ottla.records._codec") if IS_COMPILED else None,
        id="compiled",
        marks=pytest.mark.skipif(not IS_COMPILED, reason="the compiled twin was not built"),
    ),
]
