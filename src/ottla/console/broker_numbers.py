"""What only a broker itself can tell: bytes that were read, and how long requests took.

No request of Kafka's protocol asks for that.  A broker of ours tells it on its page for Prometheus;
the console reads a few numbers of it with every sample, where it knows that page.
"""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from typing import Final
from urllib.request import urlopen

from ottla import measures
from ottla.broker.meters import BOUNDS_S, quantile_s
from ottla.errors import OttlaError

log = logging.getLogger(__name__)

TIMEOUT_S: Final = 2.0
PRODUCE: Final = "Produce"
REQUESTS: Final = (PRODUCE, "OffsetCommit", "EndTxn")
"""Whose times are shown.  A fetch is not among them: it waits for records, and is meant to."""

MAX_PAGE_BYTES: Final = 64 * 1024 * 1024

_LINE: Final = re.compile(r"^(?P<name>\w+)\{(?P<labels>.*)\} (?P<value>\S+)$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_BUCKET: Final = f"{measures.REQUEST_SECONDS.name}_bucket"


class NumbersError(OttlaError):
    """The page of a broker cannot be had, or is none."""


@dataclass(frozen=True, slots=True)
class BrokerNumbers:
    """The numbers of one broker since its start."""

    bytes_in: int = 0
    bytes_out: int = 0
    times: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By request: how many fell into each of the buckets of `BOUNDS_S`, and above all."""
    refused: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """By topic and error: how many batches of producers were refused."""


def read_numbers(url: str) -> BrokerNumbers:
    """Ask a broker's page; blocks.

    Raises:
        NumbersError: It does not answer, or with something else.
    """
    try:
        with urlopen(url, timeout=TIMEOUT_S) as page:
            return parsed(page.read(MAX_PAGE_BYTES).decode("utf-8", "replace"))
    except (OSError, HTTPException, ValueError, OverflowError) as error:
        raise NumbersError(f"{url} does not tell how the broker does: {error}") from error


def parsed(page: str) -> BrokerNumbers:
    """The numbers that we want of a page; of what is not there, there is nothing."""
    totals = {measures.BYTES_IN.name: 0, measures.BYTES_OUT.name: 0}
    below: dict[str, list[int]] = {}
    refused: dict[tuple[str, str], int] = {}
    for found in _LINE.finditer(page):
        name = found["name"]
        if name in totals:
            totals[name] += int(float(found["value"]))
        elif name == _BUCKET:
            request = dict(_LABEL.findall(found["labels"])).get("request", "")
            below.setdefault(request, []).append(int(float(found["value"])))
        elif name == measures.PRODUCE_REFUSED.name:
            labels = dict(_LABEL.findall(found["labels"]))
            refused[labels.get("topic", ""), labels.get("error", "")] = int(float(found["value"]))
    return BrokerNumbers(
        bytes_in=totals[measures.BYTES_IN.name],
        bytes_out=totals[measures.BYTES_OUT.name],
        times={
            request: _single(counts)
            for request, counts in below.items()
            if request in REQUESTS and len(counts) == len(BOUNDS_S) + 1
        },
        refused=refused,
    )


def p99_ms(before: BrokerNumbers, now: BrokerNumbers, request: str) -> float | None:
    """The time that 99 of 100 requests did not exceed in between; None if there were none."""
    counts = now.times.get(request)
    if counts is None:
        return None
    past = before.times.get(request, (0,) * len(counts))
    time_s = quantile_s([max(0, a - b) for a, b in zip(counts, past, strict=True)], 0.99)
    return None if time_s is None else time_s * 1000


def _single(below: list[int]) -> tuple[int, ...]:
    """Prometheus' buckets hold all that is below a bound; ours, what is between two of them."""
    return tuple(count - before for before, count in zip([0, *below], below, strict=False))
