"""Record batches: whatever the bytes, a `BatchError` or records, and both twins the same.

Checksums are computed but need not fit: a fuzzer cannot guess them, and what lies behind them must
be safe without.
"""

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

from ottla.errors import BatchError
from ottla.records import codec
from ottla.records.arrow import from_arrow, to_arrow
from ottla.records.batch import Batch, batches
from ottla.records.builder import BatchOptions, build
from ottla.records.compression import Compression
from ottla.records.control import Marker, build_marker, read_marker
from ottla.records.shapes import MAX_INT64, NO_TIMESTAMP_MS, Section
from tests.record_twins import IS_COMPILED, compiled_twin

_MAX_BYTES: Final = 256 * 1024
_TWINS: Final[list[ModuleType]] = [codec, *([compiled_twin()] if IS_COMPILED else [])]


def one_input(data: bytes) -> None:
    """Walk over the batches, each on its own and in every way there is to read one."""
    for partial_tail in (True, False):
        try:
            for batch in batches(data, partial_tail=partial_tail):
                _read(batch)
        except BatchError:
            continue


def _read(batch: Batch) -> None:
    assert bytes(Batch.parse(batch.data).data) == bytes(batch.data)
    _outcome(batch.check_crc)
    if batch.is_control:
        _outcome(lambda: read_marker(batch))
    section = batch.section(_MAX_BYTES)
    decoded = _agreed(lambda twin: twin.decode(section))
    iterated = _agreed(lambda twin: list(twin.iterate(section)))
    assert decoded == iterated, "decode and iterate disagree"
    _agreed(lambda twin: twin.survey(section))
    _agreed(lambda twin: twin.columns([section]))
    rows = _outcome(lambda: to_arrow([batch], max_bytes=_MAX_BYTES))
    if isinstance(decoded, str):
        assert rows == decoded, "Arrow and tuples refuse different things"
        return
    _compare_rows(decoded, rows)
    if _is_writable(decoded):
        _write_again(decoded, section)
        written = Batch.parse(from_arrow(rows, timestamp_ms=0))
        assert [record[1:] for record in written.records()] == [record[1:] for record in decoded]


def _compare_rows(records: list[Any], rows: Any) -> None:
    rows.validate(full=True)
    columns = [rows.column(name).to_pylist() for name in ("offset", "key", "value", "headers")]
    assert columns == [
        [record[0] for record in records],
        [record[2] for record in records],
        [record[3] for record in records],
        [[{"key": k, "value": v} for k, v in record[4]] for record in records],
    ]
    # As integers, because most 64-bit numbers are no date.
    times_ms = rows.column("timestamp").cast("int64").to_pylist()
    assert times_ms == [record[1] for record in records]


def _is_writable(records: list[Any]) -> bool:
    """Whether there are records, and none has a time that only a stranger would send."""
    times_ms = [record[1] for record in records]
    return (
        bool(times_ms)
        and min(times_ms) >= NO_TIMESTAMP_MS
        and max(times_ms) - min(*times_ms, 0) <= MAX_INT64
    )


def _write_again(records: list[Any], section: Section) -> None:
    """What was read can be written, and is read back."""
    unwritten = [(timestamp_ms, k, v, headers) for _, timestamp_ms, k, v, headers in records]
    encoded = _agreed(lambda twin: twin.encode(unwritten))
    again = section._replace(
        body=bytes(encoded.data),
        base_offset=0,
        base_timestamp_ms=encoded.base_timestamp_ms,
        append_time_ms=None,
    )
    read = _agreed(lambda twin: twin.decode(again))
    assert [record[1:] for record in read] == [record[1:] for record in records]
    assert [record[0] for record in read] == list(range(len(records)))


def _agreed(act: Callable[[ModuleType], Any]) -> Any:
    """What `act` gives with each twin: an equal value, or the same `BatchError` in words."""
    outcomes = [_outcome(lambda twin=twin: act(twin)) for twin in _TWINS]  # type: ignore[misc]
    assert all(outcome == outcomes[0] for outcome in outcomes), outcomes
    return outcomes[0]


def _outcome(act: Callable[[], Any]) -> Any:
    try:
        return act()
    except BatchError as error:
        return str(error)


def seeds() -> Iterator[bytes]:
    now_ms = 1_700_000_000_000
    records = [
        (now_ms, b"key", b"value", [("header", b"h"), ("none", None)]),
        (now_ms - 5, None, b"", ()),
        (now_ms + 9, b"", None, ()),
    ]
    built = [
        bytes(build(records, BatchOptions(base_offset=7, compression=compression)))
        for compression in Compression
    ]
    built.append(bytes(build(records, BatchOptions(append_time_ms=now_ms, producer_id=4))))
    marker = Marker(
        is_commit=True, producer_id=4, producer_epoch=1, coordinator_epoch=2, timestamp_ms=now_ms
    )
    built.append(bytes(build_marker(marker)))
    yield from built
    yield b"".join(built)
    yield b"".join(built)[:-10]
