"""Many records at once: sorted into lines before the lock is taken, and put there in slices.

A slice of plain values without keys goes to one line as a whole, which is as fast as Python gets;
what has keys, serdes or interceptors goes record by record.
"""

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final

from ottla.client.headers import HeadersLike, header_pairs
from ottla.client.producer.core import Core
from ottla.client.producer.lines import Line
from ottla.client.producer.outgoing import Outgoing, size_of
from ottla.client.producer.routes import Route
from ottla.records.shapes import MAX_RECORD_OVERHEAD_BYTES, Unwritten

_SLICE: Final = 256


class Sorter:
    """One call of `send_many`."""

    def __init__(self, core: Core, outgoing: Outgoing, route: Route, headers: HeadersLike) -> None:
        self._core = core
        self._outgoing = outgoing
        self._route = route
        self._pairs = header_pairs(headers)
        self._headers_bytes = size_of(None, None, self._pairs) - MAX_RECORD_OVERHEAD_BYTES

    def send(self, values: Iterable[Any]) -> int:
        """Send all of them; how many."""
        iterator = iter(values)
        count = 0
        while chunk := list(islice(iterator, _SLICE)):
            if not self._outgoing.is_plain:
                self._send_each(chunk)
            elif set(map(type, chunk)) == {bytes}:
                self._send_values(chunk)
            elif not self._send_pairs(chunk):
                self._send_each(chunk)
            count += len(chunk)
        return count

    def _send_values(self, values: list[bytes]) -> None:
        size_bytes = sum(map(len, values))
        size_bytes += len(values) * (MAX_RECORD_OVERHEAD_BYTES + self._headers_bytes)
        route = self._newest()
        if route.sticky is None or size_bytes > route.lines[0].limit_bytes // 2:
            self._send_each(values)
            return
        now_ms, pairs = self._core.clock.now_ms(), self._pairs
        records: list[Unwritten] = [(now_ms, None, value, pairs) for value in values]
        self._core.intake.put_many(None, route, records, size_bytes)

    def _send_pairs(self, chunk: list[Any]) -> bool:
        """Send pairs of bytes; False, and nothing done, if they are something else."""
        route = self._newest()
        key_hash = route.key_hash
        if key_hash is None:
            return False
        lines, count = route.lines, route.partition_count
        now_ms, pairs = self._core.clock.now_ms(), self._pairs
        sorted_out: dict[Line, list[Unwritten]] = {}
        sizes: dict[Line, int] = {}
        fixed_bytes = MAX_RECORD_OVERHEAD_BYTES + self._headers_bytes
        for pair in chunk:
            if pair.__class__ is not tuple or len(pair) != 2:
                return False
            key, value = pair
            if key.__class__ is not bytes or value.__class__ is not bytes or not key:
                return False
            line = lines[key_hash(key) % count]
            size_bytes = fixed_bytes + len(key) + len(value)
            if line in sorted_out:
                sorted_out[line].append((now_ms, key, value, pairs))
                sizes[line] += size_bytes
            else:
                sorted_out[line] = [(now_ms, key, value, pairs)]
                sizes[line] = size_bytes
        if any(size > line.limit_bytes // 2 for line, size in sizes.items()):
            return False
        for line, records in sorted_out.items():
            self._core.intake.put_many(line, route, records, sizes[line])
        return True

    def _send_each(self, chunk: Iterable[Any]) -> None:
        outgoing, core = self._outgoing, self._core
        for item in chunk:
            key, value = item if isinstance(item, tuple) else (None, item)
            ready = outgoing.ready(self._route.topic, value, key=key, headers=self._pairs)
            # An interceptor may have chosen another topic, or a partition.
            if ready.topic == self._route.topic and ready.partition is None:
                route = self._newest()
            else:
                route = core.route(ready.topic, ready.partition)
            batch, index = core.intake.put(route, ready.record, ready.size_bytes, ready.partition)
            if outgoing.has_interceptors:
                outgoing.follow(batch.delivery, index, ready.record)

    def _newest(self) -> Route:
        """The route in the newest metadata; raises if nothing may be sent any more."""
        topic = self._route.topic
        route = self._core.routes.get(topic)
        if route is None or route.cluster is not self._core.engine.metadata.cluster:
            route = self._core.route(topic)
        return route
