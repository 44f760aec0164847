"""What a path on a disk may look like: relative, with `/`, and never out of the tree.

Both the real and the simulated disk ask here, so a path is good on both or on neither.
"""


def path_parts(path: str) -> tuple[str, ...]:
    """The names that lead from the root to `path`; none for `""`, the root itself.

    Raises `ValueError` for a path that is absolute, or has an empty part, `.`, `..` or a NUL.
    """
    if not path:
        return ()
    parts = tuple(path.split("/"))
    if any(part in {"", ".", ".."} or "\0" in part for part in parts):
        raise ValueError(f"{path!r} is not a relative path inside the disk's root")
    return parts
