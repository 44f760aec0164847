"""asyncio for a process that has no TLS: a broker, as long as its listeners are plain.

asyncio imports `ssl` if there is one, and works without.  To load OpenSSL takes a tenth of the time
that a broker needs to answer its first request, and three megabytes for as long as it runs.
"""

import sys
from typing import Any


def import_asyncio() -> None:
    """Import asyncio without TLS; where it was imported before, nothing happens.

    Afterwards `ssl` can be imported as ever, but asyncio of this process does not know it: call it
    from programs alone, before anything else of theirs imports asyncio.
    """
    if "asyncio" in sys.modules or "ssl" in sys.modules:
        return
    modules: dict[str, Any] = sys.modules
    modules["ssl"] = None  # which makes an import of it fail
    try:
        import asyncio  # noqa: F401
    finally:
        del modules["ssl"]
