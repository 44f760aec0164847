"""DescribeClientQuotas (key 48): the quotas of users, client ids and addresses.

v0  the first version                                     (KIP-546)
v1  first flexible version

Entity types are "user", "client-id" and "ip"; a null entity name is the default of its type.
"""

from ottla.wire.schema import Bool, Float64, Int8, Int16, Int32, String, message, struct


@struct
class ComponentData:
    entity_type: String
    match_type: Int8  # 0: this name, 1: the default, 2: any name
    match: String | None


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasRequest:
    components: tuple[ComponentData, ...]
    strict: Bool  # entities may have no other parts


@struct
class EntityData:
    entity_type: String
    entity_name: String | None


@struct
class ValueData:
    key: String
    value: Float64


@struct
class EntryData:
    entity: tuple[EntityData, ...]
    values: tuple[ValueData, ...]


@message(key=48, versions="0-1", flexible="1+")
class DescribeClientQuotasResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    entries: tuple[EntryData, ...] | None
