"""An admin client at work among scripted brokers, on virtual time."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from ottla.client.admin.calling import Caller
from ottla.errors import OttlaError
from ottla.ports import Ports
from ottla.wire.messages.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
from ottla.wire.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.wire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
)
from ottla.wire.registry import ApiKey
from tests.client.scripted import Handler, ScriptedBroker, Worlds, engine, topic

T = TypeVar("T")


def ask(
    *brokers: ScriptedBroker,
    work: Callable[[Caller], Awaitable[T]],
    max_retries: int | None = None,
    **options: Any,
) -> T:
    """Let an admin client do its work with these brokers, on virtual time."""

    async def client(ports: Ports) -> T | OttlaError:
        asker = engine(ports, *(f"{broker.host}:{broker.port}" for broker in brokers), **options)
        await asker.start()
        await asker.connect()
        try:
            return await work(Caller(asker, max_retries=max_retries))
        except OttlaError as error:
            return error
        finally:
            await asker.close()

    with Worlds() as world:
        world.serve(*brokers)
        outcome = world.play(client)
    if isinstance(outcome, OttlaError):
        raise outcome
    return outcome


def in_turn(*answers: Any) -> Handler:
    """One answer after the other; the last one for ever."""
    left = list(answers)

    def answer(request: Any, version: int) -> Any:
        return left.pop(0) if len(left) > 1 else left[0]

    return answer


def offsets(code: int = 0, offset: int = 5) -> Handler:
    """Every partition that is asked about has this one."""

    def answer(request: ListOffsetsRequest, version: int) -> ListOffsetsResponse:
        return ListOffsetsResponse(
            topics=tuple(
                ListOffsetsTopicResponse(
                    name=asked.name,
                    partitions=tuple(
                        ListOffsetsPartitionResponse(
                            partition_index=p.partition_index, error_code=code, offset=offset
                        )
                        for p in asked.partitions
                    ),
                )
                for asked in request.topics
            )
        )

    return answer


def no_settings(request: Any, version: int) -> DescribeConfigsResponse:
    return DescribeConfigsResponse(
        results=tuple(
            DescribeConfigsResult(resource_type=2, resource_name=r.resource_name, configs=())
            for r in request.resources
        )
    )


def broker_with(key: ApiKey, handler: Handler) -> ScriptedBroker:
    broker = ScriptedBroker()
    broker.topics = (topic("orders", 1),)
    broker.handlers |= {
        ApiKey.LIST_OFFSETS: offsets(),
        ApiKey.DESCRIBE_CONFIGS: no_settings,
        key: handler,
    }
    return broker


def two_brokers(*topics: Any) -> tuple[ScriptedBroker, ScriptedBroker]:
    """Brokers 1 and 2, which tell of the first topics once, then of the next ones, and so on."""
    one, two = ScriptedBroker(1, "one"), ScriptedBroker(2, "two")

    def metadata(request: MetadataRequest, version: int) -> MetadataResponse:
        return MetadataResponse(
            brokers=tuple(
                MetadataResponseBroker(node_id=b.node_id, host=b.host, port=b.port)
                for b in (one, two)
            ),
            controller_id=1,
            topics=topics[0] if len(topics) == 1 else topics[min(len(asked), len(topics) - 1)],
        )

    asked: list[MetadataRequest] = []

    def counted(request: MetadataRequest, version: int) -> MetadataResponse:
        answer = metadata(request, version)
        if request.topics:
            asked.append(request)
        return answer

    one.handlers[ApiKey.METADATA] = two.handlers[ApiKey.METADATA] = counted
    return one, two
