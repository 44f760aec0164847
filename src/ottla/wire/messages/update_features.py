"""UpdateFeatures (key 57): raise or lower the levels at which the cluster runs its features.

v0  the first version                                          (KIP-584)
v1  upgrade_type replaces allow_downgrade; adds validate_only  (KIP-778)
v2  drops results: all features change, or none                (KIP-1022)
"""

from ottla.wire.schema import Bool, Int8, Int16, Int32, String, at, message, struct


@struct
class FeatureUpdateKey:
    feature: String
    max_version_level: Int16  # below 1: remove the feature
    allow_downgrade: Bool = at("0", default=False)
    upgrade_type: Int8 = at("1+", default=1)  # 1: upgrade, 2: safe, 3: lossy downgrade


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesRequest:
    timeout_ms: Int32 = 60000
    feature_updates: tuple[FeatureUpdateKey, ...]
    validate_only: Bool = at("1+", default=False)


@struct
class UpdatableFeatureResult:
    feature: String
    error_code: Int16 = 0
    error_message: String | None = None


@message(key=57, versions="0-2", flexible="0+")
class UpdateFeaturesResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    results: tuple[UpdatableFeatureResult, ...] = at("0-1", default=(), ignorable=True)
