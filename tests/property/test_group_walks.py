"""Members that come, go, crash, dawdle and lie, in any order: what a group must never get wrong."""

import random
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.errors import ErrorCode
from ottla.wire.messages.join_group import JoinGroupResponse
from tests.group_samples import Desk, protocols, replayed

PARTITION_COUNT = 4
CLIENT_COUNT = 4
LONGER_THAN_ANY_TIMEOUT_MS = 20 * 60_000


@dataclass
class Client:
    """One consumer as it sees itself; what it believes may be long out of date."""

    name: str
    instance_id: str | None
    member_id: str = ""
    generation: int = -1
    join_ticket: int | None = None
    sync_ticket: int | None = None
    leads: tuple[str, ...] = ()  # whom it has to share out partitions among

    @property
    def owner(self) -> str:
        """Who owns what it was assigned: a static member stays the same under a new id."""
        return self.instance_id or self.member_id


class Walk:
    """A desk, some clients, and what must be true of both."""

    def __init__(self, delay_ms: int) -> None:
        self.desk = Desk(initial_rebalance_delay_ms=delay_ms)
        self.clients = [
            Client(f"c{n}", f"static-{n}" if n % 2 else None) for n in range(CLIENT_COUNT)
        ]
        self.owners: dict[tuple[int, int], str] = {}  # (generation, partition) -> who
        self.agreed = 0  # the newest generation that anybody has an assignment of
        self.told = 0  # the newest one that anybody was told of, by this coordinator
        self.committed: dict[int, int] = {}  # partition -> offset
        self.next_offset = 1
        self.heard_count = 0

    def join(self, client: Client, variant: int) -> None:
        client.join_ticket = self.desk.join(
            client.member_id,
            instance_id=client.instance_id,
            version=3 if variant == 3 and client.instance_id is None else 9,
            spoken=protocols("range", "sticky") if variant % 2 else protocols("range"),
            rebalance_ms=5000 if variant == 2 else 30_000,
            client_id=client.name,
        )

    def sync(self, client: Client, _: int) -> None:
        share: dict[str, list[int]] = {member_id: [] for member_id in client.leads}
        for partition in range(PARTITION_COUNT if share else 0):
            share[client.leads[partition % len(client.leads)]].append(partition)
        given = {member_id: bytes(partitions) for member_id, partitions in share.items()}
        client.sync_ticket = self.desk.sync(
            client.member_id, client.generation, given, instance_id=client.instance_id
        )

    def heartbeat(self, client: Client, _: int) -> None:
        code = self.desk.heartbeat(
            client.member_id, client.generation, instance_id=client.instance_id
        )
        self.heed(client, code)

    def commit(self, client: Client, partition: int) -> None:
        self.next_offset += 1
        code = self.desk.commit(
            self.next_offset,
            member_id=client.member_id,
            generation=client.generation,
            instance_id=client.instance_id,
            partition=partition,
        )
        if code == ErrorCode.NONE:
            self.committed[partition] = self.next_offset
            is_outsider = client.generation == -1
            assert is_outsider or client.generation >= max(self.agreed, self.told)
        self.heed(client, code)

    def leave(self, client: Client, _: int) -> None:
        self.desk.leave(client.member_id)
        client.member_id, client.generation = "", -1

    def crash(self, client: Client, _: int) -> None:
        """It restarts and remembers nothing; whatever it has asked is answered to nobody."""
        fresh = Client(client.name, client.instance_id)
        self.clients[self.clients.index(client)] = fresh

    def lose(self, client: Client, _: int) -> None:
        """An answer is lost: the group may move on while it believes in the old generation."""
        client.join_ticket = client.sync_ticket = None

    def wait(self, _: Client, variant: int) -> None:
        self.desk.pass_time((100, 4000, 9000, 40_000)[variant])

    def restart(self, _: Client, variant: int) -> None:
        if variant == 0:  # not too often
            self.desk.restart()
            self.told = 0

    def heed(self, client: Client, code: int) -> None:
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID):
            client.member_id, client.generation = "", -1

    def hear(self) -> None:
        """Clients read the answers that have come, unless they were lost on the way."""
        for answer in list(self.desk.answers.values())[self.heard_count :]:
            if isinstance(answer, JoinGroupResponse):
                self.told = max(self.told, answer.generation_id)
        self.heard_count = len(self.desk.answers)
        for client in self.clients:
            if (answer := self.desk.answers.get(client.join_ticket or 0)) is not None:
                client.join_ticket = None
                self.hear_join(client, answer)
            if (answer := self.desk.answers.get(client.sync_ticket or 0)) is not None:
                client.sync_ticket = None
                self.hear_sync(client, answer)

    def hear_join(self, client: Client, answer: Any) -> None:
        if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            client.member_id = answer.member_id
        elif answer.error_code == ErrorCode.NONE:
            client.member_id = answer.member_id
            client.generation = answer.generation_id
            client.leads = tuple(member.member_id for member in answer.members)
        self.heed(client, answer.error_code)

    def hear_sync(self, client: Client, answer: Any) -> None:
        if answer.error_code == ErrorCode.NONE:
            self.agreed = max(self.agreed, client.generation)
            for partition in answer.assignment:
                place = (client.generation, partition)
                assert self.owners.setdefault(place, client.owner) == client.owner, place
        self.heed(client, answer.error_code)

    def check(self) -> None:
        fresh = replayed(self.desk.log, self.desk.config, self.desk.random)
        assert fresh.hard_state() == self.desk.machine.hard_state()
        for partition in range(PARTITION_COUNT):
            found = self.desk.fetch(partition=partition).committed_offset
            assert found == self.committed.get(partition, -1)
        self.check_story()

    def check_story(self) -> None:
        """Every wait has an end to come, and only the last rebalance may be under way."""
        group = self.desk.describe()
        if group.group_state == "Dead":
            return
        story, now_ms = self.desk.story(), self.desk.now_ms
        assert all(awaited.until_ms >= now_ms for awaited in story.awaited), story.awaited
        assert (story.until_ms >= now_ms) == group.group_state.endswith("Rebalance")
        *earlier, last = [rebalance.ended_ms for rebalance in story.rebalances] or [now_ms]
        assert -1 not in earlier
        assert (last == -1) == group.group_state.endswith("Rebalance")

    def finish(self) -> None:
        """Everybody falls silent: whoever asked must have been answered by the end."""
        self.desk.pass_time(LONGER_THAN_ANY_TIMEOUT_MS)
        waiting = [t for t in self.desk.versions if t not in self.desk.answers]
        assert [t for t in waiting if t not in self.desk.lost] == []
        assert self.desk.describe().group_state in ("Empty", "Dead")


