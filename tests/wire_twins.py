"""Both twins of the wire interpreter, for tests that must hold for each."""

import importlib
from importlib.util import find_spec
from types import ModuleType
from typing import Any

import pytest

from ottla.wire import interpreter
from ottla.wire.codec import Codec
from ottla.wire.compiler import plan

IS_COMPILED = find_spec("ottla.wire._interpreter") is not None

NEEDS_COMPILED = pytest.mark.skipif(not IS_COMPILED, reason="the compiled twin was not built")


def compiled_twin() -> ModuleType:
    return importlib.import_module("ottla.wire._interpreter")


BOTH = [
    pytest.param(interpreter, id="python"),
    pytest.param(compiled_twin() if IS_COMPILED else None, id="compiled", marks=NEEDS_COMPILED),
]


def codec_of(twin: ModuleType, cls: type[Any], version: int) -> Codec:
    """The codec that `twin` makes of `cls` at `version`."""
    made: Codec = twin.Codec(plan(cls, version))
    return made


def encoded(codec: Codec, value: Any) -> bytes:
    """`value` as one piece."""
    return b"".join(codec.encode(value))
