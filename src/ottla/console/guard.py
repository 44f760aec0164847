"""Who may come in, and who may change something.

Three things could go wrong with a page that can delete topics, and each has its answer here:

- Somebody else's page sends a form to ours (CSRF).  Every form carries a token that only our own
  pages know, and a browser that names another origin is refused.
- Somebody else's page points its own name at 127.0.0.1 (DNS rebinding).  Without a password the
  console answers to loopback names alone.
- Somebody else is on the network.  Away from loopback there is always a password.

Everything that changes something is a POST, so read-only mode is one rule, here.
"""

import base64
import binascii
import hmac
import secrets
from typing import Final

from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp

from ottla.console.settings import ConsoleSettings, is_loopback

TOKEN_FIELD: Final = "token"
OPEN_PATHS: Final = ("/healthz",)
"""What may be asked without a password."""

HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cache-Control": "no-store",
}

MAX_FORM_BYTES: Final = 2 * 1024 * 1024


class Guard(BaseHTTPMiddleware):
    """Looks at every request before anything else does."""

    def __init__(self, app: ASGIApp, settings: ConsoleSettings) -> None:
        super().__init__(app)
        self._settings = settings
        self._token = secrets.token_urlsafe(24)

    async def dispatch(self, request: Request, call_next: RequestResponseEndpoint) -> Response:
        request.state.token = self._token
        response = await self._refusal(request) or await call_next(request)
        response.headers.update(HEADERS)
        return response

    async def _refusal(self, request: Request) -> Response | None:
        settings = self._settings
        if settings.password is None and not _is_loopback_name(request.headers.get("host", "")):
            return _refuse(403, "This console answers to localhost alone.")
        if not self._is_let_in(request):
            refusal = _refuse(401, "A password is needed; any user name will do.")
            refusal.headers["WWW-Authenticate"] = 'Basic realm="Ottla", charset="UTF-8"'
            return refusal
        if request.method in ("GET", "HEAD"):
            return None
        return await self._refused_change(request)

    def _is_let_in(self, request: Request) -> bool:
        password = self._settings.password
        if password is None or request.url.path in OPEN_PATHS:
            return True
        return _knows(request.headers.get("authorization", ""), password)

    async def _refused_change(self, request: Request) -> Response | None:
        if self._settings.is_read_only:
            return _refuse(403, "This console is read-only: nothing was changed.")
        size_bytes = request.headers.get("content-length", "")
        if not size_bytes.isdecimal():
            return _refuse(411, "A form says how long it is.")
        if int(size_bytes) > MAX_FORM_BYTES:
            return _refuse(413, f"At most {MAX_FORM_BYTES} bytes can be sent from here.")
        origin = request.headers.get("origin")
        if origin is not None and origin.split("://")[-1] != request.headers.get("host"):
            return _refuse(403, f"The form is from {origin}, not from here: nothing was changed.")
        await request.body()  # kept, so that the page can read it as well
        form = await request.form()
        if not hmac.compare_digest(str(form.get(TOKEN_FIELD, "")), self._token):
            return _refuse(403, "The form is not from this console: load the page and try again.")
        return None


def _is_loopback_name(host: str) -> bool:
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    return is_loopback(name.strip("[]"))


def _knows(authorization: str, password: str) -> bool:
    scheme, _, encoded = authorization.partition(" ")
    if scheme.lower() != "basic":
        return False
    try:
        given = base64.b64decode(encoded, validate=True).partition(b":")[2]
    except (ValueError, binascii.Error):
        return False
    return hmac.compare_digest(given, password.encode())


def _refuse(status: int, reason: str) -> Response:
    return PlainTextResponse(reason + "\n", status)
