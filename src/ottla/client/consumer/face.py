"""What both faces of a consumer share: how they are made, and what needs no waiting.

What a consumer works with is imported when one is made: to import the name is cheap.
"""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from ottla.client.consumer.plugs import RebalanceListener
from ottla.client.records import Batch, GroupMetadata
from ottla.client.serdes import K, Serde, V
from ottla.errors import OttlaError
from ottla.model import TopicPartition

if TYPE_CHECKING:
    from typing import Unpack

    from ottla.client.consumer.options import ConsumerOptions
    from ottla.client.options import Servers
    from ottla.client.ports import ClientPorts

CLOSE_TIMEOUT_S = 30.0
"""How long closing may take, if nobody says otherwise."""


class Face(Generic[K, V]):
    """See `Consumer` and `AsyncConsumer`."""

    _is_async: ClassVar[bool]
    _ports: "ClientPorts | None" = None
    """Set in simulations, where a consumer lives in the loop of its caller."""

    def __init__(
        self,
        *topics: str,
        bootstrap_servers: "Servers | None" = None,
        group_id: str | None = None,
        key_serde: Serde[K] | None = None,
        value_serde: Serde[V] | None = None,
        key_deserializer: Callable[[bytes | None], K] | None = None,
        value_deserializer: Callable[[bytes | None], V] | None = None,
        listener: RebalanceListener | None = None,
        **config: "Unpack[ConsumerOptions]",
    ) -> None:
        """Prepare a consumer.

        Args:
            topics: What to subscribe to; or call `subscribe` or `assign` later.
            bootstrap_servers: Brokers to ask first; by default `$OTTLA_BOOTSTRAP`, or this machine.
            group_id: The group to share partitions with, and to keep offsets for.  Without one,
                all partitions of the topics are read.
            key_serde: How keys are read; by default they stay bytes.
            value_serde: How values are read; by default they stay bytes.
            key_deserializer: A function in place of `key_serde`.
            value_deserializer: A function in place of `value_serde`.
            listener: Hears of partitions that come and go.
            config: Settings, under their Python names, or as `config=` under Kafka's.

        Raises:
            ConfigError: Settings that cannot work.
        """
        from ottla.client.consumer.assembly import assemble, wish_of
        from ottla.client.consumer.config import ConsumerConfig
        from ottla.client.consumer.inquiries import Inquiries

        settings = ConsumerConfig.of(bootstrap_servers, group_id=group_id, **config)
        wish = wish_of(
            topics, listener, (key_serde, value_serde), (key_deserializer, value_deserializer)
        )
        self._wish = wish
        made = assemble(settings, wish, self, is_async=self._is_async, ports=self._ports)
        self._driver, self._reading = made.driver, made.reading
        self._inquiries = Inquiries(made.reading.core)
        self._is_closed = False

    def rewind(self, batch: Batch[Any, Any]) -> Any:
        """Go back to where a batch began, in those of its partitions that are still assigned."""
        raise NotImplementedError

    def stop(self) -> None:
        """End all loops over this consumer, cleanly and for good.

        From any thread, and from signal handlers.
        """
        self._reading.stop()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The partitions that are read now."""
        return self._reading.core.shelf.assigned

    @property
    def group_metadata(self) -> GroupMetadata:
        """Who this consumer is in its group, for transactions.

        Raises:
            CommitFailedError: It is not in the group now; a transaction would not be fenced.
        """
        return self._reading.core.member_identity()

    def paused(self) -> frozenset[TopicPartition]:
        """The partitions that are paused."""
        return frozenset(p.tp for p in self._reading.core.shelf if p.is_paused)

    def metrics(self) -> Mapping[str, float]:
        """What the consumer counts about itself, under Kafka's names."""
        shelf = self._reading.core.shelf
        return self._reading.core.engine.metrics.snapshot() | {
            "assigned-partitions": len(shelf.assigned),
            "records-lag-max": shelf.largest_lag(),
        }

    # How it ends; a blocking face drives these.

    async def _leave(self, error: BaseException | None) -> None:
        """The `with` block is left, by an error that is more important than ours, or without."""
        if error is None:
            await self._end(is_clean=True)
            return
        try:
            await self._end(is_clean=False)
        except OttlaError as late:
            self._inquiries.tell(late)

    async def _end(self, *, is_clean: bool, timeout_s: float | None = None) -> None:
        """Commit, leave and close, all within `timeout_s`; then raise the first thing that failed.

        With `is_clean` what was handed out last is processed.
        """
        if self._is_closed:
            return
        self._is_closed = True
        reading, trouble = self._reading, None
        left_s = CLOSE_TIMEOUT_S if timeout_s is None else timeout_s
        try:
            if reading.core.is_started and not self._driver.is_over:
                until_s = reading.caller.time_s() + left_s
                trouble = await reading.last_words(is_clean=is_clean, timeout_s=left_s)
                left_s = max(until_s - reading.caller.time_s(), 0.0)
        finally:
            try:
                await reading.caller.close(reading.core.finish(), left_s)
            except OttlaError as late:
                if trouble is None:
                    raise
                self._inquiries.tell(late)
        if trouble is not None:
            raise trouble

    def _forget_wish(self) -> None:
        self._wish = self._wish._replace(subscription=None)
