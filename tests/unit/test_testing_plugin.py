"""The pytest plugin as its users see it: each test here runs a small suite of theirs."""

import json
import subprocess
import sys
from importlib.metadata import entry_points

import pytest

from ottla.broker.dispatch import routes
from ottla.testing.broker import TestBroker
from ottla.testing.external import ExternalCluster

pytest_plugins = ["pytester"]

PRESENT = (routes(), ExternalCluster)
"""Imported here, because a suite that runs in this process forgets what it was first to import."""

LIGHT = """
import json, secrets, sys, pytest
before = set(sys.modules)
import ottla.testing.plugin
print(json.dumps(sorted(set(sys.modules) - before)))
"""

TWO_TESTS = """
import pytest

addresses = []

@pytest.mark.parametrize("n", [1, 2])
def test_it(ottla_broker, n):
    addresses.append(ottla_broker.bootstrap_servers)

def test_how_many(request):
    print("brokers:", len(set(addresses)))
"""


def test_pytest_finds_the_plugin_by_itself() -> None:
    (found,) = entry_points(group="pytest11", name="ottla")
    assert found.value == "ottla.testing.plugin"


def test_loading_the_plugin_imports_no_broker() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], capture_output=True, text=True, timeout=60, check=True
    )
    imported = set(json.loads(done.stdout))
    assert imported == {"ottla", "ottla.testing", "ottla.testing.plugin"}


@pytest.mark.parametrize(("scope", "count"), [("session", 1), ("module", 1), ("function", 2)])
def test_a_broker_lives_as_long_as_the_scope_says(
    pytester: pytest.Pytester, scope: str, count: int
) -> None:
    pytester.makepyfile(TWO_TESTS)
    result = pytester.runpytest_inprocess("-s", f"--ottla-scope={scope}")
    result.assert_outcomes(passed=3)
    result.stdout.fnmatch_lines([f"*brokers: {count}"])


def test_by_default_all_modules_share_a_broker(pytester: pytest.Pytester) -> None:
    test = "def test_it(ottla_broker): print('at', ottla_broker.bootstrap_servers)"
    pytester.makepyfile(test_one=test, test_two=test)
    result = pytester.runpytest_inprocess("-s")
    result.assert_outcomes(passed=2)
    lines = [line.rpartition("at ")[2] for line in result.stdout.lines if "at 127" in line]
    assert len(lines) == 2
    assert lines[0].rstrip(".") == lines[1].rstrip(".")


def test_every_test_has_names_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        seen = set()

        @pytest.mark.parametrize("text", ["a b/c", "ö", "x" * 300])
        def test_it(ottla_broker, ottla_topic, ottla_group, text):
            ottla_broker.produce(ottla_topic, "one")
            assert [r.value for r in ottla_broker.records(ottla_topic)] == [b"one"]
            assert not {ottla_topic, ottla_group} & seen
            assert ottla_topic != ottla_group
            seen.update([ottla_topic, ottla_group])
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=3)


