"""Coordinators that break a promise on purpose: the simulation has to find each of them."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace as changed
from typing import Any, TypeVar

import pytest

from ottla.broker.context import Context
from ottla.broker.dispatch import Handler, Route
from ottla.broker.flusher import AfterSync, Flusher
from ottla.broker.groups import GroupShard
from ottla.errors import ErrorCode
from ottla.testing.simulation import Simulation
from ottla.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from ottla.wire.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.registry import ApiKey
from ottla.wire.schema import replace
from tests.simulation.broker_host import Serve
from tests.simulation.group_workload import GroupWorkload

R = TypeVar("R")
Spoil = Callable[[Handler], Handler]

SEEDS = range(25)
SLOW_SYNC_MS = (40.0, 150.0)
UNANSWERED_EVERY = 10
ANSWERS_OF_COORDINATORS = (
    JoinGroupResponse,
    SyncGroupResponse,
    OffsetCommitResponse,
    OffsetFetchResponse,
)


class AnswersBeforeSync(Flusher):
    """Lets a coordinator answer as soon as it has decided."""

    def when_durable(self, response: R) -> "asyncio.Future[R]":
        if not isinstance(response, ANSWERS_OF_COORDINATORS):
            return super().when_durable(response)
        return done(response)

    def after_sync(self, response: R, if_failed: Callable[[R], R]) -> AfterSync[R]:
        if not isinstance(response, ANSWERS_OF_COORDINATORS):
            return super().after_sync(response, if_failed)
        return response  # type: ignore[return-value]  # which is answered as it is


def done(result: R) -> "asyncio.Future[R]":
    future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
    future.set_result(result)
    return future


async def awaited(result: Any) -> Any:
    """What a handler returned, once it is there."""
    return await result if isinstance(result, Awaitable) else result


def spoiling(key: ApiKey, spoil: Spoil) -> Serve:
    """Serve everything as it is, but one API through what `spoil` makes of its handler."""

    def serve(routes: Mapping[int, Route]) -> Mapping[int, Route]:
        route = routes[key]
        return {**routes, key: changed(route, handler=spoil(route.handler))}

    return serve


def accept_commits_of_anybody(commit: Handler) -> Handler:
    """Take every commit, whoever sent it, and in whichever generation."""

    async def handle(request: OffsetCommitRequest, context: Context) -> Any:
        shard = await context.node.groups.find(request.group_id)
        if isinstance(shard, GroupShard):
            group = shard.machine.hard_state().groups.get(request.group_id)
            if group is not None and group.leader is not None:
                request = replace(
                    request,
                    generation_id_or_member_epoch=group.generation,
                    member_id=group.leader,
                    group_instance_id=None,
                )
        return await awaited(commit(request, context))

    return handle


def give_all_to_everyone(sync: Handler) -> Handler:
    """Give each member of a generation what was meant for the first who asked."""
    firsts: dict[int, bytes] = {}

    async def handle(request: SyncGroupRequest, context: Context) -> SyncGroupResponse:
        answer: SyncGroupResponse = await awaited(sync(request, context))
        if answer.error_code:
            return answer
        first = firsts.setdefault(request.generation_id, bytes(answer.assignment))
        return replace(answer, assignment=first)

    return handle


def remember_the_first_offsets(fetch: Handler) -> Handler:
    """Answer every fetch of offsets as it was answered when there first were any."""
    firsts: dict[tuple[str, str, int], Any] = {}

    def first(group: str, topic: str, partition: Any) -> Any:
        place = (group, topic, partition.partition_index)
        if partition.committed_offset < 0:
            return firsts.get(place, partition)
        return firsts.setdefault(place, partition)

    async def handle(request: OffsetFetchRequest, context: Context) -> OffsetFetchResponse:
        answer: OffsetFetchResponse = await awaited(fetch(request, context))
        return replace(
            answer,
            groups=tuple(
                replace(
                    group,
                    topics=tuple(
                        replace(
                            topic,
                            partitions=tuple(
                                first(group.group_id, topic.name, p) for p in topic.partitions
                            ),
                        )
                        for topic in group.topics
                    ),
                )
                for group in answer.groups
            ),
        )

    return handle


def leave_some_unanswered(heartbeat: Handler) -> Handler:
    """Let some members wait forever, on a connection that stays open."""
    count = 0

    async def handle(request: HeartbeatRequest, context: Context) -> HeartbeatResponse:
        nonlocal count
        count += 1
        answer: HeartbeatResponse = await awaited(heartbeat(request, context))
        if answer.error_code == ErrorCode.NONE and count % UNANSWERED_EVERY == 0:
            await asyncio.get_running_loop().create_future()
        return answer

    return handle


def count_of_runs_with(symptoms: tuple[str, ...], least: int, **workload: Any) -> int:
    """In how many runs the judge names one of `symptoms`; looks no further than it must."""
    count = 0
    for seed in SEEDS:
        with Simulation(seed) as sim:
            wrong = "\n".join(GroupWorkload(sim, **workload).play())
        count += any(symptom in wrong for symptom in symptoms)
        if count == least:
            break
    return count


def test_a_coordinator_that_answers_before_it_has_synced_is_found() -> None:
    symptoms = ("has no offset", "went back", "two owners", "had its assignment")

    count = count_of_runs_with(
        symptoms, 2, flusher=AnswersBeforeSync, sync_delays_ms=(SLOW_SYNC_MS,)
    )

    assert count == 2


@pytest.mark.parametrize(
    ("key", "spoil", "symptom", "least"),
    [
        (ApiKey.OFFSET_COMMIT, accept_commits_of_anybody, "was accepted, though", 1),
        (ApiKey.SYNC_GROUP, give_all_to_everyone, "has two owners in generation", 1),
        (ApiKey.OFFSET_FETCH, remember_the_first_offsets, "went back to", 2),
        (ApiKey.HEARTBEAT, leave_some_unanswered, "neither answered nor hung up on", 2),
    ],
)
def test_a_coordinator_that_cheats_is_found(
    key: ApiKey, spoil: Spoil, symptom: str, least: int
) -> None:
    assert count_of_runs_with((symptom,), least, serve=spoiling(key, spoil)) == least
