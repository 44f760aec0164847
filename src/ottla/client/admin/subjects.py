"""Methods whose work is imported when they are first used: a program asks about few subjects.

A `Subject` stands for a module of this package.  What is taken from it is only a name, and
`Deferred` makes a method of it when somebody looks it up, in a call or for its documentation.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any, NamedTuple


class Named(NamedTuple):
    """A function of a module that may not be imported yet."""

    module: str
    function: str

    def find(self) -> Any:
        """The function itself."""
        return getattr(import_module(f"ottla.client.admin.{self.module}"), self.function)


class Subject:
    """A module, in place of itself."""

    def __init__(self, module: str) -> None:
        self._module = module

    def __getattr__(self, function: str) -> Named:
        return Named(self._module, function)


class Deferred:
    """A method that is made, for good, when it is first looked up."""

    def __init__(self, named: Named, make: Callable[[Any], Any]) -> None:
        self._named = named
        self._make = make

    def __set_name__(self, owner: type[Any], name: str) -> None:
        self._owner = owner
        self._name = name

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        method = self._make(self._named.find())
        setattr(self._owner, self._name, method)
        return method.__get__(instance, owner)
