"""API key -> request, response and versions.

`ApiKey` is the list of what we can say; the modules that declare it are imported when a key is
first used, because a broker needs a quarter of them to serve its first client.  A member's name
in lower case is the name of its module in `ottla.wire.messages`.
"""

from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import Any

from ottla.values import dataclass
from ottla.wire.schema import Versions, api_of


class ApiKey(IntEnum):
    """The APIs whose messages are declared, by their number on the wire."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


@dataclass(frozen=True, slots=True, kw_only=True)
class Api:
    """One API: its messages, and the versions in which both are declared."""

    key: ApiKey
    name: str
    request: type[Any]
    response: type[Any]
    versions: Versions
    flexible: Versions


_by_request: dict[type[Any], Api] = {}


def api_for(request: type[Any]) -> Api:
    """The API that a class of requests belongs to."""
    found = _by_request.get(request)
    if found is None:
        key = api_of(request).key
        assert key is not None, f"{request.__name__} belongs to no API"
        found = _by_request[request] = api(ApiKey(key))
    return found


@cache
def api(key: ApiKey) -> Api:
    """The messages of `key`, imported on first use."""
    name = "".join(word.capitalize() for word in key.name.split("_"))
    module = import_module(f"ottla.wire.messages.{key.name.lower()}")
    request, response = getattr(module, f"{name}Request"), getattr(module, f"{name}Response")
    declared = api_of(request)
    assert declared.key == key, f"{name}Request is declared with key {declared.key}, not {key}"
    assert api_of(response).versions == declared.versions, name
    return Api(
        key=key,
        name=name,
        request=request,
        response=response,
        versions=declared.versions,
        flexible=declared.flexible,
    )
