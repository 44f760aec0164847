"""Every state, every request, every kind of producer: to be read beside Kafka's coordinator.

The stored producer is id 1000 in epoch 5, and `same`, `old`, `new` and `other` are what a request
shows: (1000, 5), (1000, 4), (1000, 6), (2000, 5).  `new` and `other` belong to nobody.  `lone` is a
producer that shows nothing, in InitProducerId.

Ok        success, and nothing is written down
Begin     success, with epoch 6 and nothing open
Open      success, and the transaction has a partition more
Commit    the transaction is decided; in version 2 the epoch becomes 6
Abort
Fence     CONCURRENT_TRANSACTIONS, and the open transaction is aborted with epoch 6
Busy      CONCURRENT_TRANSACTIONS: ask again
Fenced    PRODUCER_FENCED
Mapping   INVALID_PRODUCER_ID_MAPPING
State     INVALID_TXN_STATE
Abortable TRANSACTION_ABORTABLE
"""

from collections.abc import Iterator

import pytest

from ottla.coordinator.effects import Answer, Persist, WriteMarkers
from ottla.coordinator.txn.records import transaction_record
from ottla.coordinator.txn.transaction import NO_TIME_MS, Producer, State, Transaction
from ottla.errors import ErrorCode
from tests.txn_samples import NEW, P0, P1, START_MS, TIMEOUT_MS, TXN, Desk

SAME = Producer(1000, 5)
SHOWN = {
    "same": SAME,
    "old": Producer(1000, 4),
    "new": Producer(1000, 6),
    "other": Producer(2000, 5),
    "lone": NEW,
}
ERRORS = {
    ErrorCode.CONCURRENT_TRANSACTIONS: "Busy",
    ErrorCode.PRODUCER_FENCED: "Fenced",
    ErrorCode.INVALID_PRODUCER_ID_MAPPING: "Mapping",
    ErrorCode.INVALID_TXN_STATE: "State",
    ErrorCode.TRANSACTION_ABORTABLE: "Abortable",
}

COMMIT_1 = """
                same    old     new     other
Empty           State   Fenced  Fenced  Mapping
Ongoing         Commit  Fenced  Fenced  Mapping
PrepareCommit   Busy    Fenced  Fenced  Mapping
PrepareAbort    Busy    Fenced  Fenced  Mapping
CompleteCommit  Ok      Fenced  Fenced  Mapping
CompleteAbort   State   Fenced  Fenced  Mapping
"""
ABORT_1 = """
                same    old     new     other
Empty           State   Fenced  Fenced  Mapping
Ongoing         Abort   Fenced  Fenced  Mapping
PrepareCommit   Busy    Fenced  Fenced  Mapping
PrepareAbort    Busy    Fenced  Fenced  Mapping
CompleteCommit  State   Fenced  Fenced  Mapping
CompleteAbort   Ok      Fenced  Fenced  Mapping
"""
COMMIT_2 = """
                same    old     new     other
Empty           State   Fenced  Fenced  Mapping
Ongoing         Commit  Fenced  Fenced  Mapping
PrepareCommit   Busy    Busy    Busy    Busy
PrepareAbort    Busy    Busy    Busy    Busy
CompleteCommit  State   Ok      Fenced  Mapping
CompleteAbort   State   State   Fenced  Mapping
"""
ABORT_2 = """
                same    old     new     other
Empty           Abort   Fenced  Fenced  Mapping
Ongoing         Abort   Fenced  Fenced  Mapping
PrepareCommit   Busy    Busy    Busy    Busy
PrepareAbort    Busy    Busy    Busy    Busy
CompleteCommit  Abort   State   Fenced  Mapping
CompleteAbort   Abort   Ok      Fenced  Mapping
"""
ADD = """
                same    old     new     other
Empty           Open    Fenced  Fenced  Mapping
Ongoing         Open    Fenced  Fenced  Mapping
PrepareCommit   Busy    Busy    Busy    Busy
PrepareAbort    Busy    Busy    Busy    Busy
CompleteCommit  Open    Fenced  Fenced  Mapping
CompleteAbort   Open    Fenced  Fenced  Mapping
"""
VERIFY = """
                same       old     new     other
Empty           Abortable  Fenced  Fenced  Mapping
Ongoing         Ok         Fenced  Fenced  Mapping
PrepareCommit   Busy       Fenced  Fenced  Mapping
PrepareAbort    Busy       Fenced  Fenced  Mapping
CompleteCommit  Abortable  Fenced  Fenced  Mapping
CompleteAbort   Abortable  Fenced  Fenced  Mapping
"""
INIT = """
                lone    same    old     new     other
Empty           Begin   Begin   Fenced  Fenced  Fenced
Ongoing         Fence   Fence   Fenced  Fenced  Fenced
PrepareCommit   Busy    Busy    Busy    Busy    Busy
PrepareAbort    Busy    Busy    Busy    Busy    Busy
CompleteCommit  Begin   Begin   Fenced  Fenced  Fenced
CompleteAbort   Begin   Begin   Fenced  Fenced  Fenced
"""
TABLES = {
    "commit-1": COMMIT_1,
    "abort-1": ABORT_1,
    "commit-2": COMMIT_2,
    "abort-2": ABORT_2,
    "add-1": ADD,
    "add-2": ADD,
    "offsets-1": ADD,
    "verify-1": VERIFY,
    "init-1": INIT,
}


