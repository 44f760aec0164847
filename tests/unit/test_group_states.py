"""Every state of a classic group against every request: the table of Kafka's ClassicGroupState."""

import pytest

from ottla.config import HOUR_MS
from ottla.coordinator.group.classic import MOVES, State
from ottla.errors import ErrorCode
from tests.group_samples import GROUP, REBALANCE_MS, SESSION_MS, Desk, in_state

E = ErrorCode
PARKED = None  # no answer yet
EMPTY, PREPARING, COMPLETING, STABLE, DEAD = (state.value for state in State)

OK = E.NONE
GIVEN_ID = E.MEMBER_ID_REQUIRED
UNKNOWN = E.UNKNOWN_MEMBER_ID
PROTOCOL = E.INCONSISTENT_GROUP_PROTOCOL
REBALANCING = E.REBALANCE_IN_PROGRESS
GENERATION = E.ILLEGAL_GENERATION
NO_GROUP = E.GROUP_ID_NOT_FOUND
SUBSCRIBED = E.GROUP_SUBSCRIBED_TO_TOPIC
NON_EMPTY = E.NON_EMPTY_GROUP

# What each state answers: to a member of generation 1, the current one, unless the row says
# otherwise.  No answer in the table is one that comes later.
ANSWERS = {
    # request                          Empty      Preparing    Completing   Stable      Dead
    "join of a newcomer":             (GIVEN_ID,  GIVEN_ID,    GIVEN_ID,    GIVEN_ID,   GIVEN_ID),
    "join before v4":                 (OK,        PARKED,      PARKED,      PARKED,     OK),
    "join of a stranger":             (UNKNOWN,   UNKNOWN,     UNKNOWN,     UNKNOWN,    UNKNOWN),
    "join of another type":           (OK,        PROTOCOL,    PROTOCOL,    PROTOCOL,   OK),
    "join of a member":               (UNKNOWN,   OK,          OK,          OK,         UNKNOWN),
    "sync":                           (UNKNOWN,   REBALANCING, OK,          OK,         UNKNOWN),
    "sync of an old generation":      (UNKNOWN,   GENERATION,  GENERATION,  GENERATION, UNKNOWN),
    "sync of another protocol":       (UNKNOWN,   PROTOCOL,    PROTOCOL,    PROTOCOL,   UNKNOWN),
    "heartbeat":                      (UNKNOWN,   REBALANCING, OK,          OK,         UNKNOWN),
    "heartbeat of an old generation": (UNKNOWN,   GENERATION,  GENERATION,  GENERATION, UNKNOWN),
    "heartbeat of a stranger":        (UNKNOWN,   UNKNOWN,     UNKNOWN,     UNKNOWN,    UNKNOWN),
    "leave":                          (UNKNOWN,   OK,          OK,          OK,         UNKNOWN),
    "commit":                         (UNKNOWN,   OK,          REBALANCING, OK,         NO_GROUP),
    "commit before v9":               (UNKNOWN,   OK,          REBALANCING, OK,         GENERATION),
    "commit of an old generation":    (UNKNOWN,   GENERATION,  GENERATION,  GENERATION, NO_GROUP),
    "commit from outside":            (OK,        UNKNOWN,     UNKNOWN,     UNKNOWN,    OK),
    "fetch":                          (OK,        OK,          OK,          OK,         OK),
    "deletion of an offset":          (OK,        SUBSCRIBED,  SUBSCRIBED,  SUBSCRIBED, NO_GROUP),
    "deletion of the group":          (OK,        NON_EMPTY,   NON_EMPTY,   NON_EMPTY,  NO_GROUP),
}  # fmt: skip

CASES = [
    pytest.param(request, state.value, code, id=f"{state.value}-{request}".replace(" ", "-"))
    for request, codes in ANSWERS.items()
    for state, code in zip(State, codes, strict=True)
]


def error_of(desk: Desk, ticket: int) -> int | None:
    answer = desk.answers.get(ticket)
    return None if answer is None else answer.error_code


def send(desk: Desk, request: str, member: str) -> int | None:
    """Send what the table calls `request`, and return the error code; `None` if it waits."""
    verb, _, kind = request.partition(" ")
    match verb:
        case "join":
            return error_of(desk, send_join(desk, kind, member))
        case "sync":
            name = "sticky" if kind == "of another protocol" else None
            generation = 0 if kind == "of an old generation" else 1
            return error_of(desk, desk.sync(member, generation, protocol_name=name))
        case "heartbeat":
            sender = "stranger" if kind == "of a stranger" else member
            return desk.heartbeat(sender, 0 if kind == "of an old generation" else 1)
        case "leave":
            return desk.leave(member).members[0].error_code
        case _:
            return send_about_offsets(desk, request, member)


def send_join(desk: Desk, kind: str, member: str) -> int:
    match kind:
        case "of a newcomer":
            return desk.join()
        case "before v4":
            return desk.join(version=3)
        case "of a stranger":
            return desk.join("stranger")
        case "of another type":
            return desk.join(version=3, protocol_type="connect")
        case "of a member":
            return desk.join(member)
        case _:
            raise AssertionError(kind)


