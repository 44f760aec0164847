"""Fills templates: one environment for all pages, with the words and charts that they use."""

from typing import Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from ottla import __version__
from ottla.console import words
from ottla.console.guard import TOKEN_FIELD
from ottla.console.settings import ConsoleSettings
from ottla.why.naming import host_of

NAVIGATION: Final = (
    ("/", "Overview"),
    ("/topics", "Topics"),
    ("/groups", "Groups"),
    ("/pipelines", "Pipelines"),
    ("/transactions", "Transactions"),
    ("/brokers", "Brokers"),
)


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("ottla.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        number=words.number,
        size=words.size,
        span=words.span,
        moment=words.moment,
        link=link,
        coded=coded,
        host=host_of,
    )
    return environment


def link(path: str, **query: object) -> str:
    """A path with a query; empty parts are left out."""
    wanted = {name: value for name, value in query.items() if value not in (None, "")}
    return f"{path}?{urlencode(wanted)}" if wanted else path


def coded(text: str) -> Markup:
    """A text in which `this` is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # a name had one: then none of them means anything
        return Markup(escape(text))
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if index % 2 else escape(part)
        for index, part in enumerate(parts)
    )


_templates: Final = _environment()


def drawn(svg: str) -> Markup:
    """What `charts` made, which escapes on its own."""
    return Markup(svg)


def _hidden(token: str) -> Markup:
    """What every form carries; see `guard`."""
    return Markup('<input type="hidden" name="{}" value="{}">').format(TOKEN_FIELD, token)


def page(request: Request, template: str, *, status: int = 200, **facts: Any) -> Response:
    """Fill a template."""
    state = request.app.state
    settings: ConsoleSettings = state.settings
    newest = state.sampler.history.newest
    path = request.url.path
    counts = {
        "/topics": sum(not t.is_internal for t in newest.topics.values()) if newest else None,
        "/groups": len(newest.groups) if newest else None,
        "/transactions": newest.open_transaction_count if newest else None,
        "/brokers": newest.broker_count if newest else None,
    }
    html = _templates.get_template(template).render(
        navigation=[
            (where, name, counts.get(where), _is_under(path, where)) for where, name in NAVIGATION
        ],
        cluster=settings.bootstrap_servers,
        is_read_only=settings.is_read_only,
        trouble=state.sampler.trouble,
        hidden=_hidden(request.state.token),
        said=request.query_params.get("said", ""),
        version=__version__,
        **facts,
    )
    return HTMLResponse(html, status)


def done(path: str, said: str, **query: object) -> Response:
    """After a change: go to a page that says what was done."""
    return RedirectResponse(link(path, said=said, **query), 303)


def _is_under(path: str, where: str) -> bool:
    return path == where or (where != "/" and path.startswith(where + "/"))
