"""The record codec that runs here: the compiled twin where it was built, `codec` elsewhere.

This is the one place where the choice is made.  To type checkers the kernel is the Python twin,
which is the reference for the names, the types and the behavior of both.
"""

from typing import TYPE_CHECKING

from ottla.twins import choose

if TYPE_CHECKING:
    from ottla.records import codec as kernel
else:
    kernel = choose("records", compiled="ottla.records._codec", python="ottla.records.codec")

__all__ = ["kernel"]