def cells() -> Iterator[tuple[str, State, str, str]]:
    for request, table in TABLES.items():
        head, *lines = table.strip().splitlines()
        for line in lines:
            name, *outcomes = line.split()
            for shown, outcome in zip(head.split(), outcomes, strict=True):
                yield request, State(name), shown, outcome


def stored(state: State, version: int) -> Transaction:
    is_open = state in (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT)
    return Transaction(
        producer_id=SAME.producer_id,
        previous_producer_id=SAME.producer_id,
        producer_epoch=SAME.epoch,
        timeout_ms=TIMEOUT_MS,
        state=state,
        partitions=frozenset({P0}) if is_open else frozenset(),
        updated_ms=START_MS,
        started_ms=NO_TIME_MS if state is State.EMPTY else START_MS,
        client_version=2 if version == 2 else 0,
    )


def ask(desk: Desk, request: str, producer: Producer) -> int:
    """The error code of the answer."""
    match request.split("-"):
        case ["init", _]:
            granted = desk.init(producer)
            assert granted is not None
            return granted.error_code
        case ["offsets", _]:
            return desk.add_offsets(producer, "four")
        case ["verify", _]:
            return only(desk.add(producer, P0, verify_only=True, version=4))
        case ["add", version]:
            return only(desk.add(producer, P1, version=3 if version == "1" else 5))
        case [verb, version]:
            wire_version = 4 if version == "1" else 5
            ended = desk.end(producer, is_commit=verb == "commit", version=wire_version)
            assert ended is not None
            return ended.error_code
        case _:
            raise AssertionError(request)


def only(codes: list[int] | None) -> int:
    assert codes is not None
    (code,) = codes
    return code


def outcome_of(desk: Desk, before: Transaction, code: int, version: int) -> str:
    """What happened, in the words of the tables."""
    persisted = [effect for effect in desk.effects if isinstance(effect, Persist)]
    now = desk.now()
    is_fence = code == ErrorCode.CONCURRENT_TRANSACTIONS and bool(persisted)
    if code != ErrorCode.NONE and not is_fence:
        assert now == before
        assert persisted == []
        return ERRORS[ErrorCode(code)]
    if not persisted:
        return "Ok"
    bump = 1 if version == 2 or is_fence or now.state is State.EMPTY else 0
    assert now.producer_epoch == before.producer_epoch + (0 if now.state is State.ONGOING else bump)
    match now.state:
        case State.EMPTY:
            assert now.started_ms == NO_TIME_MS
            return "Begin"
        case State.ONGOING:
            assert len(now.partitions) == len(before.partitions) + 1
            return "Open"
        case State.PREPARE_COMMIT:
            return "Commit"
        case State.PREPARE_ABORT | State.COMPLETE_ABORT:
            return "Fence" if is_fence else "Abort"
        case _:
            raise AssertionError(now.state)


