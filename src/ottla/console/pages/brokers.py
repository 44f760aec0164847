"""Brokers, their folders and their settings."""

from starlette.requests import Request
from starlette.responses import Response

from ottla.client.admin.admin import AsyncAdmin
from ottla.console.rendering import page
from ottla.errors import UnsupportedError


async def brokers(request: Request) -> Response:
    """All brokers."""
    admin: AsyncAdmin = request.app.state.admin
    cluster = await admin.describe_cluster()
    try:
        folders = await admin.describe_log_dirs()
    except UnsupportedError:
        folders = {}
    return page(
        request,
        "brokers.html",
        info=cluster,
        folders=folders,
        features=(await admin.describe_features()).values(),
    )


async def broker(request: Request) -> Response:
    """The settings of one broker."""
    admin: AsyncAdmin = request.app.state.admin
    number = request.path_params["broker"]
    config = await admin.describe_config(broker=number)
    find = request.query_params.get("find", "")
    entries = [entry for entry in config.values() if find.lower() in entry.name.lower()]
    return page(
        request,
        "broker.html",
        number=number,
        find=find,
        config=sorted(entries, key=lambda entry: (entry.is_default, entry.name)),
    )
