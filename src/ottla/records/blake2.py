"""BLAKE2b without OpenSSL: `hashlib` has it from a module of its own, but loads the other, too.

That takes longer than all that decides about a group, and three megabytes.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import blake2b
else:
    try:
        from _blake2 import blake2b
    except ImportError:  # a Python that keeps it elsewhere
        from hashlib import blake2b

__all__ = ["blake2b"]
