"""The quick way in that runs here: the compiled twin where it was built, `quick` elsewhere.

To type checkers it is the Python twin, which is the reference for both.
"""

from typing import TYPE_CHECKING

from ottla.twins import choose

if TYPE_CHECKING:
    from ottla.client.producer import quick as kernel
else:
    kernel = choose(
        "producer",
        compiled="ottla.client.producer._quick",
        python="ottla.client.producer.quick",
        needs="ottla.records._codec",
    )

__all__ = ["kernel"]
