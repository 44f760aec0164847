"""Topics: the list, one of them, and what can be done to it."""

from starlette.requests import Request
from starlette.responses import Response

from ottla.client.admin.admin import AsyncAdmin
from ottla.console.charts import line_chart, sparkline
from ottla.console.errors import InputError
from ottla.console.history import History, Sample, end_offset_of
from ottla.console.rendering import done, drawn, page
from ottla.errors import ErrorCode
from ottla.quantities import counted
from ottla.why.findings import Finding


async def topics(request: Request) -> Response:
    """All topics; with `find`, those whose name has it."""
    history: History = request.app.state.sampler.history
    newest = history.newest or Sample(at_s=0)
    find = request.query_params.get("find", "")
    with_internal = request.query_params.get("internal") == "1"
    rows = [
        {
            "name": name,
            "topic": topic,
            "rate": history.rate(end_offset_of(name)),
            "spark": drawn(sparkline(history.rates(end_offset_of(name)), f"rate of {name}")),
        }
        for name, topic in sorted(newest.topics.items())
        if find.lower() in name.lower() and (with_internal or not topic.is_internal)
    ]
    return page(request, "topics.html", rows=rows, find=find, with_internal=with_internal)


async def topic(request: Request) -> Response:
    """One topic: partitions, rate, settings."""
    admin: AsyncAdmin = request.app.state.admin
    history: History = request.app.state.sampler.history
    name = request.path_params["topic"]
    info = await admin.describe_topic(name)
    config = await admin.describe_config(topic=name)
    newest = history.newest or Sample(at_s=0)
    groups = {
        group_id: sum(p.lag or 0 for p in lag.partitions if p.tp.topic == name)
        for group_id, lag in newest.lags.items()
        if any(p.tp.topic == name for p in lag.partitions)
    }
    return page(
        request,
        "topic.html",
        info=info,
        findings=[*_refusals(history, name), *await request.app.state.advisor.topic(name)],
        config=sorted(config.values(), key=lambda entry: (entry.is_default, entry.name)),
        sample=newest.topics.get(name),
        rate=history.rate(end_offset_of(name)),
        chart=drawn(
            line_chart({"records/s": history.rates(end_offset_of(name))}, f"rate of {name}")
        ),
        groups=groups,
    )


def _refusals(history: History, topic: str) -> list[Finding]:
    """What producers were told lately, of a broker that tells of itself."""
    return [
        Finding(
            code="writes_refused",
            text=f"{counted(count, 'batch', 'batches')} of producers refused in the last minute, "
            f"with {error}.",
            advice=ErrorCode[error].advice if error in ErrorCode.__members__ else "",
        )
        for (name, error), count in history.refused().items()
        if name == topic
    ]


async def create(request: Request) -> Response:
    """Make a topic."""
    admin: AsyncAdmin = request.app.state.admin
    form = await request.form()
    name = str(form.get("name", "")).strip()
    settings = _settings(str(form.get("settings", "")))
    count = _count(str(form.get("partitions", "1")))
    await admin.create_topic(name, partitions=count, config=settings)
    await request.app.state.sampler.sample()
    return done(f"/topics/{name}", f"Topic {name} was created.")


async def delete(request: Request) -> Response:
    """Delete a topic whose name was typed once more."""
    admin: AsyncAdmin = request.app.state.admin
    name = request.path_params["topic"]
    form = await request.form()
    if form.get("confirm") != name:
        raise InputError(f"to delete it, type its name, {name!r}; nothing was deleted")
    await admin.delete_topic(name)
    await request.app.state.sampler.sample()
    return done("/topics", f"Topic {name} was deleted.")


async def configure(request: Request) -> Response:
    """Change one setting of a topic, or take it back."""
    admin: AsyncAdmin = request.app.state.admin
    name = request.path_params["topic"]
    form = await request.form()
    setting, value = str(form.get("name", "")), str(form.get("value", ""))
    if form.get("unset"):
        await admin.alter_config(topic=name, unset=[setting])
        return done(f"/topics/{name}", f"{setting} has its default again.")
    await admin.alter_config(topic=name, set={setting: value})
    return done(f"/topics/{name}", f"{setting} is {value} now.")


async def add_partitions(request: Request) -> Response:
    """Give a topic more partitions."""
    admin: AsyncAdmin = request.app.state.admin
    name = request.path_params["topic"]
    form = await request.form()
    total = _count(str(form.get("total", "")))
    await admin.add_partitions(name, total=total)
    return done(f"/topics/{name}", f"{name} has {total} partitions now.")


def _count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise InputError(f"{text!r} is no number of partitions")
    return int(text)


def _settings(text: str) -> dict[str, str]:
    """One `name=value` a line."""
    found = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        name, equals, value = line.partition("=")
        if not equals:
            raise InputError(f"a setting is written name=value, and {line!r} is not")
        found[name.strip()] = value.strip()
    return found
