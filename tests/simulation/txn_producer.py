"""A simulated transactional producer that keeps to the protocol, in either version.

It asks again, on a fresh connection, until it is answered; it never commits what was not
acknowledged to the last batch.  With version 1 nothing tells a late request of the last transaction
from one of the next, so it begins the next only when it knows how the last one ended; after batches
that were given up it needs another epoch, which version 2 gets with every end.

An error that nobody else can be blamed for is a broken promise: no rival has asked for the same
transactional id, and the transaction is not older than its timeout.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final, NoReturn

from ottla.errors import ErrorCode, TransportError
from ottla.ports import Ports
from ottla.testing.history import Outcome
from tests.simulation import txn_requests as requests
from tests.simulation.broker_clients import Spot
from tests.simulation.group_member import WatchedLink, Weather
from tests.simulation.journal import Journal
from tests.simulation.txn_ledger import Attempt, TxnLedger, Write
from tests.simulation.txn_requests import Asked, Identity

TIMEOUT_MS: Final = 2_000
"""After which the broker aborts a transaction."""
PAUSE_S: Final = (0.005, 0.08)
PATIENCE: Final = (1, 1, 4, 40)
"""How often a batch is sent before its transaction is given up."""
GOES_ON_CHANCE: Final = 0.5
"""How often a producer of version 1 asks for the next epoch of its own (KIP-360)."""

PASSING: Final = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)
"""Nothing is wrong with the request: it is to be sent again."""


class FencedError(Exception):
    """Nothing more can be done under this producer id and epoch."""


class GaveUpError(Exception):
    """The transaction cannot be completed; it is to be aborted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """What all producers of a run share."""

    ledger: TxnLedger
    journal: Journal
    weather: Weather


