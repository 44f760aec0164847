"""`ottla demo pipeline`: orders, a pipeline that counts them, a `kill -9`, and the proof.

Everything is real: the broker runs in this process, the pipeline in another with Spark, and the
generator of orders keeps books of its own, with which the result is compared at the end.
"""

import json
import os
import shutil
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ottla import __version__
from ottla.cli.connection import Connection
from ottla.cli.demo import proof, shop
from ottla.cli.demo.driver import Driver, DriverError
from ottla.cli.demo.orders import TOPIC, Generator
from ottla.cli.demo.screen import Figures, Screen, screen
from ottla.cli.output import PartialError, verbose_option
from ottla.cli.typed import typed_name
from ottla.errors import NotFoundError, RetriableError
from ottla.spark.readiness import examine

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

GROUP: Final = "shop.revenue"
RESULT: Final = "revenue"
LETTERS: Final = "orders.bad"
PARTITION_COUNT: Final = 2
MIN_BATCHES: Final = 2
LOOK_INTERVAL_S: Final = 0.25
PATIENCE_S: Final = 600.0
"""How long any one thing may take: a machine that has more to do is slow, not broken."""
TIMEOUT_S: Final = 120.0
WATCH_S: Final = 10.0
TIME_PASSES_MS: Final = 60_000
"""How far ahead the closing row is: past the watermark and the last window."""


class UnprovenError(PartialError):
    """The result is not what it must be."""


@click.command("pipeline")
@click.option(
    "--seconds",
    type=click.FloatRange(min=0),
    default=WATCH_S,
    show_default=True,
    help="How long to watch it work before the kill, and again after it.",
)
@click.option("--keep", is_flag=True, help="Let the broker run on at the end, to look around.")
@verbose_option
def command(seconds: float, keep: bool) -> None:
    """Show a pipeline on Spark that is killed and counts every order once.

    \b
    Examples:
      ottla demo pipeline
      ottla demo pipeline --seconds 5 --keep
    """
    from ottla.broker.embedded import Broker

    _refuse_without_spark()
    with _sigterm_as_interrupt(), tempfile.TemporaryDirectory(prefix="ottla-demo-") as name:
        folder = Path(name)
        with Broker(folder / "data") as broker:
            connection = Connection(broker.bootstrap_servers, TIMEOUT_S)
            _introduce(connection)
            with connection.admin() as admin, connection.producer(linger_ms=20) as producer:
                admin.create_topic(TOPIC, partitions=PARTITION_COUNT)
                generator = Generator(producer)
                with screen() as shown, _messages_kept(folder):
                    _Story(connection, admin, generator, folder, shown).tell(seconds)
                _prove(connection, admin, generator)
            _say_where_to_look(connection, folder, keep)


@contextmanager
def _messages_kept(folder: Path) -> Iterator[None]:
    """If the pipeline fails, say where its messages are: the demo's folder goes with the demo."""
    try:
        yield
    except DriverError as error:
        kept = Path(tempfile.mkdtemp(prefix="ottla-demo-messages-"))
        for pattern in ("driver.err", "**/spark.log", "**/spark.out"):
            for found in folder.glob(pattern):
                shutil.copy(found, kept)
        error.add_note(f"what it said, and what Spark said, is in {kept}")
        raise


