"""Partitions of a transaction that its coordinator has to know of before they are written to.

Version 1 of the protocol wants that; with version 2 there is nothing to do, and `may_write` says so
at once.  On the I/O thread.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from ottla.client.engine import Engine
from ottla.client.producer.lines import Line
from ottla.client.producer.transactions import State, Transactions, add_failure
from ottla.client.targets import transaction as transaction_target
from ottla.errors import OttlaError, raise_for_code
from ottla.wire.messages.add_partitions_to_txn import AddPartitionsToTxnResponse

if TYPE_CHECKING:
    from ottla.client.producer.pump import Pump, Stock

_ONE_TRANSACTION: Final = 3
"""AddPartitionsToTxn: what clients speak; later versions are for brokers."""


class Additions:
    """See the module's words."""

    def __init__(self, engine: Engine, machine: Transactions, stock: "Stock", pump: "Pump") -> None:
        self._engine = engine
        self._machine = machine
        self._stock = stock
        self._pump = pump
        self._adding: asyncio.Task[None] | None = None

    def may_write(self, line: Line) -> bool:
        """Whether records may be sent; if not, the coordinator is told, and the pump woken."""
        is_known = self._machine.may_write(line.tp)
        if self._machine.pending and self._adding is None:
            self._adding = self._engine.spawn("partitions of the transaction", self._add())
            self._adding.add_done_callback(self._on_added)
        return is_known

    async def stop(self) -> None:
        """Tell the coordinator of no more: the transaction is about to be aborted."""
        if self._adding is not None:
            self._adding.cancel()
            await asyncio.wait([self._adding])

    def _on_added(self, task: "asyncio.Task[None]") -> None:
        self._adding = None
        self._pump.wake()

    async def _add(self) -> None:
        machine = self._machine
        try:
            while machine.pending and machine.state is State.OPEN:
                machine.is_started = True
                answer = await self._engine.call(
                    machine.add_request(),
                    AddPartitionsToTxnResponse,
                    to=transaction_target(machine.transactional_id),
                    failure=add_failure,
                    max_version=_ONE_TRANSACTION,
                )
                raise_for_code(add_failure(answer), "partitions of the transaction")
                with self._stock.lock:
                    machine.added(answer)
        except OttlaError as error:
            machine.spoil(error)
            with self._stock.lock:
                settled = self._stock.sender.fail_all(error, with_sent=False)
            self._pump.publish(settled)
