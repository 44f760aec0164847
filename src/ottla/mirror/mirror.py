"""`Mirror`: copies topics to another cluster, and goes on after whatever may pass.

Each session begins by taking over the mirror's name, so that no other mirror of that name can write
any more, and by reading from the target how far the copy is.  What a session has seen or believed
does not outlive it.
"""

import threading
import time
from collections.abc import Callable
from typing import Final

from ottla.client.admin.admin import Admin
from ottla.errors import (
    AbortableError,
    ConflictError,
    DeliveryError,
    DeliveryErrors,
    ErrorCode,
    FencedError,
    OttlaError,
)
from ottla.mirror import clients
from ottla.mirror.journal import CLEANUP, TOPIC_CONFIG, Names
from ottla.mirror.progress import Meter, MirrorProgress, Watch
from ottla.mirror.reading import read_journal
from ottla.mirror.session import Session, Watcher
from ottla.mirror.settings import MirrorSettings, Say

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0


class Mirror:
    """Copies topics.  `run` may be called once; `stop` from anywhere, signal handlers too."""

    def __init__(
        self,
        settings: MirrorSettings,
        *,
        say: Say = lambda text: None,
        watch: Watch = lambda progress: None,
        on_begun: Callable[[], None] = lambda: None,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._watcher = Watcher(
            say=say, watch=self._note, meter=Meter(now_s), stopping=threading.Event()
        )
        self._watch = watch
        self._on_begun = on_begun
        self._now_s = now_s
        self._last: MirrorProgress | None = None
        self._has_begun = False

    def stop(self) -> None:
        """End it after the transaction that is under way."""
        self._watcher.stopping.set()

    def run(self) -> MirrorProgress:
        """Copy until it is done or stopped; how it stands then.

        A mirror that follows goes on when a cluster was away.  One that runs once raises: to run it
        again is to go on.

        Raises:
            FencedError: Another mirror of this name has taken over.
            CopyRefusedError: A topic cannot be copied to where it would go.
            LossError: Records were gone before they were copied, and that is not allowed.
            OttlaError: What else went wrong.
        """
        pause_s = FIRST_PAUSE_S
        while True:
            begun_s = self._now_s()
            try:
                if self._session():
                    break
                continue
            except (OttlaError, DeliveryErrors) as raised:
                error = _explained(raised)
                if self._settings.is_once or not self._has_begun or not may_pass(error):
                    raise error from raised
                if self._now_s() - begun_s > LONGEST_PAUSE_S:
                    pause_s = FIRST_PAUSE_S
                self._watcher.say(f"warning: {error}; going on in {pause_s:g} s")
            if self._watcher.stopping.wait(pause_s):
                break
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        assert self._last is not None, "a session that has ended has shown how it stands"
        return self._last

    def _session(self) -> bool:
        """One session; whether it was the last."""
        settings = self._settings
        with clients.connected(settings, is_first=not self._has_begun) as ends:
            names = Names(settings.name or ends.source_id)
            self._make_journal(ends.target, names.topic)
            with clients.writer(settings, names.transactional_id) as producer:
                with producer.transaction():
                    pass  # to begin one is to fence all others, and to wait for what they left
                with clients.journal_reader(settings) as consumer:
                    journal = read_journal(names.topic, ends.target, consumer, settings.timeout_s)
                if journal.source_cluster_id not in (None, ends.source_id):
                    raise _of_another(names, journal.source_cluster_id, ends.source_id)
                with clients.reader(settings) as consumer:
                    session = Session(settings, names, ends, journal, self._watcher)
                    self._last = session.progress()
                    self._note_begun()
                    return session.run(consumer, producer)

    def _make_journal(self, target: Admin, topic: str) -> None:
        """Have a topic for the journal, from which nothing goes but by compaction.

        One that was there may have been made by whoever asked for it first, with the defaults of
        the cluster.  Retention would take it for old, and with it how far the copy is.
        """
        target.create_topic(topic, partitions=1, config=TOPIC_CONFIG, exists_ok=True)
        policy = target.describe_config(topic=topic, keys=[CLEANUP])[CLEANUP].value
        if policy != TOPIC_CONFIG[CLEANUP]:
            target.alter_config(topic=topic, set=TOPIC_CONFIG)
            self._watcher.say(
                f"warning: {topic} had {CLEANUP}={policy}, which deletes what is old: it is "
                f"{TOPIC_CONFIG[CLEANUP]} now"
            )

    def _note_begun(self) -> None:
        """Both clusters are there: from now on it is worth while to wait for them."""
        if not self._has_begun:
            self._has_begun = True
            self._on_begun()

    def _note(self, progress: MirrorProgress) -> None:
        self._last = progress
        self._watch(progress)


def _explained(raised: OttlaError | DeliveryErrors) -> OttlaError:
    """The one error that is to be told."""
    error: OttlaError | ExceptionGroup[DeliveryError] = raised
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    if not isinstance(getattr(error, "cause", error), FencedError):
        return error
    fenced = FencedError(
        "another mirror of this name has taken over, or this one was asleep for too long"
    )
    fenced.add_note("--name gives a second mirror a name of its own; nothing was copied twice")
    return fenced


def may_pass(error: OttlaError) -> bool:
    """Whether a new session may do what this one could not."""
    cause = getattr(error, "cause", error)
    return error.retriable or isinstance(cause, AbortableError)


def _of_another(names: Names, known: str | None, found: str) -> OttlaError:
    error = ConflictError(
        ErrorCode.INVALID_REQUEST,
        f"mirror {names.name!r} copies cluster {known}, and this one is {found}",
    )
    error.add_note("give the mirror of another cluster another --name")
    return error
