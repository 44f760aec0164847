"""Producers that write, end, retry, fence each other and dawdle, while the coordinator crashes.

Requests arrive in the order they are sent: what delayed requests do to version 1 is another test.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.effects import WriteMarkers
from ottla.coordinator.txn.records import transaction_record
from ottla.coordinator.txn.transaction import (
    LAST_CLIENT_EPOCH,
    MOVES,
    NO_TIMEOUT_MS,
    Producer,
    State,
)
from ottla.errors import ErrorCode
from ottla.model import TopicPartition
from tests.txn_samples import NEW, TIMEOUT_MS, TXN, Desk

PARTITIONS = tuple(TopicPartition("t", index) for index in range(3))
CLIENT_COUNT = 3


@dataclass
class Client:
    """One producer as it sees itself; what it believes may be long out of date."""

    version: int
    producer: Producer = NEW
    grant: int = 0  # which of all grants it has
    number: int = 0  # of its transaction; each is unlike all others
    is_open: bool = False
    wants_commit: bool | None = None  # has asked, and no answer came


@dataclass
class Partition:
    """What a leader knows of producers, and how each write ended."""

    epochs: dict[int, int] = field(default_factory=dict)
    open_writes: dict[int, set[int]] = field(default_factory=dict)  # producer id -> transactions
    ended: dict[int, set[bool]] = field(default_factory=dict)  # transaction -> outcomes

    def write(self, producer: Producer, number: int) -> bool:
        if producer.epoch < self.epochs.get(producer.producer_id, -1):
            return False
        self.epochs[producer.producer_id] = producer.epoch
        self.open_writes.setdefault(producer.producer_id, set()).add(number)
        return True

    def mark(self, order: WriteMarkers) -> None:
        epoch = self.epochs.get(order.producer_id, -1)
        assert order.producer_epoch >= epoch, "a marker of the coordinator is never late"
        self.epochs[order.producer_id] = order.producer_epoch
        for number in self.open_writes.pop(order.producer_id, ()):
            self.ended.setdefault(number, set()).add(order.is_commit)


class Walk:
    """A desk, partitions, producers of one transactional id, and what must be true of them."""

    def __init__(self, first_epoch: int) -> None:
        self.desk = Desk(two_phase_commit_enable=True)
        self.clients = [Client(version) for version in (1, 2, 2)]
        self.partitions = {partition: Partition() for partition in PARTITIONS}
        self.grants = 0
        self.numbers = 0
        self.promised: set[int] = set()  # transactions whose commit was acknowledged
        self.aborted: set[int] = set()
        self.seen: list[State] = []
        if first_epoch:  # as if so many producers had come before
            self.desk.producer()
            self.age(first_epoch)

    def age(self, epoch: int) -> None:
        old = replace(self.desk.now(), producer_epoch=epoch)
        self.desk.put(old, transaction_record(TXN, old))

    def init(self, client: Client, variant: int) -> None:
        expected = client.producer if variant == 1 else NEW
        keeps = variant == 2
        response = self.desk.init(expected, enable2_pc=keeps, keep_prepared_txn=keeps)
        if response is None:
            return
        if response.error_code == ErrorCode.NONE:
            self.grants += 1
            client.grant = self.grants
            client.producer = Producer(response.producer_id, response.producer_epoch)
            client.wants_commit = None
            client.is_open = keeps and response.ongoing_txn_producer_id != -1
            client.number = self.kept_number() if client.is_open else 0

    def kept_number(self) -> int:
        """Which transaction a new producer was given to end."""
        now = self.desk.now()
        for partition in self.partitions.values():
            for number in partition.open_writes.get(now.producer_id, ()):
                return number
        return 0

    def write(self, client: Client, variant: int) -> None:
        if client.producer == NEW or client.wants_commit is not None:
            return
        partition = PARTITIONS[variant % len(PARTITIONS)]
        added = self.desk.add(client.producer, partition, version=3 if client.version == 1 else 5)
        if added != [ErrorCode.NONE]:
            return
        if client.version == 1:
            verified = self.desk.add(client.producer, partition, verify_only=True, version=4)
            assert verified == [ErrorCode.NONE]
        if not client.is_open:
            self.numbers += 1
            client.number, client.is_open = self.numbers, True
        assert self.partitions[partition].write(client.producer, client.number)

    def stray_write(self, client: Client, variant: int) -> None:
        """A version-1 write that was not announced must not get in."""
        partition = PARTITIONS[variant % len(PARTITIONS)]
        verified = self.desk.add(client.producer, partition, verify_only=True, version=4)
        if verified == [ErrorCode.NONE]:
            assert partition in self.desk.now().partitions
            assert client.producer == self.desk.now().writer

    def end(self, client: Client, variant: int) -> None:
        if not client.is_open:
            return
        if client.wants_commit is None:
            client.wants_commit = variant % 3 != 0
        response = self.desk.end(
            client.producer, is_commit=client.wants_commit, version=3 if client.version == 1 else 5
        )
        if response is None:
            return
        if response.error_code == ErrorCode.NONE:
            assert client.grant == self.grants, "a producer that was fenced has ended something"
            (self.promised if client.wants_commit else self.aborted).add(client.number)
            if client.version == 2:
                client.producer = Producer(response.producer_id, response.producer_epoch)
            client.is_open, client.wants_commit = False, None
        elif response.error_code != ErrorCode.CONCURRENT_TRANSACTIONS:
            client.is_open, client.wants_commit = False, None
            client.producer = NEW

    def mark(self, _: Client, variant: int) -> None:
        """One marker or all are written, and perhaps the report is lost."""
        for order in list(self.desk.orders):
            done = order.partitions[:1] if variant == 0 else order.partitions
            for partition in done:
                self.partitions[partition].mark(order)
            if variant != 2:
                self.desk.report(order, *done)

    def wait(self, _: Client, variant: int) -> None:
        self.desk.pass_time((100, 1000, TIMEOUT_MS + 20_000)[variant % 3])

    def crash(self, _: Client, variant: int) -> None:
        """The coordinator dies after some effects of whatever it is asked next."""
        self.desk.crash_after = variant

    def restart(self, client: Client, _: int) -> None:
        """The client forgets everything."""
        self.clients[self.clients.index(client)] = Client(client.version)

    def check(self) -> None:
        if self.desk.crash_after is not None:
            return
        assert self.desk.replayed().hard_state() == self.desk.machine.hard_state()
        if TXN not in self.desk.machine.hard_state():
            return
        now = self.desk.now()
        self.seen.append(now.state)
        assert now.is_ending == bool(self.desk.describe().topics and now.state != State.ONGOING)
        assert now.is_ending <= bool(self.desk.orders), "what is decided is carried out"
        assert now.owner.epoch <= LAST_CLIENT_EPOCH or now.is_ending
        for number, outcomes in self.outcomes():
            assert len(outcomes) == 1, f"transaction {number} was torn: {outcomes}"
            assert number not in self.promised or outcomes == {True}
            assert number not in self.aborted or outcomes == {False}

    def outcomes(self) -> Iterator[tuple[int, set[bool]]]:
        together: dict[int, set[bool]] = {}
        for partition in self.partitions.values():
            for number, outcomes in partition.ended.items():
                together.setdefault(number, set()).update(outcomes)
        yield from together.items()

    def finish(self) -> None:
        """In the end all is quiet: whatever was promised is there, and nothing is left open."""
        self.desk.crash_after = None
        self.mark(self.clients[0], 2)
        self.desk.write_markers()
        self.desk.pass_time(TIMEOUT_MS + 20_000)
        if self.desk.machine.hard_state() and self.desk.now().timeout_ms == NO_TIMEOUT_MS:
            self.desk.init()  # nothing but a new producer ends a transaction without timeout
        self.mark(self.clients[0], 2)
        self.desk.write_markers()
        self.check()
        if self.desk.machine.hard_state():
            assert self.desk.now().is_at_rest
        assert not any(p for part in self.partitions.values() for p in part.open_writes.values())
        ended = dict(self.outcomes())
        assert all(ended.get(number) in (None, {True}) for number in self.promised)


STEPS = ["init"] * 2 + ["write"] * 6 + ["end"] * 5 + ["mark"] * 4
STEPS += ["stray_write", "wait", "crash", "restart"]

steps = st.tuples(st.sampled_from(STEPS), st.integers(0, CLIENT_COUNT - 1), st.integers(0, 2))
first_epochs = st.sampled_from([0, 0, LAST_CLIENT_EPOCH - 2, LAST_CLIENT_EPOCH])


@settings(max_examples=300, deadline=None)
@given(walk=st.lists(steps, min_size=10, max_size=80), first_epoch=first_epochs)
def test_whatever_producers_do_no_transaction_is_torn(
    walk: list[tuple[str, int, int]], first_epoch: int
) -> None:
    world = Walk(first_epoch)

    for verb, who, variant in walk:
        getattr(world, verb)(world.clients[who], variant)
        world.check()

    world.finish()


def test_the_same_holds_on_long_walks() -> None:
    promised_count = 0
    seen: set[State] = set()

    for seed in range(20):
        draw = random.Random(seed)
        world = Walk(0 if seed % 2 else LAST_CLIENT_EPOCH - 3)
        for _ in range(600):
            client = world.clients[draw.randrange(CLIENT_COUNT)]
            getattr(world, draw.choice(STEPS))(client, draw.randrange(3))
            world.check()
        world.finish()
        promised_count += len(world.promised)
        seen.update(world.seen)

    assert promised_count > 60, "walks on which little is committed prove little"
    assert seen == set(MOVES) - {State.DEAD, State.PREPARE_EPOCH_FENCE}
