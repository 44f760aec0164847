"""States of a connection, pauses between attempts, and which node to ask."""

import pytest

from ottla.client.backoff import Backoff
from ottla.client.node_state import MOVES, ConnectPolicy, Load, NodeState, State, least_loaded

MIDDLE = 0.5
POLICY = ConnectPolicy(reconnect=Backoff(50, 1000), setup_timeout=Backoff(10_000, 30_000))


def ready_node() -> NodeState:
    node = NodeState(POLICY)
    node.connect(0, MIDDLE)
    node.connected()
    node.ready()
    return node


def test_pauses_double_up_to_the_longest() -> None:
    backoff = Backoff(100, 1000)
    assert [backoff.delay_ms(n, MIDDLE) for n in range(7)] == [0, 100, 200, 400, 800, 1000, 1000]


def test_pauses_vary_by_a_fifth_but_never_beyond_the_longest() -> None:
    backoff = Backoff(100, 1000)
    assert (backoff.delay_ms(1, 0.0), backoff.delay_ms(1, 1.0)) == (80, 120)
    assert (backoff.delay_ms(9, 0.0), backoff.delay_ms(9, 1.0)) == (800, 1000)


def test_a_first_pause_beyond_the_longest_is_the_longest() -> None:
    assert [Backoff(5000, 1000).delay_ms(n, MIDDLE) for n in (1, 2)] == [5000, 5000]


def test_the_number_of_failures_may_be_huge() -> None:
    assert Backoff(100, 1000).delay_ms(10**9, MIDDLE) == 1000


def test_a_node_goes_from_unknown_to_ready() -> None:
    node = NodeState(POLICY)
    assert node.state is State.DISCONNECTED
    assert node.connect(5, MIDDLE) == 10_000
    assert (node.state, node.last_attempt_ms, node.is_opening) == (State.CONNECTING, 5, True)
    node.connected()
    node.authenticate()
    assert node.is_opening
    node.ready()
    assert (node.state, node.is_opening) == (State.READY, False)


def test_a_lost_node_is_left_alone_for_longer_each_time() -> None:
    node = ready_node()
    pauses = []
    for _ in range(6):
        node.lost(1000, MIDDLE)
        pauses.append(node.delay_ms(1000))
        node.connect(10_000, MIDDLE)
    assert pauses == [50, 100, 200, 400, 800, 1000]


def test_a_ready_connection_forgets_the_failures_before_it() -> None:
    node = ready_node()
    for _ in range(3):
        node.lost(0, MIDDLE)
        node.connect(9000, MIDDLE)
    node.connected()
    node.ready()
    node.lost(20_000, MIDDLE)
    assert node.delay_ms(20_000) == 50


def test_connecting_may_take_longer_after_failures() -> None:
    node = NodeState(POLICY)
    times = []
    for n in range(4):
        times.append(node.connect(n * 10_000, MIDDLE))
        node.lost(n * 10_000, MIDDLE)
    assert times == [10_000, 20_000, 30_000, 30_000]


def test_a_pause_passes_with_time() -> None:
    node = ready_node()
    node.lost(1000, MIDDLE)
    assert [node.delay_ms(t) for t in (1000, 1030, 1050, 2000)] == [50, 20, 0, 0]
    with pytest.raises(AssertionError, match="too early"):
        node.connect(1049, MIDDLE)


def test_what_we_close_ourselves_may_be_opened_at_once() -> None:
    node = ready_node()
    node.close()
    node.close()
    assert (node.state, node.delay_ms(0)) == (State.DISCONNECTED, 0)
    node.connect(0, MIDDLE)


def test_every_state_can_be_left_and_reached() -> None:
    assert set(MOVES) == set(State)
    assert set().union(*MOVES.values()) == set(State)


def test_an_illegal_move_is_noticed() -> None:
    with pytest.raises(AssertionError, match="READY"):
        NodeState(POLICY).ready()


def load(
    node_id: int, state: State, *, in_flight: int = 0, delay_ms: int = 0, attempt_ms: int = -1
) -> Load:
    return Load(node_id, state, in_flight, delay_ms, attempt_ms)


def test_the_ready_node_with_the_least_to_do_is_asked() -> None:
    loads = [
        load(1, State.READY, in_flight=3),
        load(2, State.READY, in_flight=1),
        load(3, State.CONNECTING),
        load(4, State.DISCONNECTED),
    ]
    assert least_loaded(loads, MIDDLE) == 2


def test_without_a_ready_node_one_that_is_being_connected_to_is_waited_for() -> None:
    loads = [load(1, State.DISCONNECTED), load(2, State.CHECKING_VERSIONS)]
    assert least_loaded(loads, MIDDLE) == 2


def test_otherwise_the_one_that_was_tried_longest_ago_is_tried() -> None:
    loads = [
        load(1, State.BACKING_OFF, attempt_ms=30),
        load(2, State.BACKING_OFF, attempt_ms=10),
        load(3, State.BACKING_OFF, attempt_ms=20),
    ]
    assert least_loaded(loads, MIDDLE) == 2


def test_nobody_is_asked_who_wants_to_be_left_alone() -> None:
    loads = [load(1, State.READY, delay_ms=5), load(2, State.BACKING_OFF, delay_ms=1)]
    assert least_loaded(loads, MIDDLE) is None
    assert least_loaded([], MIDDLE) is None


def test_among_equals_it_is_a_matter_of_luck() -> None:
    loads = [load(node_id, State.DISCONNECTED) for node_id in (1, 2, 3)]
    assert [least_loaded(loads, luck) for luck in (0.0, 0.4, 0.99)] == [1, 2, 3]
