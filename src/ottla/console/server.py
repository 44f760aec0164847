"""Runs a console in this process until somebody stops it."""

import asyncio
import socket
from collections.abc import Callable
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from ottla.console.app import console
from ottla.console.settings import ConsoleSettings

_GRACE_S = 3


class _Server(uvicorn.Server):
    """Lets the streams of open browsers end, which otherwise never would, before it waits."""

    def __init__(self, app: Starlette) -> None:
        config = uvicorn.Config(
            app,
            log_level="warning",
            lifespan="on",
            access_log=False,
            timeout_graceful_shutdown=_GRACE_S,
        )
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if (close := getattr(self._app.state, "close", None)) is not None:
            close()


def serve(settings: ConsoleSettings, on_ready: Callable[[str], None]) -> None:
    """Listen, tell `on_ready` the address, and serve until SIGTERM or Ctrl-C.

    Raises:
        OSError: The port is taken.
    """
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.create_server((settings.host, settings.port), family=family) as listener:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        server = _Server(console(settings))
        on_ready(f"http://{host}:{listener.getsockname()[1]}")
        asyncio.run(server.serve(sockets=[listener]))