@pytest.mark.parametrize(("request_name", "state", "shown", "outcome"), list(cells()))
def test_a_request_meets_a_state(request_name: str, state: State, shown: str, outcome: str) -> None:
    version = int(request_name[-1])
    desk, before = Desk(), stored(state, version)
    desk.put(before, transaction_record(TXN, before))

    code = ask(desk, request_name, SHOWN[shown])

    assert outcome_of(desk, before, code, version) == outcome


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_decision_is_recorded_before_anybody_hears_of_it(version: int, is_commit: bool) -> None:
    desk = Desk()
    producer = desk.producer()
    desk.add(producer, P0, P1)

    desk.end(producer, is_commit=is_commit, version=version)

    persist, answer, markers = desk.effects
    assert isinstance(persist, Persist)
    assert isinstance(answer, Answer)
    assert isinstance(markers, WriteMarkers)
    assert markers.is_commit == is_commit
    assert markers.partitions == (P0, P1)
    assert markers.transaction_version == (2 if version == 5 else 0)
    assert (markers.producer_id, markers.producer_epoch) == desk.now().writer


def test_version_2_tells_the_next_epoch_and_tells_it_again_to_a_retry() -> None:
    desk = Desk()
    producer = desk.producer()
    desk.add(producer, P0, version=5)

    ended = desk.end(producer, is_commit=True, version=5)
    desk.write_markers()
    retried = desk.end(producer, is_commit=True, version=5)

    assert ended is not None
    assert (ended.producer_id, ended.producer_epoch) == (producer.producer_id, producer.epoch + 1)
    assert retried == ended


def test_an_epoch_below_a_version_1_commit_is_a_predecessor_and_not_a_retry() -> None:
    desk = Desk()
    old = desk.producer()
    new = desk.producer()
    desk.add(new, P0)
    desk.end(new, is_commit=True)
    desk.write_markers()

    answer = desk.end(old, is_commit=True, version=5)

    assert answer is not None
    assert answer.error_code == ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize(
    ("version", "told"), [(1, "INVALID_PRODUCER_EPOCH"), (2, "PRODUCER_FENCED")]
)
def test_old_clients_are_told_of_fencing_in_words_they_know(version: int, told: str) -> None:
    desk = Desk()
    old = desk.producer()
    desk.producer()

    ended = desk.end(old, is_commit=True, version=version)
    granted = desk.init(old, version=version + 2)

    assert ended is not None
    assert granted is not None
    codes = [ended.error_code, granted.error_code, desk.add_offsets(old, "g", version=version)]
    assert [*codes, *(desk.add(old, P0, version=version) or ())] == [ErrorCode[told]] * 4


def test_without_a_transactional_id_there_is_nothing_to_coordinate() -> None:
    desk = Desk()
    ended = desk.end(SAME, is_commit=True, transactional_id="")
    granted = desk.init(transactional_id="")

    assert ended is not None
    assert granted is not None
    assert ended.error_code == granted.error_code == ErrorCode.INVALID_REQUEST
    assert desk.add(SAME, P0, transactional_id="") == [ErrorCode.INVALID_REQUEST]
    assert desk.describe("").error_code == ErrorCode.INVALID_REQUEST


def test_an_unknown_transactional_id_has_no_producer() -> None:
    desk = Desk()
    ended = desk.end(SAME, is_commit=True)

    assert ended is not None
    assert ended.error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert desk.add(SAME, P0) == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
    verified = desk.add(SAME, P0, verify_only=True, version=4)
    assert verified == [ErrorCode.INVALID_PRODUCER_ID_MAPPING]
