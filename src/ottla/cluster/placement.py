"""Which brokers hold which partition: leaders in turn, followers apart from each other.

Leaders go around the brokers from a random start.  Followers come from the brokers after the
leader; how far after grows with every round, so that brokers do not share all their partitions
with the same neighbors.  Racks that have no replica yet come first.
"""

from collections.abc import Iterable, Mapping, Sequence

from ottla.cluster.image import BrokerImage


def place(
    brokers: Mapping[int, BrokerImage],
    partitions: range,
    replication_factor: int,
    *,
    start: float,
) -> list[tuple[int, ...]]:
    """The replicas of each of `partitions`, the leader first; `start` is in [0, 1)."""
    assert 1 <= replication_factor <= len(brokers), (replication_factor, len(brokers))
    ring = _alternating_racks(brokers.values())
    first = int(start * len(ring))
    return [_replicas(ring, first + index, replication_factor) for index in partitions]


def _replicas(ring: Sequence[BrokerImage], turn: int, count: int) -> tuple[int, ...]:
    leader, round_number = turn % len(ring), turn // len(ring)
    others = len(ring) - 1
    followers = [
        ring[(leader + 1 + (round_number + step) % others) % len(ring)] for step in range(others)
    ]
    chosen = [ring[leader]]
    for is_new_rack_wanted in (True, False):
        for broker in followers:
            racks = {b.rack for b in chosen}
            if len(chosen) < count and broker not in chosen:
                if is_new_rack_wanted and broker.rack in racks:
                    continue
                chosen.append(broker)
    return tuple(broker.node_id for broker in chosen)


def _alternating_racks(brokers: Iterable[BrokerImage]) -> list[BrokerImage]:
    """Brokers in an order in which neighbors stand in different racks, as far as possible."""
    by_rack: dict[str, list[BrokerImage]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.node_id):
        by_rack.setdefault(broker.rack or "", []).append(broker)
    queues = [by_rack[rack] for rack in sorted(by_rack)]
    longest = max(map(len, queues))
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]
