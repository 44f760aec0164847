"""CreateAcls (key 30): add access rules.

v1  the oldest version since Kafka 4.0; pattern types     (KIP-290, KIP-896)
v2  first flexible version
v3  adds the resource type user                           (KIP-373)

The numbers: resource types 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token,
7 user; pattern types 3 literal, 4 prefixed; permissions 2 deny, 3 allow; operations 2 all,
3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster action, 10 describe configs,
11 alter configs, 12 idempotent write, 13 create tokens, 14 describe tokens, 15 two-phase commit.
"""

from ottla.wire.schema import Int8, Int16, Int32, String, message, struct


@struct
class AclCreation:
    resource_type: Int8
    resource_name: String
    resource_pattern_type: Int8 = 3  # 3: literal, 4: prefixed
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(key=30, versions="1-3", flexible="2+")
class CreateAclsRequest:
    creations: tuple[AclCreation, ...]


@struct
class AclCreationResult:
    error_code: Int16 = 0
    error_message: String | None = None


@message(key=30, versions="1-3", flexible="2+")
class CreateAclsResponse:
    throttle_time_ms: Int32 = 0
    results: tuple[AclCreationResult, ...]
