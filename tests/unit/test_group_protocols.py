"""Which protocols all members of a classic group speak: kept, not found out each time."""

import random

import pytest

from ottla.coordinator.config import GroupConfig
from ottla.coordinator.group.classic import ClassicGroup
from ottla.coordinator.group.member import Member
from ottla.wire.messages.join_group import JoinGroupRequestProtocol

NAMES = ("range", "roundrobin", "sticky", "cooperative-sticky")


def protocols(*names: str) -> tuple[JoinGroupRequestProtocol, ...]:
    return tuple(JoinGroupRequestProtocol(name=name, metadata=b"") for name in names)


def a_member(member_id: str, *names: str) -> Member:
    return Member(
        member_id=member_id,
        client_id="client",
        client_host="127.0.0.1",
        rebalance_timeout_ms=60_000,
        session_timeout_ms=45_000,
        protocols=protocols(*names),
    )


def a_group(**spoken: tuple[str, ...]) -> ClassicGroup:
    group = ClassicGroup("kitchen", GroupConfig())
    group.protocol_type = "consumer"
    for member_id, names in spoken.items():
        group.add(a_member(member_id, *names))
    return group


def all_speak(group: ClassicGroup, name: str) -> bool:
    return group.supports("consumer", protocols(name))


def test_a_newcomer_that_speaks_less_leaves_less_in_common() -> None:
    group = a_group(one=("range", "sticky"))
    assert all_speak(group, "sticky")
    group.add(a_member("two", "range"))
    assert all_speak(group, "range")
    assert not all_speak(group, "sticky")


def test_when_the_one_who_spoke_less_is_gone_the_others_have_more_in_common() -> None:
    group = a_group(one=("range", "sticky"), two=("range",))
    assert not all_speak(group, "sticky")
    group.remove("two")
    assert all_speak(group, "sticky")


def test_a_member_that_joins_again_with_others_changes_what_is_common() -> None:
    group = a_group(one=("range", "sticky"), two=("range",))
    assert not all_speak(group, "sticky")
    group.change_protocols(group.members["two"], protocols("sticky", "range"))
    assert all_speak(group, "sticky")


def test_who_takes_the_place_of_another_keeps_it_and_speaks_for_itself() -> None:
    group = a_group(one=("range",), two=("range", "sticky"))
    assert not all_speak(group, "sticky")
    group.replace_member("one", a_member("new", "sticky"))
    assert list(group.members) == ["new", "two"]
    assert all_speak(group, "sticky")
    assert not all_speak(group, "range")


@pytest.mark.parametrize("seed", range(20))
def test_what_is_kept_is_what_looking_at_every_member_gives(seed: int) -> None:
    chance = random.Random(seed)
    group = a_group(first=NAMES)
    for number in range(60):
        names = tuple(chance.sample(NAMES, chance.randint(1, len(NAMES))))
        somebody = chance.choice(list(group.members))
        match chance.randrange(4):
            case 0:
                group.add(a_member(f"member-{number}", *names))
            case 1 if len(group.members) > 1:
                group.remove(somebody)
            case 2:
                group.change_protocols(group.members[somebody], protocols(*names))
            case _:
                group.replace_member(somebody, a_member(f"member-{number}", *names))
        for name in NAMES:
            is_common = all(name in member.protocol_names for member in group.members.values())
            assert all_speak(group, name) is is_common
