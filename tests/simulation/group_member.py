"""A simulated member of a consumer group: joins, reads its share, commits, and starts over.

It does what a consumer of the classic protocol does, with the faults of one: it may dawdle beyond
its session, commit for a generation that it does not know to be over, or leave.  Whatever it hears
goes into the ledger of its group.

It commits only in a generation whose assignment it has heard, as real consumers do: one that was
told of a generation and missed its assignment does not know what is its own.
"""

import asyncio
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.errors import ErrorCode, TransportError
from ottla.ports import Ports
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.simulation import group_requests as requests
from tests.simulation.broker_clients import BROKER, PORT, REQUEST_TIMEOUT_S, Consumer, Link, Spot
from tests.simulation.group_ledger import NO_OFFSET, GroupLedger
from tests.simulation.group_requests import Identity
from tests.simulation.group_sharing import (
    COOPERATIVE,
    Claim,
    decode_claim,
    decode_share,
    encode_claim,
    encode_share,
    share_out,
)
from tests.simulation.journal import Journal

METADATA_VERSION: Final = 9
CALM_PATIENCE_S: Final = 3.0
"""No rightful wait takes so long; in calm weather an answer must have come."""
LOSS_CHANCE: Final = 0.04
"""How often nobody waits for an answer, though the question was sent."""
REBALANCE_LOSS_CHANCE: Final = 0.15
"""The same of answers to a sync: who misses one believes in the generation before."""

