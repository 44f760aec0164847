"""Consumer groups: the list, one of them with its lag and its members, and moving its offsets."""

from datetime import UTC, datetime, timedelta
from itertools import groupby

from starlette.requests import Request
from starlette.responses import Response

from ottla.client.admin.admin import AsyncAdmin
from ottla.client.admin.resets import Destination, OffsetChange
from ottla.console.charts import Stretch, line_chart, sparkline, timeline
from ottla.console.errors import InputError
from ottla.console.history import History, Reading, Sample, lag_of
from ottla.console.pages.overview import behind
from ottla.console.rendering import done, drawn, page
from ottla.errors import RequestError
from ottla.model import TopicPartition

_CALM = ("Stable",)
_MOVING = ("PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling")
_SHOWN_MEMBERS = 20
_GAP_S = 60.0
"""Samples that are farther apart are not one stretch: the console slept, or could not ask."""


async def groups(request: Request) -> Response:
    """All groups; with `find`, those whose name has it."""
    history: History = request.app.state.sampler.history
    newest = history.newest or Sample(at_s=0)
    find = request.query_params.get("find", "")
    known = {str(row["id"]): row for row in behind(history, newest, shown=len(newest.lags))}
    rows = [
        known.get(
            group_id,
            {
                "id": group_id,
                "state": listing.state,
                "type": listing.type,
                "members": None,
                "lag": None,
                "time_lag": None,
                "spark": "",
            },
        )
        for group_id, listing in sorted(newest.groups.items())
        if find.lower() in group_id.lower()
    ]
    return page(request, "groups.html", rows=rows, find=find)


async def group(request: Request) -> Response:
    """One group."""
    admin: AsyncAdmin = request.app.state.admin
    history: History = request.app.state.sampler.history
    group_id = _id(request)
    info = await admin.describe_group(group_id)
    lag = await admin.lag(group_id)
    ages = [p.time_lag for p in lag.partitions if p.time_lag is not None]
    plan, refusal = await _preview(request, admin, group_id)
    findings = await request.app.state.advisor.group(group_id)
    return page(
        request,
        "group.html",
        info=info,
        findings=findings,
        lag=lag,
        time_lag=max(ages, default=None),
        largest=max(lag.partitions, key=lambda p: p.lag or 0, default=None),
        lag_chart=drawn(line_chart({"lag": history.line(lag_of(group_id))}, "lag")),
        members=drawn(timeline(member_rows(history, group_id), f"members of {group_id}")),
        topics=sorted({p.tp.topic for p in lag.partitions}),
        plan=plan,
        moved=sum(change.new - (change.old or 0) for change in plan or ()),
        refusal=refusal,
        query=request.query_params,
        sparks={
            p.tp: drawn(sparkline(history.line(_partition_lag(group_id, p.tp)), f"lag of {p.tp}"))
            for p in lag.partitions
        },
    )


async def reset(request: Request) -> Response:
    """Move the offsets of a group, as the preview said."""
    admin: AsyncAdmin = request.app.state.admin
    group_id = _id(request)
    form = await request.form()
    to = destination(str(form.get("to", "")), str(form.get("at", "")))
    topic = str(form.get("topic", ""))
    changes = await admin.reset_offsets(group_id, topics=[topic] if topic else None, to=to)
    await request.app.state.sampler.sample()
    said = f"Moved the offsets of {len(changes)} partitions."
    return done("/groups/show", said, id=group_id)


async def delete(request: Request) -> Response:
    """Forget a group and its offsets."""
    admin: AsyncAdmin = request.app.state.admin
    group_id = _id(request)
    form = await request.form()
    if form.get("confirm") != group_id:
        raise InputError(f"to delete it, type its name, {group_id!r}; nothing was deleted")
    await admin.delete_group(group_id)
    await request.app.state.sampler.sample()
    return done("/groups", f"Group {group_id} was deleted.")


def destination(to: str, at: str) -> Destination:
    """Where a form says that a group goes on from."""
    match to:
        case "earliest" | "latest":
            return "earliest" if to == "earliest" else "latest"
        case "offset" if at.strip().isdecimal():
            return int(at)
        case "time":
            try:
                found = datetime.fromisoformat(at.strip())
            except ValueError as error:
                raise InputError(f"{at!r} is no time; write 2026-11-15 16:00") from error
            return found if found.tzinfo else found.replace(tzinfo=UTC)
        case "ago" if at.strip().isdecimal():
            return timedelta(minutes=-int(at))
        case _:
            raise InputError(
                f"{to or 'nothing'} {at!r} is no place to go on from: choose earliest, latest, an "
                "offset, a time, or minutes ago"
            )


def member_rows(history: History, group_id: str) -> dict[str, list[Stretch]]:
    """Who was a member, when, and whether the group was calm: as far as samples can tell."""
    seen: dict[str, list[tuple[float, str]]] = {}
    for at_s, members, state in _members_over_time(history, group_id):
        for member in members:
            seen.setdefault(member, []).append((at_s, state))
    newest = history.newest
    now_s = newest.at_s if newest else 0.0
    shown = list(seen.items())[-_SHOWN_MEMBERS:]
    return {member: list(_stretches(moments, now_s)) for member, moments in shown}


def _members_over_time(history: History, group_id: str) -> "list[tuple[float, list[str], str]]":
    found = []
    for sample in history:
        lag = sample.lags.get(group_id)
        if lag is not None:
            members = list(dict.fromkeys(p.member_id for p in lag.partitions if p.member_id))
            found.append((sample.at_s, members, lag.state))
    return found


def _stretches(moments: list[tuple[float, str]], now_s: float) -> "list[Stretch]":
    found: list[Stretch] = []
    for state, run in groupby(moments, key=lambda moment: moment[1]):
        times = [at_s for at_s, _ in run]
        kind = "good" if state in _CALM else "warn" if state in _MOVING else "bad"
        if found and times[0] - found[-1].until_s < _GAP_S:
            found[-1] = Stretch(found[-1].from_s, times[0], found[-1].kind, found[-1].title)
        found.append(Stretch(times[0], times[-1], kind, state))
    if found and now_s - found[-1].until_s < _GAP_S / 10:
        last = found[-1]
        found[-1] = Stretch(last.from_s, now_s, last.kind, last.title)
    return found


def _partition_lag(group_id: str, place: TopicPartition) -> Reading:
    def reading(sample: Sample) -> float | None:
        lag = sample.lags.get(group_id)
        if lag is None:
            return None
        return next((p.lag for p in lag.partitions if p.tp == place), None)

    return reading


async def _preview(
    request: Request, admin: AsyncAdmin, group_id: str
) -> tuple[list[OffsetChange] | None, str]:
    """What a reset would do, where the address asks for one."""
    to = request.query_params.get("to", "")
    if not to:
        return None, ""
    topic = request.query_params.get("topic", "")
    try:
        where = destination(to, request.query_params.get("at", ""))
        plan = await admin.reset_offsets(
            group_id, topics=[topic] if topic else None, to=where, dry_run=True
        )
    except (InputError, RequestError) as error:
        return None, str(error)
    return plan, ""


def _id(request: Request) -> str:
    group_id = request.query_params.get("id", "")
    if not group_id:
        raise InputError("the address names no group")
    return group_id
