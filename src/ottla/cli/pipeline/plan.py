"""`ottla pipeline plan`: the graph of a pipeline, and whether it could run, without running it.

The file is loaded, the graph and all options are checked, the broker is asked for the topics, and
Spark analyzes each step, so that a misspelled column is found here.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ottla.cli.connection import Connection
from ottla.cli.output import Output, format_option, table, verbose_option
from ottla.quantities import counted

if TYPE_CHECKING:
    from ottla.pipeline.queries import RunSettings
    from ottla.pipeline.spec import Pipeline, Step
    from ottla.pipeline.topics import TopicPlan

CONNECT_TIMEOUT_S = 30.0


@click.command("plan")
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "-b",
    "--bootstrap",
    metavar="HOST:PORT,...",
    envvar="OTTLA_BOOTSTRAP",
    show_envvar=True,
    help="The brokers to ask first.  [default: localhost:9092]",
)
@click.option("--offline", is_flag=True, help="Do not ask the broker about topics.")
@click.option("--quick", is_flag=True, help="Do not start Spark: columns are not checked.")
@verbose_option
@format_option
@click.pass_obj
def command(output: Output, file: Path, bootstrap: str | None, offline: bool, quick: bool) -> None:
    """Show and check a pipeline without running it.

    \b
    Examples:
      ottla pipeline plan shop.py
      ottla pipeline plan shop.py --offline --quick
    """
    from ottla.pipeline import Run, load
    from ottla.pipeline.queries import check_options
    from ottla.pipeline.state import StateFolder, state_dir

    pipeline = load(file)
    settings = Run(bootstrap=bootstrap).settings(StateFolder(state_dir(os.environ), pipeline.name))
    check_options(pipeline, settings)
    topics = [] if offline else _topics(pipeline, settings)
    columns = {} if quick else _columns(pipeline, settings, output)
    if output.is_json:
        output.json_line(facts_of(pipeline, topics, columns))
    else:
        for line in lines_of(pipeline, topics, columns, for_people=output.is_for_people):
            click.echo(line)
    _refuse_missing(topics)


def lines_of(
    pipeline: "Pipeline",
    topics: "list[TopicPlan]",
    columns: dict[str, dict[str, str]],
    *,
    for_people: bool,
) -> list[str]:
    """The plan, for people."""
    from ottla.pipeline.graph import described, stages

    lines = [f"{pipeline.name} · {counted(len(pipeline.steps), 'step')}"]
    for step in (step for stage in stages(pipeline.steps) for step in stage):
        reads = " + ".join(described(source) for source in step.sources)
        lines += ["", f"{reads} ─▶ {step.name} ─▶ {', '.join(step.sink.topics)}"]
        lines += [f"  {name:<12} {text}" for name, text in _details(pipeline, step).items()]
        if step.name in columns:
            written = {n: kind for n, kind in columns[step.name].items() if not n.startswith("_")}
            shown = ", ".join(f"{name} {kind}" for name, kind in written.items())
            lines.append(f"  {'columns':<12} {shown}")
    if topics:
        lines += ["", *table(_TOPIC_COLUMNS, map(_topic_row, topics), for_people=for_people)]
    return lines


def facts_of(
    pipeline: "Pipeline", topics: "list[TopicPlan]", columns: dict[str, dict[str, str]]
) -> dict[str, object]:
    """The plan, for programs."""
    from ottla.pipeline.graph import described, stages

    return {
        "pipeline": pipeline.name,
        "steps": [
            {
                "step": step.name,
                "sources": [described(source) for source in step.sources],
                "sinks": list(step.sink.topics),
                "dead_letter": step.dead_letter,
                "mode": step.sink.mode,
                "delivery": step.sink.delivery,
                "group": pipeline.group_of(step),
                "columns": columns.get(step.name),
            }
            for stage in stages(pipeline.steps)
            for step in stage
        ],
        "topics": [
            {
                "topic": plan.name,
                "partitions": plan.partition_count,
                "readers": list(plan.readers),
                "writers": list(plan.writers),
            }
            for plan in topics
        ],
    }


_TOPIC_COLUMNS = ("topic", "partitions", "written by", "read by")


def _topic_row(plan: "TopicPlan") -> tuple[object, ...]:
    count: object = plan.partition_count
    if plan.is_missing:
        count = "MISSING"
    elif plan.is_made:
        wanted = plan.wanted_partitions
        count = "will be made" if wanted < 0 else f"will be made, {wanted}"
    return (plan.name, str(count), ", ".join(plan.writers) or None, ", ".join(plan.readers) or None)


def _details(pipeline: "Pipeline", step: "Step") -> dict[str, str]:
    details = {"delivery": step.sink.delivery, "group": pipeline.group_of(step)}
    if step.sink.mode != "append":
        details["mode"] = step.sink.mode
    if step.sink.key is not None:
        details["key"] = step.sink.key
    if step.dead_letter is not None:
        details["dead letters"] = f"{step.dead_letter}; each batch is read twice for them"
    for topic in step.topics:
        if topic.watermark is not None:
            column, delay = topic.watermark
            details["watermark"] = f"{column}, {delay}"
    return details


def _topics(pipeline: "Pipeline", settings: "RunSettings") -> "list[TopicPlan]":
    from ottla.pipeline.topics import look_up

    with Connection(settings.bootstrap, CONNECT_TIMEOUT_S).admin() as admin:
        return look_up(admin, pipeline)


def _columns(
    pipeline: "Pipeline", settings: "RunSettings", output: Output
) -> dict[str, dict[str, str]]:
    from ottla.pipeline.queries import Queries
    from ottla.pipeline.state import StateFolder, state_dir
    from ottla.spark.session import borrowed_session

    log_file = StateFolder(state_dir(os.environ), pipeline.name).log_file
    output.say("starting Spark to check the columns; --quick leaves it out")
    with borrowed_session(name=f"ottla-{pipeline.name}", master="local[1]", log_file=log_file) as s:
        queries = Queries(pipeline, settings, s)
        return {step.name: queries.columns(step) for step in pipeline.steps}


def _refuse_missing(topics: "list[TopicPlan]") -> None:
    from ottla.pipeline.topics import missing_error

    for plan in topics:
        if plan.is_missing:
            raise missing_error(plan)
