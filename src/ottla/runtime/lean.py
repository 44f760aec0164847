"""The standard library for a process that wants to be up soon: a broker of its own.

asyncio imports `ssl` if there is one, and works without.  To load OpenSSL takes a tenth of the time
that a broker needs to answer its first request, and three megabytes for as long as it runs; and its
listeners are plain.  Other modules are imported for what only errors and debuggers want, `inspect`
above all: these are put off until somebody asks something of them.

Call it from programs alone, before anything else of theirs imports what is meant here: a broker
inside another program leaves that program's modules as they are.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import Any, Final

PUT_OFF: Final = ("inspect", "locale", "textwrap", "tokenize")
"""For functions of `asyncio`, `dataclasses`, `linecache`, `subprocess` and `traceback` that a start
does not call."""


class _Later(ModuleType):
    """Stands for a module until somebody asks something of it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # what is asked of every module is not meant
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r} yet")
        return getattr(self.load(), name)

    def load(self) -> ModuleType:
        """The module itself."""
        if sys.modules.get(self.__name__) is self:
            sys.modules.pop(self.__name__, None)  # another thread may have been quicker
        return import_module(self.__name__)


def put_off() -> None:
    """Import some modules only when they are needed; those that are there already stay."""
    for name in PUT_OFF:
        sys.modules.setdefault(name, _Later(name))


def load_put_off() -> None:
    """Load what tells of errors, before there is one: then it may be too late to open files."""
    for name in ("textwrap", "tokenize"):
        if isinstance(module := sys.modules.get(name), _Later):
            module.load()


def import_asyncio() -> None:
    """Import asyncio without TLS; where it was imported before, nothing happens.

    Afterwards `ssl` can be imported as ever, but asyncio of this process does not know it.
    """
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    modules: dict[str, Any] = sys.modules
    modules["ssl"] = None  # which makes an import of it fail
    try:
        import asyncio  # noqa: F401
    finally:
        del modules["ssl"]
