"""`dataclass` as in the standard library, but for what it costs to declare one.

The standard library writes and compiles up to seven methods of a class as soon as it is declared.
For a broker, with a hundred and fifty of them, that was a fifth of its start.  Here `__init__` is
written when it is first called, by the standard library; the other methods are the same code for
all classes.  The result behaves alike and looks alike, to type checkers, too.

It is for the parts of a broker.  A class that inherits from another dataclass, or needs more than
the three options below, takes the standard library's.
"""

import dataclasses
from collections.abc import Callable
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, TypeVar

__all__ = ["dataclass"]

T = TypeVar("T")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        *, frozen: bool = False, slots: bool = False, kw_only: bool = False
    ) -> Callable[[type[T]], type[T]]:
        """Declare a class by its fields; the options are those of the standard library."""

        def declare(cls: type[T]) -> type[T]:
            assert not dataclasses.is_dataclass(cls), f"{cls} inherits from a dataclass"
            init = _InitToBeWritten(cls, frozen=frozen, kw_only=kw_only)
            fielded = dataclasses.dataclass(
                init=False, repr=False, eq=False, slots=slots, kw_only=kw_only
            )
            return init.put_into(fielded(cls))

        return declare


class _InitToBeWritten:
    """What is known of a class before it becomes a dataclass: enough to write `__init__`."""

    def __init__(self, cls: type[Any], *, frozen: bool, kw_only: bool) -> None:
        names = {"__annotations__", "__module__", "__post_init__", *cls.__annotations__}
        self._namespace = {name: value for name, value in vars(cls).items() if name in names}
        self._own_methods = frozenset(vars(cls))
        self._frozen = frozen
        self._kw_only = kw_only

    def put_into(self, cls: type[T]) -> type[T]:
        """Give `cls` the methods that it does not bring itself."""
        methods = {"__init__": self._first_init(cls), "__repr__": _repr, **_comparison(cls)}
        if self._frozen:
            methods |= _FROZEN
        else:
            methods["__hash__"] = None
        for name, method in methods.items():
            if name not in self._own_methods:
                setattr(cls, name, method)
        return cls

    def _first_init(self, cls: type[Any]) -> Callable[..., None]:
        def __init__(self_: Any, *args: Any, **kwargs: Any) -> None:  # noqa: N807
            write = dataclasses.dataclass(
                repr=False, eq=False, frozen=self._frozen, kw_only=self._kw_only
            )
            written: type[Any] = write(type(cls.__name__, (), self._namespace))
            cls.__init__ = vars(written)["__init__"]
            cls.__init__(self_, *args, **kwargs)

        return __init__


def _repr(self: Any) -> str:
    shown = [f.name for f in dataclasses.fields(self) if f.repr]
    values = ", ".join(f"{name}={getattr(self, name)!r}" for name in shown)
    return f"{type(self).__qualname__}({values})"


def _comparison(cls: Any) -> dict[str, Any]:
    """Equality and hash, by the values of all fields that count."""
    names = [f.name for f in dataclasses.fields(cls) if f.compare]
    values_of = attrgetter(*names) if names else lambda self: ()

    def __eq__(self: Any, other: object) -> Any:  # noqa: N807
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values_of(self) == values_of(other)

    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(values_of(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


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
