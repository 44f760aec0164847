"""Brokers that break a promise about transactions: the simulation has to find each of them."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace as changed
from inspect import isawaitable
from typing import Any, Final, TypeVar

import pytest

from ottla.broker.context import Context
from ottla.broker.dispatch import Route
from ottla.broker.flusher import AfterSync, Flusher
from ottla.broker.partition import Partition
from ottla.broker.transactions import Transactions, TransactionShard
from ottla.coordinator.effects import WriteMarkers
from ottla.coordinator.txn.transaction import Producer
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from ottla.testing.simulation import Simulation
from ottla.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from ottla.wire.registry import ApiKey
from ottla.wire.schema import replace
from tests.simulation.txn_nemesis import EVERY_END, ClientFault, Trouble
from tests.simulation.txn_workload import Sabotage, TxnWorkload

R = TypeVar("R")

SEEDS: Final = range(60)
RACKS: Final = Trouble(
    faults=frozenset(),
    client_faults=frozenset({ClientFault.RACK}),
    client_pause_s=(0.3, 0.9),
    sync_delays_ms=((5.0, 20.0),),
    max_rest_s=0.01,
)
DETOURS: Final = Trouble(
    faults=frozenset(),
    client_faults=frozenset(),
    echo_chance=0.4,
    sync_delays_ms=((0.2, 4.0),),
    max_rest_s=0.05,
)
SLOW_DETOURS: Final = changed(DETOURS, sync_delays_ms=((5.0, 15.0),))
WITHOUT_VERIFICATION: Final = {"transaction.partition.verification.enable": False}

TORN: Final = ("aborted read", "lost write", "unseen", "copies, and the group", "was aborted, and")
HANGS: Final = ("hangs at",)
FORGOTTEN: Final = ("for no reason",)
"""A producer is refused in an epoch that it was given."""


class AnswersBeforeSync(Flusher):
    """Tells a producer that its transaction has ended as soon as that is decided."""

    def when_durable(self, response: R) -> "asyncio.Future[R]":
        if not isinstance(response, EndTxnResponse):
            return super().when_durable(response)
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        future.set_result(response)
        return future

    def after_sync(self, response: R, if_failed: Callable[[R], R]) -> AfterSync[R]:
        if not isinstance(response, EndTxnResponse):
            return super().after_sync(response, if_failed)
        return response  # type: ignore[return-value]  # which is answered as it is


class MarksTooSoon(TransactionShard):
    """Writes markers before the decision is durable, and once more when it is."""

    def _write_markers(self, order: WriteMarkers) -> None:
        for partition in order.partitions:
            self._mark(order, partition)
        super()._write_markers(order)


class WithHastyShards(Transactions):
    def _new_shard(self, partition: Partition) -> TransactionShard:
        return MarksTooSoon(super()._new_shard(partition).machine, partition, self._node)


class DoesNotLookAgain(Transactions):
    """Believes what the coordinator said before the wait, though much may have happened since."""

    def refusal_now(
        self, transactional_id: str, producer: Producer, partition: TopicPartition
    ) -> ErrorCode:
        return ErrorCode.NONE


async def settled(answer: Any) -> Any:
    """What a handler answers; it may do so at once."""
    return await answer if isawaitable(answer) else answer


def never_bump(routes: Mapping[int, Route]) -> Mapping[int, Route]:
    """End transactions of version 2 as those of version 1: in the same epoch as before."""
    route = routes[ApiKey.END_TXN]

    async def handle(request: EndTxnRequest, context: Context) -> Any:
        if context.version < 5:
            return await settled(route.handler(request, context))
        old = Context(context.node, context.session, 4, context.client_id)
        answer = await settled(route.handler(request, old))
        return replace(
            answer, producer_id=request.producer_id, producer_epoch=request.producer_epoch
        )

    return {**routes, ApiKey.END_TXN: changed(route, handler=handle)}


@pytest.mark.parametrize(
    ("sabotage", "versions", "trouble", "symptoms"),
    [
        pytest.param(
            Sabotage(transactions=WithHastyShards),
            (1, 2),
            RACKS,
            TORN,
            id="markers are written before the decision is durable",
        ),
        pytest.param(
            Sabotage(flusher=AnswersBeforeSync),
            (1, 2),
            RACKS,
            (*TORN, *FORGOTTEN),
            id="an end is answered before it is durable",
        ),
        pytest.param(
            Sabotage(settings=WITHOUT_VERIFICATION),
            (1,),
            DETOURS,
            (*TORN, *HANGS),
            id="a write is not verified",
        ),
        pytest.param(
            Sabotage(transactions=DoesNotLookAgain),
            (1,),
            SLOW_DETOURS,
            (*TORN, *HANGS),
            id="nobody looks again right before the append",
        ),
        pytest.param(
            Sabotage(serve=never_bump),
            (2,),
            changed(DETOURS, echoed=EVERY_END),
            TORN,
            id="the epoch of version 2 is not bumped",
        ),
    ],
)
def test_sabotage_of_transactions_is_found(
    sabotage: Sabotage, versions: tuple[int, ...], trouble: Trouble, symptoms: tuple[str, ...]
) -> None:
    for seed in SEEDS:
        with Simulation(seed) as sim:
            workload = TxnWorkload(sim, versions=versions, trouble=trouble, sabotage=sabotage)
            wrong = "\n".join(workload.play())
        if any(symptom in wrong for symptom in symptoms):
            return
    pytest.fail(f"none of {len(SEEDS)} runs shows {symptoms}")
