"""What a mirror is told, and how it talks back."""

from collections.abc import Callable, Mapping
from typing import Final, Literal

from ottla.mirror.selection import EVERYTHING, Selection
from ottla.values import dataclass

Compression = Literal["none", "gzip", "snappy", "lz4", "zstd"]

DEFAULT_INTERVAL_S: Final = 1.0
DEFAULT_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """From where to where, what of it, and for how long."""

    source: str
    """The brokers to ask first, of the cluster that is copied."""
    target: str
    selection: Selection
    groups: tuple[str, ...] = EVERYTHING
    """Whose offsets are brought along, by patterns; none: nobody's."""
    name: str | None = None
    """A second mirror of that name takes over from the first; None: the id of the source."""
    is_once: bool = False
    """Whether to end where the partitions ended at the beginning."""
    appends: bool = False
    """Whether a topic at the target may have records already that are not ours."""
    fails_on_loss: bool = False
    """Whether to stop when records were deleted at the source before they were copied."""
    interval_s: float = DEFAULT_INTERVAL_S
    """How long a transaction waits for more records, while the mirror follows."""
    look_interval_s: float = 5.0
    """How long it may take to notice a new topic, and to bring along a group that has moved."""
    uses_arrow: bool | None = None
    """Whether records are carried as columns; None: where pyarrow is installed."""
    compression: Compression = "lz4"
    timeout_s: float = DEFAULT_TIMEOUT_S
    """How long one answer may take."""
    source_config: Mapping[str, str]
    """Settings of the clients, under Kafka's names."""
    target_config: Mapping[str, str]


Say = Callable[[str], None]
"""Takes a line for the person who watches."""
