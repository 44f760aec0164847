"""What a start leaves out, and how it is loaded once the broker is up.

Almost all of a start is imports, so a broker begins with what its first record needs (ADR 25).
Whoever needs more imports it with his request.  So that hardly anybody has to, the rest is loaded
by itself: one module at a time, in moments in which nobody asks for anything (ADR 31).  The loop
stands still for as long as one import takes.  Hence the order below: a module comes after those
that it imports.
"""

import asyncio
import sys
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from typing import Final

from ottla.broker.dispatch import SERVED

PAUSE_S: Final = 0.005
"""If no request comes for so long, the moment is a quiet one."""
PATIENCE_S: Final = 0.25
"""How long a module waits for such a moment.  In a broker that has none it comes all the same."""

_GROUPS: Final = "ottla.coordinator.group"
_CONSUMER_GROUPS: Final = "ottla.coordinator.group.consumer"
_MESSAGES: Final = "ottla.wire.messages"
_STORED: Final = "ottla.wire.stored"
_HANDLERS: Final = "ottla.broker.handlers"
_FOR_GROUPS: Final = (
    (_MESSAGES, "find_coordinator join_group sync_group heartbeat leave_group offset_commit"),
    (_MESSAGES, "offset_fetch list_offsets fetch describe_groups list_groups delete_groups"),
    (_MESSAGES, "offset_delete txn_offset_commit consumer_group_heartbeat consumer_group_describe"),
    (_STORED, "consumer_protocol group_records consumer_group_records"),
    ("ottla.records", "blake2"),
    ("ottla.coordinator", "effects pattern_syntax patterns"),
    (_GROUPS, "member classic records rebalance"),
    (_CONSUMER_GROUPS, "topics member records tally group watch heartbeats causes assignors"),
    (_CONSUMER_GROUPS, "reconciling draft chronicle migration telling coordinator committing"),
    (_GROUPS, "offsets committing joining membership txn_committing registry story telling"),
    (_CONSUMER_GROUPS, "story classic_members"),
    (_GROUPS, "machine"),
    ("ottla.cluster", "placement topics alterations topic_requests"),
    ("ottla.broker", "cold_reads shard coordinators groups fetch_sessions fetching"),
    (_HANDLERS, "find_coordinator join_group sync_group heartbeat leave_group offset_commit"),
    (_HANDLERS, "offset_fetch list_offsets fetch consumer_group_heartbeat"),
)
_FOR_ALL_ELSE: Final = (
    (_STORED, "transaction_records"),
    ("ottla.coordinator.txn", "transaction records adding beginning ending telling machine"),
    ("ottla.broker", "markers transactional transactional_produce transactions topics"),
    ("ottla.log", "retention cleaned_transactions cleaned_batch offset_map compaction_filter"),
    ("ottla.log", "compaction"),
)


def left_out() -> Iterator[str]:
    """Every module that a broker may need and its start does not import, in a good order."""
    names = " ".join(key.name.lower() for key in SERVED)
    for package, listed in (
        *_FOR_GROUPS,  # and for whoever reads: they come soon
        (_MESSAGES, names),
        *_FOR_ALL_ELSE,
        (_HANDLERS, names),
    ):
        yield from (f"{package}.{name}" for name in listed.split())


async def load(names: Iterable[str], request_count: Callable[[], int]) -> None:
    """Import modules; `request_count` says how many requests have come so far."""
    for name in names:
        if name not in sys.modules:
            await _quiet_moment(request_count)
            import_module(name)


async def _quiet_moment(request_count: Callable[[], int]) -> None:
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + PATIENCE_S
    before_count = -1
    while before_count != (count := request_count()) and loop.time() < deadline_s:
        before_count = count
        await asyncio.sleep(PAUSE_S)
