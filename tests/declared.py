"""Every declared message, and every version of it: what wire tests are run over.

Messages are found by walking `ottla.wire`, not by a list that somebody could forget to extend.
"""

from functools import cache
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import pytest

import ottla.wire
from ottla.wire import interpreter
from ottla.wire.codec import Codec
from ottla.wire.compiler import FieldPlan, Plan
from ottla.wire.schema import Declared, api_of
from tests.wire_twins import IS_COMPILED, codec_of, compiled_twin


@cache
def every_message() -> tuple[type[Any], ...]:
    """Every class declared with `message` anywhere below `ottla.wire`, ordered by name."""
    found = {
        value
        for info in walk_packages(ottla.wire.__path__, "ottla.wire.")
        if not info.name.rpartition(".")[2].startswith("_")
        for value in vars(import_module(info.name)).values()
        if isinstance(value, type) and issubclass(value, Declared) and hasattr(value, "__api__")
    }
    return tuple(sorted(found, key=lambda cls: (cls.__name__, cls.__module__)))


@cache
def every_version() -> tuple[tuple[type[Any], int], ...]:
    """Every message with every version that we speak."""
    return tuple((cls, version) for cls in every_message() for version in api_of(cls).versions)


def title(cls: type[Any], version: int) -> str:
    return f"{cls.__name__}-v{version}"


EVERY_MESSAGE = pytest.mark.parametrize(
    "cls", [pytest.param(cls, id=cls.__name__) for cls in every_message()]
)
"""Runs a test once for each message."""

EVERY_VERSION = pytest.mark.parametrize(
    ("cls", "version"),
    [pytest.param(cls, version, id=title(cls, version)) for cls, version in every_version()],
)
"""Runs a test once for each message and version."""


_TWINS: dict[tuple[type[Any], int], dict[str, Codec]] = {}


def twins(cls: type[Any], version: int) -> dict[str, Codec]:
    """The codecs of `cls` at `version`: in Python, and compiled where that was built."""
    if (cls, version) not in _TWINS:
        made = {"python": codec_of(interpreter, cls, version)}
        if IS_COMPILED:
            made["compiled"] = codec_of(compiled_twin(), cls, version)
        _TWINS[cls, version] = made
    return _TWINS[cls, version]


def structs_of(plan: Plan) -> list[Plan]:
    """`plan` and all structs nested in it."""
    found = [plan]
    for field in (*plan.fields, *plan.tagged):
        value: FieldPlan | None = field
        while value is not None:
            if value.struct is not None:
                found += structs_of(value.struct)
            value = value.element
    return found
