"""Seek by offset, time or keyword; pause and resume.  No group is needed."""

from datetime import UTC, datetime, timedelta

import ottla

tp = ottla.TopicPartition("orders", 0)
with ottla.Consumer() as consumer:
    consumer.assign([tp])
    consumer.seek(tp, datetime(2026, 11, 15, 8, tzinfo=UTC))
    consumer.seek(tp, "beginning")
    consumer.seek_all(-timedelta(hours=1))
    consumer.seek(tp, 4)
    consumer.pause(tp)
    consumer.resume(tp)
    print(consumer.position(tp), consumer.end_offsets([tp])[tp], consumer.lag()[tp])
    print(consumer.offsets_for_times({tp: datetime.now(UTC) + timedelta(hours=1)})[tp])
