"""Commands on the pages work as they are shown, one after the other, in a small world.

Each page gets a world of its own: a folder, a broker with the names that pages use, and files that
they mention.  What has no end, needs Spark, or runs on other machines is left out by name; other
tests run it, and `tests/unit/test_cli_docs.py` checks that it can be given like that.
"""

import io
import re
import shlex
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from itertools import takewhile
from pathlib import Path

import pytest

import ottla
from ottla.cli import main as cli
from ottla.client.config import BOOTSTRAP_VARIABLE
from tests.docs.pages import DOCS, ROOT, Shown

SHOWN = re.compile(r"^ *\$ (?:\S+/)?(ottla .+)$", re.MULTILINE)
ADDRESS = re.compile(r"[\w.]+:\d{4,5}")
SHELL = {"|", ">", ";", "&&", "#"}

ELSEWHERE = {
    "ottla serve": "has no end",
    "ottla console": "has no end",
    "ottla group watch": "has no end",
    "ottla bench": "takes long",
    "ottla mirror": "needs two clusters: tests/mirror",
    "ottla pipeline": "needs Spark: tests/spark",
    "ottla doctor": "tells of this machine",
    "ottla why pipeline": "needs Spark",
    "ottla group lag shop": "needs Spark",
    "ottla why transaction of-the-till": "its page tells of a till that is not here: tests/unit",
}
"""How a command begins that is not run here -> why."""

PAGES = [
    page
    for page in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))
    if page.name not in {"cli.md", "tutorial.md"}
]


def commands(page: Path) -> list[Shown]:
    """What is to be run of a page: the first part of pipes, without what has no end."""
    text = page.read_text("utf-8")
    found = [Shown(f[1], "", text[: f.start()].count("\n") + 1) for f in SHOWN.finditer(text)]
    return [shown for shown in found if "--follow" not in shown.command and not _left_out(shown)]


def _left_out(shown: Shown) -> bool:
    return any(re.match(rf"{start}\b", shown.command) for start in ELSEWHERE)


def words_of(command: str, servers: str) -> list[str]:
    """The arguments of a command, with the world's address in the place of any other."""
    words = takewhile(lambda word: word not in SHELL, shlex.split(command))
    return [ADDRESS.sub(servers, word) for word in words][1:]


@pytest.fixture
def world(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """The address of a broker in a folder that has what pages speak of."""
    monkeypatch.chdir(tmp_path)
    Path("orders.ndjson").write_text('{"customer": {"id": "ada"}, "amount": 5}\n' * 3, "utf-8")
    Path("plan.csv").write_text("orders,0,1\n", "utf-8")
    with ExitStack() as stack:
        broker = stack.enter_context(ottla.Broker("ottla-data", config={"num.partitions": 1}))
        servers = broker.bootstrap_servers
        monkeypatch.setenv(BOOTSTRAP_VARIABLE, servers)
        if request.param.name != "topics.md":  # which creates them
            _fill(stack, servers)
        if request.param.name == "transactions.md":
            _leave_open(stack, servers)
        if request.param.name == "log-dump.md":  # which looks at files that nobody writes to
            broker.stop()
        yield servers


def _fill(stack: ExitStack, servers: str) -> None:
    admin = stack.enter_context(ottla.Admin(servers))
    admin.create_topic("orders", partitions=4)
    admin.create_topic("bills", partitions=1)
    with ottla.Producer(servers) as producer:
        for number in range(240):
            value = b'{"id": %d}' % number
            producer.send("orders", value, key=b"table-4", partition=number % 4)
    orders = [ottla.TopicPartition("orders", partition) for partition in range(4)]
    for group in ("kitchen", "billing", "pantry"):
        admin.alter_group_offsets(group, dict.fromkeys(orders, 30))


def _leave_open(stack: ExitStack, servers: str) -> None:
    """A transaction that is open, until a command of the page ends it."""
    stack.enter_context(suppress(ottla.FencedError))  # which its producer is told
    producer = stack.enter_context(
        ottla.Producer(servers, transactional_id="kitchen", transaction_timeout_ms=600_000)
    )
    tx = stack.enter_context(producer.transaction())
    tx.send("bills", b"9.50").result(timeout=60)


@pytest.mark.parametrize(
    ("page", "world"),
    [pytest.param(page, page, id=page.name) for page in PAGES if commands(page)],
    indirect=["world"],
)
def test_commands_of_the_page_work(
    page: Path, world: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for shown in commands(page):
        monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))  # what asks is told yes
        code = cli.run(words_of(shown.command, world))
        said = capsys.readouterr()
        place = f"{page.name}:{shown.line_number}: $ {shown.command}"
        assert code == 0, f"{place}\n{said.out}{said.err}"