_LATER: Final = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""Nothing is wrong with the question: it is to be asked again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """What the members of one group have in common."""

    group_id: str
    spots: tuple[Spot, ...]
    protocols: tuple[str, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int

    @property
    def is_cooperative(self) -> bool:
        """Whether it keeps partitions over a rebalance; one that speaks both, in an upgrade, may
        meet others who do not."""
        return self.protocols == (COOPERATIVE,)


@dataclass(slots=True)
class Weather:
    """What surrounds the members."""

    is_calm: bool = False
    """Nothing is broken, nor will be: whoever asks must be answered, or see the line go dead."""
    naps_s: dict[str, float] = field(default_factory=dict)
    """By the name of its node: so long a member is to do nothing at all, once."""


class WatchedLink(Link):
    """A link that loses answers in bad weather, and in calm must not be left without one."""

    def __init__(
        self, ports: Ports, name: str, journal: Journal, weather: Weather, rng: random.Random
    ) -> None:
        super().__init__(ports, name)
        self._journal = journal
        self._weather = weather
        self._rng = rng
        self.patience_s = REQUEST_TIMEOUT_S
        self.loss_chance = LOSS_CHANCE

    async def answer(self, asked: "asyncio.Future[Any]") -> Any | None:
        was_calm = self._weather.is_calm
        patience_s = CALM_PATIENCE_S if was_calm else self.patience_s
        if not was_calm and self._rng.random() < self.loss_chance:
            patience_s = self._rng.uniform(0.001, 0.02)
        try:
            async with asyncio.timeout(patience_s):
                return await asked
        except TransportError:
            pass
        except TimeoutError:
            if was_calm:
                self._journal.violate(f"{self.name} was neither answered nor hung up on")
        self.hang_up()
        return None


class Reader(Consumer):
    """Reads the partitions that are a member's, each from where the group left off."""

    @property
    def positions(self) -> Mapping[Spot, int]:
        return self._positions

    def begin(self, process: str, kept: Iterable[Spot]) -> None:
        """Go on under another name in the history, with what is kept of the partitions."""
        self.process = process
        self._positions = {spot: self._positions[spot] for spot in kept}

    def seek(self, spot: Spot, offset: int) -> None:
        self._positions[spot] = offset

    async def poll(self) -> None:
        if self._positions:
            await self._poll(max_wait_ms=self._rng.choice((0, 20, 100)))


class Member:
    """One process of a member; `label` is its name among all processes of the run."""

    def __init__(
        self,
        ports: Ports,
        label: str,
        manner: Manner,
        *,
        instance_id: str | None,
        ledger: GroupLedger,
        journal: Journal,
        weather: Weather,
        rng: random.Random,
    ) -> None:
        self._label = label
        self._node = label.partition(".")[0]
        self._manner = manner
        self._instance_id = instance_id
        self._ledger = ledger
        self._journal = journal
        self._weather = weather
        self._rng = rng
        self._clock = ports.clock
        self._link = WatchedLink(ports, label, journal, weather, rng)
        self._reader = Reader(ports, label, journal, rng)
        self._member_id = ""
        self._predecessors: frozenset[str] = frozenset()
        self._generation = -1
        self._agreed = -1  # the last generation whose assignment it has heard
        self._owned: frozenset[Spot] = frozenset()
        self._must_join = True
        self._is_fenced = False
        self._heartbeat_due_ms = 0
        self._note_count = 0
        self._stretch_count = 0

    async def work(self) -> None:
        """Take part until another process takes its place."""
        is_welcome = False
        while not self._is_fenced:
            await asyncio.sleep(self._rng.uniform(0.005, 0.06))
            if not is_welcome:
                is_welcome = await self._greet()
            elif self._must_join:
                await self._rejoin()
            else:
                await self._carry_on()
        self._journal.done["fenced"] += 1
        self._link.hang_up()

    # Membership

    async def _greet(self) -> bool:
        """See that the topic is there, and who coordinates the group."""
        topics = sorted({spot.topic for spot in self._manner.spots})
        asked = MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in topics))
        answer = await self._link.ask(asked, METADATA_VERSION)
        if answer is None or any(topic.error_code for topic in answer.topics):
            return False
        answer = await self._link.ask(*requests.find_coordinator(self._manner.group_id, self._rng))
        if answer is None:
            return False
        code, host, port = requests.coordinator_of(answer)
        if code is ErrorCode.NONE and (host, port) != (BROKER, PORT):
            self._journal.violate(f"the coordinator is at {host}:{port}")
        return code is ErrorCode.NONE

    async def _rejoin(self) -> None:
        """Join and sync; where that fails, the next turn tries again."""
        if self._reader.positions and self._rng.random() < 0.8:
            await self._commit()
        asked_of = self._ledger.coordinator()
        if not self._member_id:
            self._predecessors = self._ledger.predecessors(self._instance_id)
        self._link.patience_s = self._manner.rebalance_timeout_ms / 1000 + 0.3
        answer = await self._link.ask(*self._join_request())
        self._link.patience_s = REQUEST_TIMEOUT_S
        if answer is None:
            return
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = answer.member_id
        elif code is not ErrorCode.NONE:
            self._heed("join", code)
        else:
            self._member_id, self._generation = answer.member_id, answer.generation_id
            self._ledger.hear_of_generation(answer.generation_id, asked=asked_of)
            if self._rng.random() < 0.1:
                await self._nap()
            await self._sync(answer)

    def _join_request(self) -> requests.Asked:
        claim = Claim(self._agreed, self._owned if self._manner.is_cooperative else frozenset())
        metadata = encode_claim(self._manner.spots[0].topic, claim)
        return requests.join(
            self._identity(self._generation),
            [(protocol, metadata) for protocol in self._manner.protocols],
            session_timeout_ms=self._manner.session_timeout_ms,
            rebalance_timeout_ms=self._manner.rebalance_timeout_ms,
            rng=self._rng,
        )

    async def _sync(self, joined: Any) -> None:
        shares: dict[str, bytes] = {}
        if joined.members and not joined.skip_assignment:
            claims = {each.member_id: decode_claim(each.metadata) for each in joined.members}
            shared = share_out(joined.protocol_name, claims, self._manner.spots)
            shares = {member_id: encode_share(spots) for member_id, spots in shared.items()}
        was_replaced = self._ledger.is_replaced(self._instance_id, self._member_id)
        who = self._identity(joined.generation_id)
        self._link.loss_chance = REBALANCE_LOSS_CHANCE
        answer = await self._link.ask(*requests.sync(who, joined.protocol_name, shares, self._rng))
        self._link.loss_chance = LOSS_CHANCE
        if answer is None:
            return
        if answer.error_code:
            self._heed("sync", ErrorCode(answer.error_code))
            return
        if was_replaced:
            self._journal.violate(f"{self._member_id} was replaced, and got an assignment")
        self._take_share(frozenset(decode_share(answer.assignment)))

    def _take_share(self, spots: frozenset[Spot]) -> None:
        self._ledger.hear_of_assignment(
            generation=self._generation,
            member_id=self._member_id,
            instance_id=self._instance_id,
            predecessors=self._predecessors,
            spots=tuple(sorted(spots)),
        )
        # Who missed a generation may find that others have read on meanwhile, and begins anew.
        keeps = self._manner.is_cooperative and self._generation <= self._agreed + 1
        kept = self._owned & spots & self._reader.positions.keys() if keeps else frozenset[Spot]()
        let_go = self._owned - spots
        self._agreed, self._owned = self._generation, spots
        self._must_join = self._manner.is_cooperative and bool(let_go)
        self._stretch_count += 1
        self._reader.begin(f"{self._label}/{self._stretch_count}", sorted(kept))
        self._heartbeat_due_ms = self._clock.now_ms()

    async def _carry_on(self) -> None:
        """Read and commit, and say so; one that has slept may commit before it hears the news."""
        if self._rng.random() < 0.15:
            await self._commit()
        if self._clock.now_ms() >= self._heartbeat_due_ms:
            await self._beat()
        if self._must_join:
            return
        if missing := self._owned - self._reader.positions.keys():
            await self._find_positions(sorted(missing))
        await self._reader.poll()
        await self._nap()
        if self._rng.random() < 0.4:
            await self._commit()
        if self._instance_id is None and not self._weather.is_calm and self._rng.random() < 0.02:
            await self._leave()

    async def _beat(self) -> None:
        answer = await self._link.ask(
            *requests.heartbeat(self._identity(self._generation), self._rng)
        )
        if answer is not None:
            self._heartbeat_due_ms = self._clock.now_ms() + self._manner.session_timeout_ms // 4
            self._heed("heartbeat", ErrorCode(answer.error_code))

    async def _leave(self) -> None:
        answer = await self._link.ask(*requests.leave(self._identity(self._generation), self._rng))
        if answer is not None:
            self._journal.done["left"] += 1
            self._lose_everything()
            self._member_id = ""

    # Offsets

    async def _find_positions(self, spots: list[Spot]) -> None:
        asked_at = self._ledger.now()
        answer = await self._link.ask(
            *requests.fetch_offsets(self._manner.group_id, spots, self._rng)
        )
        if answer is None:
            return
        code, offsets = requests.offsets_of(answer)
        if code is not ErrorCode.NONE:
            self._heed("offset fetch", code)
            return
        for spot in spots:
            offset, note = offsets[spot]
            self._ledger.hear_of_offset(spot, offset, note, asked_at=asked_at)
            self._reader.seek(spot, 0 if offset == NO_OFFSET else offset)

    async def _commit(self) -> None:
        """Commit what was read, in the generation in which it was."""
        if not self._reader.positions:
            return
        self._note_count += 1
        note = f"{self._label}-{self._note_count}"
        who, offsets = self._identity(self._agreed), dict(self._reader.positions)
        commit = self._ledger.ask_commit(
            note=note,
            member_id=self._member_id,
            instance_id=self._instance_id,
            generation=self._agreed,
            offsets=offsets,
        )
        answer = await self._link.ask(*requests.commit(who, offsets, note, self._rng))
        if answer is None:
            return
        codes = {ErrorCode(each.error_code) for each in answer.topics[0].partitions}
        if len(codes) != 1:
            self._journal.violate(f"{note} has several answers: {sorted(codes)}")
        (code, *_) = sorted(codes)
        self._ledger.hear_of_commit(commit, code)
        self._heed("commit", code)

    # Moods

    def _heed(self, what: str, code: ErrorCode) -> None:
        """Do as an answer says."""
        self._journal.done[f"{what} {code.name}"] += code is not ErrorCode.NONE
        match code:
            case ErrorCode.NONE:
                pass
            case ErrorCode.REBALANCE_IN_PROGRESS:
                self._must_join = True
            case ErrorCode.ILLEGAL_GENERATION:
                self._lose_everything()
            case ErrorCode.UNKNOWN_MEMBER_ID:
                self._lose_everything()
                self._member_id = ""
            case ErrorCode.FENCED_INSTANCE_ID if self._instance_id is not None:
                self._is_fenced = True
            case later if later in _LATER:
                pass
            case other:
                self._journal.violate(f"{what}: {other.name}")

    def _lose_everything(self) -> None:
        """Others may have its partitions already."""
        self._must_join = True
        self._generation = self._agreed = -1
        self._owned = frozenset()
        self._reader.begin(self._reader.process, ())

    async def _nap(self) -> None:
        """Sleep, if it comes over us; most then commit what they had read, as if nothing were."""
        if nap_s := self._weather.naps_s.pop(self._node, 0.0):
            self._journal.done["nap"] += 1
            await asyncio.sleep(nap_s)
            if self._rng.random() < 0.8:
                await self._commit()

    def _identity(self, generation: int) -> Identity:
        return Identity(
            group_id=self._manner.group_id,
            member_id=self._member_id,
            instance_id=self._instance_id,
            generation=generation,
        )
