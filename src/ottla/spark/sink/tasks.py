"""What runs on executors: the rows of one task are written, and left for the driver to commit.

A worker process has transactional ids of its own and uses each once in a round.  In the next round
it may use them again, because no round begins before everything of the last one is ended; so their
number stays small however many batches there are.

A worker can be killed at any moment without a word, and can be late: its driver may have gone on
without it.  So a task looks, before it writes and after it, whether its round is still open, and
takes back what it wrote if not.
"""

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ottla.client.producer.producer import Producer, Transaction
from ottla.client.producer.transactions import PreparedToken
from ottla.config import MINUTE_MS
from ottla.errors import BrokerError, ConfigError, ErrorCode, UnsupportedError
from ottla.spark.sink import faults
from ottla.spark.sink.brokers import Brokers
from ottla.spark.sink.decisions import Identity, Names, Participant
from ottla.spark.sink.protocol import SupersededError
from ottla.spark.sink.rows import Rows

if TYPE_CHECKING:
    import pyarrow as pa

LONGEST_MS: Final = 15 * MINUTE_MS
"""The longest that brokers let a transaction be open, unless they are told otherwise."""
TIMEOUT: Final = "transaction.timeout.ms"
_TWO_PHASE: Final = "transaction.two.phase.commit.enable"
_NOT_ALLOWED: Final = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


class Job(NamedTuple):
    """What all tasks of a batch have in common."""

    client: Mapping[str, object]
    """Settings of the producer."""
    names: Names
    round: Identity | None
    """None where nothing is planned, so that no round can end."""
    may_wait: bool
    """Whether transactions shall wait for their driver for ever, where brokers allow it."""
    interceptors: Sequence[Any] = ()
    """Of the producer: those that trace."""


class _Worker:
    """The transactional ids of this process."""

    def __init__(self) -> None:
        self.pid = os.getpid()
        self._token = secrets.token_hex(6)
        self._used: dict[str, tuple[Identity | None, int]] = {}
        self.refused: set[str] = set()
        """Brokers, by their addresses, that know of no transactions without a timeout."""

    def next_id(self, job: Job) -> str:
        """An id that is not in use in this round."""
        sink_id = job.names.sink_id
        last_round, count = self._used.get(sink_id, (None, 0))
        index = count if last_round == job.round else 0
        self._used[sink_id] = (job.round, index + 1)
        return job.names.participant(self._token, index)


_workers: Final[list[_Worker]] = []


def _worker() -> _Worker:
    """This process's, which is not that of the process it was forked from."""
    if not _workers or _workers[-1].pid != os.getpid():
        _workers[:] = [_Worker()]
    return _workers[-1]


def write_prepared(
    job: Job, rows: Rows, batches: "Iterator[pa.RecordBatch]", partition: int
) -> Participant | None:
    """Write rows in a transaction that is left open; None if there are no rows.

    Raises:
        SupersededError: The round is over; nothing is left open.
        OttlaError: What made it fail; nothing is left open.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return None
    sink_id = job.names.sink_id
    brokers = Brokers.kept(job.client, job.names)
    _check_round(brokers, job)
    faults.at("task.begun", sink_id)
    row_count = 0
    transactional_id = _worker().next_id(job)
    with ExitStack() as stack:
        producer, tx = _begun(stack, job, transactional_id)
        for batch in chain([first], batches):
            if batch.num_rows:
                rows.send(batch, tx)
                row_count += batch.num_rows
                faults.at(f"task{partition}.among", sink_id)
        token = tx.prepare()
        faults.at(f"task{partition}.written", sink_id)
        try:
            _check_round(brokers, job)
        except BaseException:
            producer.abort(token)
            raise
    who = PreparedToken.of(token)
    identity = Identity(transactional_id, who.producer_id, who.epoch)
    return Participant(identity, partition, row_count)


def write_through(job: Job, rows: Rows, batches: "Iterator[pa.RecordBatch]") -> int:
    """Write rows at once; return how many, when all of them are acknowledged."""
    row_count = 0
    with Producer[Any, Any](config=job.client, interceptors=job.interceptors) as producer:
        for batch in batches:
            if batch.num_rows:
                rows.send(batch, producer)
                row_count += batch.num_rows
        producer.flush()
    return row_count


def drain(batches: "Iterator[pa.RecordBatch]") -> int:
    """Take all rows and drop them, for those who compute them on the way; return how many."""
    return sum(batch.num_rows for batch in batches)


def _check_round(brokers: Brokers, job: Job) -> None:
    if job.round is not None and (current := brokers.current()) != job.round:
        raise SupersededError(
            f"this task is too late: its round was that of {job.round}, and now it is {current}"
        )


def _begun(
    stack: ExitStack, job: Job, transactional_id: str
) -> tuple[Producer[Any, Any], Transaction[Any, Any]]:
    """A producer with an open transaction, which waits for ever where brokers allow it."""
    servers = str(job.client.get("bootstrap.servers"))
    worker = _worker()
    if job.may_wait and TIMEOUT not in job.client and servers not in worker.refused:
        try:
            return _opened(stack, job, {_TWO_PHASE: True}, transactional_id)
        except BrokerError as error:
            if not isinstance(error, UnsupportedError) and error.code is not _NOT_ALLOWED:
                raise
            worker.refused.add(servers)
    try:
        timeout_ms = job.client.get(TIMEOUT, LONGEST_MS)
        return _opened(stack, job, {TIMEOUT: timeout_ms}, transactional_id)
    except BrokerError as error:
        if error.code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT:
            raise
        raise ConfigError(
            f"the broker allows no transaction of {job.client.get(TIMEOUT, LONGEST_MS)} ms: set "
            f"kafka.{TIMEOUT} to its transaction.max.timeout.ms, which should be longer than a "
            "driver is ever away"
        ) from error


def _opened(
    stack: ExitStack, job: Job, more: Mapping[str, object], transactional_id: str
) -> tuple[Producer[Any, Any], Transaction[Any, Any]]:
    config = {**job.client, **more, "transactional.id": transactional_id}
    with ExitStack() as attempt:
        producer = attempt.enter_context(
            Producer[Any, Any](config=config, interceptors=job.interceptors)
        )
        tx = attempt.enter_context(producer.transaction())
        stack.push(attempt.pop_all())
    return producer, tx
