"""AlterClientQuotas (key 49): set or remove quotas of users, client ids and addresses.

v0  the first version                                     (KIP-546)
v1  first flexible version

Entity types are "user", "client-id" and "ip"; a null entity name is the default of its type.
"""

from ottla.wire.schema import Bool, Float64, Int16, Int32, String, message, struct


@struct
class EntityData:
    entity_type: String
    entity_name: String | None


@struct
class OpData:
    key: String
    value: Float64  # ignored if remove
    remove: Bool


@struct
class EntryData:
    entity: tuple[EntityData, ...]
    ops: tuple[OpData, ...]


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasRequest:
    entries: tuple[EntryData, ...]
    validate_only: Bool


@struct
class EntryResult:
    error_code: Int16 = 0
    error_message: String | None = None
    entity: tuple[EntityData, ...]


@message(key=49, versions="0-1", flexible="1+")
class AlterClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    entries: tuple[EntryResult, ...]
