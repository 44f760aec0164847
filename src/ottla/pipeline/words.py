"""What went wrong, in one line: Spark's own messages are pages of Java.

The cause stands somewhere in the text: an error of ours that was raised in a worker, what a
`raise_error` says, or the last line of a traceback.  The whole text is in Spark's log.
"""

import re
import traceback
from typing import Final

_OURS: Final = re.compile(
    r"\bottla\.[\w.]+(?:Error|Errors): (.+?)(?: SQLSTATE: \w+)?$", re.MULTILINE
)
_RAISED: Final = re.compile(r"\[USER_RAISED_EXCEPTION\] (.+?)(?:\.? SQLSTATE: \w+|$)", re.MULTILINE)
_PYTHON: Final = re.compile(r"^\s*((?:\w+\.)*\w+(?:Error|Exception)): (.+)$", re.MULTILINE)
_CONDITION: Final = re.compile(r"\[[A-Z0-9_.]+\] ")
_QUERY: Final = re.compile(r"Query \[.*?\] terminated with exception: ")
_STATE: Final = re.compile(r"\.? SQLSTATE: \w+\s*$")


def in_one_line(text: str) -> str:
    """The cause in a long message of Spark, or its first line."""
    for pattern in (_OURS, _RAISED):
        if found := pattern.findall(text):
            return str(found[-1]).strip()
    if found := _PYTHON.findall(text):
        kind, message = found[-1]
        return f"{kind.rpartition('.')[2]}: {message}".strip()
    first = text.strip().partition("\n")[0]
    return _STATE.sub("", _CONDITION.sub("", _QUERY.sub("", first))).strip()


def place_of(error: BaseException, file: str) -> str:
    """`shop.py:12`: the last line of the file that took part in an error."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return f"{file}:{error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == file]
    return f"{file}:{lines[-1]}" if lines else file
