"""A fuzz target that fails on purpose, to see that failures are noticed."""

from collections.abc import Iterator


def one_input(data: bytes) -> None:
    if data.startswith(b"\x01"):
        raise KeyError("an exception that may not escape")


def seeds() -> Iterator[bytes]:
    yield b"\x01 is what it cannot stand"