class TxnProducer:
    """The producer of one process; `label` is its name among all processes of the run."""

    def __init__(
        self, ports: Ports, label: str, who: Identity, office: Office, rng: Random
    ) -> None:
        self._label = label
        self._node = label.partition(".")[0]
        self._who = who
        self._clock = ports.clock
        self._office = office
        self._rng = rng
        # As real producers do, it speaks to the coordinators on other connections than to leaders.
        self._desk = self._link(ports, f"{label}/desk")
        self._line = self._link(ports, f"{label}/line")
        self._sequences: Counter[Spot] = Counter()
        self._added: set[Spot] = set()
        self._has_asked = False
        self._has_given_up = False
        self._attempt: Attempt | None = None

    def _link(self, ports: Ports, name: str) -> WatchedLink:
        return WatchedLink(ports, name, self._office.journal, self._office.weather, self._rng)

    @property
    def attempt(self) -> Attempt:
        assert self._attempt is not None, f"{self._label} has begun no transaction"
        return self._attempt

    async def init(self) -> None:
        """Become the producer of the transactional id; all before are fenced."""
        self._who = replace(self._who, producer_id=requests.NOBODY, epoch=requests.NOBODY)
        claims = self._office.ledger.claims_of(self._who.transactional_id)
        claims.ask(self._label)
        answer = await self._insist("init", requests.init(self._who, TIMEOUT_MS, self._rng), _code)
        claims.answer(self._label)
        self._become(answer.producer_id, answer.producer_epoch)

    def _become(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self._who.producer_id, self._who.epoch):
            self._sequences.clear()
        self._who = replace(self._who, producer_id=producer_id, epoch=epoch)

    def begin(self) -> Attempt:
        """Begin a transaction: the broker hears of it with the first batch."""
        assert self._attempt is None, f"{self._label} has a transaction open"
        self._attempt = self._office.ledger.begin(self._label, self._clock.now_ms())
        self._added = set()
        self._has_asked = False
        self._has_given_up = False
        return self._attempt

    # Batches

    async def write(self, rounds: list[Mapping[Spot, tuple[str, ...]]]) -> None:
        """Send several requests, one behind the other, and wait until all are acknowledged.

        Raises `GaveUpError` if that takes too long.
        """
        self._has_asked = True
        spots = sorted({spot for values in rounds for spot in values})
        if self._who.version == 1 and (missing := [s for s in spots if s not in self._added]):
            asked = requests.add_partitions(self._who, missing)
            await self._insist("add", asked, requests.added_error)
            self._added.update(missing)
        counts = Counter(spot for values in rounds for spot in values)
        sends = [
            [self._new_write(spot, values, counts[spot]) for spot, values in sorted(each.items())]
            for each in rounds
        ]
        for _ in range(self._rng.choice(PATIENCE)):
            await self._send(sends)
            sends = [[write for write in each if not write.is_acknowledged] for each in sends]
            sends = [each for each in sends if each]
            if not sends:
                return
            await self._pause()
        self._give_up()

    def _new_write(self, spot: Spot, values: tuple[str, ...], count: int) -> Write:
        write = Write(spot, values, self._sequences[spot], has_company=count > 1)
        self._sequences[spot] += len(values)
        self.attempt.writes.append(write)
        return write

    async def _send(self, sends: list[list[Write]]) -> None:
        connection = await self._line.open()
        if connection is None:
            return
        answers = []
        for writes in sends:
            batches = {write.spot: write for write in writes}
            asked = requests.produce(self._who, batches, self._clock.now_ms(), self._rng)
            try:
                answers.append((batches, connection.request(*asked)))
            except TransportError:
                break
        for batches, asked_for in answers:
            answer = await self._line.answer(asked_for)
            if answer is None:
                return
            for topic in answer.responses:
                for result in topic.partition_responses:
                    self._hear(batches[Spot(topic.name, result.index)], result)

    def _hear(self, write: Write, result: Any) -> None:
        error = ErrorCode(result.error_code)
        self._office.journal.done[f"produce {error.name}"] += 1
        if error is ErrorCode.NONE:
            write.base_offset = result.base_offset
        elif error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and write.has_company:
            # One before it failed, or both were written and a crash left only the last known.
            return
        elif error not in PASSING:
            self._refuse(f"produce to {write.spot}", error)

    # The offsets of a group

    async def commit_offsets(self, group_id: str, offsets: Mapping[Spot, int]) -> None:
        """Let a group go on from `offsets` if the transaction is committed."""
        if self._who.version == 1:
            asked = requests.add_offsets(self._who, group_id)
            await self._insist("add offsets", asked, _code)
        attempt = self.attempt
        attempt.offsets.update(offsets)
        self._has_asked = True
        asked = requests.commit_offsets(self._who, group_id, offsets, attempt.label, self._rng)
        await self._insist(
            "commit offsets", asked, requests.committed_error, tries=self._rng.choice(PATIENCE)
        )

    # The end

    async def end(self, *, is_commit: bool) -> None:
        """Commit or abort, and wait until that is certain."""
        attempt = self.attempt
        assert not is_commit or attempt.is_acknowledged, f"{attempt.label} cannot be committed"
        if self._added if self._who.version == 1 else self._has_asked:
            await self._end(attempt, is_commit=is_commit)
        self._attempt = None
        if self._who.version == 1 and self._has_given_up:
            await self._next_epoch()

    async def _end(self, attempt: Attempt, *, is_commit: bool) -> None:
        if is_commit:
            attempt.outcome = Outcome.UNKNOWN
        is_doubtful = False
        asked = requests.end(self._who, is_commit=is_commit, rng=self._rng)
        while True:
            answer: Any = await self._desk.ask(*asked)
            error = None if answer is None else _code(answer)
            # A coordinator that fails says that it is none; maybe it has decided before.
            is_doubtful = is_doubtful or error in (None, ErrorCode.NOT_COORDINATOR)
            if error is not None and error not in PASSING:
                break
            await self._pause()
        self._office.journal.done[f"end {error.name}"] += 1
        if error is not ErrorCode.NONE:
            if is_commit and not is_doubtful:
                self._deny(attempt)
            self._refuse("commit" if is_commit else "abort", error)
        if is_commit:
            attempt.outcome = Outcome.OK
        if self._who.version == 2:
            self._become(answer.producer_id, answer.producer_epoch)

    def _deny(self, attempt: Attempt) -> None:
        """The only request to commit was refused."""
        if attempt.outcome is Outcome.OK:
            self._office.journal.violate(f"{attempt.label} was refused, and its offsets count")
        attempt.outcome = Outcome.FAILED

    async def _next_epoch(self) -> None:
        """Leave behind the batches that were given up, wherever they are."""
        if self._rng.random() < GOES_ON_CHANCE:
            asked = requests.init(self._who, TIMEOUT_MS, self._rng)
            answer: Any = await self._desk.ask(*asked)
            error = None if answer is None else _code(answer)
            if error is ErrorCode.NONE:
                self._become(answer.producer_id, answer.producer_epoch)
                return
            if error is not None and error not in PASSING:
                self._refuse("next epoch", error)
        await self.init()

    # Asking

    async def _insist(
        self,
        what: str,
        asked: Asked,
        code_of: Callable[[Any], ErrorCode],
        *,
        tries: int | None = None,
    ) -> Any:
        """Ask until the answer means something; after so many `tries`, give up."""
        count = 0
        while count != tries:
            answer = await self._desk.ask(*asked)
            error = None if answer is None else code_of(answer)
            if error is ErrorCode.NONE:
                return answer
            if error is not None and error not in PASSING:
                self._refuse(what, error)
            count += 1
            await self._pause()
        return self._give_up()

    def _give_up(self) -> NoReturn:
        self._office.journal.done["gave up"] += 1
        self._has_given_up = True
        raise GaveUpError

    def _refuse(self, what: str, error: ErrorCode) -> NoReturn:
        journal = self._office.journal
        journal.done[f"refused {error.name}"] += 1
        claims = self._office.ledger.claims_of(self._who.transactional_id)
        attempt = self._attempt
        is_late = attempt is not None and self._clock.now_ms() - attempt.begun_ms > TIMEOUT_MS
        journal.done["timed out"] += is_late
        if not is_late and not claims.has_rival(self._label):
            journal.violate(f"{self._label}: {what} was refused with {error.name} for no reason")
        raise FencedError(f"{self._label}: {what} was refused with {error.name}")

    async def nap(self) -> None:
        """Do nothing for a while, if the nemesis says so: long enough to be replaced."""
        if nap_s := self._office.weather.naps_s.pop(self._node, 0.0):
            self._office.journal.done["nap"] += 1
            await asyncio.sleep(nap_s)

    async def _pause(self) -> None:
        await asyncio.sleep(self._rng.uniform(*PAUSE_S))


def _code(answer: Any) -> ErrorCode:
    return ErrorCode(answer.error_code)
