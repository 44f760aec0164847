"""Settings of a broker that keeps records of long ago for as long as it runs.

Any other looks every five minutes for what is older than a week, and many tests write such records:
now and then they would vanish between a test's write and its read.  `TestBroker` needs no telling.
"""

from typing import Final

KEEPS: Final[dict[str, str | int | float | bool]] = {
    "log.retention.check.interval.ms": 365 * 24 * 3_600_000
}
