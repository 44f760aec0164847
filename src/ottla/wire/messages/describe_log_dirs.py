"""DescribeLogDirs (key 35): a broker's log directories, and the size of what lies in them.

v1  the oldest version since Kafka 4.0                    (KIP-113, KIP-896)
v2  first flexible version
v3  adds error_code for the whole request                 (KIP-784)
v4  adds total_bytes and usable_bytes of the volume       (KIP-827)
v5  adds is_cordoned: no new partitions are placed there  (KIP-1066)
"""

from ottla.wire.schema import Bool, Int16, Int32, Int64, String, at, message, struct


@struct
class DescribableLogDirTopic:
    topic: String
    partitions: tuple[Int32, ...]


@message(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsRequest:
    topics: tuple[DescribableLogDirTopic, ...] | None  # null: all


@struct
class DescribeLogDirsPartition:
    partition_index: Int32
    partition_size: Int64  # in bytes
    offset_lag: Int64
    is_future_key: Bool  # on its way to this directory


@struct
class DescribeLogDirsTopic:
    name: String
    partitions: tuple[DescribeLogDirsPartition, ...]


@struct
class DescribeLogDirsResult:
    error_code: Int16 = 0
    log_dir: String
    topics: tuple[DescribeLogDirsTopic, ...]
    total_bytes: Int64 = at("4+", default=-1, ignorable=True)  # -1: unknown
    usable_bytes: Int64 = at("4+", default=-1, ignorable=True)  # -1: unknown
    is_cordoned: Bool = at("5+", default=False, ignorable=True)


@message(key=35, versions="1-5", flexible="2+")
class DescribeLogDirsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = at("3+", default=0, ignorable=True)
    results: tuple[DescribeLogDirsResult, ...]
