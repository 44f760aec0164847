"""The keyword arguments of a consumer, for type checkers and editors.

They are the settings of `ConsumerConfig` under their Python names; a test holds the two together.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Literal

from ottla.client.consumer.assignors import Assignor
from ottla.client.consumer.plugs import ConsumerInterceptor, OffsetStore
from ottla.client.options import ClientOptions

AssignorName = Literal["range", "roundrobin", "sticky", "cooperative-sticky"]


class ConsumerOptions(ClientOptions, total=False):
    """Settings of consumers; `docs/reference/settings.md` says what they mean."""

    group_instance_id: str
    group_protocol: Literal["classic", "consumer"]
    group_remote_assignor: str
    assignors: Sequence[Assignor | AssignorName]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    max_poll_records: int
    auto_offset_reset: Literal["earliest", "latest", "none"] | datetime | timedelta
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    isolation_level: Literal["read_committed", "read_uncommitted"]
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    max_partition_fetch_bytes: int
    queued_max_bytes: int
    check_crcs: bool
    allow_auto_create_topics: bool
    exclude_internal_topics: bool
    client_rack: str
    interceptors: Sequence[ConsumerInterceptor]
    offset_store: OffsetStore
