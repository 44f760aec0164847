"""DescribeAcls (key 29): the access rules that match a filter.

v1  the oldest version since Kafka 4.0; pattern types     (KIP-290, KIP-896)
v2  first flexible version
v3  adds the resource type user                           (KIP-373)

In a filter 1 means "any"; pattern type 2 means "whatever would apply to this name", so it finds
literal, prefixed and wildcard rules alike.  `create_acls` lists the other numbers.
"""

from ottla.wire.schema import Int8, Int16, Int32, String, message, struct


@message(key=29, versions="1-3", flexible="2+")
class DescribeAclsRequest:
    resource_type_filter: Int8
    resource_name_filter: String | None  # null: any
    pattern_type_filter: Int8 = 3  # 1: any, 2: match, 3: literal, 4: prefixed
    principal_filter: String | None  # null: any
    host_filter: String | None  # null: any
    operation: Int8
    permission_type: Int8


@struct
class AclDescription:
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@struct
class DescribeAclsResource:
    resource_type: Int8
    resource_name: String
    pattern_type: Int8 = 3
    acls: tuple[AclDescription, ...]


@message(key=29, versions="1-3", flexible="2+")
class DescribeAclsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    resources: tuple[DescribeAclsResource, ...]
