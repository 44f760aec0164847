"""Access control lists: who may do what.

An `Acl` is one rule; an `AclFilter` describes rules, where None stands for anything.  The words
are those of Kafka's own tools, in lower case.
"""

from collections.abc import Mapping
from typing import Any, Final

from ottla.client.admin.calling import Caller, passing_error
from ottla.client.admin.outcomes import all_or_raise, outcome_of
from ottla.errors import ErrorCode, OttlaError, RequestError, raise_for_code
from ottla.values import dataclass
from ottla.wire.messages.create_acls import AclCreation, CreateAclsRequest, CreateAclsResponse
from ottla.wire.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.wire.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)

_ANY: Final = 1
RESOURCES: Final[Mapping[str, int]] = {
    "topic": 2,
    "group": 3,
    "cluster": 4,
    "transactional_id": 5,
    "delegation_token": 6,
    "user": 7,
}
PATTERNS: Final[Mapping[str, int]] = {"match": 2, "literal": 3, "prefixed": 4}
"""In a filter, "match" finds all rules that concern a name."""
OPERATIONS: Final[Mapping[str, int]] = {
    "all": 2,
    "read": 3,
    "write": 4,
    "create": 5,
    "delete": 6,
    "alter": 7,
    "describe": 8,
    "cluster_action": 9,
    "describe_configs": 10,
    "alter_configs": 11,
    "idempotent_write": 12,
    "create_tokens": 13,
    "describe_tokens": 14,
    "two_phase_commit": 15,
}
PERMISSIONS: Final[Mapping[str, int]] = {"deny": 2, "allow": 3}


@dataclass(frozen=True, slots=True, kw_only=True)
class Acl:
    """One rule: a principal may, or may not, do something to something."""

    principal: str
    """`User:ada`, or `User:*` for everybody."""
    operation: str
    resource: str
    name: str
    """Of the resource; the cluster is called kafka-cluster, and `*` stands for all."""
    permission: str = "allow"
    pattern: str = "literal"
    """Or "prefixed": all resources whose name begins like that."""
    host: str = "*"


@dataclass(frozen=True, slots=True, kw_only=True)
class AclFilter:
    """Which rules are meant; None: any."""

    principal: str | None = None
    operation: str | None = None
    resource: str | None = None
    name: str | None = None
    permission: str | None = None
    pattern: str | None = None
    host: str | None = None


async def create_acls(caller: Caller, *acls: Acl) -> None:
    """Add rules; one that is there already is no error.

    Raises:
        UnsupportedError: The broker has no access control, as Ottla's has not yet.
        RequestError: A word of a rule means nothing.
    """
    if not acls:
        return
    request = CreateAclsRequest(
        creations=tuple(
            AclCreation(
                resource_type=_number(RESOURCES, acl.resource, "resource"),
                resource_name=acl.name,
                resource_pattern_type=_number(PATTERNS, acl.pattern, "pattern"),
                principal=acl.principal,
                host=acl.host,
                operation=_number(OPERATIONS, acl.operation, "operation"),
                permission_type=_number(PERMISSIONS, acl.permission, "permission"),
            )
            for acl in acls
        )
    )
    answer = await caller.call(
        request,
        CreateAclsResponse,
        failure=lambda got: passing_error(result.error_code for result in got.results),
    )
    outcomes: dict[Acl, bool | OttlaError] = {
        acl: outcome_of(result.error_code, result.error_message or str(acl), True)
        for acl, result in zip(acls, answer.results, strict=True)
    }
    all_or_raise(outcomes)


async def describe_acls(caller: Caller, which: AclFilter | None = None) -> list[Acl]:
    """The rules that a filter describes; None: all.

    Raises:
        UnsupportedError: The broker has no access control, as Ottla's has not yet.
    """
    wanted = which or AclFilter()
    answer = await caller.call(
        DescribeAclsRequest(**_filtering(wanted)),
        DescribeAclsResponse,
    )
    raise_for_code(answer.error_code, answer.error_message or "describing ACLs")
    return [_acl_of(resource, acl) for resource in answer.resources for acl in resource.acls]


async def delete_acls(caller: Caller, *filters: AclFilter) -> list[Acl]:
    """Remove all rules that at least one filter describes; returns them.

    Raises:
        UnsupportedError: The broker has no access control, as Ottla's has not yet.
    """
    if not filters:
        return []
    request = DeleteAclsRequest(
        filters=tuple(DeleteAclsFilter(**_filtering(wanted)) for wanted in filters)
    )
    answer = await caller.call(
        request,
        DeleteAclsResponse,
        failure=lambda got: passing_error(result.error_code for result in got.filter_results),
    )
    outcomes: dict[AclFilter, list[Acl] | OttlaError] = {
        wanted: _deleted(wanted, result)
        for wanted, result in zip(filters, answer.filter_results, strict=True)
    }
    return [acl for acls in all_or_raise(outcomes).values() for acl in acls]


def _deleted(wanted: AclFilter, result: DeleteAclsFilterResult) -> list[Acl] | OttlaError:
    found: list[Acl] = []
    outcome = outcome_of(result.error_code, result.error_message or str(wanted), found)
    for told in result.matching_acls:
        acl = _acl_of(told, told)
        failure = outcome_of(told.error_code, told.error_message or str(acl), acl)
        if isinstance(failure, OttlaError):
            return failure
        found.append(failure)
    return outcome


def _filtering(wanted: AclFilter) -> dict[str, Any]:
    """The fields that all requests with a filter have."""
    return {
        "resource_type_filter": _number(RESOURCES, wanted.resource, "resource"),
        "resource_name_filter": wanted.name,
        "pattern_type_filter": _number(PATTERNS, wanted.pattern, "pattern"),
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": _number(OPERATIONS, wanted.operation, "operation"),
        "permission_type": _number(PERMISSIONS, wanted.permission, "permission"),
    }


def _acl_of(
    resource: DescribeAclsResource | DeleteAclsMatchingAcl,
    acl: AclDescription | DeleteAclsMatchingAcl,
) -> Acl:
    """A rule in an answer; some have the resource beside it, and some in it."""
    return Acl(
        principal=acl.principal,
        operation=_word(OPERATIONS, acl.operation),
        resource=_word(RESOURCES, resource.resource_type),
        name=resource.resource_name,
        permission=_word(PERMISSIONS, acl.permission_type),
        pattern=_word(PATTERNS, resource.pattern_type),
        host=acl.host,
    )


def _number(words: Mapping[str, int], word: str | None, what: str) -> int:
    if word is None:
        return _ANY
    number = words.get(word.lower().replace("-", "_"))
    if number is None:
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f"{what} {word!r} is none of {', '.join(words)}"
        )
    return number


def _word(words: Mapping[str, int], number: int) -> str:
    return next((word for word, known in words.items() if known == number), f"unknown ({number})")