STEPS = ["join", "join", "join", "sync", "sync", "sync", "heartbeat", "commit", "commit"]
STEPS += ["leave", "crash", "lose", "wait", "wait", "restart"]

steps = st.tuples(
    st.sampled_from(STEPS), st.integers(0, CLIENT_COUNT - 1), st.integers(0, PARTITION_COUNT - 1)
)


@settings(max_examples=300, deadline=None)
@given(walk=st.lists(steps, min_size=10, max_size=80), delay_ms=st.sampled_from([0, 0, 3000]))
def test_whatever_members_do_the_group_keeps_its_promises(
    walk: list[tuple[str, int, int]], delay_ms: int
) -> None:
    world = Walk(delay_ms)

    for verb, who, variant in walk:
        getattr(world, verb)(world.clients[who], variant)
        world.hear()
        world.check()

    world.finish()


@pytest.mark.parametrize("seed", range(20))
def test_the_promises_hold_on_long_walks_too(seed: int) -> None:
    draw = random.Random(seed)
    world = Walk(delay_ms=0)

    for _ in range(400):
        client = world.clients[draw.randrange(CLIENT_COUNT)]
        verb = draw.choice([*STEPS, "join", "sync", "heartbeat", "lose", "commit"])
        getattr(world, verb)(client, draw.randrange(PARTITION_COUNT))
        world.hear()
        world.check()

    assert world.agreed > 0, "a walk on which nobody ever agrees proves nothing"
    world.finish()


@settings(max_examples=100, deadline=None)
@given(order=st.permutations(range(CLIENT_COUNT)), rounds=st.integers(1, 4))
def test_members_that_do_as_told_always_reach_an_assignment_of_everything(
    order: list[int], rounds: int
) -> None:
    world = Walk(delay_ms=0)

    for _ in range(rounds * 8):
        for index in order:
            client = world.clients[index]
            code = world.desk.heartbeat(client.member_id, client.generation)
            if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS):
                if client.join_ticket is None:
                    world.join(client, 0)
            elif client.sync_ticket is None:
                world.sync(client, 0)
            world.hear()
            world.check()

    group = world.desk.describe()
    assert group.group_state == "Stable"
    assert len(group.members) == CLIENT_COUNT
    shares = sorted(partition for m in group.members for partition in m.member_assignment)
    assert shares == list(range(PARTITION_COUNT))
