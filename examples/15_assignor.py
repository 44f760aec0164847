"""An assignor of your own: plain types in, plain types out.  Members tell their weight."""

from collections.abc import Iterable, Mapping

import ottla


class Weighted(ottla.Assignor):
    """Gives a member with weight 3 three times as much."""

    name = "weighted"

    def __init__(self, weight: int = 1) -> None:
        self.weight = weight

    def user_data(self) -> bytes:
        return str(self.weight).encode()

    def assign(
        self, members: Mapping[str, ottla.Member], partitions: Mapping[str, int]
    ) -> Mapping[str, Iterable[ottla.TopicPartition]]:
        slots = [m.member_id for m in members.values() for _ in range(int(m.user_data or b"1"))]
        plan: dict[str, list[ottla.TopicPartition]] = {member_id: [] for member_id in members}
        tps = [ottla.TopicPartition(t, p) for t, n in sorted(partitions.items()) for p in range(n)]
        for number, tp in enumerate(tps):
            plan[slots[number % len(slots)]].append(tp)
        return plan


with ottla.Consumer("clicks", group_id="workers", assignors=[Weighted(3), "range"]) as consumer:
    for record in consumer:
        print(record.partition, record.value)
