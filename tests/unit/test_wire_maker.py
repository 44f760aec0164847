"""Calling a declared class: the same with and without the compiled stand-in for constructors."""

import gc
import sys
import weakref
from typing import Any

import pytest

from ottla.wire.compiler import plan
from ottla.wire.schema import Int32, String, at, message, replace, struct
from tests.wire_twins import NEEDS_COMPILED, compiled_twin

pytestmark = NEEDS_COMPILED


def declared() -> tuple[Any, Any]:
    """Two classes that nobody has encoded yet."""

    @struct
    class Wheel:
        spokes: Int32 = 36

    @message(versions="0-1", flexible="1+")
    class Bicycle:
        owner: String
        gears: Int32 = 3
        wheel: Wheel = at("1+", default=Wheel(), tag=0)
        bell: String | None = None

    return Bicycle, Wheel


def hastened() -> tuple[Any, Any]:
    """The same, once the compiled twin has seen them."""
    bicycle, wheel = declared()
    compiled_twin().Codec(plan(bicycle, 1))
    return bicycle, wheel


@pytest.mark.parametrize(
    "values",
    [
        {"owner": "Ada"},
        {"owner": "Ada", "gears": 7, "bell": "ding"},
        {"bell": None, "gears": 1, "owner": ""},
        {"gears": 1, "owner": "Ada", "bell": "ding", "wheel": 5},
    ],
)
def test_the_stand_in_fills_the_same_fields(values: dict[str, Any]) -> None:
    slow, quick = declared()[0](**values), hastened()[0](**values)
    assert repr(quick) == repr(slow)


def test_no_argument_is_needed_where_all_have_defaults() -> None:
    assert repr(hastened()[1]()) == "Wheel(spokes=36)"


@pytest.mark.parametrize(
    ("positional", "named", "complaint"),
    [
        ((), {}, "missing 1 required keyword-only argument: 'owner'"),
        ((), {"gears": 7, "bell": "ding"}, "missing 1 required keyword-only argument: 'owner'"),
        ((), {"owner": "Ada", "horn": 1}, "got an unexpected keyword argument 'horn'"),
        (("Ada",), {}, "takes 1 positional argument but 2 were given"),
        (("Ada",), {"owner": "Ada"}, "takes 1 positional argument but 2"),
    ],
)
def test_the_constructor_itself_says_what_is_wrong(
    positional: tuple[Any, ...], named: dict[str, Any], complaint: str
) -> None:
    for cls in (declared()[0], hastened()[0]):
        with pytest.raises(TypeError, match=complaint):
            cls(*positional, **named)


def test_a_name_that_was_put_together_at_run_time_is_understood() -> None:
    name = "".join(["ow", "ner"])
    assert name is not sys.intern("owner")
    assert hastened()[0](**{name: "Ada"}).owner == "Ada"


def test_a_replaced_field_leaves_the_others() -> None:
    bicycle = hastened()[0](owner="Ada", gears=7)
    assert replace(bicycle, owner="Bo") == type(bicycle)(owner="Bo", gears=7)


def test_a_class_without_its_maker_is_constructed_all_the_same() -> None:
    bicycle, wheel = hastened()
    bicycle.__maker__ = "something else"
    del wheel.__maker__
    assert (bicycle(owner="Ada").gears, wheel().spokes) == (3, 36)


def test_values_are_let_go_with_their_instance() -> None:
    bicycle, _ = hastened()
    value = object()
    count = sys.getrefcount(value)
    made = [bicycle(owner=value, gears=value) for _ in range(100)]
    assert sys.getrefcount(value) == count + 200
    with pytest.raises(TypeError, match="missing"):
        bicycle(gears=value)
    del made
    assert sys.getrefcount(value) == count


def test_a_class_that_was_hastened_can_go() -> None:
    bicycle, _ = hastened()
    gone = weakref.ref(bicycle)
    del bicycle
    gc.collect()
    assert gone() is None
