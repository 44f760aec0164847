"""ListConfigResources (key 74): what has settings of its own.

Loggers, client metrics and groups are asked for legally, and have no settings here.
"""

from typing import Final

from ottla.broker.context import Context
from ottla.cluster.configs import ResourceType
from ottla.errors import ErrorCode
from ottla.wire.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

_FIRST_VERSION_WITH_TYPES: Final = 1


def list_config_resources(
    request: ListConfigResourcesRequest, context: Context
) -> ListConfigResourcesResponse:
    """List brokers, then topics, as far as they are of the types asked for."""
    legal = set(ResourceType)
    if context.version < _FIRST_VERSION_WITH_TYPES:
        legal = {ResourceType.CLIENT_METRICS}
    types = set(request.resource_types) or legal
    if not types <= legal:
        return ListConfigResourcesResponse(
            error_code=ErrorCode.UNSUPPORTED_VERSION, config_resources=()
        )
    image = context.node.controller.image
    resources = [
        *((ResourceType.BROKER, str(node_id)) for node_id in sorted(image.brokers)),
        *((ResourceType.TOPIC, name) for name in sorted(image.topics)),
    ]
    return ListConfigResourcesResponse(
        config_resources=tuple(
            ConfigResource(resource_name=name, resource_type=kind)
            for kind, name in resources
            if kind in types
        )
    )
