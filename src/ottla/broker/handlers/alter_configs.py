"""AlterConfigs (key 33): replace all settings of a topic or broker."""

from ottla.broker.context import Context
from ottla.cluster.alterations import ConfigAlteration
from ottla.wire.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)


async def alter_configs(request: AlterConfigsRequest, context: Context) -> AlterConfigsResponse:
    """Answer with one result for each resource, in the order of the request."""
    outcomes = await context.node.controller.alter_configs(
        [
            ConfigAlteration(
                resource_type=resource.resource_type,
                name=resource.resource_name,
                configs=[(config.name, config.value) for config in resource.configs],
            )
            for resource in request.resources
        ],
        validate_only=request.validate_only,
    )
    return AlterConfigsResponse(
        responses=tuple(
            AlterConfigsResourceResponse(
                error_code=outcome.error,
                error_message=outcome.message,
                resource_type=outcome.resource_type,
                resource_name=outcome.name,
            )
            for outcome in outcomes
        )
    )
