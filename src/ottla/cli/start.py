"""Where a process called `ottla` starts: `ottla serve` by a short cut, all else in `main`.

To import what reads options, and to have it read them, takes as long as a broker needs to open its
data directory.  So the usual options of `ottla serve` are read here.  Whatever is not plain, be it
another option, a word too much or a port that is none, is left to `serve`, which knows how to say
what is wrong; so both must agree on what is right, and a test has them read the same lines.
"""

import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.runtime.lean import put_off

if TYPE_CHECKING:
    from ottla.cli.saying import Output
    from ottla.cli.serving import ServeOptions


class _Unusual(Exception):  # noqa: N818
    """Somebody else must read this."""


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or len(text) > _PORT_DIGITS or int(text) > 65_535:
        raise _Unusual
    return int(text)


def _flush(text: str) -> str:
    from ottla.cli.serving import FLUSHES

    if text not in FLUSHES:
        raise _Unusual
    return text


def _folder(text: str) -> str:
    if os.path.exists(text) and not (os.path.isdir(text) and os.access(text, os.R_OK)):
        raise _Unusual
    return text


_VALUED: Final[Mapping[str, tuple[str, Callable[[str], Any]]]] = {
    "--host": ("host", str),
    "--port": ("port", _port),
    "--advertise": ("advertise", str),
    "--data-dir": ("data_dir", _folder),
    "--flush": ("flush", _flush),
    "--metrics-port": ("metrics_port", _port),
    "--console-port": ("console_port", _port),
}
_FLAGS: Final[Mapping[str, str]] = {
    "--console": "console",
    "--ephemeral": "ephemeral",
    "--insecure": "insecure",
}
_FORMATS: Final = ("text", "json")
_PORT_DIGITS: Final = 5


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit: what the `ottla` script and `python -m ottla` call."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given[:1] == ["serve"]:
        gc.disable()  # a start makes much and throws away little; `serving` enables it again
        put_off()
        try:
            if (usual := usual_serve(given[1:])) is not None:
                sys.exit(_serve(*usual, given))
        finally:
            gc.enable()
    from ottla.cli import main as anything

    anything.main(given)


def usual_serve(words: Sequence[str]) -> "tuple[Output, ServeOptions] | None":
    """What the words after `ottla serve` ask for; None if `serve` has to read them."""
    from ottla.cli.saying import Output
    from ottla.cli.serving import ServeOptions

    output = Output()
    options: dict[str, Any] = {}
    settings: list[str] = []
    rest = iter(words)
    try:
        for word in rest:
            name, equals, value = word.partition("=")
            if word in _FLAGS:
                options[_FLAGS[word]] = True
            elif word in ("-v", "--verbose"):
                output.verbose = True
            elif word == "-X":
                settings.append(_next(rest))
            elif word in ("-o", "--output"):
                output.format = _format(_next(rest))
            elif name in _VALUED:
                attribute, read = _VALUED[name]
                options[attribute] = read(value if equals else _next(rest))
            else:
                return None
    except _Unusual:
        return None
    return output, ServeOptions(**options, settings=tuple(settings))


def _next(words: Iterator[str]) -> str:
    """The value of the last option; one that looks like an option may be one that was forgotten."""
    value = next(words, "-")
    if value.startswith("-"):
        raise _Unusual
    return value


def _format(text: str) -> str:
    if text not in _FORMATS:
        raise _Unusual
    return text


def _serve(output: "Output", options: "ServeOptions", given: list[str]) -> int:
    """Run a broker; return the exit code."""
    from ottla.cli.serving import serve

    try:
        serve(output, options)
    except (Exception, KeyboardInterrupt) as error:
        # The edge of the program: nothing may pass it without a line for the user.
        import click

        from ottla.cli import main as anything

        if isinstance(error, click.UsageError):
            return anything.run(given)  # nothing was begun, and it knows whose usage that is
        if isinstance(error, BrokenPipeError):
            anything.discard_stdout()
            return anything.OK
        return anything.report(error, output)
    return 0
