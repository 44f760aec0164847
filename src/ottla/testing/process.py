"""One life of a node, from its start to its crash, and which one is running just now.

A node keeps its name and its disk; a process is gone for good when it crashes.  Every callback
carries the process that asked for it in its context, so that the loop can drop those of a dead one.
"""

import contextvars


class Process:
    """`is_alive` turns false once, and never back."""

    __slots__ = ("is_alive", "life", "node")

    def __init__(self, node: str, life: int = 1) -> None:
        self.node = node
        self.life = life
        self.is_alive = True

    def __repr__(self) -> str:
        return f"{self.node}#{self.life}"


WORLD = Process("world")
"""The test itself, and everything else outside the nodes; it never dies."""

_current: contextvars.ContextVar[Process] = contextvars.ContextVar("process", default=WORLD)


def current_process() -> Process:
    """The process whose code is running."""
    return _current.get()


def process_of(context: contextvars.Context | None) -> Process:
    """The process in whose name `context` acts; without one, the current process."""
    return _current.get() if context is None else context.get(_current, WORLD)


def context_of(process: Process) -> contextvars.Context:
    """A context in which `process` is the current one."""
    context = contextvars.copy_context()
    context.run(_current.set, process)
    return context
