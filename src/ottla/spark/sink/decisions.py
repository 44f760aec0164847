"""What the exactly-once sink writes down: one decision for each batch, in a topic of its own.

A decision names the transactions that are the output of a batch.  It is written in a transaction,
together with the offsets of the source, and when that is committed, the batch is: whoever finds
the decision ends the transactions that it names.

Each sink has its topic, of one partition.  So nobody waits for the open transaction of somebody
else's sink, and the last decision stands at the end.  The key of a decision is its batch number
modulo `HISTORY`, and the topic is compacted: the last thousand stay, older ones make room.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Self

from ottla.errors import ConfigError, OttlaError
from ottla.model import MAX_TOPIC_NAME_LENGTH, TopicPartition

HISTORY: Final = 1000
"""How many batches the ledger remembers, about."""
TOPIC_CONFIG: Final = {"cleanup.policy": "compact", "retention.ms": "-1"}
SETTLED_PREFIX: Final = b"settled/"
"""Before the key of a decision: the key of the mark that it is carried out."""
VERSION: Final = 1

TOPIC_PREFIX: Final = "__ottla_sink_decisions-"
"""Before the id of a sink: the name of its topic."""
_ID_PREFIX: Final = "ottla-eos."
_LEGAL: Final = re.compile(r"[A-Za-z0-9._-]+")
_MAX_SINK_ID: Final = MAX_TOPIC_NAME_LENGTH - len(TOPIC_PREFIX)


class DecisionError(OttlaError, ValueError):
    """What stands in the topic of decisions is not what this sink writes there."""


class Identity(NamedTuple):
    """A producer of transactions: whoever shows these three may write and end its transaction."""

    transactional_id: str
    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.transactional_id} ({self.producer_id}:{self.epoch})"


class Participant(NamedTuple):
    """One transaction of a batch: what one task wrote."""

    identity: Identity
    partition: int
    """Which task of the batch."""
    row_count: int


@dataclass(frozen=True, slots=True)
class Names:
    """What a sink is called, and what follows from it."""

    sink_id: str

    def __post_init__(self) -> None:
        if _LEGAL.fullmatch(self.sink_id) is None or len(self.sink_id) > _MAX_SINK_ID:
            raise ConfigError(
                f"transactionalIdPrefix = {self.sink_id!r} cannot name a topic: use up to "
                f"{_MAX_SINK_ID} ASCII letters, digits, '.', '_' and '-'"
            )

    @classmethod
    def of_coordinator(cls, transactional_id: str) -> Self:
        """The names of the sink whose driver has this id."""
        return cls(transactional_id.removeprefix(_ID_PREFIX))

    @classmethod
    def of_transaction(cls, transactional_id: str) -> Self | None:
        """The names of the sink that a transaction belongs to; None: it is no sink's."""
        sink_id = transactional_id.removeprefix(_ID_PREFIX).partition("/")[0]
        is_id = _LEGAL.fullmatch(sink_id) is not None and len(sink_id) <= _MAX_SINK_ID
        return cls(sink_id) if is_id and transactional_id.startswith(_ID_PREFIX) else None

    @property
    def coordinator(self) -> str:
        """The transactional id of the driver."""
        return _ID_PREFIX + self.sink_id

    def participant(self, worker: str, index: int) -> str:
        """A transactional id of a worker process.  No sink id has a slash, so none is two's."""
        return f"{_ID_PREFIX}{self.sink_id}/{worker}.{index}"

    def is_participant(self, transactional_id: str) -> bool:
        return transactional_id.startswith(f"{_ID_PREFIX}{self.sink_id}/")

    @property
    def journal(self) -> TopicPartition:
        """Where the decisions are."""
        return TopicPartition(TOPIC_PREFIX + self.sink_id, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A batch that is to be in the log, and what it consists of."""

    sink_id: str
    query_id: str
    batch_id: int
    round: Identity
    """The plan under which the batch was written: no two executions of a batch share one."""
    participants: tuple[Participant, ...]
    offsets_digest: str | None
    """Of the offsets in the checkpoint, if it could be read."""
    groups: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    """Consumer group -> the offsets that are committed with the batch."""
    decided_ms: int
    duration_ms: int
    """How long after the plan it was decided."""

    @property
    def is_one_phase(self) -> bool:
        """Whether the decision is part of the one transaction that it names."""
        return len(self.participants) == 1

    @property
    def settles_itself(self) -> bool:
        """Whether nothing is left to do once it is decided."""
        return len(self.participants) <= 1

    @property
    def row_count(self) -> int:
        return sum(participant.row_count for participant in self.participants)

    @property
    def identities(self) -> frozenset[Identity]:
        return frozenset(participant.identity for participant in self.participants)

    @property
    def stamp(self) -> str:
        """Names this execution of the batch."""
        return f"{self.round.producer_id}.{self.round.epoch}"

    @property
    def key(self) -> bytes:
        return str(self.batch_id % HISTORY).encode()

    def encode(self) -> bytes:
        """The value of its record."""
        told = {
            "v": VERSION,
            "sink": self.sink_id,
            "query": self.query_id,
            "batch": self.batch_id,
            "round": list(self.round),
            "participants": [
                [*participant.identity, participant.partition, participant.row_count]
                for participant in self.participants
            ],
            "digest": self.offsets_digest,
            "groups": {
                group: [[*tp, offset] for tp, offset in sorted(offsets.items())]
                for group, offsets in sorted(self.groups.items())
            },
            "decided_ms": self.decided_ms,
            "duration_ms": self.duration_ms,
        }
        return json.dumps(told, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Read what `encode` gave.

        Raises:
            DecisionError: It is something else.
        """
        try:
            told: dict[str, Any] = json.loads(value)
            if told["v"] != VERSION:
                raise DecisionError(
                    f"a decision of version {told['v']}, and this is version {VERSION}: use the "
                    "version of Ottla that wrote it"
                )
            return cls(
                sink_id=told["sink"],
                query_id=told["query"],
                batch_id=int(told["batch"]),
                round=Identity(*told["round"]),
                participants=tuple(
                    Participant(Identity(*entry[:3]), entry[3], entry[4])
                    for entry in told["participants"]
                ),
                offsets_digest=told["digest"],
                groups={
                    group: {TopicPartition(t, p): offset for t, p, offset in entries}
                    for group, entries in told["groups"].items()
                },
                decided_ms=int(told["decided_ms"]),
                duration_ms=int(told["duration_ms"]),
            )
        except DecisionError:
            raise
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise DecisionError(f"no decision of a sink: {value[:200]!r} ({error!r})") from None


def digest(lines: Sequence[str]) -> str:
    """A short name for the offsets of a batch: equal offsets have equal ones."""
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def read_ledger(bootstrap_servers: str, sink_id: str) -> list[Decision]:
    """The last decisions of a sink, oldest first: about `HISTORY` of them, or more.

    A sink's id is its option transactionalIdPrefix, else the id of its query.

    Raises:
        UnknownTopicError: No such sink has written here.
    """
    from ottla.spark.sink.brokers import Brokers

    with Brokers.of({"bootstrap.servers": bootstrap_servers}, Names(sink_id)) as brokers:
        return brokers.ledger()
