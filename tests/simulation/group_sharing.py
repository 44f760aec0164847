"""How the leader of a simulated group shares out partitions: eagerly, or cooperatively.

Eager members give everything back before they join, so that anybody may have anything.  Cooperative
ones keep what they have, and tell the leader of it: a partition that is to move is given to nobody
until its owner has let go of it, and joined again (KIP-429).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ottla.wire.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartition,
)
from ottla.wire.stored.versioned import decode_lenient, encode_versioned
from tests.simulation.broker_clients import Spot

EAGER = "range"
COOPERATIVE = "cooperative-sticky"

_VERSION = 3


@dataclass(frozen=True, slots=True)
class Claim:
    """What a member says that it owns, and since which generation."""

    generation: int
    spots: frozenset[Spot]


def encode_claim(topic: str, claim: Claim) -> bytes:
    """A subscription to `topic` that says what its sender owns."""
    return encode_versioned(
        ConsumerProtocolSubscription(
            topics=(topic,),
            owned_partitions=_grouped(claim.spots),
            generation_id=claim.generation,
        ),
        _VERSION,
    )


def decode_claim(metadata: bytes) -> Claim:
    subscription = decode_lenient(ConsumerProtocolSubscription, metadata)
    return Claim(subscription.generation_id, _spots(subscription.owned_partitions))


def encode_share(spots: Iterable[Spot]) -> bytes:
    assignment = ConsumerProtocolAssignment(assigned_partitions=_grouped(spots))
    return encode_versioned(assignment, _VERSION)


def decode_share(assignment: bytes) -> tuple[Spot, ...]:
    """The partitions of a member; one that the leader left out has none."""
    if not assignment:
        return ()
    found = decode_lenient(ConsumerProtocolAssignment, assignment).assigned_partitions
    return tuple(sorted(_spots(found)))


def share_out(
    protocol: str, claims: Mapping[str, Claim], spots: Sequence[Spot]
) -> dict[str, list[Spot]]:
    """Who gets what; `claims` is by member id."""
    member_ids = sorted(claims)
    if protocol == EAGER:
        return {
            member_id: list(spots[index :: len(member_ids)])
            for index, member_id in enumerate(member_ids)
        }
    owners = _believed_owners(claims)
    target = _balanced(member_ids, owners, spots)
    shares: dict[str, list[Spot]] = {member_id: [] for member_id in member_ids}
    for spot, member_id in target.items():
        if owners.get(spot, member_id) == member_id:
            shares[member_id].append(spot)
    return shares


def _believed_owners(claims: Mapping[str, Claim]) -> dict[Spot, str]:
    """Only claims of the newest generation count: who missed one may own nothing (KIP-792)."""
    newest = max(claim.generation for claim in claims.values())
    return {
        spot: member_id
        for member_id, claim in sorted(claims.items())
        if claim.generation == newest
        for spot in sorted(claim.spots)
    }


def _balanced(
    member_ids: Sequence[str], owners: Mapping[Spot, str], spots: Sequence[Spot]
) -> dict[Spot, str]:
    """Equal shares, of which as many as possible stay where they are."""
    most = -(-len(spots) // len(member_ids))
    counts = dict.fromkeys(member_ids, 0)
    target: dict[Spot, str] = {}
    for spot in spots:
        owner = owners.get(spot)
        if owner in counts and counts[owner] < most:
            target[spot] = owner
            counts[owner] += 1
    for spot in spots:
        if spot not in target:
            target[spot] = min(member_ids, key=lambda member_id: counts[member_id])
            counts[target[spot]] += 1
    return target


def _grouped(spots: Iterable[Spot]) -> tuple[TopicPartition, ...]:
    topics: dict[str, list[int]] = {}
    for spot in sorted(spots):
        topics.setdefault(spot.topic, []).append(spot.index)
    return tuple(
        TopicPartition(topic=topic, partitions=tuple(indexes)) for topic, indexes in topics.items()
    )


def _spots(found: Iterable[TopicPartition]) -> frozenset[Spot]:
    return frozenset(Spot(each.topic, index) for each in found for index in each.partitions)
