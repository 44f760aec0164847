"""Passwords of users for SCRAM, as the cluster keeps them.

The password itself never leaves this process: what is sent is salted and hashed, as RFC 5802 has
it.  Who gets hold of that can still pretend to be the user, so send it over TLS.
"""

import hashlib
from collections.abc import Collection
from typing import Final, Literal

from ottla.client.admin.calling import Caller
from ottla.client.admin.outcomes import all_or_raise, outcome_of
from ottla.client.sasl import MIN_ITERATIONS
from ottla.client.targets import CONTROLLER
from ottla.errors import ErrorCode, OttlaError, RequestError, raise_for_code
from ottla.values import dataclass
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

ScramMechanism = Literal["SCRAM-SHA-256", "SCRAM-SHA-512"]

_NUMBERS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_SALT_BYTES: Final = 24
_DEFAULT_ITERATIONS: Final = 8192
_MAX_ITERATIONS: Final = 16_384
"""What Apache Kafka's brokers accept at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScramCredential:
    """How a user may authenticate; nobody can tell the password."""

    mechanism: str
    iterations: int


async def describe_scram_users(
    caller: Caller, names: Collection[str] = ()
) -> dict[str, tuple[ScramCredential, ...]]:
    """User -> the credentials that it has.

    Args:
        names: Which users; none: all.

    Raises:
        NotFoundError: There is no such user.
        UnsupportedError: The broker has no users, as Ottla's has not yet.
    """
    answer = await caller.call(
        DescribeUserScramCredentialsRequest(
            users=tuple(UserName(name=name) for name in names) or None
        ),
        DescribeUserScramCredentialsResponse,
    )
    raise_for_code(answer.error_code, answer.error_message or "describing SCRAM users")
    outcomes: dict[str, tuple[ScramCredential, ...] | OttlaError] = {
        told.user: outcome_of(
            told.error_code,
            told.error_message or f"user {told.user!r}",
            tuple(
                ScramCredential(mechanism=_mechanism(info.mechanism), iterations=info.iterations)
                for info in told.credential_infos
            ),
        )
        for told in answer.results
    }
    return all_or_raise(outcomes)


async def set_scram_password(
    caller: Caller,
    user: str,
    password: str,
    *,
    mechanism: ScramMechanism = "SCRAM-SHA-512",
    iterations: int = _DEFAULT_ITERATIONS,
) -> None:
    """Give a user a password, in place of the one it had for this mechanism.

    Args:
        user: The user's name; it need not exist yet.
        password: What it authenticates with from now on.
        mechanism: How.
        iterations: How often it is hashed: more make it harder to guess, and slower to check.

    Raises:
        RequestError: Name, password or number of iterations are not allowed.
        UnsupportedError: The broker has no users, as Ottla's has not yet.
    """
    number = _number(mechanism)
    if not MIN_ITERATIONS <= iterations <= _MAX_ITERATIONS:
        raise RequestError(
            ErrorCode.UNACCEPTABLE_CREDENTIAL,
            f"iterations = {iterations} is outside [{MIN_ITERATIONS}, {_MAX_ITERATIONS}]",
        )
    if not user or not password:
        raise RequestError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "a user needs a name and a password")
    salt = caller.engine.ports.entropy.random_bytes(_SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(_HASHES[mechanism], password.encode(), salt, iterations)
    await _alter(
        caller,
        AlterUserScramCredentialsRequest(
            deletions=(),
            upsertions=(
                ScramCredentialUpsertion(
                    name=user,
                    mechanism=number,
                    iterations=iterations,
                    salt=salt,
                    salted_password=salted,
                ),
            ),
        ),
    )


async def delete_scram_password(
    caller: Caller, user: str, *, mechanism: ScramMechanism = "SCRAM-SHA-512"
) -> None:
    """Take a user's password for this mechanism away.

    Raises:
        NotFoundError: It has none.
        UnsupportedError: The broker has no users, as Ottla's has not yet.
    """
    deletion = ScramCredentialDeletion(name=user, mechanism=_number(mechanism))
    await _alter(caller, AlterUserScramCredentialsRequest(deletions=(deletion,), upsertions=()))


async def _alter(caller: Caller, request: AlterUserScramCredentialsRequest) -> None:
    answer = await caller.call(
        request,
        AlterUserScramCredentialsResponse,
        to=CONTROLLER,
        failure=lambda got: got.results[0].error_code,
    )
    for told in answer.results:
        raise_for_code(told.error_code, told.error_message or f"user {told.user!r}")


def _number(mechanism: str) -> int:
    number = _NUMBERS.get(mechanism)
    if number is None:
        raise RequestError(
            ErrorCode.INVALID_REQUEST, f"{mechanism!r} is none of {', '.join(_NUMBERS)}"
        )
    return number


def _mechanism(number: int) -> str:
    known = {number: name for name, number in _NUMBERS.items()}
    return known.get(number, f"unknown ({number})")
