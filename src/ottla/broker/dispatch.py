"""API key -> handler, and what ApiVersions says of it.

A handler takes the decoded request and a `Context` and returns the response, or an awaitable of
it if it has to wait.  That of the API `HEARTBEAT` is the function `heartbeat` of the module
`ottla.broker.handlers.heartbeat`:

    def heartbeat(request: HeartbeatRequest, context: Context) -> HeartbeatResponse: ...

Which APIs there are, and in which versions, is said here: a client asks for that first, and a
module is imported when its first request comes.  So a start waits for none of them.
"""

from collections.abc import Awaitable, Callable, Mapping
from importlib import import_module
from typing import Any, Final

from ottla.values import dataclass
from ottla.wire.registry import Api, ApiKey, api
from ottla.wire.schema import Versions

Handler = Callable[[Any, Any], Any | Awaitable[Any]]

SERVED: Final[Mapping[ApiKey, str]] = {
    ApiKey.PRODUCE: "3-13",
    ApiKey.FETCH: "4-18",
    ApiKey.LIST_OFFSETS: "1-10",
    ApiKey.METADATA: "0-13",
    ApiKey.OFFSET_COMMIT: "2-10",
    ApiKey.OFFSET_FETCH: "1-10",
    ApiKey.FIND_COORDINATOR: "0-6",
    ApiKey.JOIN_GROUP: "0-9",
    ApiKey.HEARTBEAT: "0-4",
    ApiKey.LEAVE_GROUP: "0-5",
    ApiKey.SYNC_GROUP: "0-5",
    ApiKey.DESCRIBE_GROUPS: "0-6",
    ApiKey.LIST_GROUPS: "0-5",
    ApiKey.API_VERSIONS: "0-4",
    ApiKey.CREATE_TOPICS: "2-7",
    ApiKey.DELETE_TOPICS: "1-6",
    ApiKey.DELETE_RECORDS: "0-2",
    ApiKey.INIT_PRODUCER_ID: "0-6",
    ApiKey.OFFSET_FOR_LEADER_EPOCH: "2-4",
    ApiKey.ADD_PARTITIONS_TO_TXN: "0-3",
    ApiKey.ADD_OFFSETS_TO_TXN: "0-4",
    ApiKey.END_TXN: "0-5",
    ApiKey.WRITE_TXN_MARKERS: "1-2",
    ApiKey.TXN_OFFSET_COMMIT: "0-6",
    ApiKey.DESCRIBE_CONFIGS: "1-4",
    ApiKey.ALTER_CONFIGS: "0-2",
    ApiKey.ALTER_REPLICA_LOG_DIRS: "1-2",
    ApiKey.DESCRIBE_LOG_DIRS: "1-5",
    ApiKey.CREATE_PARTITIONS: "0-3",
    ApiKey.DELETE_GROUPS: "0-3",
    ApiKey.ELECT_LEADERS: "0-2",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "0-1",
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: "0-1",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "0",
    ApiKey.OFFSET_DELETE: "0",
    ApiKey.DESCRIBE_CLUSTER: "0-2",
    ApiKey.DESCRIBE_PRODUCERS: "0",
    ApiKey.DESCRIBE_TRANSACTIONS: "0",
    ApiKey.LIST_TRANSACTIONS: "0-2",
    ApiKey.CONSUMER_GROUP_HEARTBEAT: "0-1",
    ApiKey.CONSUMER_GROUP_DESCRIBE: "0-1",
    ApiKey.LIST_CONFIG_RESOURCES: "0-1",
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: "0",
}
"""Every API of a broker, and the versions of it that are served."""


@dataclass(slots=True)
class Route:
    """How one API is served."""

    key: ApiKey
    versions: Versions
    handler: Handler

    @property
    def api(self) -> Api:
        """Its messages, imported on first use."""
        return api(self.key)


def routes() -> Mapping[int, Route]:
    """All routes, by API key; a handler is imported when it is first called."""
    return {key: _route(key, Versions.parse(versions)) for key, versions in SERVED.items()}


def load_handler(key: ApiKey) -> Handler:
    """The function that serves `key`, imported on first use."""
    name = key.name.lower()
    handler: Handler = getattr(import_module(f"ottla.broker.handlers.{name}"), name)
    return handler


def _route(key: ApiKey, versions: Versions) -> Route:
    def first(request: Any, context: Any) -> Any | Awaitable[Any]:
        route.handler = load_handler(key)
        return route.handler(request, context)

    route = Route(key, versions, first)
    return route
