"""The reference page of the Python interface: every public name, and what it can be asked.

Signatures are read from the source, not from the running objects: what `inspect` prints of an
annotation differs between versions of Python, and a derived page must not.
"""

import ast
import copy
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from ottla.errors import OttlaError
from tools.api import PUBLIC_PACKAGES

HEADING: Final = """\
# Python

<!-- Written by `make fix` from the public packages; do not edit. -->

Every public name, with what it can be asked. What is not on this page is not public, underscore or
not, and may change. How to use it is told elsewhere: [write](../how-to/producer.md),
[read](../how-to/consumer.md), [administer](../how-to/administer.md),
[test](../how-to/test-with-ottla.md), [pipelines](../how-to/pipelines.md). Settings of clients have
[a page of their own](settings.md), and so have [error codes](errors.md). Names that begin with
`Async` are for asyncio: the same methods, to be awaited.
"""

Function = ast.FunctionDef | ast.AsyncFunctionDef
SPECIAL: Final = ("__iter__", "__aiter__", "__call__", "__getitem__", "__len__")


def page() -> str:
    """docs/reference/python.md."""
    told: set[int] = set()
    parts = [HEADING]
    for name in PUBLIC_PACKAGES:
        package = importlib.import_module(name)
        parts.append(f"## {name}\n\n{_sentence(package.__doc__)}\n")
        parts += _errors(package, told)
        values = {public: getattr(package, public) for public in package.__all__}
        aliases = [public for public, value in values.items() if _is_alias(value)]
        if aliases:
            names = ", ".join(f"`{alias}`" for alias in sorted(aliases))
            parts.append(f"Names of types, and constants: {names}.\n")
        for public, value in sorted(values.items(), key=lambda item: item[0].lower()):
            if public in aliases or id(value) in told or _is_error(value):
                continue
            told.add(id(value))
            parts.append("\n".join(_name(public, value)) + "\n")
    return "\n".join(parts)


def _is_alias(value: Any) -> bool:
    """Whether there is nothing to be told of it but that it is there."""
    is_ours = type(value).__module__.startswith("ottla")
    return not (inspect.isclass(value) or inspect.isfunction(value) or is_ours)


def _errors(package: ModuleType, told: set[int]) -> Iterator[str]:
    """The exceptions of a package, as one table."""
    names = [name for name in sorted(package.__all__) if _is_error(getattr(package, name))]
    new = [name for name in names if id(getattr(package, name)) not in told]
    told |= {id(getattr(package, name)) for name in new}
    if not new:
        return
    yield "### Errors\n"
    yield "| error | |"
    yield "| --- | --- |"
    for name in new:
        kind = getattr(package, name)
        bases = ", ".join(base.__name__ for base in kind.__bases__)
        yield f"| `{name}({bases})` | {_cell(_sentence(kind.__doc__))} |"
    yield ""


def _name(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}\n"
    if inspect.isclass(value):
        yield from _class(value)
    elif inspect.isfunction(value):
        node = _node(value)
        assert isinstance(node, Function)
        yield f"    {_signature(name, node)}\n"
        yield _sentence(value.__doc__)
    else:
        yield _sentence(type(value).__doc__)


def _class(kind: type) -> Iterator[str]:
    node = _node(kind)
    if node is None:
        yield _sentence(kind.__doc__)
        return
    yield f"{_sentence(ast.get_docstring(node))}\n"
    rows = [*_fields(node), *_methods(kind)]
    if rows:
        yield "| | |"
        yield "| --- | --- |"
        yield from (f"| `{_cell(written)}` | {_cell(meaning)} |" for written, meaning in rows)


def _fields(node: Any) -> Iterator[tuple[str, str]]:
    """Annotated names in the body of a class, with the text below them."""
    body = node.body if isinstance(node, ast.ClassDef) else []
    for statement, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            if statement.target.id.startswith("_"):
                continue
            yield ast.unparse(statement).partition(" = setting(")[0], _text(following)


def _text(statement: ast.stmt | None) -> str:
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return _sentence(str(statement.value.value))
    return ""


def _methods(kind: type) -> Iterator[tuple[str, str]]:
    """What can be called, of the class itself and of those of ours below it."""
    seen: set[str] = set()
    for base in inspect.getmro(kind):
        node = _node(base)
        for statement in node.body if isinstance(node, ast.ClassDef) else []:
            name, function = _called(kind, statement)
            if function is None or name in seen:
                continue
            seen.add(name)
            marks = {ast.unparse(mark).partition(".")[0] for mark in function.decorator_list}
            if _is_public(name) and "overload" not in marks:
                is_property = bool(marks & {"property", "cached_property"})
                written = name if is_property else _signature(name, function, is_method=True)
                yield written, _sentence(ast.get_docstring(function))


def _called(kind: type, statement: ast.stmt) -> tuple[str, Function | None]:
    """The method that a statement in a class makes: a `def`, or the call of a decorator."""
    if isinstance(statement, Function):
        return statement.name, statement
    if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.Call):
        (target,) = statement.targets
        name = ast.unparse(target)
        made = getattr(kind, name, None)
        if inspect.isfunction(made):
            return name, _node(inspect.unwrap(made))
    return "", None


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name in SPECIAL


def _signature(name: str, node: Function, *, is_method: bool = False) -> str:
    arguments = copy.deepcopy(node.args)
    marks = {ast.unparse(mark) for mark in node.decorator_list}
    if is_method and "staticmethod" not in marks:
        first = arguments.posonlyargs or arguments.args
        del first[0]  # self
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    written = f"{name}({ast.unparse(arguments)}){returns}"
    written = re.sub(r"=_\w+", "=...", written)  # a default that has no public name
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", written)  # annotations may be text; defaults stay


def _node(value: Any) -> Any:
    """Where a class or function of ours is defined, in its module's source."""
    if not getattr(value, "__module__", "").startswith("ottla"):
        return None
    nodes = _definitions(value.__module__)
    return nodes.get(value.__name__)


@cache
def _definitions(module: str) -> dict[str, ast.stmt]:
    file = importlib.import_module(module).__file__
    assert file is not None, module
    tree = ast.parse(Path(file).read_text("utf-8"))
    kinds = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {node.name: node for node in tree.body if isinstance(node, kinds)}


def _is_error(value: Any) -> bool:
    return inspect.isclass(value) and issubclass(value, OttlaError)


def _sentence(text: str | None) -> str:
    """The first sentence of a docstring, on one line."""
    paragraph = inspect.cleandoc(text or "").partition("\n\n")[0]
    line = re.sub(r"\s+", " ", paragraph)
    first, dot, _ = line.partition(". ")
    return f"{first}." if dot else line


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
