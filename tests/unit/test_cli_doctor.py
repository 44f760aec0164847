"""What `ottla doctor` makes of limits, disks, clocks and ports."""

import resource
import socket
from pathlib import Path

import pytest

from ottla.cli.doctor import machine_checks
from ottla.cli.doctor.checks import Check, fail, ok, show, warn
from ottla.cli.doctor.clock_checks import clock_check
from ottla.cli.doctor.machine_checks import GIB
from ottla.cli.output import Output, PartialError

MOUNTS = """\
/dev/sda1 / ext4 rw,relatime 0 0
tmpfs /run tmpfs rw 0 0
/dev/sdb1 /var/lib/my\\040data xfs rw 0 0
server:/export /mnt/share nfs4 rw 0 0
overlay /var/lib/docker/overlay2/x/merged overlay rw 0 0
"""


@pytest.mark.parametrize(
    ("soft", "state"),
    [(512, "fail"), (1_024, "warn"), (8_192, "ok"), (resource.RLIM_INFINITY, "ok")],
)
def test_few_files_are_not_enough_for_a_broker(soft: int, state: str) -> None:
    check = machine_checks.files(soft, resource.RLIM_INFINITY)

    assert check.state == state
    assert ("ulimit -n" in check.advice) == (state != "ok")


@pytest.mark.parametrize(
    ("free_bytes", "state"), [(GIB // 2, "fail"), (5 * GIB, "warn"), (50 * GIB, "ok")]
)
def test_a_disk_needs_room(free_bytes: int, state: str) -> None:
    assert machine_checks.room(Path("/data"), free_bytes).state == state


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/home/ada", "ext4"),
        ("/run/ottla", "tmpfs"),
        ("/var/lib/my data/ottla", "xfs"),
        ("/mnt/share", "nfs4"),
        ("/mnt/shared", "ext4"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(folder: str, kind: str) -> None:
    assert machine_checks.kind_of(Path(folder), MOUNTS) == kind


def test_where_no_mounts_are_listed_the_kind_is_not_known() -> None:
    assert machine_checks.kind_of(Path("/data"), "") is None


@pytest.mark.parametrize(
    ("kind", "state", "word"),
    [
        ("ext4", "ok", ""),
        ("xfs", "ok", ""),
        ("tmpfs", "warn", "restart"),
        ("overlay", "warn", "volume"),
        ("nfs4", "warn", "disk of this machine"),
    ],
)
def test_a_file_system_that_forgets_or_lies_is_pointed_out(
    kind: str, state: str, word: str
) -> None:
    check = machine_checks.file_system(kind)

    assert check.state == state
    assert word in check.advice


def test_a_disk_that_syncs_slowly_is_pointed_out() -> None:
    assert machine_checks.sync_speed(0.004, 0.1).state == "ok"
    slow = machine_checks.sync_speed(0.050, 0.2)
    assert (slow.state, slow.found) == (
        "warn",
        "50.0 ms a sync, 200.0 ms at the longest, of 20 syncs",
    )


def test_a_folder_that_is_not_there_yet_is_judged_by_the_one_above(tmp_path: Path) -> None:
    checks = {check.what: check for check in machine_checks.data_dir(tmp_path / "new" / "data")}

    assert str(tmp_path) in checks[f"data directory {tmp_path / 'new' / 'data'}"].found
    assert {"disk room", "disk speed"} <= set(checks)
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_a_port_that_is_taken_is_told_apart_from_a_broker_that_answers_there() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        assert machine_checks.port_free(port).state == "warn"
        assert machine_checks.port_free(port, is_brokers=True).state == "ok"


@pytest.mark.parametrize(
    ("difference_ms", "state", "word"),
    [
        (0, "ok", "agree"),
        (-999, "ok", "agree"),
        (5_000, "warn", "5.0 s ahead of"),
        (-120_000, "fail", "2 min behind"),
    ],
)
def test_clocks_that_differ_are_pointed_out(difference_ms: int, state: str, word: str) -> None:
    check = clock_check(difference_ms)

    assert check.state == state
    assert word in check.found


def test_python_and_its_codecs_are_told() -> None:
    told = {check.what: check for check in machine_checks.python()}

    assert told["Python"].state in ("ok", "warn")
    assert "wire" in told["codecs"].found


def test_one_failure_makes_an_error_with_its_advice(capsys: pytest.CaptureFixture[str]) -> None:
    checks: list[Check] = [ok("a", "fine"), warn("b", "so so", "look"), fail("c", "bad", "mend")]

    with pytest.raises(PartialError, match="not all is well: c") as raised:
        show(Output(), checks, subject="not all is well")

    assert raised.value.__notes__ == ["mend"]
    assert capsys.readouterr().out.splitlines() == [
        "✓ a: fine",
        "! b: so so",
        "  → look",
        "✗ c: bad",
        "  → mend",
    ]


def test_warnings_alone_are_no_error() -> None:
    show(Output(format="json"), [warn("b", "so so", "look")], subject="not all is well")
