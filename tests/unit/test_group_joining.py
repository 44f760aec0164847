"""Getting into a group: ids, static members, limits, votes, and how long anyone is waited for."""

import pytest

from ottla.config import MIB
from ottla.coordinator.effects import Persist
from ottla.coordinator.group.classic import REBALANCES_KEPT, State
from ottla.errors import ErrorCode
from ottla.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from tests.group_samples import REBALANCE_MS, SESSION_MS, Desk, in_state, pair, protocols


def test_a_newcomer_is_given_an_id_made_of_its_client_id() -> None:
    desk = Desk()

    answer = desk.answers[desk.join(client_id="billing")]

    assert answer.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert answer.member_id.startswith("billing-")
    assert len(answer.member_id) == len("billing-") + 36
    assert answer.protocol_name is None


def test_the_first_member_leads_a_generation_of_its_own_at_once() -> None:
    desk = Desk()

    ada, ticket = desk.enter()

    answer = desk.answers[ticket]
    assert (answer.generation_id, answer.leader, answer.protocol_name) == (1, ada, "range")
    assert [member.member_id for member in answer.members] == [ada]


def test_only_the_leader_hears_of_the_others() -> None:
    desk, ada, bob = pair()

    desk.join(ada, reason="new partitions")
    ticket = desk.join(bob)

    assert desk.answers[ticket].members == ()
    assert desk.answers[ticket].leader == ada


def test_the_answer_before_v7_names_a_protocol_even_when_there_is_none() -> None:
    desk = Desk()

    answer = desk.answers[desk.join("stranger", version=6)]

    assert answer.protocol_name == ""


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001])
def test_a_session_timeout_out_of_range_is_refused(session_ms: int) -> None:
    desk = Desk()

    answer = desk.answers[desk.join(session_ms=session_ms)]

    assert answer.error_code == ErrorCode.INVALID_SESSION_TIMEOUT


def test_the_session_timeout_limits_rebalances_in_v0() -> None:
    desk = Desk()

    desk.join(version=0, rebalance_ms=-1)

    assert desk.group().rebalance_timeout_ms == SESSION_MS


def test_members_vote_and_the_favorite_of_most_is_chosen() -> None:
    desk = Desk(initial_rebalance_delay_ms=100)
    tickets = [
        desk.join(version=3, spoken=protocols(*names))
        for names in (("sticky", "range"), ("range", "sticky"), ("range", "sticky", "own"))
    ]

    desk.pass_time(200)

    assert {desk.answers[ticket].protocol_name for ticket in tickets} == {"range"}


def test_one_who_shares_no_protocol_is_refused() -> None:
    desk, _ = in_state("Stable")

    answer = desk.answers[desk.join(spoken=protocols("own"))]

    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_join_without_protocols_is_refused_even_by_an_empty_group() -> None:
    desk = Desk()

    answer = desk.answers[desk.join(spoken=())]

    assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert desk.listed() == []


def test_connectors_form_groups_too() -> None:
    desk = Desk()

    worker, ticket = desk.enter(protocol_type="connect", spoken=protocols("sessioned"))
    desk.sync(worker, 1, {worker: b"tasks"}, protocol_type="connect", protocol_name="sessioned")

    assert desk.answers[ticket].protocol_type == "connect"
    assert desk.describe().members[0].member_assignment == b"tasks"


def test_a_group_has_no_more_members_than_it_may() -> None:
    desk, _, _ = pair(max_size=2)

    answer = desk.answers[desk.join()]

    assert (answer.error_code, answer.member_id) == (ErrorCode.GROUP_MAX_SIZE_REACHED, "")


