"""ApiVersions (key 18): what this broker speaks; a client's first question.

v1  adds throttle_time_ms                                                  (KIP-124)
v2  the client waits out throttle_time_ms, not the broker                  (KIP-219)
v3  first flexible version; adds client_software_name, finalized_features  (KIP-511, KIP-584)
v4  a supported feature may begin at level 0 (KAFKA-17011)
v5  adds cluster_id and node_id; the wrong broker: REBOOTSTRAP_REQUIRED    (KIP-1242)

The one API whose version is not agreed on beforehand, hence its exceptions:

- The response header is always v0, even where the body is flexible: a client cannot know yet
  whether the broker read its version.
- A version that the broker does not speak is answered with a v0 body that holds error 35
  (UNSUPPORTED_VERSION) and the range of ApiVersions itself (KIP-511).
- It is answered before authentication.

Clients take transactions v2 from `finalized_features` (transaction.version = 2), not from the
version ranges.  Below v4 a feature whose range begins at 0 is left out of `supported_features`.
"""

from ottla.wire.schema import Bool, Int16, Int32, Int64, String, at, message, struct


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsRequest:
    client_software_name: String = at("3+", default="", ignorable=True)
    client_software_version: String = at("3+", default="", ignorable=True)
    cluster_id: String | None = at("5+", default=None, ignorable=True)
    # Of the broker that the client means; checked only together with cluster_id.
    node_id: Int32 = at("5+", default=-1, ignorable=True)


@struct
class ApiVersion:
    api_key: Int16
    min_version: Int16
    max_version: Int16


@struct
class SupportedFeatureKey:
    name: String
    min_version: Int16
    max_version: Int16


@struct
class FinalizedFeatureKey:
    name: String
    max_version_level: Int16
    min_version_level: Int16


@message(key=18, versions="0-5", flexible="3+")
class ApiVersionsResponse:
    error_code: Int16 = 0
    api_keys: tuple[ApiVersion, ...]
    throttle_time_ms: Int32 = at("1+", default=0, ignorable=True)
    supported_features: tuple[SupportedFeatureKey, ...] = at(
        "3+", default=(), tag=0, ignorable=True
    )
    finalized_features_epoch: Int64 = at("3+", default=-1, tag=1, ignorable=True)  # -1: unknown
    finalized_features: tuple[FinalizedFeatureKey, ...] = at(
        "3+", default=(), tag=2, ignorable=True
    )
    zk_migration_ready: Bool = at("3+", default=False, tag=3, ignorable=True)
