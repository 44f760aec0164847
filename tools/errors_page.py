"""The reference page of error codes, from the table in `ottla.errors`."""

from ottla.errors import REACTIONS, ErrorCode, exception_for

HEADING = """\
<!-- Written by `make fix` from ottla.errors; do not edit. -->
# Error codes

Numbers and names are those of the Kafka protocol. *Exception* is what a client raises
(`ottla.errors`), *then* what it means for the caller: **retry** the same call later, **abort** the
transaction if one is open, or **stop** using this client.

| code | name | exception | then | what to do |
| ---: | --- | --- | --- | --- |
"""


def page() -> str:
    """docs/reference/errors.md."""
    return HEADING + "".join(_row(code) for code in ErrorCode)


def _row(code: ErrorCode) -> str:
    exception = f"`{REACTIONS[code].__name__}`" if code in REACTIONS else ""
    return f"| {code.value} | `{code.name}` | {exception} | {_then(code)} | {code.advice} |\n"


def _then(code: ErrorCode) -> str:
    if code not in REACTIONS:
        return ""
    error = exception_for(code)
    return "retry" if error.retriable else "stop" if error.fatal else "abort"
