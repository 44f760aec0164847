"""Which twin of a codec runs: the compiled one where it was built, the readable one elsewhere.

Every compiled module has a Python twin with the same names and the same behavior; tests run both.
`OTTLA_PURE=1` in the environment chooses the Python twins, to compare or to debug.
"""

import importlib
import logging
import os
from types import ModuleType
from typing import Final

log = logging.getLogger(__name__)

CHOSEN: Final[dict[str, str]] = {}
"""Codec name -> "compiled", or "python (reason)".  `ottla version -v` prints it."""


def choose(name: str, *, compiled: str, python: str, needs: str | None = None) -> ModuleType:
    """Import the `compiled` module, or its `python` twin where it cannot be had.

    `needs` is another compiled module, without which this one cannot be had either.
    """
    if os.environ.get("OTTLA_PURE"):
        return _announce(name, python, "python (OTTLA_PURE is set)")
    try:
        return _announce(name, compiled, "compiled")
    except ModuleNotFoundError as error:
        if error.name not in (compiled, needs):
            raise
        return _announce(name, python, "python (the compiled twin was not built)")


def _announce(name: str, module: str, choice: str) -> ModuleType:
    imported = importlib.import_module(module)
    CHOSEN[name] = choice
    log.info("codec chosen: name=%s twin=%s", name, choice)
    return imported
