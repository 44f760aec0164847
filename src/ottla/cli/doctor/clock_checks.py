"""Compares clocks, and with `--write` sends a record to a broker and back.

Lag in seconds, retention and the end of transactions go by clocks, that of the broker and those of
clients.  A broker of ours tells its time together with the story of a group; any other shows it in
a record that it stamps itself, and that takes a topic.
"""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final
from uuid import uuid4

from ottla.cli.connection import Connection
from ottla.cli.doctor.checks import Check, fail, ok, warn
from ottla.errors import OttlaError
from ottla.model import TopicPartition
from ottla.quantities import about

if TYPE_CHECKING:
    from ottla.client.admin.admin import Admin

SLOPPY_MS: Final = 1_000
WRONG_MS: Final = 60_000
TOPIC_PREFIX: Final = "ottla-doctor-"

_SYNC: Final = "let NTP set the clocks of both machines (chrony, systemd-timesyncd)"


def clocks(connection: Connection, *, writes: bool) -> Iterator[Check]:
    """How far the broker's clock is off; and whether a record comes back, if we may write one."""
    try:
        with connection.admin() as admin:
            if writes:
                yield from _round_trip(admin, connection)
                return
            found = _from_story(admin)
    except OttlaError as error:
        yield fail("clock", f"the broker does not say: {error}", "see the lines above")
        return
    yield _told_clock(found)


def _told_clock(difference_ms: int | None) -> Check:
    if difference_ms is None:
        return ok("clock", "not compared; --write does, with a topic that it deletes again")
    return clock_check(difference_ms)


def clock_check(difference_ms: int) -> Check:
    """What to say of a broker's clock that is ahead of ours by so much."""
    size = about(abs(difference_ms))
    side = "ahead of" if difference_ms > 0 else "behind"
    if abs(difference_ms) >= WRONG_MS:
        return fail("clock", f"the broker's is {size} {side} this machine's", _SYNC)
    if abs(difference_ms) >= SLOPPY_MS:
        return warn("clock", f"the broker's is {size} {side} this machine's", _SYNC)
    return ok("clock", f"the broker's and this machine's agree within {about(SLOPPY_MS)}")


def _from_story(admin: "Admin") -> int | None:
    """By the story of any group; None if there is no group, or no story."""
    for group in admin.group_overview()[:1]:
        began_s = time.time()
        story = admin.describe_group(group.group_id).story
        if story is not None:
            return _difference_ms(story.now_ms, began_s, time.time())
    return None


def _round_trip(admin: "Admin", connection: Connection) -> Iterator[Check]:
    topic = TOPIC_PREFIX + uuid4().hex[:12]
    admin.create_topic(topic, partitions=1, config={"message.timestamp.type": "LogAppendTime"})
    try:
        yield from _there_and_back(topic, connection)
    finally:
        admin.delete_topic(topic)


def _there_and_back(topic: str, connection: Connection) -> Iterator[Check]:
    place = TopicPartition(topic, 0)
    with connection.producer() as producer, connection.consumer() as consumer:
        consumer.assign({place: 0})
        # Each has --timeout to be acknowledged: its future tells then why it was not.
        producer.send(topic, b"warm").result()  # connections are made here
        began_s = time.time()
        written = producer.send(topic, b"doctor").result()
        acknowledged_s = time.time()
        seen = 0
        while seen < 2:
            batch = consumer.poll(connection.timeout_s)
            if not batch:
                yield fail(
                    "round trip",
                    f"a record was written and not read within {connection.timeout_s:g} s",
                    "look at the broker's log",
                )
                return
            seen += len(batch)
    took_ms = round((acknowledged_s - began_s) * 1000)
    yield ok("round trip", f"a record was acknowledged after {about(took_ms)}, and read")
    yield clock_check(_difference_ms(written.timestamp_ms, began_s, acknowledged_s))


def _difference_ms(theirs_ms: int, began_s: float, ended_s: float) -> int:
    """How far their clock is ahead; within the time that the question took, it may be none."""
    early_ms, late_ms = round(began_s * 1000), round(ended_s * 1000)
    if theirs_ms > late_ms:
        return theirs_ms - late_ms
    return min(0, theirs_ms - early_ms)
