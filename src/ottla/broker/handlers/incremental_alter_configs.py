"""IncrementalAlterConfigs (key 44): change some settings, and leave the others alone."""

from ottla.broker.context import Context
from ottla.cluster.alterations import ConfigOperation, IncrementalAlteration
from ottla.wire.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)


async def incremental_alter_configs(
    request: IncrementalAlterConfigsRequest, context: Context
) -> IncrementalAlterConfigsResponse:
    """Answer with one result for each resource, in the order of the request."""
    outcomes = await context.node.controller.incremental_alter_configs(
        [
            IncrementalAlteration(
                resource_type=resource.resource_type,
                name=resource.resource_name,
                operations=[
                    ConfigOperation(config.name, config.config_operation, config.value)
                    for config in resource.configs
                ],
            )
            for resource in request.resources
        ],
        validate_only=request.validate_only,
    )
    return IncrementalAlterConfigsResponse(
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
