"""Durations at the edge: seconds for people, milliseconds for us."""


def seconds(duration_ms: float) -> str:
    """A duration as errors tell it: `0.2 s`."""
    return f"{duration_ms / 1000:g} s"


def milliseconds(timeout_s: float | None) -> int | None:
    """A timeout as users give it, where None is the usual one."""
    return None if timeout_s is None else int(timeout_s * 1000)
