"""The offset map against a dictionary, and what a full one does."""

from hypothesis import given
from hypothesis import strategies as st

from ottla.log.offset_map import ENTRY_BYTES, OffsetMap

keys = st.binary(max_size=3) | st.binary(min_size=16, max_size=40)


@given(st.lists(keys), st.floats(0.1, 1.0), st.lists(keys, max_size=5))
def test_it_knows_the_last_offset_of_each_key(
    seen: list[bytes], load_factor: float, others: list[bytes]
) -> None:
    newest = OffsetMap(2**20, max_keys=len(seen), load_factor=load_factor)
    expected = {}
    for offset, key in enumerate(seen):
        assert newest.put(key, offset)
        expected[key] = offset

    assert len(newest) == len(expected)
    for key in [*seen, *others]:
        assert newest.newest(key) == expected.get(key, -1)


@given(st.integers(1, 200), st.floats(0.1, 1.0))
def test_a_full_map_refuses_new_keys_and_still_takes_known_ones(
    slot_count: int, load_factor: float
) -> None:
    newest = OffsetMap(slot_count * ENTRY_BYTES, max_keys=10**9, load_factor=load_factor)
    count = 0
    while newest.put(b"%d" % count, count):
        count += 1

    assert 1 <= count <= max(1, slot_count)
    assert newest.size_bytes <= max(slot_count, 3) * ENTRY_BYTES
    assert newest.put(b"0", 10**12)
    assert newest.newest(b"0") == 10**12
    assert newest.newest(b"%d" % count) == -1


@given(st.integers(1, 2000))
def test_it_takes_no_more_memory_than_the_keys_there_can_be_need(max_keys: int) -> None:
    newest = OffsetMap(2**30, max_keys=max_keys, load_factor=0.9)

    # No two neighbors among the primes of this size are further apart.
    assert newest.size_bytes <= ENTRY_BYTES * (max_keys / 0.9 + 2 + 34)
