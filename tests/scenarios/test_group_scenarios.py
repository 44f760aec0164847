"""Conversations with a group coordinator, as plain text: `groups/*.txt`.

A file is a list of commands, each followed by `----` and the trace that it must leave: how the
state of the group changed, what was written to the log, and who was answered what.  Set
OTTLA_ACCEPT=1 to write the traces anew; the review reads the difference.

    start ada          join, in both steps, with a first member id
    join ada           join with the id that it has (static members: the one it was given last)
    sync ada ada=0,1   ask for the assignment; a leader brings one
    heartbeat, leave, commit ada 0 42, fetch 0, wait 10000, restart
"""

import os
from pathlib import Path

import pytest

from ottla.coordinator.effects import StoredRecord
from ottla.coordinator.group.records import GroupChange, OffsetChange, decode_record
from ottla.errors import ErrorCode
from tests.group_samples import Desk

FOLDER = Path(__file__).parent / "groups"
SEPARATOR = "----"


class Stage:
    """A desk, and clients that are called by name."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.member_ids: dict[str, str] = {}
        self.generations: dict[str, int] = {}
        self.askers: dict[int, str] = {}

    def play(self, command: str) -> list[str]:
        """Perform one command, and tell what came of it."""
        verb, *words = command.split()
        before, logged = self.desk.describe().group_state, len(self.desk.log)
        answered = set(self.desk.answers)
        told: list[str] = getattr(self, verb)(*words) or []
        after = self.desk.describe().group_state
        lines = [f"{before} -> {after}"] if before != after else [after]
        lines += [f"log: {self.record(record)}" for record in self.desk.log[logged:]]
        for ticket in self.desk.answers:
            if ticket not in answered and ticket in self.askers:
                lines.append(f"{self.askers[ticket]}: {self.answer(ticket)}")
        return lines + told

    def start(self, name: str, instance_id: str | None = None) -> None:
        answer = self.desk.answers[self.desk.join(client_id=name)] if not instance_id else None
        self.member_ids[name] = "" if answer is None else answer.member_id
        self.join(name, instance_id)

    def join(self, name: str, instance_id: str | None = None) -> None:
        ticket = len(self.desk.versions) + 1
        self.askers[ticket] = name
        self.desk.join(self.member_ids[name], instance_id=instance_id, client_id=name)

    def sync(self, name: str, *shares: str) -> None:
        given = {}
        for share in shares:
            member, _, partitions = share.partition("=")
            given[self.member_ids[member]] = partitions.encode()
        self.askers[len(self.desk.versions) + 1] = name
        self.desk.sync(self.member_ids[name], self.generations[name], given)

    def heartbeat(self, name: str) -> list[str]:
        code = self.desk.heartbeat(self.member_ids[name], self.generations[name])
        return [f"{name}: {ErrorCode(code).name}"]

    def leave(self, name: str) -> list[str]:
        response = self.desk.leave(self.member_ids[name])
        return [f"{name}: {ErrorCode(response.members[0].error_code).name}"]

    def commit(self, name: str, partition: str, offset: str) -> list[str]:
        code = self.desk.commit(
            int(offset),
            member_id=self.member_ids[name],
            generation=self.generations[name],
            partition=int(partition),
        )
        return [f"{name}: {ErrorCode(code).name}"]

    def fetch(self, partition: str) -> list[str]:
        return [f"offset {self.desk.fetch(partition=int(partition)).committed_offset}"]

    def wait(self, duration_ms: str) -> None:
        self.desk.pass_time(int(duration_ms))

    def restart(self) -> None:
        self.desk.restart()

    def answer(self, ticket: int) -> str:
        """What a client reads in its answer; it remembers its id and its generation."""
        name, response = self.askers[ticket], self.desk.answers[ticket]
        if response.error_code:
            return ErrorCode(response.error_code).name
        if hasattr(response, "assignment"):
            return f"assigned {response.assignment.decode() or 'nothing'}"
        self.member_ids[name] = response.member_id
        self.generations[name] = response.generation_id
        line = f"joined generation {response.generation_id}"
        if response.members:
            line += f", leads {', '.join(self.name(m.member_id) for m in response.members)}"
        return line + (", keeps its assignment" if response.skip_assignment else "")

    def record(self, record: StoredRecord) -> str:
        match decode_record(record):
            case GroupChange(_, None):
                return "the group is gone"
            case GroupChange(_, value) if value is not None:
                shares = [
                    f"{self.name(m.member_id)}={m.assignment.decode() or 'nothing'}"
                    for m in value.members
                ]
                return f"generation {value.generation}: {' '.join(shares) or 'nobody'}"
            case OffsetChange(key, None):
                return f"offset of partition {key.partition} is gone"
            case OffsetChange(key, offset) if offset is not None:
                return f"offset of partition {key.partition} is {offset.offset}"
            case other:
                raise AssertionError(other)

    def name(self, member_id: str) -> str:
        known = {self.member_ids[name]: name for name in self.member_ids}
        return known.get(member_id) or member_id.rsplit("-", 5)[0]


def played(text: str) -> str:
    """The scenario with the traces that it really leaves; comments stand before a command."""
    stage = Stage()
    blocks = []
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()
        head = lines[: lines.index(SEPARATOR)]
        blocks.append("\n".join([*head, SEPARATOR, *stage.play(head[-1])]))
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_a_conversation_goes_as_written(path: Path) -> None:
    text = path.read_text("utf-8")

    trace = played(text)

    if os.environ.get("OTTLA_ACCEPT") == "1":
        path.write_text(trace, "utf-8")
    else:
        assert trace == text


def test_a_trace_that_differs_is_noticed() -> None:
    text = (FOLDER / "both-start.txt").read_text("utf-8")

    assert played(text.replace("generation 2", "generation 3")) != text.replace(
        "generation 2", "generation 3"
    )
