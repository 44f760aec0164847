"""Our `dataclass` beside the standard library's: whatever one does, the other does."""

import copy
import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import FrozenInstanceError, InitVar, field
from typing import Any, ClassVar
from typing import NamedTuple as StandardNamedTuple

import pytest

from ottla.values import NamedTuple, dataclass

Declare = Callable[..., Any]


@pytest.fixture(params=[dataclass, dataclasses.dataclass], ids=["ours", "standard"])
def declare(request: pytest.FixtureRequest) -> Declare:
    chosen: Declare = request.param
    return chosen


@dataclass(frozen=True, slots=True)
class Point:
    x: int
    y: int = 0


def place(declare: Declare, **options: bool) -> Any:
    @declare(**options)
    class Place:
        """Somewhere."""

        name: str
        tags: list[str] = field(default_factory=list)
        note: str = field(default="", compare=False, repr=False)

        def shout(self) -> str:
            return self.name.upper()

    return Place


@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("slots", [True, False])
def test_instances_have_their_fields(declare: Declare, frozen: bool, slots: bool) -> None:
    cls = place(declare, frozen=frozen, slots=slots)
    for _ in range(3):  # the second one writes the constructor
        made = cls("here", note="quiet")
        assert (made.name, made.tags, made.note) == ("here", [], "quiet")
    assert made.shout() == "HERE"
    assert made.tags is not cls("there").tags
    assert hasattr(made, "__dict__") is not slots
    assert repr(made) == f"{cls.__qualname__}(name='here', tags=[])"
    assert cls.__doc__ == "Somewhere."


def test_wrong_arguments_are_refused(declare: Declare) -> None:
    cls = place(declare, kw_only=True)
    for _ in range(3):
        with pytest.raises(TypeError, match="name"):
            cls()
        with pytest.raises(TypeError):
            cls("here")
        assert cls(name="here").name == "here"


def test_values_decide_what_is_equal(declare: Declare) -> None:
    cls = place(declare)
    assert cls("here", ["a"], "x") == cls("here", ["a"], "y")
    assert cls("here") != cls("there")
    assert cls("here") != place(declare)("here"), "another class"
    assert cls.__hash__ is None


def test_frozen_values_have_a_hash_and_stay_as_they_are(declare: Declare) -> None:
    @declare(frozen=True, slots=True)
    class Key:
        name: str
        number: int

    cls: Any = Key
    key = cls("a", 1)
    assert hash(key) == hash(cls("a", 1))
    assert {key: "found"}[cls("a", 1)] == "found"
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'name'"):
        key.name = "b"
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'name'"):
        del key.name
    assert key.name == "a"


def test_the_standard_library_knows_the_fields(declare: Declare) -> None:
    cls = place(declare, slots=True)
    assert hasattr(cls, "__dataclass_fields__")
    assert cls.__match_args__ == ("name", "tags", "note")
    assert [f.name for f in dataclasses.fields(cls)] == ["name", "tags", "note"]
    made = dataclasses.replace(cls("here", ["a"]), name="there")
    assert dataclasses.asdict(made) == {"name": "there", "tags": ["a"], "note": ""}


@pytest.mark.parametrize("slots", [True, False])
def test_the_fields_are_known_before_anything_is_made(declare: Declare, slots: bool) -> None:
    assert [f.name for f in dataclasses.fields(place(declare, slots=slots))] == [
        "name",
        "tags",
        "note",
    ]
    assert place(declare, slots=slots).__match_args__ == ("name", "tags", "note")
    assert place(declare, slots=slots, kw_only=True).__match_args__ == ()


@pytest.mark.parametrize("slots", [True, False])
def test_what_all_instances_share_is_no_field(declare: Declare, slots: bool) -> None:
    @declare(slots=slots)
    class Counted:
        count: ClassVar[int] = 7
        name: str = "ada"

    cls: Any = Counted
    assert (cls.count, cls().name) == (7, "ada")
    assert [f.name for f in dataclasses.fields(cls)] == ["name"]


def test_an_instance_can_be_copied_before_any_other_was_made() -> None:
    @dataclass(frozen=True, slots=True)
    class Pair:
        left: int
        right: int

    cls: Any = Pair
    bare = object.__new__(cls)
    bare.__setstate__([1, 2])

    assert hash(bare) == hash((1, 2))
    assert bare == cls(1, 2)


def test_what_comes_after_the_constructor_is_told_what_is_no_field(declare: Declare) -> None:
    @declare(slots=True)
    class Sum:
        left: int
        right: int
        scale: InitVar[int]
        total: int = field(init=False)

        def __post_init__(self, scale: int) -> None:
            self.total = (self.left + self.right) * scale

    cls: Any = Sum
    assert cls(1, 2, 1).total == 3
    assert cls(1, 2, scale=10).total == 30


def test_methods_that_a_class_brings_are_kept(declare: Declare) -> None:
    @declare(frozen=True)
    class Named:
        name: str

        def __repr__(self) -> str:
            return self.name

        def __eq__(self, other: object) -> bool:
            return isinstance(other, str) and other == self.name

        def __hash__(self) -> int:
            return 7

    cls: Any = Named
    named = cls("ada")
    assert repr(named) == "ada"
    assert named == "ada"
    assert hash(named) == 7


def test_frozen_values_can_be_copied_and_pickled() -> None:
    point = Point(1, 2)
    assert copy.copy(point) == copy.deepcopy(point) == point
    assert pickle.loads(pickle.dumps(point)) == point


