"""What the compiled interpreter must get right because it handles memory itself.

Which classes and plans it accepts at all, and that nothing it makes or holds stays behind.
"""

import gc
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest

from ottla.errors import WireError
from ottla.wire.codec import Codec
from ottla.wire.compiler import Absent, FieldPlan, Plan, plan
from ottla.wire.schema import (
    Declared,
    Int8,
    Int32,
    Kind,
    String,
    at,
    fields,
    message,
    replace,
    struct,
)
from tests.wire_samples import ORDINARY, SIZED, Empty, Evolving, Nested, Numbers, Point, Sized
from tests.wire_twins import NEEDS_COMPILED, codec_of, compiled_twin, encoded

pytestmark = NEEDS_COMPILED


def make(planned: Any) -> Codec:
    made: Codec = compiled_twin().Codec(planned)
    return made


def field(name: str, kind: Any = Kind.INT32) -> FieldPlan:
    return FieldPlan(name, kind, nullable=False, compact=False, least_bytes=4)


def plan_of(cls: type[Any], *fields: FieldPlan) -> Plan:
    """A plan that no declaration would give."""
    return Plan(cls, "by hand", False, fields, (), (), 0)


def changed(planned: Plan, **changes: Any) -> Plan:
    return planned._replace(**changes)


def test_a_plan_of_a_class_that_was_not_declared_is_refused() -> None:
    class Ordinary:
        __slots__ = ("x",)

    heavy = type("Heavy", (Declared, int), {})

    for cls in (Ordinary, heavy, int, object, Declared):
        with pytest.raises(TypeError, match="is not a declared class"):
            make(plan_of(cls, field("x")))


def test_a_plan_that_does_not_name_every_slot_is_refused() -> None:
    with pytest.raises(TypeError, match="the plan of Point names"):
        make(plan_of(Point, field("x")))
    with pytest.raises(TypeError, match="the plan of Point names"):
        make(plan_of(Point, field("x"), field("y"), field("z")))


def test_a_field_that_is_not_a_slot_of_its_own_class_is_refused() -> None:
    @struct
    class Hollow:
        x: Int8
        y: Int8

    impostors: list[Any] = [
        property(lambda _: 1),
        vars(Point)["x"],  # a slot, but of another class
        vars(type(lambda: None))["__closure__"],  # a read-only member of a C struct
    ]
    for impostor in impostors:
        Hollow.y = impostor
        with pytest.raises(TypeError, match=r"Hollow\.y is not a slot"):
            make(plan_of(Hollow, field("x"), field("y")))


@pytest.mark.parametrize(
    "planned",
    [
        None,
        (),
        tuple(plan(Evolving, 0)),
        changed(plan(Evolving, 0), fields=list(plan(Evolving, 0).fields)),
        changed(plan(Evolving, 0), fields=(Absent("kept", 0, False),)),
        changed(plan(Evolving, 0), absent=tuple(map(list, plan(Evolving, 0).absent))),
        plan_of(Point, field("x"), field("y", Kind.ARRAY)),
        plan_of(Point, field("x"), field("y", Kind.STRUCT)),
        plan_of(Point, field("x"), field("y", 14)),
        plan_of(Point, field("x"), field("y", -1)),
    ],
)
def test_what_is_not_a_plan_all_the_way_down_is_refused(planned: Any) -> None:
    with pytest.raises((TypeError, AttributeError)):
        make(planned)


def test_an_array_that_no_length_could_bound_is_refused() -> None:
    nothing = FieldPlan("", Kind.STRUCT, False, False, 0, struct=plan(Empty, 0))
    endless = FieldPlan("x", Kind.ARRAY, False, False, 4, element=nothing)

    with pytest.raises(TypeError, match="x: nothing bounds an array"):
        make(plan_of(Point, endless, field("y")))


def test_the_plan_cannot_be_taken_from_a_codec() -> None:
    codec: Any = make(plan(Evolving, 0))

    with pytest.raises(AttributeError):
        codec.plan = plan(Evolving, 1)
    codec.__init__(plan(Evolving, 1))

    assert codec.plan.title == "Evolving v0"


def test_a_codec_keeps_what_its_plan_refers_to() -> None:
    def short_lived() -> Codec:
        fallback = "a default that nobody else holds".upper()

        @message(versions="0-1")
        class Ephemeral:
            x: Int32
            y: String = at("1+", default=fallback)

        return make(plan(Ephemeral, 0))

    codec = short_lived()
    gc.collect()

    assert codec.decode(bytes(4))[0].y == "A DEFAULT THAT NOBODY ELSE HOLDS"


def refused(act: Callable[[Any], object], argument: Any) -> None:
    try:
        act(argument)
    except (WireError, AttributeError, TypeError):
        return
    raise AssertionError("it was not refused")


def every_path() -> None:
    """Decode and encode, well and badly."""
    twin = compiled_twin()
    for cls, version, value in (
        (Numbers, 0, ORDINARY),
        (Sized, 0, SIZED),
        (Sized, 1, SIZED),
        (Nested, 0, Nested(required=Point(x=1), optional=Point(x=2), path=(Point(x=3),) * 3)),
    ):
        codec = codec_of(twin, cls, version)
        data = encoded(codec, value)
        codec.decode(bytearray(data))
        for size in range(len(data)):
            refused(codec.decode, data[:size])
        for name in (declared.name for declared in fields(cls)):
            spoiled = replace(value, **{name: 1j})
            if name != "flag":
                refused(codec.encode, spoiled)
            delattr(spoiled, name)
            refused(codec.encode, spoiled)
    refused(make, plan_of(Point, field("x"), field("y", 14)))


def left_behind_bytes() -> int:
    """How much memory 20 rounds of everything keep."""
    tracemalloc.start()
    try:
        every_path()
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(20):
            every_path()
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    return after - before


def test_nothing_stays_behind() -> None:
    """In a process of its own: here, what threads of other tests left allocate would count, too."""
    program = f"from {__name__} import main; main()"
    run = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=300, check=True
    )
    assert int(run.stdout) < 500, "bytes were left behind by 20 rounds"


def main() -> None:
    """Print how much stays behind."""
    every_path()  # what is made once, such as constructors and interned names, is made now
    gc.collect()
    sys.stdout.write(f"{left_behind_bytes()}\n")


def test_values_have_as_many_references_as_they_have_holders() -> None:
    name, default = "a name".upper(), "a default".upper()

    @struct
    class Item:
        name: String

    @message(versions="0-1", flexible="1+")
    class Held:
        items: tuple[Item, ...]
        extra: String = at("1+", default=default, tag=0, ignorable=True)

    codecs = [codec_of(compiled_twin(), Held, version) for version in (0, 1)]
    value = Held(items=(Item(name=name),))
    held = [name, default, value, value.items, Held, Item]
    gc.collect()
    before = [sys.getrefcount(each) for each in held]

    for codec in codecs:
        for _ in range(10):
            data = encoded(codec, value)
            codec.decode(data)
            codec.decode(encoded(codec, replace(value, extra="replaces the default")))
            refused(codec.decode, data[:-1])
            refused(codec.encode, replace(value, items=(None,)))

    gc.collect()
    assert [sys.getrefcount(each) for each in held] == before
