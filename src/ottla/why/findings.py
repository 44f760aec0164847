"""What was found: one judgment each, with its evidence and what to do about it."""

from ottla.model import TopicPartition
from ottla.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One thing to know; what does not apply to it is empty."""

    code: str
    """A word for programs, which stays when the text gets better."""
    text: str
    advice: str = ""
    members: tuple[str, ...] = ()
    partitions: tuple[TopicPartition, ...] = ()
    since_ms: int | None = None
    until_ms: int | None = None

    @property
    def facts(self) -> dict[str, object]:
        return {
            "code": self.code,
            "text": self.text,
            "advice": self.advice or None,
            "members": list(self.members),
            "partitions": [str(partition) for partition in self.partitions],
            "since_ms": self.since_ms,
            "until_ms": self.until_ms,
        }
