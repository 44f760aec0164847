"""A console beside a broker: a process of its own, so that the broker's loop stays free.

It ends with the broker, whatever becomes of that: it reads its standard input, and the end of that
is the end of whoever started it.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_GRACE_S: Final = 5.0


@contextmanager
def console_beside(
    bootstrap: str, port: int, *, metrics_url: str | None, is_json: bool
) -> Iterator[None]:
    """Run `ottla console` for a broker; what it says goes where our own words go."""
    arguments = ["console", "-b", bootstrap, "--port", str(port), "--until-eof"]
    if metrics_url is not None:
        arguments += ["--metrics-url", metrics_url]
    child = subprocess.Popen(
        [sys.executable, "-m", "ottla", *arguments, *(["-o", "json"] if is_json else [])],
        stdin=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C is for the broker, which ends us when it is done
    )
    assert child.stdin is not None
    try:
        yield
    finally:
        child.stdin.close()
        try:
            child.wait(_GRACE_S)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
