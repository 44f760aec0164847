"""DescribeConfigs (key 32): the settings of topics and brokers, and where each comes from."""

from ottla.broker.context import Context
from ottla.cluster.configs import ConfigEntry
from ottla.cluster.decision import Refusal
from ottla.wire.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
    DescribeConfigsResult,
    DescribeConfigsSynonym,
)


def describe_configs(request: DescribeConfigsRequest, context: Context) -> DescribeConfigsResponse:
    """Describe each resource, in the order of the request."""
    return DescribeConfigsResponse(
        results=tuple(_result(resource, request, context) for resource in request.resources)
    )


def _result(
    resource: DescribeConfigsResource, request: DescribeConfigsRequest, context: Context
) -> DescribeConfigsResult:
    found = context.node.controller.describe_config(
        resource.resource_type,
        resource.resource_name,
        resource.configuration_keys or None,  # no names at all stand for every name, as null does
        with_documentation=request.include_documentation,
    )
    if isinstance(found, Refusal):
        return DescribeConfigsResult(
            error_code=found.error,
            error_message=found.message,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
            configs=(),
        )
    return DescribeConfigsResult(
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=tuple(_described(entry, request.include_synonyms) for entry in found),
    )


def _described(entry: ConfigEntry, has_synonyms: bool) -> DescribeConfigsResourceResult:
    return DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
        synonyms=tuple(
            DescribeConfigsSynonym(name=synonym.name, value=synonym.value, source=synonym.source)
            for synonym in entry.synonyms
            if has_synonyms
        ),
        config_type=entry.type,
        documentation=entry.documentation,
    )
