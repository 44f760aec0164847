"""The console as an ASGI application: addresses, and what lives as long as it does."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from http import HTTPStatus

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from ottla.client.admin.admin import AsyncAdmin
from ottla.console.browsing import Browser
from ottla.console.errors import InputError
from ottla.console.guard import Guard
from ottla.console.live import live
from ottla.console.metrics import metrics
from ottla.console.pages import (
    brokers,
    groups,
    messages,
    overview,
    pipelines,
    topics,
    transactions,
)
from ottla.console.rendering import page
from ottla.console.sampling import Sampler
from ottla.console.settings import ConsoleSettings
from ottla.console.why import Advisor
from ottla.errors import (
    ConflictError,
    DeadlineError,
    DeniedError,
    NotFoundError,
    OttlaError,
    RequestError,
    TransportError,
)
from ottla.exposition import Exposition

_STATUS: tuple[tuple[type[OttlaError], HTTPStatus], ...] = (
    (NotFoundError, HTTPStatus.NOT_FOUND),
    (ConflictError, HTTPStatus.CONFLICT),
    (DeniedError, HTTPStatus.FORBIDDEN),
    (RequestError, HTTPStatus.BAD_REQUEST),
    (InputError, HTTPStatus.BAD_REQUEST),
    (DeadlineError, HTTPStatus.GATEWAY_TIMEOUT),
    (TransportError, HTTPStatus.BAD_GATEWAY),
)
"""The first that fits counts; anything else is 502, for it was the cluster's answer."""


def console(settings: ConsoleSettings) -> Starlette:
    """The application; it talks to the cluster while its lifespan lasts."""
    return Starlette(
        routes=_routes(),
        middleware=[Middleware(Guard, settings=settings)],
        exception_handlers={OttlaError: _refused, HTTPException: _missing},
        lifespan=partial(_life, settings=settings),
    )


def _routes() -> list[Route | Mount]:
    def post(path: str, endpoint: object) -> Route:
        return Route(path, endpoint, methods=["POST"])  # type: ignore[arg-type]

    return [
        Route("/", overview.overview),
        Route("/topics", topics.topics),
        post("/topics", topics.create),
        Route("/topics/{topic}", topics.topic),
        post("/topics/{topic}/delete", topics.delete),
        post("/topics/{topic}/config", topics.configure),
        post("/topics/{topic}/partitions", topics.add_partitions),
        Route("/topics/{topic}/messages", messages.messages),
        post("/topics/{topic}/messages", messages.produce),
        Route("/topics/{topic}/tail", messages.tail),
        Route("/topics/{topic}/download", messages.download),
        Route("/groups", groups.groups),
        Route("/groups/show", groups.group),
        post("/groups/reset", groups.reset),
        post("/groups/delete", groups.delete),
        Route("/pipelines", pipelines.pipelines),
        Route("/pipelines/ledger", pipelines.ledger),
        Route("/transactions", transactions.transactions),
        Route("/transactions/show", transactions.transaction),
        post("/transactions/abort", transactions.abort),
        Route("/brokers", brokers.brokers),
        Route("/brokers/{broker:int}", brokers.broker),
        Route("/live", live),
        Route("/metrics", metrics),
        Route("/healthz", _health),
        Route("/readyz", _readiness),
        Mount("/static", StaticFiles(packages=[("ottla.console", "static")])),
    ]


@asynccontextmanager
async def _life(app: Starlette, settings: ConsoleSettings) -> AsyncIterator[None]:
    async with AsyncAdmin(settings.bootstrap_servers, **settings.client_options) as admin:
        app.state.settings = settings
        app.state.admin = admin
        app.state.browser = Browser(settings, admin)
        app.state.exposition = Exposition()
        sampler = Sampler(admin, settings.interval_s, settings.metrics_url)
        app.state.sampler = sampler
        app.state.advisor = Advisor(settings, lambda: sampler.count)
        loop = asyncio.get_running_loop()
        # A signal may come at any moment: what it asks for is done by the loop.
        app.state.close = lambda: loop.call_soon_threadsafe(sampler.close)
        task = asyncio.create_task(sampler.run())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await app.state.advisor.close()


async def _refused(request: Request, error: Exception) -> Response:
    """Whatever the cluster or a page refused, in words, with a status that scripts understand."""
    status = next((s for kind, s in _STATUS if isinstance(error, kind)), HTTPStatus.BAD_GATEWAY)
    said = {
        "title": status.phrase,
        "text": str(error),
        "notes": getattr(error, "__notes__", []),
    }
    return page(request, "error.html", status=status, **said)


async def _missing(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = {"title": HTTPStatus(error.status_code).phrase, "text": request.url.path, "notes": []}
    return page(request, "error.html", status=error.status_code, **said)


async def _health(request: Request) -> Response:
    """The console itself is there."""
    return JSONResponse({"status": "ok"})


async def _readiness(request: Request) -> Response:
    """The cluster answers, too."""
    sampler: Sampler = request.app.state.sampler
    is_ready = sampler.history.newest is not None and not sampler.trouble
    said = {"status": "ready" if is_ready else "not ready", "trouble": sampler.trouble}
    return JSONResponse(said, HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE)
