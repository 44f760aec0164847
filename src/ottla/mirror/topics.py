"""Brings the topics of the target into line with those of the source.

A copy is made with as many partitions, and with the settings that somebody chose for the original.
It grows with it, and a setting that changes there changes here; one that was changed here by hand
stays until then.

Topics are told apart by their ids.  A copy is gone on with only if both are the topics that they
were; everything else is refused with what to do, or begun anew where nothing can be lost by it.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.client.admin.topics import PartitionInfo, TopicInfo
from ottla.errors import ConflictError, ErrorCode, UnknownTopicError
from ottla.mirror.journal import Copy, Journal
from ottla.mirror.settings import Say

NOT_COPIED: Final = (
    # About brokers of the source, or about how its records came into it.
    "follower.replication.throttled.",
    "leader.replication.throttled.",
    "message.format.version",
    "message.timestamp.",
    # For the target to decide: how many of its brokers must have a record, and where it is kept.
    "min.insync.replicas",
    "remote.",
    "unclean.leader.election.enable",
)
"""How the names of settings begin that stay behind."""


class CopyRefusedError(ConflictError):
    """A topic cannot be copied to where it would go without mixing or losing records."""

    def __init__(self, detail: str, advice: str) -> None:
        super().__init__(ErrorCode.TOPIC_ALREADY_EXISTS, detail)
        self.args: tuple[object, ...] = (detail,)
        self.add_note(advice)


class Topics:
    """The topics of both clusters, as they were when somebody last looked."""

    def __init__(self, source: Admin, target: Admin, journal: Journal, say: Say) -> None:
        self._source = source
        self._target = target
        self._journal = journal
        self._say = say
        self._known_settings: frozenset[str] = frozenset()
        self._unknown_told: set[str] = set()
        self.has_grown = False
        """Whether a copy has more partitions than whoever writes to it may know of."""

    def learn_settings(self, topic: str) -> None:
        """Find out which settings topics have at the target; `topic` is any one there."""
        self._known_settings = frozenset(self._target.describe_config(topic=topic))

    def look(self, names: Mapping[str, str]) -> "Seen":
        """How topics stand at the source, and their copies at the target."""
        sources = found(self._source, names)
        return Seen(sources, found(self._target, [names[name] for name in sources]))

    def prepare(self, name: str, target: str, seen: "Seen", *, appends: bool) -> Copy:
        """See to it that a topic has a copy, as large as itself.

        Raises:
            CopyRefusedError: It cannot be; the message says why, its note what to do.
        """
        source, there = seen.sources[name], seen.targets.get(target)
        before = self._journal.copies.get(name)
        check(source, there, before, target, appends=appends)
        config = self.settings(name) if before is None or there is None else before.config
        if there is None:
            if before is not None:
                self._say(f"warning: {target} is gone at the target; it is copied anew")
            there = self._target.create_topic(
                target, partitions=len(source.partitions), config=config
            )
            seen.targets[target] = there
        elif before is None and (missing := self._differing(target, config)):
            self._say(
                f"warning: {target} exists at the target and keeps its own settings: "
                + ", ".join(missing)
            )
        if len(there.partitions) < len(source.partitions):
            self._target.add_partitions(target, total=len(source.partitions))
            self.has_grown = True
            self._say(f"{target} has {len(source.partitions)} partitions now")
        return Copy(
            topic=name,
            topic_id=source.topic_id,
            target=target,
            target_id=there.topic_id,
            config=config,
        )

    def settings(self, name: str) -> dict[str, str]:
        """What somebody set for a topic of the source, and the target can have too."""
        chosen = {
            entry.name: entry.value
            for entry in self._source.describe_config(topic=name).values()
            if not entry.is_default and entry.value is not None
            if not entry.name.startswith(NOT_COPIED)
        }
        unknown = chosen.keys() - self._known_settings
        if new := unknown - self._unknown_told:
            self._unknown_told |= new
            self._say(f"warning: the target does not know {', '.join(sorted(new))}: left out")
        return {key: value for key, value in sorted(chosen.items()) if key not in unknown}

    def follow_settings(self, copy: Copy) -> Copy | None:
        """Change what was changed at the source since; the copy as it is then, None: as before."""
        now = self.settings(copy.topic)
        if now == copy.config:
            return None
        changed = {key: value for key, value in now.items() if copy.config.get(key) != value}
        unset = sorted(copy.config.keys() - now.keys())
        self._target.alter_config(topic=copy.target, set=changed, unset=unset)
        told = [*(f"{key}={value}" for key, value in changed.items()), *(f"-{k}" for k in unset)]
        self._say(f"{copy.target} has other settings now: {', '.join(told)}")
        return Copy(
            topic=copy.topic,
            topic_id=copy.topic_id,
            target=copy.target,
            target_id=copy.target_id,
            config=now,
        )

    def _differing(self, target: str, config: Mapping[str, str]) -> list[str]:
        there = self._target.describe_config(topic=target)
        return sorted(
            f"{key}={value} is not copied"
            for key, value in config.items()
            if key not in there or there[key].value != value
        )


class Seen:
    """Topics by name: those of the source, and those of the target."""

    def __init__(self, sources: dict[str, TopicInfo], targets: dict[str, TopicInfo]) -> None:
        self.sources = sources
        self.targets = targets


def found(admin: Admin, names: Collection[str]) -> dict[str, TopicInfo]:
    """Those of the topics that exist.

    Raises:
        OttlaError: Of one of them nothing could be found out, not even whether it exists.
    """
    results = admin.describe_topics(names)
    for error in results.errors.values():
        if not isinstance(error, UnknownTopicError):
            raise error
    return dict(results)


def check(
    source: TopicInfo,
    there: TopicInfo | None,
    before: Copy | None,
    target: str,
    *,
    appends: bool,
) -> None:
    """Refuse what would mix two topics, or copy one twice.

    Raises:
        CopyRefusedError: See its message.
    """
    if there is None:
        return
    if there.topic_id and there.topic_id == source.topic_id:
        raise CopyRefusedError(
            f"topic {target!r} at the target is the topic that is to be copied: both addresses "
            "lead to one cluster",
            "--prefix or --rename gives the copy another name",
        )
    is_ours = before is not None and (before.target, before.target_id) == (target, there.topic_id)
    if is_ours and before is not None and before.topic_id != source.topic_id:
        raise CopyRefusedError(
            f"topic {source.name!r} was deleted and created again at the source since it was "
            f"copied; {target!r} has the records of the old one",
            f"delete {target!r} at the target to copy the new one, or leave it out: --exclude "
            f"{source.name!r}",
        )
    if not is_ours and not appends and has_records(there.partitions):
        raise CopyRefusedError(
            f"topic {target!r} at the target has records that are not of this mirror",
            "--append writes behind them; --prefix or --rename gives the copy another name; a "
            "mirror that was begun under another --name goes on under that",
        )


def has_records(partitions: Iterable[PartitionInfo]) -> bool:
    """Whether there is a record in any partition, or nobody can say that there is none."""
    return any(p.start_offset is None or p.start_offset != p.end_offset for p in partitions)
