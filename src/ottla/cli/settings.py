"""Settings on the command line: `-c name=value` and its relatives.

Names and values are not judged here: the broker does that, and says what is wrong.
"""

from collections.abc import Iterable


def parse_pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """`name=value` texts as a mapping, without the space around them; a later one wins."""
    pairs = (parse_pair(option, text) for text in texts)
    return {name: value.strip() for name, value in pairs}


def parse_pair(option: str, text: str) -> tuple[str, str]:
    """The two sides of `name=value`; the value as it is."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        import click  # here, because a broker starts without

        raise click.UsageError(f"{option} {text!r} is not name=value")
    return name.strip(), value