def test_nothing_that_a_test_did_to_a_broker_hurts_the_next(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import socket
        import time

        def connect(broker):
            host, port = broker.bootstrap_servers.split(":")
            with socket.create_connection((host, int(port)), timeout=60) as peer:
                peer.sendall(bytes.fromhex("0000000a 0012 0000 00000001 0000"))
                return peer.recv(4)

        def test_faults(ottla_broker):
            ottla_broker.faults.refuse_connections()
            try:
                assert connect(ottla_broker) == b""
            except ConnectionError:
                pass

        def test_after_faults(ottla_broker):
            assert len(connect(ottla_broker)) == 4

        def test_time(ottla_broker):
            ottla_broker.advance(7_000_000)
            ottla_broker.produce("future", "one")

        def test_after_time(ottla_broker, ottla_topic):
            ottla_broker.produce(ottla_topic, "one")
            (record,) = ottla_broker.records(ottla_topic)
            assert abs(record.timestamp_ms / 1000 - time.time()) < 600

        def test_crash(ottla_broker):
            ottla_broker.crash()

        def test_after_crash(ottla_broker):
            assert len(connect(ottla_broker)) == 4
            assert [r.value for r in ottla_broker.records("future")] == [b"one"]
        """
    )
    pytester.runpytest_inprocess().assert_outcomes(passed=6)


def test_a_marked_test_gets_a_broker_with_its_settings(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        addresses = {}

        def test_before(ottla_broker, ottla_topic):
            ottla_broker.produce(ottla_topic, "one")
            assert ottla_broker.end_offsets(ottla_topic) == {0: 1}

        @pytest.mark.ottla(**{"num.partitions": 2})
        class TestMarked:
            def test_a(self, ottla_broker, ottla_topic):
                ottla_broker.produce(ottla_topic, "one")
                assert ottla_broker.end_offsets(ottla_topic) == {0: 1, 1: 0}
                addresses["a"] = ottla_broker.bootstrap_servers

            def test_b(self, ottla_broker):
                assert addresses["a"] == ottla_broker.bootstrap_servers

            @pytest.mark.ottla(num_partitions=3)
            def test_c(self, ottla_broker, ottla_topic):
                ottla_broker.produce(ottla_topic, "one")
                assert len(ottla_broker.end_offsets(ottla_topic)) == 3

        def test_after(ottla_broker, ottla_topic):
            ottla_broker.produce(ottla_topic, "one")
            assert ottla_broker.end_offsets(ottla_topic) == {0: 1}
        """
    )
    result = pytester.runpytest_inprocess("-v", "--strict-markers")
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(["*::test_c PASSED*"])


def test_a_setting_that_does_not_exist_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.ottla(num_partitins=3)
        def test_it(ottla_broker): ...
        """
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*did you mean num.partitions?*"])


@pytest.mark.parametrize(
    ("marker", "argument", "said"),
    [
        ("ottla(num_partitions=3)", "", "*does not use ottla_broker*"),
        ("ottla(3)", "ottla_broker", "*takes settings by name only*"),
    ],
)
def test_a_marker_that_would_do_nothing_is_an_error(
    pytester: pytest.Pytester, marker: str, argument: str, said: str
) -> None:
    pytester.makepyfile(
        f"import pytest\n@pytest.mark.{marker}\ndef test_it({argument}):\n    assert True\n"
    )
    result = pytester.runpytest_inprocess()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said])


def test_the_same_tests_run_against_another_cluster(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from ottla.errors import ErrorCode

        def test_records(ottla_broker, ottla_topic):
            ottla_broker.produce(ottla_topic, "one", None, key="k")
            assert [r.value for r in ottla_broker.wait_for(ottla_topic, 2)] == [b"one", None]
            ottla_broker.produce("kept", ottla_broker.bootstrap_servers)

        def test_faults(ottla_broker):
            ottla_broker.faults.fail("Produce", ErrorCode.KAFKA_STORAGE_ERROR)

        def test_time(ottla_broker):
            ottla_broker.advance(60)

        @pytest.mark.ottla(num_partitions=3)
        def test_settings(ottla_broker): ...
        """
    )
    with TestBroker() as other:
        result = pytester.runpytest_inprocess("-rs", "--ottla-bootstrap", other.bootstrap_servers)
        result.assert_outcomes(passed=1, skipped=3)
        result.stdout.fnmatch_lines(
            [
                "SKIPPED*faults needs the embedded broker*",
                "SKIPPED*advance() needs the embedded broker*",
                "SKIPPED*needs settings of its own*",
            ],
            consecutive=False,
        )
        (kept,) = other.records("kept")
        assert kept.value == other.bootstrap_servers.encode()


def test_each_worker_of_xdist_has_a_broker_of_its_own(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os
        import pathlib
        import time

        def in_both(broker):
            me, other = os.environ["PYTEST_XDIST_WORKER"], {"gw0": "gw1", "gw1": "gw0"}
            folder = pathlib.Path(__file__).parent
            (folder / me).write_text(broker.bootstrap_servers)
            deadline = time.monotonic() + 120
            while not (folder / other[me]).exists() and time.monotonic() < deadline:
                time.sleep(0.01)
            assert (folder / other[me]).read_text() != broker.bootstrap_servers

        def test_one(ottla_broker): in_both(ottla_broker)
        def test_two(ottla_broker): in_both(ottla_broker)
        """
    )
    pytester.runpytest_subprocess("-n", "2").assert_outcomes(passed=2)
