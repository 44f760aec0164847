"""`dataclass` as in the standard library, but for what it costs to declare one.

The standard library writes and compiles up to seven methods of a class as soon as it is declared.
For a broker, with a hundred and fifty of them, that was a fifth of its start.  Here a declaration
makes the class and its slots.  The first instance is filled field by field; `__init__` is written
for the second one, because many classes never have one.  What the fields are is found out by the
standard library when somebody first asks.  The result behaves alike and looks alike, to type
checkers, too.

`NamedTuple` is that of the standard library in the same way: its `__new__`, which is written and
compiled as well, is written for the first instance.

It is for the parts of a broker.  A class that inherits from another dataclass, or needs more than
the three options below, takes the standard library's.
"""

import dataclasses
from collections import _tuplegetter  # type: ignore[attr-defined]
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, get_origin

__all__ = ["NamedTuple", "dataclass"]

T = TypeVar("T")

_UNSET: Final = object()
_FIELDS: Final = "__dataclass_fields__"
_FOUND_OUT: Final = (_FIELDS, "__dataclass_params__", "__match_args__")
"""What the standard library says of a class, beside its methods."""

if TYPE_CHECKING:
    from dataclasses import dataclass
    from typing import NamedTuple
else:

    def dataclass(
        *, frozen: bool = False, slots: bool = False, kw_only: bool = False
    ) -> Callable[[type[T]], type[T]]:
        """Declare a class by its fields; the options are those of the standard library."""

        def declare(cls: type[T]) -> type[T]:
            assert not any(_FIELDS in vars(base) for base in cls.__mro__), (
                f"{cls} inherits from a dataclass"
            )
            return _Declaration(cls, frozen=frozen, kw_only=kw_only).made(slots=slots)

        return declare

    class _Statement(type):
        """Makes a class of tuples of each class statement that names `NamedTuple`."""

        def __new__(
            cls, name: str, bases: tuple[type[Any], ...], namespace: dict[str, Any]
        ) -> type[Any]:
            if not bases:
                return super().__new__(cls, name, bases, namespace)
            assert bases == (NamedTuple,), f"{name} is more than a tuple"
            return _tuple_class(name, namespace)

    class NamedTuple(metaclass=_Statement):
        """Declare a class of tuples by its fields, as with the standard library."""


