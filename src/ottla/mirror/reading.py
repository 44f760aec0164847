"""Reads the journal of a mirror, from its first record to its last.

Whoever reads it has fenced all others before, so that nobody writes to it meanwhile, and what a
predecessor has left open is decided.
"""

import time
from typing import Any

from ottla.client.admin.admin import Admin
from ottla.client.consumer.consumer import Consumer
from ottla.errors import DeadlineError
from ottla.mirror.journal import Entry, Journal
from ottla.model import TopicPartition

POLL_S = 0.2


def read_journal(
    topic: str, admin: Admin, consumer: Consumer[Any, Any], timeout_s: float
) -> Journal:
    """All that was committed.

    Raises:
        DeadlineError: It did not come to its end in time.
        JournalError: There is something in it that is not a mirror's.
    """
    tp = TopicPartition(topic, 0)
    start_offset = admin.list_offsets([tp], at="earliest")[tp] or 0
    end_offset = admin.list_offsets([tp])[tp] or 0
    journal = Journal()
    consumer.assign({tp: start_offset})
    moved_s, position = time.monotonic(), start_offset
    while position < end_offset:
        for record in consumer.poll(POLL_S):
            journal.apply(Entry(record.key, record.value))
        now = consumer.position(tp)
        if now > position:
            moved_s, position = time.monotonic(), now
        elif time.monotonic() - moved_s > timeout_s:
            raise DeadlineError(f"{topic}: offset {position} of {end_offset} after {timeout_s:g} s")
    return journal