def send_about_offsets(desk: Desk, request: str, member: str) -> int | None:
    match request:
        case "commit":
            return desk.commit(member_id=member, generation=1)
        case "commit before v9":
            return desk.commit(member_id=member, generation=1, version=8)
        case "commit of an old generation":
            return desk.commit(member_id=member, generation=0)
        case "commit from outside":
            return desk.commit()
        case "fetch":
            code: int = desk.fetch().error_code
            return code
        case "deletion of an offset":
            response = desk.delete_offset()
            return response.error_code or response.topics[0].partitions[0].error_code
        case "deletion of the group":
            return desk.delete_groups(GROUP)[0]
        case _:
            raise AssertionError(request)


@pytest.mark.parametrize(("request_", "state", "code"), CASES)
def test_each_state_answers_as_the_table_says(
    request_: str, state: str, code: ErrorCode | None
) -> None:
    desk, member = in_state(state)
    assert desk.describe().group_state == state

    assert send(desk, request_, member) == code


@pytest.mark.parametrize("state", [state.value for state in State])
def test_after_a_restart_a_group_is_at_rest(state: str) -> None:
    desk, member = in_state(state)

    desk.restart()

    # A first generation that was not written down never was: there is no group yet.
    rests_in = {PREPARING: STABLE, COMPLETING: DEAD}.get(state, state)
    assert desk.describe().group_state == rests_in
    if rests_in == STABLE:
        assert desk.heartbeat(member, 1) == E.NONE


def test_dead_is_final_and_every_other_state_can_be_left() -> None:
    assert MOVES[State.DEAD] == frozenset()
    assert all(MOVES[state] for state in State if state is not State.DEAD)


@pytest.mark.parametrize("verb", ["join", "sync", "heartbeat", "leave", "delete_offset"])
def test_a_group_needs_an_id(verb: str) -> None:
    desk = Desk()
    match verb:
        case "join":
            code = error_of(desk, desk.join(group_id=""))
        case "sync":
            code = error_of(desk, desk.sync("ada", 1, group_id=""))
        case "heartbeat":
            code = desk.heartbeat("ada", 1, group_id="")
        case "leave":
            code = desk.leave("ada", group_id="").error_code
        case _:
            code = desk.delete_offset(group_id="").error_code
    assert code == E.INVALID_GROUP_ID


def test_offsets_may_be_committed_without_a_group_id() -> None:
    desk = Desk()

    assert desk.commit(7, group_id="") == E.NONE
    assert desk.fetch(group_id="").committed_offset == 7


def test_a_clock_that_is_set_back_keeps_a_silent_member_for_one_more_session_only() -> None:
    desk, member_id = in_state("Stable")
    alarm = ("session", GROUP, member_id)
    del desk.alarms[alarm]  # it rings when its time has passed, whatever the clock says
    desk.now_ms -= HOUR_MS

    desk.perform(desk.machine.on_alarm(alarm, desk.now_ms))

    assert desk.alarms[alarm] == desk.now_ms + SESSION_MS
    desk.pass_time(SESSION_MS)
    assert member_id not in desk.group().members


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])
def test_a_clock_that_is_set_leaves_a_member_the_rest_of_its_session(by_ms: int) -> None:
    desk, member_id = in_state("Stable")
    desk.pass_time(SESSION_MS - 1)
    desk.heartbeat(member_id, 1)
    desk.set_clock(by_ms)

    desk.pass_time(SESSION_MS - 1)
    assert member_id in desk.group().members
    desk.pass_time(1)
    assert member_id not in desk.group().members


@pytest.mark.parametrize("by_ms", [HOUR_MS, -HOUR_MS])
def test_a_clock_that_is_set_leaves_a_newcomer_the_time_to_join(by_ms: int) -> None:
    desk = Desk(initial_rebalance_delay_ms=1_000)
    member_id, _ = desk.enter()
    until_ms, initial_until_ms = desk.group().until_ms, desk.group().initial_until_ms
    given = desk.answers[desk.join()].member_id
    pending_ms = desk.group().pending[given]

    desk.set_clock(by_ms)

    assert desk.group().until_ms == until_ms + by_ms
    assert desk.group().initial_until_ms == initial_until_ms + by_ms
    assert desk.group().pending == {given: pending_ms + by_ms}
    assert member_id in desk.group().members


def test_a_static_member_that_joins_late_waits_no_longer_than_a_rebalance_may_take() -> None:
    desk, session_ms = Desk(), 600_000
    ada = desk.answers[desk.join(instance_id="ada", session_ms=session_ms)].member_id
    desk.sync(ada, 1, {ada: b"all"})
    second = desk.join(instance_id="bob", session_ms=session_ms)
    desk.join(ada, instance_id="ada", session_ms=session_ms)
    bob = desk.answers[second].member_id
    desk.sync(ada, 2, {ada: b"p0", bob: b"p1"})
    desk.sync(bob, 2)
    newcomer, _ = desk.enter()
    desk.leave(newcomer)
    desk.pass_time(REBALANCE_MS)  # and nobody has joined

    late = desk.join(ada, instance_id="ada", session_ms=session_ms)
    assert late not in desk.answers, "bob may come, too"
    desk.pass_time(REBALANCE_MS)

    assert desk.answers[late].error_code == OK
    assert bob in desk.group().members


def test_a_group_that_is_deleted_leaves_no_alarm_behind() -> None:
    desk, _ = in_state("Empty")
    desk.join()  # it was given an id, and has not come back with it
    assert [name for name in desk.alarms if name[0] == "session"]

    assert desk.delete_groups(GROUP) == [OK]

    assert [name for name in desk.alarms if name[0] == "session"] == []
    assert desk.listed() == []
