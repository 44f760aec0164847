"""DescribeUserScramCredentials (key 50): which SCRAM mechanisms users have; no secrets.

v0  the only version                                      (KIP-554)
"""

from ottla.wire.schema import Int8, Int16, Int32, String, message, struct


@struct
class UserName:
    name: String


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsRequest:
    users: tuple[UserName, ...] | None  # null or empty: all


@struct
class CredentialInfo:
    mechanism: Int8  # 1: SCRAM-SHA-256, 2: SCRAM-SHA-512
    iterations: Int32


@struct
class DescribeUserScramCredentialsResult:
    user: String
    error_code: Int16 = 0
    error_message: String | None = None
    credential_infos: tuple[CredentialInfo, ...]


@message(key=50, versions="0", flexible="0+")
class DescribeUserScramCredentialsResponse:
    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = None
    results: tuple[DescribeUserScramCredentialsResult, ...]