class _Declaration:
    """What is known of a class before it becomes a dataclass: enough to write its methods."""

    def __init__(self, cls: type[Any], *, frozen: bool, kw_only: bool) -> None:
        self._cls: Any = cls
        names = {"__module__", "__post_init__", *cls.__annotations__}
        self._namespace = {name: value for name, value in vars(cls).items() if name in names}
        # Asked for, because since Python 3.14 they are not in `vars`.
        self._namespace["__annotations__"] = cls.__annotations__
        self._namespace["__doc__"] = "Not to be shown, but without it one would be made."
        self._own_methods = frozenset(vars(cls))
        self._frozen = frozen
        self._kw_only = kw_only
        self._has_instance = False

    def made(self, *, slots: bool) -> Any:
        """The class, with methods that write what is missing and call it."""
        methods: dict[str, Any] = {name: _WhenAskedFor(name, self.find_out) for name in _FOUND_OUT}
        methods |= {"__init__": self._first_init(), "__repr__": _repr, "__eq__": self._first_eq()}
        if self._frozen:
            methods |= {"__hash__": self._first_hash(), **_FROZEN}
        else:
            methods["__hash__"] = None
        if slots:
            # Together with the class: to set them one by one costs as much as another class.
            self._cls = _with_slots(self._cls, self._missing(methods))
        else:
            _take_out_fields(self._cls)
            self._add(methods)
        return self._cls

    def write(self) -> None:
        """Write the constructor, and what compares instances."""
        compared = [name for name, said in self._fields() if _says(said, "compare", True)]
        equal, hashed = _comparison(compared)
        self._add({"__init__": self._written_init(), "__eq__": equal})
        if self._frozen:
            self._add({"__hash__": hashed})

    def find_out(self) -> None:
        """Have the standard library say what the fields are; it need not write anything."""
        declare = dataclasses.dataclass(init=False, repr=False, eq=False, kw_only=self._kw_only)
        declared: Any = declare(type(self._cls.__name__, (), self._namespace))
        declared.__dataclass_params__.init = True
        declared.__dataclass_params__.frozen = self._frozen
        for name in _FOUND_OUT:
            setattr(self._cls, name, getattr(declared, name))

    def _fields(self) -> Iterator[tuple[str, Any]]:
        """Each field, with what was said of it: a default, a `Field`, or `MISSING`."""
        for name, kind in self._namespace["__annotations__"].items():
            if _is_field(kind):
                yield name, self._namespace.get(name, dataclasses.MISSING)

    def _written_init(self) -> Callable[..., None]:
        """The constructor as the standard library would write it, in a tenth of the time."""
        scope: dict[str, Any] = {"__set__": object.__setattr__, "__unset__": _UNSET}
        assign = "__set__(self, {0!r}, {1})" if self._frozen else "self.{0} = {1}"
        by_place: list[str] = []
        by_name: list[str] = []
        passed_on, body = [], []
        for name, kind in self._namespace["__annotations__"].items():
            if kind is ClassVar or get_origin(kind) is ClassVar:
                continue
            said = self._namespace.get(name, dataclasses.MISSING)
            is_field = _is_field(kind)
            if _says(said, "init", True):
                parameter, value = _parameter(name, said, scope)
                (by_name if _says(said, "kw_only", self._kw_only) else by_place).append(parameter)
            else:
                value = _first_value(name, said, scope)
            if not is_field:
                passed_on.append(name)
            elif value:
                body.append(assign.format(name, value))
        if hasattr(self._cls, "__post_init__"):
            body.append(f"self.__post_init__({', '.join(passed_on)})")
        parameters = ", ".join(["self", *by_place, *(["*", *by_name] if by_name else [])])
        exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), scope)
        init: Callable[..., None] = scope["__init__"]
        init.__qualname__ = f"{self._cls.__qualname__}.__init__"
        init.__annotations__ = {**self._namespace["__annotations__"], "return": None}
        return init

    def _missing(self, methods: dict[str, Any]) -> dict[str, Any]:
        """Those of the methods that the class does not bring itself."""
        return {name: made for name, made in methods.items() if name not in self._own_methods}

    def _add(self, methods: dict[str, Any]) -> None:
        for name, method in self._missing(methods).items():
            setattr(self._cls, name, method)

    def _first_init(self) -> Callable[..., None]:
        def __init__(self_: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            if self._has_instance or not self._fill(self_, args, kwargs):
                self.write()
                self._cls.__init__(self_, *args, **kwargs)
            elif hasattr(self_, "__post_init__"):
                self_.__post_init__()

        return __init__

    def _fill(self, instance: Any, args: tuple[Any, ...], given: dict[str, Any]) -> bool:
        """Make the first instance without a constructor: of many classes it is the only one.

        False if that is for the constructor to do, or to refuse.
        """
        self._has_instance = True
        if any(
            isinstance(k, dataclasses.InitVar) for k in self._namespace["__annotations__"].values()
        ):
            return False
        places, rest = iter(args), dict(given)
        for name, said in self._fields():
            value: Any = _UNSET
            is_taken = _says(said, "init", True)
            if is_taken and not _says(said, "kw_only", self._kw_only):
                value = next(places, _UNSET)
            if is_taken and value is _UNSET:
                value = rest.pop(name, _UNSET)
            if value is _UNSET:
                value = _default(said)
            if value is not _UNSET:
                object.__setattr__(instance, name, value)
            elif is_taken:
                return False
        return not rest and next(places, _UNSET) is _UNSET

    def _first_eq(self) -> Callable[[Any, object], Any]:
        def __eq__(self_: Any, other: object) -> Any:  # noqa: N807
            self.write()
            return self._cls.__eq__(self_, other)

        return __eq__

    def _first_hash(self) -> Callable[[Any], int]:
        def __hash__(self_: Any) -> int:  # noqa: N807
            self.write()
            hashed: int = self._cls.__hash__(self_)
            return hashed

        return __hash__


class _WhenAskedFor:
    """An attribute of a class that is set when somebody first looks at it."""

    def __init__(self, name: str, write: Callable[[], None]) -> None:
        self._name = name
        self._write = write

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        self._write()
        return getattr(owner, self._name)


def _with_slots(cls: type[Any], methods: dict[str, Any]) -> type[Any]:
    """The class anew, with these methods, too: only a new one can have slots."""
    names = [name for name, kind in cls.__annotations__.items() if _is_field(kind)]
    dropped = {"__dict__", "__weakref__", *names}
    namespace = {name: value for name, value in vars(cls).items() if name not in dropped}
    namespace |= {**methods, "__slots__": tuple(names)}
    metaclass: Any = type(cls)
    made: type[Any] = metaclass(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


def _take_out_fields(cls: type[Any]) -> None:
    """Leave the defaults of fields in the class, and nothing else that was said of them."""
    for name in cls.__annotations__:
        said = vars(cls).get(name)
        if isinstance(said, dataclasses.Field):
            if said.default is dataclasses.MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, said.default)


def _says(said: Any, name: str, default: bool) -> bool:
    """One of the options of a field."""
    if not isinstance(said, dataclasses.Field):
        return default
    option = getattr(said, name)
    return default if option is dataclasses.MISSING else bool(option)


def _default(said: Any) -> Any:
    """The value of a field that was given none; `_UNSET` if it must be given one."""
    if isinstance(said, dataclasses.Field):
        if said.default_factory is not dataclasses.MISSING:
            return said.default_factory()
        said = said.default
    return _UNSET if said is dataclasses.MISSING else said


def _parameter(name: str, said: Any, scope: dict[str, Any]) -> tuple[str, str]:
    """How the constructor takes a field, and the value that it has then."""
    if isinstance(said, dataclasses.Field):
        if said.default_factory is not dataclasses.MISSING:
            scope[f"_make_{name}"] = said.default_factory
            return f"{name}=__unset__", f"_make_{name}() if {name} is __unset__ else {name}"
        said = said.default
    if said is dataclasses.MISSING:
        return name, name
    scope[f"_default_{name}"] = said
    return f"{name}=_default_{name}", name


def _first_value(name: str, said: dataclasses.Field[Any], scope: dict[str, Any]) -> str:
    """The value of a field that the constructor does not take; "" for none."""
    if said.default_factory is not dataclasses.MISSING:
        scope[f"_make_{name}"] = said.default_factory
        return f"_make_{name}()"
    if said.default is not dataclasses.MISSING:
        scope[f"_default_{name}"] = said.default
        return f"_default_{name}"
    return ""


def _is_field(kind: Any) -> bool:
    """Whether an annotation declares one; in quotes, it always does."""
    return not (
        kind is ClassVar or get_origin(kind) is ClassVar or isinstance(kind, dataclasses.InitVar)
    )


def _repr(self: Any) -> str:
    shown = [f.name for f in dataclasses.fields(self) if f.repr]
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({values})"


def _comparison(names: list[str]) -> tuple[Callable[[Any, object], Any], Callable[[Any], int]]:
    """Equality and hash, by the values of these fields."""
    values_of = attrgetter(*names) if names else lambda self: ()

    def __eq__(self: Any, other: object) -> Any:  # noqa: N807
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values_of(self) == values_of(other)

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(values_of(self))

    return __eq__, __hash__


def _setattr(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _delattr(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for f, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)


_FROZEN: Final[dict[str, Any]] = {
    "__setattr__": _setattr,
    "__delattr__": _delattr,
    "__getstate__": _getstate,
    "__setstate__": _setstate,
}


def _tuple_class(name: str, namespace: dict[str, Any]) -> type[Any]:
    """A class of tuples that writes `__new__` when it is first called."""

    def __new__(cls: type[Any], /, *args: Any, **kwargs: Any) -> Any:  # noqa: N807
        made.__new__ = _written_new(made)
        return made.__new__(cls, *args, **kwargs)

    more = {"__slots__": (), "__new__": __new__}
    made: Any = type(name, (tuple,), {**_OF_TUPLES, **namespace, **more})
    fields = tuple(made.__annotations__)
    made._field_defaults = {field: namespace[field] for field in fields if field in namespace}
    for place, field in enumerate(fields):
        setattr(made, field, _tuplegetter(place, f"Alias for field number {place}"))
    made._fields = fields
    setattr(made, "__match_args__", fields)  # noqa: B010
    declared: type[Any] = made
    return declared


def _written_new(cls: Any) -> Callable[..., Any]:
    defaults = cls._field_defaults
    scope = {f"_default_{name}": value for name, value in defaults.items()}
    scope["__make__"] = tuple.__new__
    parameters = ", ".join(f"{n}=_default_{n}" if n in defaults else n for n in cls._fields)
    values = "".join(f"{name}, " for name in cls._fields)
    exec(f"def __new__(_cls, /, {parameters}):\n return __make__(_cls, ({values}))", scope)
    new: Callable[..., Any] = scope["__new__"]
    new.__qualname__ = f"{cls.__qualname__}.__new__"
    new.__annotations__ = cls.__annotations__
    return new


def _tuple_repr(self: Any) -> str:
    values = ", ".join(f"{n}={v!r}" for n, v in zip(self._fields, self, strict=True))
    return f"{type(self).__name__}({values})"


def _tuple_replaced(self: Any, /, **changes: Any) -> Any:
    return type(self)(**{**self._asdict(), **changes})


_OF_TUPLES: Final[dict[str, Any]] = {
    "__repr__": _tuple_repr,
    "__getnewargs__": lambda self: tuple(self),
    "_asdict": lambda self: dict(zip(self._fields, self, strict=True)),
    "_make": classmethod(lambda cls, values: cls(*values)),
    "_replace": _tuple_replaced,
    "__replace__": _tuple_replaced,
}
