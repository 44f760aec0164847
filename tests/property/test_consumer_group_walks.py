"""Consumer groups whose members come, go, crash, dawdle and miss answers, in any order.

No partition is in two hands, nothing is forgotten by a restart, and those who do as they are told
come to rest with everything shared out.
"""

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.group.consumer.tally import Tally
from tests.consumer_group_samples import ConsumerDesk, topic_id
from tests.consumer_group_walks import NewClient, OldClient
from tests.group_samples import GROUP, TOPIC, replayed

CLIENT_COUNT = 4
LONGER_THAN_ANY_TIMEOUT_MS = 20 * 60_000

NEW_STEPS = ["report"] * 4 + ["acknowledge"] * 4 + ["lose"] * 2 + ["away", "echo", "subscribe"]
STEPS = ["act"] * 8 + ["leave", "crash", "grow", "wait", "wait", "restart"]


class Walk:
    """A desk, clients of both protocols, and what must be true of both."""

    def __init__(self, *, old_count: int = 0, **config: int) -> None:
        self.desk = ConsumerDesk({TOPIC: 3, "other": 2}, **config)
        self.new = [
            NewClient(self.desk, f"n{n}", f"static-{n}" if n % 2 else None)
            for n in range(CLIENT_COUNT - old_count)
        ]
        self.old = [OldClient(self.desk, f"o{n}") for n in range(old_count)]
        self.reader = replayed((), self.desk.config, self.desk.random)  # it only reads the log
        self.read_count = 0
        self.partition_count = 3
        self.shared_count = 0

    @property
    def clients(self) -> list[NewClient | OldClient]:
        return [*self.new, *self.old]

    def take(self, verb: str, who: int, how: int) -> None:
        client = self.clients[who]
        match verb:
            case "act" if isinstance(client, NewClient):
                self.act(client, NEW_STEPS[how % len(NEW_STEPS)])
            case "act":
                assert isinstance(client, OldClient)
                client.step()
            case "leave":
                client.leave()
            case "crash":
                client.crash()
            case "grow":
                self.partition_count = min(6, self.partition_count + 1)
                self.desk.have({TOPIC: self.partition_count, "other": 2})
            case "wait":
                self.desk.pass_time((1_000, 6_000, 25_000, 50_000)[how % 4])
            case "restart":
                self.desk.restart()
            case _:
                raise AssertionError(verb)
        self.check()

    def act(self, client: NewClient, how: str) -> None:
        match how:
            case "report":
                client.report()
            case "acknowledge":
                client.acknowledge()
            case "lose":
                client.report(is_lost=True)
            case "echo":
                client.echo()
            case "away":
                client.leave(-1 if client.instance_id is None else -2)
            case "subscribe" if not self.old:
                client.subscribe(*((TOPIC, "other") if "other" not in client.names else (TOPIC,)))
            case _:
                client.report()

    def form_classic_group(self) -> None:
        """Members of the old protocol agree among themselves, before anybody else comes."""
        for _ in range(12):
            for client in self.old:
                client.step()
                self.check()
        assert sum(len(client.owned) for client in self.old) == self.partition_count

    def check(self) -> None:
        owners = Counter(
            place for client in self.clients if client.has_a_say() for place in client.owned
        )
        assert [place for place, count in owners.items() if count > 1] == []
        self.shared_count += len(owners) > 0
        for record in self.desk.log[self.read_count :]:
            self.reader.apply(record)
        self.read_count = len(self.desk.log)
        assert self.reader.hard_state() == self.desk.machine.hard_state()
        self.check_group()

    def check_group(self) -> None:
        """What the group itself believes fits together."""
        group = self.desk.machine._consumers.groups.get(GROUP)
        if group is None:
            return
        assert GROUP not in self.desk.machine._groups, "one name, two groups"
        held = Counter(p for m in group.members.values() for p in (*m.assigned, *m.revoking))
        assert [place for place, count in held.items() if count > 1] == []
        assert group.owners.keys() == held.keys()
        targets = Counter(place for places in group.target.values() for place in places)
        assert [place for place, count in targets.items() if count > 1] == []
        assert group.target_epoch <= group.epoch
        assert all(m.epoch <= group.target_epoch for m in group.members.values())
        counted = Tally(group.members.values())
        assert group.tally.subscriptions == counted.subscriptions
        assert group.tally.votes == counted.votes

    def settle(self) -> None:
        """Everybody does as told from now on: they come to rest, and everything is shared out."""
        for _ in range(60):
            for client in self.new:
                client.acknowledge()
                self.check()
            for old in self.old:
                old.step()
                self.check()
            self.desk.pass_time(1_000)
        read = {TOPIC: self.partition_count}
        if any("other" in client.names for client in self.new):
            read["other"] = 2
        everything = {(topic_id(name), p) for name, count in read.items() for p in range(count)}
        owned = [place for client in self.clients for place in client.owned]
        assert sorted(owned) == sorted(everything)
        group = self.desk.machine._registry.find(GROUP)
        assert group is not None
        assert group.state.value == "Stable"

    def finish(self) -> None:
        """Everybody falls silent: whoever asked has been answered, and nobody is left."""
        self.desk.pass_time(LONGER_THAN_ANY_TIMEOUT_MS)
        waiting = [t for t in self.desk.versions if t not in self.desk.answers]
        assert [t for t in waiting if t not in self.desk.lost] == []
        group = self.desk.machine._registry.find(GROUP)
        assert group is None or group.state.value == "Empty"
        assert [name for name in self.desk.alarms if name[0] != "offsets"] == []


walks = st.lists(
    st.tuples(st.sampled_from(STEPS), st.integers(0, CLIENT_COUNT - 1), st.integers(0, 99)),
    min_size=5,
    max_size=60,
)


@settings(max_examples=200, deadline=None)
@given(walk=walks, interval_ms=st.sampled_from([0, 0, 5_000]))
def test_whatever_members_do_no_partition_is_in_two_hands(
    walk: list[tuple[str, int, int]], interval_ms: int
) -> None:
    world = Walk(consumer_assignment_interval_ms=interval_ms)

    for step in walk:
        world.take(*step)

    world.finish()


@settings(max_examples=200, deadline=None)
@given(walk=walks, old_count=st.integers(1, 3), is_classic_first=st.booleans())
def test_a_group_with_members_of_both_protocols_keeps_its_promises(
    walk: list[tuple[str, int, int]], old_count: int, is_classic_first: bool
) -> None:
    world = Walk(old_count=old_count)
    if is_classic_first:
        world.form_classic_group()

    for step in walk:
        world.take(*step)

    world.finish()


@pytest.mark.parametrize("old_count", [0, 2])
@pytest.mark.parametrize("seed", range(10))
def test_the_promises_hold_on_long_walks_and_members_come_to_rest(
    seed: int, old_count: int
) -> None:
    draw = random.Random(seed)
    world = Walk(old_count=old_count)
    if old_count:
        world.form_classic_group()

    for _ in range(250):
        world.take(draw.choice(STEPS), draw.randrange(CLIENT_COUNT), draw.randrange(100))

    assert world.shared_count > 50, "a walk on which nobody owns anything proves nothing"
    world.settle()
    world.finish()
