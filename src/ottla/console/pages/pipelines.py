"""Pipelines: those of this machine, and every exactly-once sink that has written to the cluster.

What a sink has decided is in a topic of its own, so its ledger can be shown wherever it ran.
"""

import os
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ottla.console.browsing import MAX_RECORDS, Browser, Wish
from ottla.console.charts import line_chart
from ottla.console.errors import InputError
from ottla.console.history import Sample
from ottla.console.rendering import drawn, page
from ottla.errors import NotFoundError
from ottla.pipeline.state import all_folders, state_dir
from ottla.spark.sink.decisions import SETTLED_PREFIX, TOPIC_PREFIX, Decision, DecisionError

_EXAMINED = 10
"""Of so many pipelines the page says what they wait for."""

_FEW = 10
"""Records of a ledger among which there is a decision."""


async def pipelines(request: Request) -> Response:
    """All of them."""
    newest = request.app.state.sampler.history.newest or Sample(at_s=0)
    topics = [topic for topic in sorted(newest.topics) if topic.startswith(TOPIC_PREFIX)]
    sinks = [await _sink(request, topic) for topic in topics]
    running = [folder.seen() for folder in all_folders(state_dir(os.environ))]
    servers = request.app.state.settings.bootstrap_servers
    findings = {
        state.name: await request.app.state.advisor.pipeline(state.name)
        for state, _ in running[:_EXAMINED]
        if state.bootstrap == servers
    }
    return page(request, "pipelines.html", sinks=sinks, running=running, findings=findings)


async def _sink(request: Request, topic: str) -> dict[str, Any]:
    """One line of the list.  What cannot be read is said there: the others are still of use."""
    sink_id = topic.removeprefix(TOPIC_PREFIX)
    try:
        last = _last(await _ledger(request, topic, count=_FEW))
    except (InputError, NotFoundError) as error:
        return {"id": sink_id, "last": None, "trouble": str(error)}
    return {"id": sink_id, "last": last, "trouble": ""}


async def ledger(request: Request) -> Response:
    """What one sink has decided, batch by batch."""
    sink_id = request.query_params.get("id", "")
    if not sink_id:
        raise InputError("the address names no sink")
    decisions = await _ledger(request, TOPIC_PREFIX + sink_id, count=MAX_RECORDS)
    rows = [(d.decided_ms / 1000, float(d.row_count)) for d in decisions]
    times = [(d.decided_ms / 1000, d.duration_ms / 1000) for d in decisions]
    return page(
        request,
        "ledger.html",
        sink_id=sink_id,
        decisions=decisions[::-1],
        last=_last(decisions),
        row_count=sum(d.row_count for d in decisions),
        groups=sorted({group for d in decisions for group in d.groups}),
        rows_chart=drawn(line_chart({"rows a batch": rows}, "rows a batch")),
        times_chart=drawn(line_chart({"seconds a batch": times}, "seconds a batch")),
    )


async def _ledger(request: Request, topic: str, *, count: int) -> list[Decision]:
    """The last decisions, oldest first."""
    browser: Browser = request.app.state.browser
    found = await browser.find(Wish(topic=topic, count=count))
    decisions = []
    for record in found.records:
        if record.key is None or record.key.startswith(SETTLED_PREFIX):
            continue  # how far decisions were carried out
        try:
            decisions.append(Decision.decode(record.value or b""))
        except DecisionError as error:
            raise InputError(f"{topic} is no ledger that this version can read: {error}") from error
    return sorted(decisions, key=lambda decision: decision.decided_ms)


def _last(decisions: list[Decision]) -> Decision | None:
    return decisions[-1] if decisions else None
