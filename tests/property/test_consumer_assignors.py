"""Assignors, for every group: each partition once, to a reader, evenly, and with few moves."""

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.coordinator.group.consumer.assignors import (
    ASSIGNORS,
    Assignment,
    Candidate,
    range_,
    shared_at_large,
    uniform,
)

TOPICS = [b"a", b"b", b"c"]
partition_counts = st.dictionaries(st.sampled_from(TOPICS), st.integers(1, 8), max_size=3)
subscriptions = st.frozensets(st.sampled_from(TOPICS))
groups = st.dictionaries(st.sampled_from("uvwxyz"), subscriptions, min_size=1)
Counts = dict[bytes, int]


def candidates(
    group: dict[str, frozenset[bytes]], before: Assignment | None = None
) -> dict[str, Candidate]:
    return {
        member_id: Candidate(topic_ids=topics, places=(before or {}).get(member_id, frozenset()))
        for member_id, topics in group.items()
    }


def alike(group: dict[str, frozenset[bytes]]) -> dict[str, frozenset[bytes]]:
    return dict.fromkeys(group, frozenset(TOPICS))


def moved_count(before: Assignment, after: Assignment) -> int:
    """How many partitions were taken from a member that is still there."""
    return sum(
        len(held - after[member_id]) for member_id, held in before.items() if member_id in after
    )


@settings(max_examples=200, deadline=None)
@given(groups, groups, partition_counts, st.sampled_from(sorted(ASSIGNORS)))
def test_every_partition_that_somebody_reads_has_one_owner_who_reads_it(
    first: dict[str, frozenset[bytes]],
    second: dict[str, frozenset[bytes]],
    counts: Counts,
    assignor: str,
) -> None:
    assign = ASSIGNORS[assignor]
    shares = assign(candidates(second, assign(candidates(first), counts)), counts)

    read = frozenset[bytes]().union(*second.values())
    expected = {
        (topic, p) for topic, count in counts.items() if topic in read for p in range(count)
    }
    owned = [place for held in shares.values() for place in held]
    assert sorted(owned) == sorted(expected)
    assert shares.keys() == second.keys()
    for member_id, held in shares.items():
        assert {topic for topic, _ in held} <= second[member_id]


@settings(max_examples=200, deadline=None)
@given(groups, groups, partition_counts)
def test_members_with_equal_subscriptions_have_equal_shares(
    first: dict[str, frozenset[bytes]], second: dict[str, frozenset[bytes]], counts: Counts
) -> None:
    before = uniform(candidates(alike(first)), counts)

    sizes = [len(held) for held in uniform(candidates(alike(second), before), counts).values()]

    assert max(sizes) - min(sizes) <= 1


@settings(max_examples=400, deadline=None)
@given(groups, groups, partition_counts, partition_counts, st.booleans())
def test_the_short_way_leads_where_the_long_way_does(
    first: dict[str, frozenset[bytes]],
    second: dict[str, frozenset[bytes]],
    then: Counts,
    counts: Counts,
    is_alike: bool,
) -> None:
    before = uniform(candidates(alike(first) if is_alike else first), then)
    members = candidates(alike(second) if is_alike else second, before)

    shares = uniform(members, counts)

    assert shares == shared_at_large(members, counts)
    assert list(shares) == sorted(members), "records are written in this order"


@settings(max_examples=200, deadline=None)
@given(groups, groups, partition_counts)
def test_no_partition_could_move_and_make_shares_more_even(
    first: dict[str, frozenset[bytes]], second: dict[str, frozenset[bytes]], counts: Counts
) -> None:
    shares = uniform(candidates(second, uniform(candidates(first), counts)), counts)

    for rich, held in shares.items():
        for topic, _ in held:
            for poor, topics in second.items():
                if topic in topics:
                    assert len(held) <= len(shares[poor]) + 1, (rich, poor)


@settings(max_examples=200, deadline=None)
@given(groups, partition_counts, st.sampled_from(sorted(ASSIGNORS)))
def test_the_same_question_has_the_same_answer(
    group: dict[str, frozenset[bytes]], counts: Counts, assignor: str
) -> None:
    assign = ASSIGNORS[assignor]
    shares = assign(candidates(group), counts)

    backwards = dict(reversed(list(candidates(group, shares).items())))

    assert assign(backwards, counts) == shares


@settings(max_examples=200, deadline=None)
@given(groups, groups, partition_counts)
def test_among_equals_only_as_many_partitions_move_as_must(
    first: dict[str, frozenset[bytes]], second: dict[str, frozenset[bytes]], counts: Counts
) -> None:
    before = uniform(candidates(alike(first)), counts)

    after = uniform(candidates(alike(second), before), counts)

    sizes = sorted((len(before.get(m, ())) for m in second), reverse=True)
    fair, extra = divmod(sum(counts.values()), len(second))
    must_move = sum(max(0, size - fair - (rank < extra)) for rank, size in enumerate(sizes))
    assert moved_count(before, after) == must_move


@settings(max_examples=100, deadline=None)
@given(groups, partition_counts)
def test_range_gives_neighbors_and_the_same_of_topics_that_are_alike(
    group: dict[str, frozenset[bytes]], counts: Counts
) -> None:
    even = dict.fromkeys(counts, 5)

    for held in range_(candidates(alike(group)), even).values():
        by_topic = [sorted(p for t, p in held if t == topic) for topic in even]
        assert all(ps == by_topic[0] for ps in by_topic)
        for partitions in by_topic:
            assert (
                partitions == list(range(partitions[0], partitions[-1] + 1)) if partitions else True
            )
