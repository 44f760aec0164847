"""When a log begins a new segment: the rules that are not plain from size and time."""

from ottla.log.config import LogConfig
from ottla.log.rolling import longest_age_ms


def test_a_compacted_log_rolls_in_time_for_its_compaction() -> None:
    config = LogConfig(cleanup_policy=("compact",), segment_ms=60_000, max_compaction_lag_ms=10_000)
    assert longest_age_ms(config) == 10_000


def test_other_logs_roll_by_segment_ms_alone() -> None:
    config = LogConfig(cleanup_policy=("delete",), segment_ms=60_000, max_compaction_lag_ms=10_000)
    assert longest_age_ms(config) == 60_000
