"""ApiVersions (key 18): what this broker speaks."""

import re
from typing import Final

from ottla.broker.context import Context
from ottla.errors import ErrorCode
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)
from ottla.wire.registry import ApiKey

_LEGAL_SOFTWARE_NAME: Final = r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?"

_ADVERTISED_FROM: Final = {ApiKey.PRODUCE: 0}
"""Versions announced but not served: librdkafka before 2.8 stops compressing where Produce does
not start at 0 (KAFKA-18659)."""

_FEATURES: Final = {"group.version": 1, "transaction.version": 2}
"""What the whole cluster has turned on: KIP-848, and transactions that bump the epoch (KIP-890)."""

_FEATURES_EPOCH: Final = 1
"""They never change."""

_FIRST_VERSION_WITH_LEVEL_0: Final = 4


def api_versions(request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """List every API with its versions."""
    if context.version >= 3 and not _is_legal(request):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST, api_keys=())
    return ApiVersionsResponse(
        api_keys=tuple(
            ApiVersion(
                api_key=key,
                min_version=_ADVERTISED_FROM.get(route.key, route.versions.low),
                max_version=route.versions.high,
            )
            for key, route in context.node.routes.items()
        ),
        supported_features=_supported(context.version),
        finalized_features_epoch=_FEATURES_EPOCH,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in _FEATURES.items()
        ),
    )


def _supported(version: int) -> tuple[SupportedFeatureKey, ...]:
    """What could be turned on; before v4 a range that begins at 0 had to be left out."""
    lowest = 0 if version >= _FIRST_VERSION_WITH_LEVEL_0 else 1
    return tuple(
        SupportedFeatureKey(name=name, min_version=lowest, max_version=level)
        for name, level in _FEATURES.items()
    )


def _is_legal(request: ApiVersionsRequest) -> bool:
    """Whether the client's software is named as KIP-511 wants it."""
    names = (request.client_software_name, request.client_software_version)
    return all(re.fullmatch(_LEGAL_SOFTWARE_NAME, name) for name in names)
