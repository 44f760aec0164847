"""The demo of the broker shows what it promises, on a batch small enough for a test."""

import pytest

from ottla.cli import main as cli
from ottla.cli.demo import broker as demo
from ottla.cli.demo.kill import check
from ottla.errors import BatchError, ErrorCode
from ottla.records.batch import Batch
from ottla.records.builder import build
from ottla.records.compression import Compression


@pytest.fixture(scope="module")
def bomb() -> bytearray:
    return demo.make_bomb()


def test_the_demo_runs_through(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["demo", "broker", "--records", "200"]) == cli.OK
    shown = capsys.readouterr()
    assert shown.err == ""
    assert all(codec.label in shown.out for codec in Compression)
    assert all(name in shown.out for name in ("CORRUPT_MESSAGE", "MESSAGE_TOO_LARGE"))
    assert "nothing that was acknowledged is lost" in shown.out


@pytest.mark.parametrize(
    "values",
    [[b"0", b"1"], [b"0", b"2", b"1"], [b"0", b"1", b"1"], [b"%d" % n for n in range(6)]],
    ids=["lost", "out of order", "twice", "never sent"],
)
def test_the_demo_would_notice_a_broker_that_loses_or_invents(values: list[bytes | None]) -> None:
    check([b"0", b"1", b"2"], acknowledged=3, unknown=2)
    with pytest.raises(AssertionError):
        check(values, acknowledged=3, unknown=2)


def test_the_demo_shows_columns_where_there_is_pyarrow(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyarrow")
    demo.show_columns(build(demo.make_orders(200)))
    assert "columns to batch" in capsys.readouterr().out


def test_a_batch_without_records_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["demo", "broker", "--records", "0"]) == cli.USAGE
    assert "error:" in capsys.readouterr().err


def test_the_bomb_is_small_and_whole(bomb: bytearray) -> None:
    assert len(bomb) < 32 * 1024
    Batch.parse(bomb).check_crc()


def test_the_bomb_is_refused_for_its_size(bomb: bytearray) -> None:
    with pytest.raises(BatchError) as caught:
        Batch.parse(bomb).record_list(max_bytes=demo.MEBIBYTE)
    assert caught.value.code is ErrorCode.MESSAGE_TOO_LARGE


def test_hex_shows_bytes_and_text_and_says_what_it_left_out() -> None:
    data = b"espresso" + bytes(range(24))
    assert list(demo.hex_view(data, max_lines=1)) == [
        "0000  65 73 70 72 65 73 73 6f 00 01 02 03 04 05 06 07  espresso········",
        "      ... 16 more bytes",
    ]
    assert len(list(demo.hex_view(data, max_lines=2))) == 2
