"""The four clients of a mirror: an admin at both ends, a consumer here, a producer there.

What decides whether a record may be large is the target: the producer itself refuses none, except
beyond what a broker would ever take.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from ottla.client.admin.admin import Admin
from ottla.client.admin.cluster import ClusterInfo
from ottla.client.consumer.consumer import Consumer
from ottla.client.producer.producer import Producer
from ottla.mirror.settings import MirrorSettings
from ottla.values import dataclass

CLIENT_ID: Final = "ottla-mirror"
MAX_REQUEST_BYTES: Final = 100 * 1024 * 1024
"""What brokers take at most, unless they are told otherwise (socket.request.max.bytes)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ends:
    """The admins of both clusters, connected, and which clusters they are."""

    source: Admin
    target: Admin
    source_id: str
    is_same_cluster: bool


@contextmanager
def connected(settings: MirrorSettings, *, is_first: bool) -> Iterator[Ends]:
    """Both clusters.  At the beginning each address is tried once: it may be mistyped."""
    with ExitStack() as stack:
        admins = []
        for servers, config in (
            (settings.source, settings.source_config),
            (settings.target, settings.target_config),
        ):
            admin = Admin(servers, **_common(settings, config))
            stack.callback(admin.close)
            admin.connect(once=is_first)
            admins.append(admin)
        source, target = admins
        here, there = source.describe_cluster(), target.describe_cluster()
        yield Ends(
            source=source,
            target=target,
            source_id=here.cluster_id,
            is_same_cluster=is_same(here, there),
        )


def is_same(here: ClusterInfo, there: ClusterInfo) -> bool:
    """Whether both are one cluster.

    An id alone is no proof: some are copied from one installation to the next.
    """
    addresses = [{(b.host, b.port) for b in cluster.brokers} for cluster in (here, there)]
    return here.cluster_id == there.cluster_id and not addresses[0].isdisjoint(addresses[1])


def reader(settings: MirrorSettings) -> Consumer[Any, Any]:
    """Reads what is to be copied: what was committed, from where we say, and nowhere else."""
    return Consumer(
        bootstrap_servers=settings.source,
        auto_offset_reset="none",
        isolation_level="read_committed",
        allow_auto_create_topics=False,  # to ask for one that was deleted must not bring it back
        **_common(settings, settings.source_config),
    )


def journal_reader(settings: MirrorSettings) -> Consumer[Any, Any]:
    """Reads what the target remembers."""
    return Consumer(
        bootstrap_servers=settings.target,
        auto_offset_reset="none",
        isolation_level="read_committed",
        allow_auto_create_topics=False,  # to ask for one that was deleted must not bring it back
        **_common(settings, settings.target_config),
    )


def writer(settings: MirrorSettings, transactional_id: str) -> Producer[Any, Any]:
    """Writes copies and positions."""
    timeout_ms = _timeout_ms(settings)
    return Producer(
        settings.target,
        transactional_id=transactional_id,
        compression_type=settings.compression,
        max_request_size=MAX_REQUEST_BYTES,
        max_block_ms=timeout_ms,
        delivery_timeout_ms=2 * timeout_ms,
        # A copy that is deleted would come back without its settings, and without what was in it.
        allow_auto_create_topics=False,
        **_common(settings, settings.target_config),
    )


def _timeout_ms(settings: MirrorSettings) -> int:
    return max(2, int(settings.timeout_s * 1000))


def _common(settings: MirrorSettings, config: Any) -> Any:
    timeout_ms = _timeout_ms(settings)
    return {
        "client_id": CLIENT_ID,
        "request_timeout_ms": timeout_ms,
        "default_api_timeout_ms": timeout_ms,
        "config": dict(config),
    }