class _Story:
    """The demo from the first order to the last."""

    def __init__(
        self,
        connection: Connection,
        admin: "Admin",
        generator: Generator,
        folder: Path,
        shown: Screen,
    ) -> None:
        self._connection = connection
        self._admin = admin
        self._generator = generator
        self._folder = folder
        self._shown = shown
        self._runs: list[Driver] = []

    def tell(self, seconds: float) -> None:
        """Let it happen."""
        say = self._shown.say
        try:
            self._generator.start()
            say("orders come in; the pipeline starts, for which Spark takes some seconds")
            killed = self._run_for(seconds)
            say(f"kill -9 of the Spark driver, Python and Java (process {killed.pid})")
            killed.kill()
            say("it is started again")
            self._run_for(seconds)
            self._generator.stop()
            say("no more orders; the pipeline reads the rest")
            self._wait(lambda: lag_of(self._admin) == 0)
            self._generator.say_what_time_it_is(time.time_ns() // 1_000_000 + TIME_PASSES_MS)
            say("closing time: the last windows are written")
            self._wait(self._is_all_counted)
        finally:
            for run in self._runs:
                run.stop()

    def _run_for(self, seconds: float) -> Driver:
        """Start the pipeline, and watch it work for a while."""
        run = Driver(self._connection.bootstrap, self._folder)
        self._runs.append(run)
        self._wait(lambda: bool(run.batches))
        self._shown.say(f"process {run.pid} has written its first batch")
        until_s = time.monotonic() + seconds
        self._wait(lambda: len(run.batches) >= MIN_BATCHES and time.monotonic() >= until_s)
        return run

    def _wait(self, is_done: Callable[[], bool]) -> None:
        """Look, again and again, until it is done; what takes too long is for the proof to say."""
        pause, deadline_s = threading.Event(), time.monotonic() + PATIENCE_S
        while not is_done():
            self._runs[-1].check()
            self._generator.check()
            if time.monotonic() >= deadline_s:
                raise DriverError(f"the pipeline made no progress in {PATIENCE_S:.0f} s")
            self._shown.show(self._figures())
            pause.wait(LOOK_INTERVAL_S)

    def _figures(self) -> Figures:
        batches = [batch for run in self._runs for batch in list(run.batches)]
        return Figures(
            written=self._generator.books.written_count,
            lag=lag_of(self._admin),
            rows_in=sum(batch["rows_in"] for batch in batches),
            rows_bad=sum(batch["rows_bad"] for batch in batches),
            rows_out=sum(batch["rows_out"] for batch in batches),
            batch_count=len(batches),
            batch_ms=batches[-1]["duration_ms"] if batches else None,
        )

    def _is_all_counted(self) -> bool:
        rows = [json.loads(value) for value in proof.values_of(self._connection, RESULT)]
        counted: int = sum(row["orders"] for row in rows)
        # Orders that cannot be read are written by a query of their own, which may be behind.
        letter_count = len(proof.values_of(self._connection, LETTERS))
        books = self._generator.books
        return counted >= books.order_count and letter_count >= books.bad.total()


def lag_of(admin: "Admin") -> int:
    """How far the pipeline is behind, as any tool sees it: by its consumer group."""
    try:
        known = {lag.tp: lag.lag for lag in admin.lag(GROUP).partitions}
    except (NotFoundError, RetriableError):
        known = {}  # it has committed nothing yet
    topic = admin.describe_topic(TOPIC)
    unread = 0
    for partition in topic.partitions:
        lags = [lag for tp, lag in known.items() if tp == (TOPIC, partition.id)]
        unread += lags[0] if lags and lags[0] is not None else partition.end_offset or 0
    return unread


def _prove(connection: Connection, admin: "Admin", generator: Generator) -> None:
    revenue, letters = (proof.values_of(connection, topic) for topic in (RESULT, LETTERS))
    lines = list(proof.check(generator.books, revenue, letters, lag_of(admin)))
    click.echo(f"\n{click.style('The proof', bold=True)}")
    for line in lines:
        mark = click.style("✓", fg="green") if line.is_good else click.style("✗", fg="red")
        click.echo(f"  {mark} {line.text}")
    if not all(line.is_good for line in lines):
        raise UnprovenError("the result is not what it must be")


def _introduce(connection: Connection) -> None:
    click.echo(f"{click.style(f'Ottla {__version__}', bold=True)}: a pipeline, killed at work")
    click.echo(f"  broker    {connection.bootstrap}, in this process; any Kafka client can use it")
    click.echo("  orders    400 a second, bursts of 3,000, and 1 % that cannot be read")
    click.echo(f"  pipeline  {shop.__file__}")
    click.echo("            orders + menu ─▶ revenue ─▶ revenue, orders.bad; exactly once")
    click.echo()


def _say_where_to_look(connection: Connection, folder: Path, keep: bool) -> None:
    ottla = typed_name()
    click.echo(f"\n{click.style('Where to look next', bold=True)}")
    click.echo(f"  {shop.__file__}: the pipeline; write your own like it")
    click.echo("  docs/how-to/pipelines.md: everything a pipeline can do")
    if not keep:
        click.echo(f"  {ottla} demo pipeline --keep: leaves the broker running, to look around")
        return
    click.echo(f"  {ottla} consume revenue -b {connection.bootstrap}")
    click.echo(f"  {ottla} consume orders.bad -o json -b {connection.bootstrap}")
    click.echo(f"  {ottla} group describe {GROUP} -b {connection.bootstrap}")
    click.echo(f"  OTTLA_STATE_DIR={folder} {ottla} pipeline ledger shop")
    click.echo("Ctrl-C ends it.")
    threading.Event().wait()


@contextmanager
def _sigterm_as_interrupt() -> Iterator[None]:
    """Leave as after Ctrl-C, so that the pipeline does not outlive its demo."""

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _refuse_without_spark() -> None:
    for finding in examine(os.environ):
        if finding.is_fatal and not finding.is_good:
            error = PartialError(f"Spark cannot run here: {finding.what}: {finding.found}")
            error.add_note(finding.advice)
            raise error
