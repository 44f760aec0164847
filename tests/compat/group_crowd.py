"""Members of a group as a test sees them: what they own, what they have read, and when."""

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from types import TracebackType
from typing import Any, Final, Self

from ottla.testing import TestBroker
from tests.compat.group_member import MemberSettings
from tests.kafka_cluster import until

WAIT_S: Final = 90
SESSION_S: Final = 60.0
"""After so long a member is missed: no machine is so busy that one is who lives."""
RECORDS_EACH: Final = 20


@dataclass
class Ownership:
    """One partition in the hands of one member; it ends in the future if it has not ended."""

    member: str
    partition: int
    from_s: float
    until_s: float = float("inf")


@dataclass
class Member:
    """One process."""

    name: str
    process: "subprocess.Popen[str]"
    reader: threading.Thread | None = None
    records: list[tuple[int, int]] = field(default_factory=list)
    ownerships: list[Ownership] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    has_left: bool = False

    @property
    def owned(self) -> set[int]:
        return {o.partition for o in self.ownerships if o.until_s == float("inf")}

    def note(self, told: dict[str, Any]) -> None:
        match told["event"]:
            case "record":
                partition, offset = told["what"]
                self.records.append((partition, offset))
            case "assigned":
                new = set(told["what"]) - self.owned
                self.ownerships += [Ownership(self.name, p, told["at"]) for p in sorted(new)]
            case "revoked":
                self.end(told["what"], told["at"])
            case "stopped":
                self.end(sorted(self.owned), told["at"])
            case "left":
                self.has_left = True
            case _:
                self.errors.append(str(told["what"]))

    def end(self, partitions: list[int], at_s: float) -> None:
        for ownership in self.ownerships:
            if ownership.until_s == float("inf") and ownership.partition in partitions:
                ownership.until_s = at_s


class Crowd:
    """All members of one group.  Whoever is still there at the end is killed."""

    def __init__(self, bootstrap_servers: str, group: str, topic: str) -> None:
        self._given: dict[str, Any] = {
            "bootstrap_servers": bootstrap_servers,
            "group": group,
            "topic": topic,
        }
        self._changed = threading.Condition()
        self.members: list[Member] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for member in self.members:
            self.kill(member)
        for member in self.members:
            for pipe in (member.process.stdin, member.process.stdout):
                assert pipe is not None
                pipe.close()

    def start(self, client: str, **settings: Any) -> Member:
        """Start a member; it may take a while until something is assigned to it."""
        given = MemberSettings(client=client, **self._given, **settings)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.compat.group_member", given.as_json()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        member = Member(f"{client} {len(self.members)}", process)
        self.members.append(member)
        member.reader = threading.Thread(target=self._listen, args=(member,), daemon=True)
        member.reader.start()
        return member

    def leave(self, member: Member) -> None:
        """Let it go in good order, and wait until it has."""
        assert member.process.stdin is not None
        member.process.stdin.close()
        self.wait(lambda: member.has_left)
        assert member.process.wait(WAIT_S) == 0

    def kill(self, member: Member) -> None:
        """End it without warning.  Killing the dead is no error."""
        member.process.kill()
        member.process.wait(WAIT_S)
        assert member.reader is not None
        member.reader.join(WAIT_S)  # it may have told more than we have heard
        with self._changed:
            member.end(sorted(member.owned), time.monotonic())

    def wait(self, condition: Callable[[], bool]) -> None:
        """Wait until something is true of the members."""
        with self._changed:
            assert self._changed.wait_for(condition, WAIT_S), self.members

    def wait_for_shares(self, *counts: int) -> None:
        """Wait until the members own so many partitions, in whatever order."""
        self.wait(lambda: sorted(len(m.owned) for m in self.members) == sorted(counts))

    def wait_for_records(self, count: int) -> None:
        """Wait until so many different records have been read, by whomever."""
        self.wait(lambda: len(self.records_read()) >= count)

    def records_read(self) -> set[tuple[int, int]]:
        return {record for member in self.members for record in member.records}

    def ownerships(self) -> list[Ownership]:
        return [ownership for member in self.members for ownership in member.ownerships]

    def _listen(self, member: Member) -> None:
        assert member.process.stdout is not None
        for line in member.process.stdout:
            with self._changed:
                member.note(json.loads(line))
                self._changed.notify_all()


def overlaps(ownerships: list[Ownership]) -> list[tuple[Ownership, Ownership]]:
    """Pairs of members that owned a partition at the same time."""
    spans = sorted(ownerships, key=lambda o: (o.partition, o.from_s))
    return [
        (one, other)
        for one, other in pairwise(spans)
        if one.partition == other.partition and one.until_s > other.from_s
    ]


@contextmanager
def watched_crowd(broker: TestBroker, topic: str, partition_count: int) -> Iterator[Crowd]:
    """A group that reads a new topic; in the end, nothing went wrong in it."""
    broker.create_topic(topic, partitions=partition_count)
    with Crowd(broker.bootstrap_servers, f"group-of-{topic}", topic) as crowd:
        yield crowd
        assert overlaps(crowd.ownerships()) == []
        assert [member.errors for member in crowd.members if member.errors] == []


def let_be_missed(broker: TestBroker, heartbeat: str) -> None:
    """Let time pass for the broker until the dead are missed; the living report in between."""
    for _ in range(3):
        with broker.faults.delay(heartbeat, 0) as reports:
            until(lambda reports=reports: reports.hit_count >= 2)  # type: ignore[misc]
        broker.advance(0.4 * SESSION_S)


def write_to_each(
    broker: TestBroker, topic: str, partition_count: int, *, round_count: int = 1
) -> int:
    """Write some records to each partition; return how many."""
    for number in range(round_count * RECORDS_EACH):
        for partition in range(partition_count):
            broker.produce(topic, str(number), partition=partition)
    return round_count * RECORDS_EACH * partition_count
