"""The message browser: find records, follow them, take them away, write one."""

import json
from base64 import b64encode
from collections.abc import AsyncIterator
from html import escape
from typing import Any

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

import ottla
from ottla.console import browsing
from ottla.console.browsing import BEGINS, Browser, BytesRecord, Wish
from ottla.console.errors import InputError
from ottla.console.payloads import FORMATS, Format, Search, Shown, shown
from ottla.console.rendering import done, page
from ottla.console.settings import ConsoleSettings
from ottla.console.words import moment


async def messages(request: Request) -> Response:
    """Records of a topic that match what is asked for."""
    wish, format_ = wish_of(request), _format(request)
    browser: Browser = request.app.state.browser
    found = await browser.find(wish)
    info = await request.app.state.admin.describe_topic(wish.topic)
    return page(
        request,
        "messages.html",
        wish=wish,
        format=format_,
        formats=FORMATS,
        begins=BEGINS,
        partitions=[partition.id for partition in info.partitions],
        found=found,
        rows=[_row(record, format_) for record in found.records],
        query=request.url.query,
    )


async def tail(request: Request) -> Response:
    """Records as they are written, as a stream of table rows."""
    wish, format_ = wish_of(request), _format(request)
    browser: Browser = request.app.state.browser
    await request.app.state.admin.describe_topic(wish.topic)  # an error has a page, a stream none

    async def events() -> AsyncIterator[str]:
        async for record in browser.follow(wish):
            if request.app.state.sampler.is_closed:
                return
            if record is None:
                yield ": nothing new\n\n"
            else:
                yield f"event: record\ndata: {json.dumps(_html_row(record, format_))}\n\n"

    return StreamingResponse(events(), media_type="text/event-stream")


async def download(request: Request) -> Response:
    """The same records as JSON lines; bytes that are not text are in base64."""
    wish = wish_of(request)
    found = await request.app.state.browser.find(wish)
    lines = [json.dumps(_plain(record), ensure_ascii=False) + "\n" for record in found.records]
    return Response(
        "".join(lines),
        media_type="application/x-ndjson",
        headers={"Content-Disposition": f'attachment; filename="{wish.topic}.jsonl"'},
    )


async def produce(request: Request) -> Response:
    """Write one record."""
    settings: ConsoleSettings = request.app.state.settings
    topic = request.path_params["topic"]
    await request.app.state.admin.describe_topic(topic)  # writing would create it
    form = await request.form()
    partition = str(form.get("partition", ""))
    key, value = str(form.get("key", "")), str(form.get("value", ""))
    headers = [_header(line) for line in str(form.get("headers", "")).splitlines() if line.strip()]
    async with ottla.AsyncProducer(settings.bootstrap_servers, **settings.client) as producer:
        written = await producer.send(
            topic,
            None if form.get("is_tombstone") else value.encode(),
            key=key.encode() if key else None,
            headers=headers,
            partition=int(partition) if partition.isdecimal() else None,
        )
    said = f"Written to partition {written.partition} at offset {written.offset}."
    return done(f"/topics/{topic}/messages", said)


def wish_of(request: Request) -> Wish:
    """What the address asks for."""
    query = request.query_params
    begin = query.get("begin", "newest")
    if begin not in BEGINS:
        raise InputError(f"one begins at {', '.join(BEGINS)}, not at {begin!r}")
    partition, count = query.get("partition", ""), query.get("count", "50")
    return Wish(
        topic=request.path_params["topic"],
        begin=begin,
        at=query.get("at", ""),
        partition=int(partition) if partition.isdecimal() else None,
        count=min(int(count), browsing.MAX_RECORDS) if count.isdecimal() and int(count) else 50,
        search=Search(
            key=query.get("key", ""),
            value=query.get("value", ""),
            header=query.get("header", ""),
            path=query.get("path", ""),
        ),
        is_committed=query.get("isolation") != "uncommitted",
    )


def _format(request: Request) -> Format:
    given = request.query_params.get("format", "auto")
    if given not in FORMATS:
        raise InputError(f"payloads are shown as {', '.join(FORMATS)}, not as {given!r}")
    return given


def _row(record: BytesRecord, format_: Format) -> dict[str, Any]:
    return {
        "record": record,
        "key": shown(record.key, format_),
        "value": shown(record.value, format_),
        "headers": [(name, shown(data, "auto")) for name, data in record.headers],
    }


def _html_row(record: BytesRecord, format_: Format) -> str:
    cells = (
        f'<td class="r">{record.partition}</td><td class="r">{record.offset}</td>'
        f"<td>{escape(moment(record.timestamp_ms))}</td>"
    )
    for part in (shown(record.key, format_), shown(record.value, format_)):
        cells += f"<td>{_html_payload(part)}</td>"
    headers = ", ".join(f"{name}={shown(data).text}" for name, data in record.headers)
    return f"{cells}<td>{escape(headers)}</td>"


def _html_payload(part: Shown) -> str:
    more = " …" if part.is_cut else ""
    return f'<pre class="{part.kind}">{escape(part.text)}{more}</pre>'


def _plain(record: BytesRecord) -> dict[str, Any]:
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        **_named("key", record.key),
        **_named("value", record.value),
        "headers": [{"name": name, **_named("value", data)} for name, data in record.headers],
    }


def _named(name: str, data: bytes | None) -> dict[str, str | None]:
    if data is None:
        return {name: None}
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(data).decode("ascii")}


def _header(line: str) -> tuple[str, bytes]:
    name, equals, value = line.partition("=")
    if not equals:
        raise InputError(f"a header is written name=value, and {line!r} is not")
    return name.strip(), value.encode()
