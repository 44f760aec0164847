"""Quotas: how much users, clients and addresses may ask of brokers.

An entity has up to two parts, a user and a client id, or one, an IP address.  The default of a part
applies where nobody has a quota of his own; it is written as `DEFAULT`.
"""

from collections.abc import Mapping
from typing import Final, Literal

from ottla.client.admin.calling import Caller, passing_error
from ottla.client.targets import CONTROLLER
from ottla.errors import ErrorCode, RequestError, raise_for_code
from ottla.values import dataclass
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

Default = Literal["<default>"]
DEFAULT: Final[Default] = "<default>"

_EXACT, _DEFAULT, _ANY = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Quota:
    """What one entity may do: `producer_byte_rate`, `consumer_byte_rate`, ... -> the limit."""

    user: str | None
    client_id: str | None
    ip: str | None
    limits: Mapping[str, float]


async def describe_quotas(
    caller: Caller,
    *,
    user: str | None = None,
    client_id: str | None = None,
    ip: str | None = None,
    strict: bool = False,
) -> list[Quota]:
    """The quotas of entities that have all parts that are given.

    Args:
        user: A user's name, `DEFAULT`, or "*" for any.
        client_id: A client's id, likewise.
        ip: An address, likewise.
        strict: Leave out entities that have other parts, too.

    Raises:
        UnsupportedError: The broker has no quotas, as Ottla's has not yet.
    """
    answer = await caller.call(
        DescribeClientQuotasRequest(
            components=tuple(
                _component(kind, name) for kind, name in _parts(user, client_id, ip).items()
            ),
            strict=strict,
        ),
        DescribeClientQuotasResponse,
    )
    raise_for_code(answer.error_code, answer.error_message or "describing quotas")
    found = []
    for entry in answer.entries or ():
        names = {
            part.entity_type: DEFAULT if part.entity_name is None else part.entity_name
            for part in entry.entity
        }
        found.append(
            Quota(
                user=names.get("user"),
                client_id=names.get("client-id"),
                ip=names.get("ip"),
                limits={value.key: value.value for value in entry.values},
            )
        )
    return found


async def alter_quotas(
    caller: Caller,
    *,
    user: str | None = None,
    client_id: str | None = None,
    ip: str | None = None,
    limits: Mapping[str, float | None],
    dry_run: bool = False,
) -> None:
    """Limit what an entity may do.

    Args:
        user: A user's name, or `DEFAULT`.
        client_id: A client's id, or `DEFAULT`.
        ip: An address, or `DEFAULT`.
        limits: `producer_byte_rate`, `consumer_byte_rate`, ... -> the limit; None: none.
        dry_run: Only find out whether it would be accepted.

    Raises:
        RequestError: There is no such limit, or such an entity cannot be.
        UnsupportedError: The broker has no quotas, as Ottla's has not yet.
    """
    parts = _parts(user, client_id, ip)
    if not parts:
        raise RequestError(ErrorCode.INVALID_REQUEST, "name a user, a client id or an address")
    entry = EntryData(
        entity=tuple(
            EntityData(entity_type=kind, entity_name=None if name == DEFAULT else name)
            for kind, name in parts.items()
        ),
        ops=tuple(
            OpData(key=key, value=0.0 if limit is None else limit, remove=limit is None)
            for key, limit in limits.items()
        ),
    )
    answer = await caller.call(
        AlterClientQuotasRequest(entries=(entry,), validate_only=dry_run),
        AlterClientQuotasResponse,
        to=CONTROLLER,
        failure=lambda got: passing_error(told.error_code for told in got.entries),
    )
    for told in answer.entries:
        raise_for_code(told.error_code, told.error_message or f"quota of {parts}")


def _parts(user: str | None, client_id: str | None, ip: str | None) -> dict[str, str]:
    named = (("user", user), ("client-id", client_id), ("ip", ip))
    return {kind: name for kind, name in named if name is not None}


def _component(kind: str, name: str) -> ComponentData:
    if name == "*":
        return ComponentData(entity_type=kind, match_type=_ANY, match=None)
    if name == DEFAULT:
        return ComponentData(entity_type=kind, match_type=_DEFAULT, match=None)
    return ComponentData(entity_type=kind, match_type=_EXACT, match=name)
