"""Tells browsers that there is something new.

A page listens to `/live`, where each new sample is one line; then it fetches itself again and takes
over the parts that are marked.  So there is one way to make a page, and an open browser costs one
request a sample.
"""

from collections.abc import AsyncIterator
from typing import Final

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ottla.console.sampling import Sampler

_KEEP_ALIVE_S: Final = 15.0


async def live(request: Request) -> Response:
    """The stream of `/live`."""
    sampler: Sampler = request.app.state.sampler
    return StreamingResponse(_events(request, sampler), media_type="text/event-stream")


async def _events(request: Request, sampler: Sampler) -> AsyncIterator[str]:
    seen = sampler.count
    yield "retry: 2000\n\n"
    while not await request.is_disconnected():
        count = await sampler.next(seen, _KEEP_ALIVE_S)
        if sampler.is_closed:
            return
        yield f"event: sample\ndata: {count}\n\n" if count > seen else ": nothing new\n\n"
        seen = count
