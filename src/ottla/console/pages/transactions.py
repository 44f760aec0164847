"""Transactions: which are open, for how long, what each holds back; and ending one."""

from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ottla.client.admin.admin import AsyncAdmin
from ottla.client.admin.transactions import UNENDED
from ottla.console.errors import InputError
from ottla.console.rendering import done, page
from ottla.errors import NotFoundError, UnsupportedError

MAX_DESCRIBED = 200


async def transactions(request: Request) -> Response:
    """Open transactions; with `all=1`, every transactional id."""
    admin: AsyncAdmin = request.app.state.admin
    with_all = request.query_params.get("all") == "1"
    find = request.query_params.get("find", "")
    try:
        found = await admin.list_transactions(states=() if with_all else UNENDED)
    except UnsupportedError:
        return page(request, "transactions.html", rows=None, with_all=with_all, find=find, more=0)
    found = [listing for listing in found if find.lower() in listing.transactional_id.lower()]
    rows: list[dict[str, Any]] = []
    for listing in found[:MAX_DESCRIBED]:
        try:
            info = await admin.describe_transaction(listing.transactional_id)
        except NotFoundError:
            continue  # it went while we looked
        age = datetime.now(UTC) - info.started if info.started is not None else None
        rows.append({"info": info, "age": age, "can_abort": info.state == "Ongoing"})
    rows.sort(key=lambda row: row["age"] or timedelta(0), reverse=True)
    more = max(0, len(found) - MAX_DESCRIBED)
    return page(request, "transactions.html", rows=rows, with_all=with_all, find=find, more=more)


async def transaction(request: Request) -> Response:
    """One transactional id: what it waits for, and whom it keeps waiting."""
    transactional_id = request.query_params.get("id", "")
    if not transactional_id:
        raise InputError("the address names no transaction")
    info = await request.app.state.admin.describe_transaction(transactional_id)
    return page(
        request,
        "transaction.html",
        info=info,
        age=datetime.now(UTC) - info.started if info.started is not None else None,
        can_abort=info.state == "Ongoing",
        findings=await request.app.state.advisor.transaction(transactional_id),
    )


async def abort(request: Request) -> Response:
    """End a transaction by fencing its producer."""
    admin: AsyncAdmin = request.app.state.admin
    form = await request.form()
    transactional_id = str(form.get("id", ""))
    if not transactional_id:
        raise InputError("the form names no transaction")
    await admin.abort_transaction(transactional_id)
    return done("/transactions", f"The transaction of {transactional_id} was aborted.")
