"""How the admin client asks: one broker, all brokers, the leaders of partitions, until it works.

A `Caller` lives as long as one call of a user, and all that is asked in it shares one deadline,
`default.api.timeout.ms`.  Errors that may pass are asked again.  That a topic does not exist is not
one of them here: who administers topics wants to know it now.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from ottla.client.asking import error_code_of
from ottla.client.coordinators import Coordinated
from ottla.client.engine import Engine
from ottla.client.targets import ANY, Target
from ottla.errors import (
    ConnectError,
    DeadlineError,
    ErrorCode,
    OttlaError,
    TransportError,
    UnknownTopicError,
    exception_for,
)
from ottla.model import TopicPartition
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

A = TypeVar("A")
K = TypeVar("K")
R = TypeVar("R")
T = TypeVar("T")

Topics = Mapping[str, MetadataResponseTopic]

_FIRST_THAT_CREATES_NOTHING = 4
"""Older versions of Metadata create the topics that they are asked about."""


class Caller:
    """Asks on behalf of one call; made in the loop of the engine."""

    def __init__(self, engine: Engine, *, max_retries: int | None = None) -> None:
        self.engine = engine
        self.has_doubt = False
        """Whether an attempt got no answer, and so may have been carried out all the same."""
        self._max_retries = max_retries
        self._deadline_ms = engine.now_ms() + engine.config.default_api_timeout_ms

    @property
    def left_ms(self) -> int:
        """How much time is left."""
        return max(0, self._deadline_ms - self.engine.now_ms())

    @property
    def answer_ms(self) -> int:
        """How long a broker may take for an answer: later than that nobody waits for it."""
        return min(self.left_ms, self.engine.config.request_timeout_ms)

    async def call(
        self,
        request: Any,
        answer: type[A],
        *,
        to: Target = ANY,
        failure: Callable[[A], int] = error_code_of,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> A:
        """Ask until the answer is final; what it says is for the caller to raise.

        `failure` is the error code of an answer; while it may pass, we ask again.
        """
        what = f"{type(request).__name__.removesuffix('Request')} to {to}"

        async def attempt() -> A:
            got = await self.ask(
                request, answer, to=to, min_version=min_version, max_version=max_version
            )
            if (code := failure(got)) != ErrorCode.NONE and may_pass(exception_for(code)):
                raise self._noted(exception_for(code, what))
            return got

        return await self.repeat(attempt, what=what, to=to)

    async def ask(
        self,
        request: Any,
        answer: type[A],
        *,
        to: Target = ANY,
        min_version: int | None = None,
        max_version: int | None = None,
    ) -> A:
        """Ask once, and remember if no answer came."""
        if isinstance(to, Coordinated):
            await self.engine.coordinator(to)  # whoever is not found has done nothing
        try:
            return await self.engine.ask(
                request, answer, to=to, min_version=min_version, max_version=max_version
            )
        except OttlaError as error:
            self._noted(error)
            raise

    async def repeat(
        self, attempt: Callable[[], Awaitable[T]], *, what: str, to: Target = ANY
    ) -> T:
        """Run `attempt` until it raises nothing that is retriable, or time is up."""
        return await self.engine.repeat(
            attempt, what=what, to=to, timeout_ms=self.left_ms, max_retries=self._max_retries
        )

    async def settle(
        self,
        items: Iterable[K],
        attempt: Callable[[Sequence[K]], Awaitable[Mapping[K, R | OttlaError]]],
        *,
        what: str,
        to: Target = ANY,
    ) -> dict[K, R | OttlaError]:
        """Ask about several things, and about those again whose error may pass.

        When time is up, what is left has its last error, as the cause of a `DeadlineError`.
        """
        asked = list(dict.fromkeys(items))
        pending = list(asked)
        outcomes: dict[K, R | OttlaError] = {}

        async def once() -> None:
            found = await attempt(tuple(pending))
            for item in pending:
                outcome = found[item] if item in found else _unanswered(item)
                if isinstance(outcome, OttlaError):
                    self._noted(outcome)
                outcomes[item] = outcome
            pending[:] = [item for item in pending if may_pass(outcomes[item])]
            if pending:
                trouble = outcomes[pending[0]]
                assert isinstance(trouble, OttlaError)
                raise trouble.with_traceback(None)

        if asked:
            try:
                await self.repeat(once, what=what, to=to)
            except DeadlineError as error:
                for item in pending:
                    outcomes[item] = _late(error, outcomes.get(item))
            except OttlaError as error:
                if not may_pass(error) or not all(item in outcomes for item in pending):
                    raise  # else it is the last attempt that `retries` allows
        return {item: outcomes[item] for item in asked}

    async def node_ids(self) -> list[int]:
        """Every broker that is alive, asked for now."""
        return sorted(broker.node_id for broker in (await self._metadata(())).brokers)

    async def check_brokers(self, nodes: Iterable[int]) -> None:
        """Raise `NotFoundError` for a broker that is not there, rather than wait for it."""
        strange = [node_id for node_id in nodes if node_id not in self.engine.cluster.nodes]
        if strange:
            alive = await self.node_ids()
            for node_id in strange:
                if node_id not in alive:
                    raise exception_for(
                        ErrorCode.BROKER_ID_NOT_REGISTERED,
                        f"there is no broker {node_id}, only {', '.join(map(str, alive))}",
                    )

    async def ask_nodes(
        self,
        request: Any,
        answer: type[A],
        nodes: Iterable[int] | None = None,
        *,
        min_version: int | None = None,
    ) -> dict[int, A]:
        """Put one question to several brokers at once; None: to all that are alive."""
        node_ids = await self.node_ids() if nodes is None else list(nodes)
        await self.check_brokers(node_ids)
        answers = await together(
            self.call(request, answer, to=node_id, min_version=min_version) for node_id in node_ids
        )
        return dict(zip(node_ids, answers, strict=True))

    async def topics(self, names: Collection[str] | None) -> dict[str, MetadataResponseTopic]:
        """What brokers know of topics now, errors included; None: of all topics."""
        answer = await self._metadata(names)
        return {topic.name: topic for topic in answer.topics if topic.name is not None}

    async def ask_leaders(
        self,
        partitions: Iterable[TopicPartition],
        ask: Callable[[int, Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, R]]],
        *,
        what: str,
        waits_for_leaders: bool = True,
        told: Topics | None = None,
    ) -> dict[TopicPartition, R | OttlaError]:
        """Ask each leader about its partitions, and the next one if it says that it is not.

        `ask` gets a node and its partitions.  It may raise: that is the outcome of all of them.
        `told` is what `topics` has just returned, for those who know it.
        """
        fresh = [told] if told is not None else []

        async def attempt(
            pending: Sequence[TopicPartition],
        ) -> dict[TopicPartition, R | OttlaError]:
            outcomes: dict[TopicPartition, R | OttlaError] = {}
            by_leader: dict[int, list[TopicPartition]] = {}
            topics = fresh.pop() if fresh else await self.topics({tp.topic for tp in pending})
            for tp in pending:
                leader = _leader(topics, tp, waits_for_leaders)
                if isinstance(leader, int):
                    by_leader.setdefault(leader, []).append(tp)
                else:
                    outcomes[tp] = leader
            answers = await together(
                _attempt(partial(ask, leader, asked)) for leader, asked in by_leader.items()
            )
            for asked, answer in zip(by_leader.values(), answers, strict=True):
                if isinstance(answer, OttlaError):
                    outcomes.update(dict.fromkeys(asked, answer))
                else:
                    outcomes.update(answer)
            return outcomes

        return await self.settle(partitions, attempt, what=what)

    def _noted(self, error: OttlaError) -> OttlaError:
        self.has_doubt = self.has_doubt or is_doubtful(error)
        return error

    async def _metadata(self, names: Collection[str] | None) -> MetadataResponse:
        asked = None
        if names is not None:
            asked = tuple(MetadataRequestTopic(name=name) for name in sorted(names))
        return await self.call(
            MetadataRequest(topics=asked, allow_auto_topic_creation=False),
            MetadataResponse,
            min_version=_FIRST_THAT_CREATES_NOTHING,
        )


async def together(works: Iterable[Awaitable[T]]) -> list[T]:
    """Do it all at once and wait for all of it; then raise the first error, if there is one."""
    tasks = [asyncio.ensure_future(work) for work in works]
    await asyncio.gather(*tasks, return_exceptions=True)
    return [task.result() for task in tasks]


async def _attempt(work: Callable[[], Awaitable[T]]) -> T | OttlaError:
    """What came of it; only what asking again would not mend is raised.

    It is begun in here: a task that is canceled before its first step would leave behind what was
    begun outside, and Python complains of that.
    """
    try:
        return await work()
    except OttlaError as error:
        if not error.retriable:
            raise
        return error


def may_pass(outcome: object) -> bool:
    """Whether asking again may lead to something else."""
    return (
        isinstance(outcome, OttlaError)
        and outcome.retriable
        and not isinstance(outcome, (UnknownTopicError, DeadlineError, NoLeaderError))
    )


def passing_error(codes: Iterable[int]) -> int:
    """The first of several error codes that may pass, or NONE: the `failure` of many things."""
    for code in codes:
        if code != ErrorCode.NONE and may_pass(exception_for(code)):
            return code
    return ErrorCode.NONE


def is_doubtful(error: OttlaError) -> bool:
    """Whether what was asked may have been done although this came of it."""
    if isinstance(error, TransportError):
        return not isinstance(error, ConnectError)
    return getattr(error, "code", None) is ErrorCode.REQUEST_TIMED_OUT


class NoLeaderError(ConnectError):
    """Nobody leads the partition, and the caller does not want to wait for it."""


def _leader(topics: Topics, tp: TopicPartition, waits: bool) -> int | OttlaError:
    topic = topics.get(tp.topic)
    if topic is None:
        return exception_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {tp.topic!r}")
    if topic.error_code != ErrorCode.NONE:
        return exception_for(topic.error_code, f"topic {tp.topic!r}")
    for partition in topic.partitions:
        if partition.partition_index == tp.partition:
            if partition.leader_id >= 0:
                return int(partition.leader_id)
            if not waits:
                return NoLeaderError(f"partition {tp} has no leader")
            return exception_for(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {tp} has no leader")
    return exception_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"partition {tp}")


def _unanswered(item: object) -> OttlaError:
    return exception_for(ErrorCode.UNKNOWN_SERVER_ERROR, f"the answer says nothing of {item}")


def _late(error: DeadlineError, last: object) -> DeadlineError:
    late = DeadlineError(str(error))
    late.__cause__ = last if isinstance(last, OttlaError) else error.__cause__
    return late