def test_a_group_found_over_a_lowered_limit_loses_those_who_join_last() -> None:
    desk, ada, bob = pair()
    desk.config = type(desk.config)(max_size=1)

    desk.restart()

    assert desk.heartbeat(ada, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    first = desk.join(bob)
    second = desk.join(ada)
    assert desk.answers[second].error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert (desk.answers[first].generation_id, desk.answers[first].leader) == (3, bob)


def test_a_member_that_joins_again_from_elsewhere_gives_up_its_older_join() -> None:
    desk, ada, bob = pair()
    older = desk.join(ada, reason="new partitions")

    newer = desk.join(ada)

    assert desk.answers[older].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    desk.join(bob)
    assert desk.answers[newer].generation_id == 3


def test_a_follower_that_lost_its_answer_is_told_again() -> None:
    desk, _, bob = pair()

    answer = desk.answers[desk.join(bob)]

    assert (answer.generation_id, answer.error_code) == (2, ErrorCode.NONE)
    assert desk.describe().group_state == "Stable"


def test_a_leader_that_lost_its_answer_is_told_again_who_the_members_are() -> None:
    desk, ada = in_state("CompletingRebalance")

    answer = desk.answers[desk.join(ada)]

    assert [member.member_id for member in answer.members] == [ada]


def test_a_follower_with_a_new_subscription_sets_off_a_rebalance() -> None:
    desk, ada, bob = pair()

    desk.join(bob, spoken=protocols(topics=("orders", "refunds")), reason="subscribed to more")

    assert desk.heartbeat(ada, 2) == ErrorCode.REBALANCE_IN_PROGRESS
    last = desk.story().rebalances[-1]
    assert last.member_id == bob
    assert last.reason == "its subscription or its assignors changed: subscribed to more"


def test_the_last_rebalances_are_kept_and_no_more() -> None:
    desk, ada = in_state("Stable")

    for _ in range(REBALANCES_KEPT + 5):
        desk.join(ada)
        desk.sync(ada, desk.group().generation, {ada: b"all"})

    kept = desk.story().rebalances
    assert len(kept) == REBALANCES_KEPT
    assert kept[-1].generation_id == 1 + REBALANCES_KEPT + 5


def test_a_new_group_waits_for_others_as_long_as_others_come() -> None:
    desk = Desk(initial_rebalance_delay_ms=1000)
    tickets = [desk.join(version=3)]
    for _ in range(3):
        desk.pass_time(900)
        tickets.append(desk.join(version=3))
        assert desk.answers == {}

    desk.pass_time(2000)

    assert {desk.answers[ticket].generation_id for ticket in tickets} == {1}


def test_a_new_group_does_not_wait_longer_than_a_rebalance_may_take() -> None:
    desk = Desk(initial_rebalance_delay_ms=1000)
    first = desk.join(version=3, rebalance_ms=2500)

    for _ in range(4):
        desk.join(version=3, rebalance_ms=2500)
        desk.pass_time(624)
    assert first not in desk.answers
    desk.pass_time(4)

    assert desk.answers[first].generation_id == 1


def test_who_does_not_join_again_in_time_is_out() -> None:
    desk, ada, bob = pair()
    ticket = desk.join(ada)

    for _ in range(REBALANCE_MS // 5000):
        assert desk.heartbeat(bob, 2) == ErrorCode.REBALANCE_IN_PROGRESS
        desk.pass_time(5000)

    assert desk.answers[ticket].generation_id == 3
    assert desk.heartbeat(bob, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_leader_that_does_not_join_again_leads_no_more() -> None:
    desk, ada, bob = pair()
    ticket = desk.join(bob, spoken=protocols(topics=("refunds",)))

    desk.pass_time(SESSION_MS)

    assert desk.answers[ticket].leader == bob
    assert desk.heartbeat(ada, 2) == ErrorCode.UNKNOWN_MEMBER_ID


def test_one_that_was_given_an_id_is_waited_for_until_its_session_would_end() -> None:
    desk, ada = in_state("Stable")
    desk.join()
    ticket = desk.join(ada)

    desk.pass_time(SESSION_MS - 1)
    assert ticket not in desk.answers
    desk.pass_time(1)

    assert desk.answers[ticket].generation_id == 2


def test_a_newcomer_that_was_let_in_is_not_waited_for_forever() -> None:
    desk, ada, bob = pair(consumer_max_size=10)
    joins = desk.join(version=3, rebalance_ms=1_000_000)
    newcomer = next(m for m in desk.group().members if m not in (ada, bob))

    for _ in range(61):
        desk.heartbeat(ada, 2)
        desk.heartbeat(bob, 2)
        desk.pass_time(5000)

    assert desk.answers[joins].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert newcomer not in desk.group().members


def test_who_joins_and_never_syncs_is_out() -> None:
    desk, ada, bob = pair()
    desk.join(ada)
    desk.join(bob)
    waiting = desk.sync(bob, 3)

    for _ in range(REBALANCE_MS // 5000):
        desk.heartbeat(ada, 3)
        desk.pass_time(5000)

    assert desk.answers[waiting].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.heartbeat(ada, 3) == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.heartbeat(bob, 3) == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_heartbeat_or_a_commit_keeps_a_member_alive() -> None:
    desk, ada = in_state("Stable")

    for beat in range(10):
        desk.pass_time(SESSION_MS - 1)
        if beat % 2:
            assert desk.heartbeat(ada, 1) == ErrorCode.NONE
        else:
            assert desk.commit(beat, member_id=ada, generation=1) == ErrorCode.NONE

    desk.pass_time(SESSION_MS)
    assert desk.describe().group_state == "Empty"


def test_a_heartbeat_costs_no_alarm() -> None:
    desk, ada = in_state("Stable")
    desk.pass_time(1000)

    desk.heartbeat(ada, 1)

    assert len(desk.effects) == 1


def test_a_static_member_that_restarts_keeps_its_assignment_without_a_rebalance() -> None:
    desk = Desk()
    first = desk.answers[desk.join(instance_id="i1")]
    desk.sync(first.member_id, 1, {first.member_id: b"all"}, instance_id="i1")

    back = desk.answers[desk.join(instance_id="i1")]

    assert (back.generation_id, back.skip_assignment, back.leader) == (1, True, back.member_id)
    assert [member.member_id for member in back.members] == [back.member_id]
    assert any(isinstance(effect, Persist) for effect in desk.effects)
    assert desk.answers[desk.sync(back.member_id, 1, instance_id="i1")].assignment == b"all"


def test_a_static_leader_that_restarts_before_v9_does_not_know_that_it_leads() -> None:
    desk = Desk()
    first = desk.answers[desk.join(instance_id="i1")]
    desk.sync(first.member_id, 1, {first.member_id: b"all"})

    back = desk.answers[desk.join(instance_id="i1", version=8)]

    assert (back.leader, back.members, back.skip_assignment) == (first.member_id, (), False)


@pytest.mark.parametrize("verb", ["join", "sync", "heartbeat", "commit", "leave"])
def test_the_predecessor_of_a_static_member_is_fenced(verb: str) -> None:
    desk = Desk()
    old = desk.answers[desk.join(instance_id="i1")].member_id
    desk.sync(old, 1, {old: b"all"})
    desk.join(instance_id="i1")

    match verb:
        case "join":
            code = desk.answers[desk.join(old, instance_id="i1")].error_code
        case "sync":
            code = desk.answers[desk.sync(old, 1, instance_id="i1")].error_code
        case "heartbeat":
            code = desk.heartbeat(old, 1, instance_id="i1")
        case "commit":
            code = desk.commit(member_id=old, generation=1, instance_id="i1")
        case _:
            leaver = MemberIdentity(member_id=old, group_instance_id="i1")
            code = desk.leave(leaver).members[0].error_code

    assert code == ErrorCode.FENCED_INSTANCE_ID


def test_a_predecessor_that_waits_is_fenced_at_once() -> None:
    desk, ada = in_state("Stable")
    waiting = desk.join(instance_id="i1")
    assert waiting not in desk.answers

    successor = desk.join(instance_id="i1")

    assert desk.answers[waiting].error_code == ErrorCode.FENCED_INSTANCE_ID
    desk.join(ada)
    assert desk.answers[successor].generation_id == 2


def test_a_static_member_that_returns_before_the_assignment_starts_over() -> None:
    desk = Desk()
    desk.join(instance_id="i1")

    back = desk.answers[desk.join(instance_id="i1")]

    assert (back.generation_id, back.skip_assignment) == (2, False)


def test_a_static_member_that_brings_other_protocols_sets_off_a_rebalance() -> None:
    desk = Desk()
    old = desk.answers[desk.join(instance_id="i1", spoken=protocols("range", "sticky"))]
    desk.sync(old.member_id, 1, {old.member_id: b"all"})

    back = desk.answers[desk.join(instance_id="i1", spoken=protocols("sticky"))]

    assert (back.generation_id, back.protocol_name) == (2, "sticky")


def test_a_static_member_survives_a_rebalance_that_it_missed() -> None:
    desk = Desk()
    static = desk.answers[desk.join(instance_id="i1", session_ms=600_000)].member_id
    desk.sync(static, 1, {static: b"all"})
    newcomer, ticket = desk.enter()

    desk.pass_time(REBALANCE_MS)

    assert desk.answers[ticket].leader == newcomer
    assert {member.member_id for member in desk.answers[ticket].members} == {static, newcomer}


def test_silent_static_members_alone_hold_a_rebalance_until_their_sessions_end() -> None:
    desk = Desk()
    static = desk.answers[desk.join(instance_id="i1", session_ms=150_000)].member_id
    desk.sync(static, 1, {static: b"all"})
    newcomer, ticket = desk.enter()
    desk.leave(newcomer)

    assert desk.answers[ticket].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    desk.pass_time(2 * REBALANCE_MS)
    assert desk.describe().group_state == "PreparingRebalance"
    desk.pass_time(REBALANCE_MS)

    assert desk.describe().group_state == "Empty"


def test_an_administrator_removes_a_static_member_by_its_instance_id() -> None:
    desk = Desk()
    desk.join(instance_id="i1")

    response = desk.leave(
        MemberIdentity(member_id="", group_instance_id="i1"),
        MemberIdentity(member_id="", group_instance_id="i2"),
        MemberIdentity(member_id="stranger"),
    )

    codes = [member.error_code for member in response.members]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.UNKNOWN_MEMBER_ID]
    assert desk.describe().group_state == "Empty"


def test_leaving_before_v3_is_answered_with_one_error() -> None:
    desk, ada = in_state("Stable")

    unknown = desk.ask("leave", LeaveGroupRequest(group_id="orders-app", member_id="x"), 2)
    known = desk.ask("leave", LeaveGroupRequest(group_id="orders-app", member_id=ada), 2)

    assert desk.answers[unknown].error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.answers[known].error_code == ErrorCode.NONE


def test_one_that_was_given_an_id_may_leave_without_a_rebalance() -> None:
    desk, _ = in_state("Stable")
    pending = desk.answers[desk.join()].member_id

    assert desk.leave(pending).members[0].error_code == ErrorCode.NONE

    assert desk.describe().group_state == "Stable"


def test_a_group_that_nobody_returned_to_is_forgotten() -> None:
    desk = Desk()
    desk.join()
    assert desk.listed() == ["orders-app"]

    desk.pass_time(SESSION_MS)

    assert desk.listed() == []
    assert desk.log == []


def test_a_member_without_an_assignment_is_given_an_empty_one() -> None:
    desk, ada, bob = pair()
    desk.join(ada)
    desk.join(bob)

    waiting = desk.sync(bob, 3)
    desk.sync(ada, 3, {ada: b"all"})

    assert desk.answers[waiting].assignment == b""


@pytest.mark.parametrize("size_bytes", [MIB, MIB - 100])
def test_an_assignment_that_is_too_large_to_be_written_down_is_told_to_all(
    size_bytes: int,
) -> None:
    desk, ada, bob = pair()
    desk.join(ada)
    desk.join(bob)
    written = len(desk.log)

    waiting = [desk.sync(bob, 3), desk.sync(ada, 3, {ada: bytes(size_bytes), bob: b"p1"})]

    errors = {desk.answers[ticket].error_code for ticket in waiting}
    assert errors == {ErrorCode.UNKNOWN_SERVER_ERROR}
    assert len(desk.log) == written
    assert desk.group().state is State.PREPARING
    desk.join(ada)
    desk.join(bob)
    desk.sync(ada, 4, {ada: b"p0", bob: b"p1"})
    assert desk.answers[desk.sync(bob, 4)].assignment == b"p1"


def test_a_member_has_one_sync_at_a_time() -> None:
    desk, ada, bob = pair()
    desk.join(ada)
    desk.join(bob)
    older = desk.sync(bob, 3)

    newer = desk.sync(bob, 3)
    desk.sync(ada, 3, {ada: b"p0", bob: b"p1"})

    assert desk.answers[older].error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert desk.answers[newer].assignment == b"p1"
