"""Every example runs, against a broker in this process, and does what it says."""

import runpy
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.client.config import BOOTSTRAP_VARIABLE
from ottla.testing import TestBroker
from tests.examples.cases import CASES, PATIENCE_S, Case
from tests.kafka_cluster import OpenBroker, clear

EXAMPLES = Path(__file__).parents[2] / "examples"


def interrupt_when_done(
    case: Case, broker: TestBroker, troubles: list[BaseException], has_ended: threading.Event
) -> None:
    """Press Ctrl-C when the work is done, or when it will never be."""
    assert case.until is not None
    try:
        case.until(broker)
    except BaseException as trouble:
        troubles.append(trouble)
    while not has_ended.is_set():
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        has_ended.wait(PATIENCE_S)  # one that strikes in a destructor is lost: press once more


def run_until_done(path: Path, case: Case, broker: TestBroker) -> None:
    troubles: list[BaseException] = []
    has_ended = threading.Event()
    watching = threading.Thread(
        target=interrupt_when_done, args=(case, broker, troubles, has_ended)
    )
    watching.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        has_ended.set()
        watching.join()
    assert troubles == []


def test_every_example_has_a_case() -> None:
    assert sorted(path.stem for path in EXAMPLES.glob("*.py")) == sorted(CASES)


@pytest.fixture
def own_signals() -> Iterator[None]:
    """Examples set handlers as programs do; here they are taken back."""
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.usefixtures("own_signals")
@pytest.mark.parametrize("name", sorted(CASES))
def test_the_example_does_what_it_says(
    name: str,
    open_broker: OpenBroker,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    case = CASES[name]
    path = EXAMPLES / f"{name}.py"
    with open_broker({}) as broker:
        clear(broker)
        monkeypatch.setenv(BOOTSTRAP_VARIABLE, broker.bootstrap_servers)
        if case.before is not None:
            case.before(broker)
        if case.until is None:
            runpy.run_path(str(path), run_name="__main__")
        else:
            run_until_done(path, case, broker)
        if case.after is not None:
            case.after(broker)
    if case.prints is not None:
        assert capsys.readouterr().out == case.prints