def test_a_class_that_inherits_fields_is_refused() -> None:
    with pytest.raises(AssertionError, match="inherits from a dataclass"):

        @dataclass(frozen=True, slots=True)
        class Deep(Point):
            z: int = 0


def test_fields_that_the_constructor_does_not_take_have_their_first_value(declare: Declare) -> None:
    @declare(slots=True)
    class Counter:
        name: str
        count: int = field(init=False, default=0)
        seen: list[str] = field(init=False, default_factory=list)
        step: int = field(default=1, kw_only=True)

    cls: Any = Counter
    made = cls("a", step=2)
    assert (made.name, made.count, made.seen, made.step) == ("a", 0, [], 2)
    assert made.seen is not cls("b").seen
    with pytest.raises(TypeError):
        cls("a", 2)


def test_a_field_may_have_any_name(declare: Declare) -> None:
    @declare(frozen=True, slots=True)
    class Odd:
        set: int = 1
        unset: int = 2
        make_set: int = 3
        default_set: list[int] = field(default_factory=list)

    cls: Any = Odd
    made = cls(5)
    assert (made.set, made.unset, made.make_set, made.default_set) == (5, 2, 3, [])


def test_the_constructor_tells_what_it_takes(declare: Declare) -> None:
    cls = place(declare, frozen=True, slots=True)
    assert cls("here") == cls("here")  # the second one writes it
    told = inspect.signature(cls)
    assert list(told.parameters) == ["name", "tags", "note"]
    assert told.parameters["note"].default == ""
    assert told.parameters["name"].annotation is str
    assert told.return_annotation is None
    assert cls.__init__.__qualname__ == f"{cls.__qualname__}.__init__"


def test_the_standard_library_is_told_the_options(declare: Declare) -> None:
    assert place(declare, frozen=True).__dataclass_params__.frozen
    assert place(declare, frozen=True).__dataclass_params__.init
    assert not place(declare).__dataclass_params__.frozen


@pytest.mark.parametrize("given", [((), {}), ((1,), {"x": 2}), ((1, 2, 3), {}), ((1,), {"z": 2})])
def test_the_very_first_instance_is_refused_wrong_arguments_too(
    declare: Declare, given: tuple[tuple[int, ...], dict[str, int]]
) -> None:
    @declare()
    class Pair:
        x: int
        y: int = 0

    cls: Any = Pair
    args, named = given
    with pytest.raises(TypeError):
        cls(*args, **named)
    assert (cls(1).x, cls(1, y=2).y) == (1, 2)


def test_what_comes_after_the_constructor_comes_after_the_first_instance_too(
    declare: Declare,
) -> None:
    @declare(slots=True)
    class Counted:
        items: list[int] = field(default_factory=list)
        count: int = field(init=False)
        unit: str = field(init=False, default="items")

        def __post_init__(self) -> None:
            self.count = len(self.items)

    cls: Any = Counted
    for _ in range(3):
        made = cls([1, 2])
        assert (made.items, made.count, made.unit) == ([1, 2], 2, "items")


class Our(NamedTuple):
    """Somewhere."""

    x: int
    y: str = "y"

    def shout(self) -> str:
        return self.y.upper()


class Standard(StandardNamedTuple):
    """Somewhere."""

    x: int
    y: str = "y"

    def shout(self) -> str:
        return self.y.upper()


@pytest.fixture(params=[Our, Standard])
def named(request: pytest.FixtureRequest) -> Any:
    return request.param


def test_a_named_tuple_is_a_tuple_with_names(named: Any) -> None:
    made = named(1)
    assert made == (1, "y")
    assert (made.x, made.y, made.shout()) == (1, "y", "Y")
    assert hash(made) == hash((1, "y"))
    assert repr(made) == f"{named.__name__}(x=1, y='y')"
    assert not hasattr(made, "__dict__")
    with pytest.raises(AttributeError):
        made.x = 2
    match made:
        case named(x, y):
            assert (x, y) == (1, "y")
        case _:
            pytest.fail("it has no places")


def test_a_named_tuple_takes_its_fields_and_no_others(named: Any) -> None:
    assert named(1, "z") == named(y="z", x=1)
    for args, given in (((), {}), ((1, "y", 2), {}), ((1,), {"z": 2}), ((1,), {"x": 2})):
        with pytest.raises(TypeError):
            named(*args, **given)
    assert list(inspect.signature(named).parameters) == ["x", "y"]


def test_a_named_tuple_can_be_copied_and_changed(named: Any) -> None:
    made = named(1, "z")
    assert pickle.loads(pickle.dumps(made)) == made
    assert type(copy.deepcopy(made)) is named
    assert made._replace(x=2) == (2, "z")
    assert made._asdict() == {"x": 1, "y": "z"}
    assert named._make([3, "a"]) == (3, "a")
    assert (named._fields, named._field_defaults) == (("x", "y"), {"y": "y"})
    assert (named.__doc__, named.__match_args__) == ("Somewhere.", ("x", "y"))
    with pytest.raises((TypeError, ValueError)):
        made._replace(z=1)


def test_a_named_tuple_may_have_a_field_of_any_name() -> None:
    class Odd(NamedTuple):
        cls: int
        args: int = 2

    assert Odd(cls=1) == (1, 2)
    assert Odd(cls=3, args=4) == (3, 4)
