"""What an exactly-once sink has decided last, read from its own topic, without Spark or its driver.

A batch counts when its decision is committed.  The transactions that the decision names are ended
after that, and a mark says that they were: *settled*.  In between, whoever reads committed records
waits for the driver, and only the driver, or its successor, can go on.
"""

import json
from typing import Final

from ottla.client.consumer.until import batches_until
from ottla.errors import UnknownTopicError
from ottla.spark.sink.decisions import SETTLED_PREFIX, Decision, Names
from ottla.values import dataclass
from ottla.why.access import Access

_LOOK_BACK: Final = 5_000
"""So many offsets before its end, there is a decision in a journal: each batch takes a few."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkSight:
    """How one sink stands."""

    names: Names
    last: Decision | None
    """The last batch that counts; None: there is none."""
    is_settled: bool
    """Whether all transactions of that batch were ended, as far as the journal tells."""

    def has_decided_on(self, transactional_id: str, producer_id: int) -> bool:
        """Whether the last batch consists of this transaction, among others."""
        identities = () if self.last is None else self.last.identities
        return any(i[:2] == (transactional_id, producer_id) for i in identities)


def look_at_sink(access: Access, names: Names) -> SinkSight | None:
    """What is in the journal of a sink; None if there is no such journal."""
    admin, journal = access.admin, names.journal
    try:
        end = admin.list_offsets([journal], isolation_level="read_committed")[journal] or 0
    except UnknownTopicError:
        return None
    start = admin.list_offsets([journal], at="earliest")[journal] or 0
    last: Decision | None = None
    settled_stamp = ""
    with access.committed_reader() as consumer:
        consumer.assign({journal: max(start, end - _LOOK_BACK)})
        ends = {journal: end} if end > start else {}
        for batch in batches_until(ends, consumer, access.timeout_s):
            for record in batch.raw:
                if record.key is None or record.value is None:
                    continue
                if record.key.startswith(SETTLED_PREFIX):
                    settled_stamp = str(json.loads(record.value)["stamp"])
                else:
                    last = Decision.decode(record.value)
    is_settled = last is None or last.settles_itself or settled_stamp == last.stamp
    return SinkSight(names=names, last=last, is_settled=is_settled)
