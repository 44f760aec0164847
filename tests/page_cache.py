"""Files of the real machine that are not in its page cache.

The kernel drops them when it is asked to, nearly always; so who needs one tries more than once.
"""

import os
from pathlib import Path

import pytest

CONTENT = bytes(range(256)) * 4096
"""A megabyte."""
END = len(CONTENT)
ATTEMPTS = 20
"""A device may deliver before the question is answered, once in a while."""


def chill(path: Path) -> None:
    """Write CONTENT to a new file there, and have the kernel drop it from memory.

    Skips where that never happens, or the kernel cannot say.  It is asked about other files: to ask
    about this one would bring it back.
    """
    if not any(_is_cold(path.with_name(f"other-{number}")) for number in range(ATTEMPTS)):
        pytest.skip("this system keeps files in memory, or does not say whether it does")
    _write(path)


def _write(path: Path) -> None:
    path.unlink(missing_ok=True)  # what was not dropped may stay for as long as there is the file
    path.write_bytes(CONTENT)
    drop(path)


def _is_cold(path: Path) -> bool:
    _write(path)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.preadv(descriptor, [bytearray(1)], 0, os.RWF_NOWAIT)
    except BlockingIOError:
        return True
    except (OSError, AttributeError):
        return False  # of another kind, or of another system
    finally:
        os.close(descriptor)
    return False


def drop(path: Path) -> None:
    """Ask the kernel to drop the file from memory."""
    descriptor = os.open(path, os.O_RDWR)
    try:
        os.fsync(descriptor)
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
