"""AlterUserScramCredentials (key 51): set or remove the SCRAM passwords of users.

v0  the only version                                      (KIP-554)

The password does not travel: the client salts and hashes it, and sends the result.  Who holds that
result can compute the keys, so it belongs on an encrypted connection only.
"""

from ottla.wire.schema import Bytes, Int8, Int16, Int32, String, message, struct


@struct
class ScramCredentialDeletion:
    name: String
    mechanism: Int8  # 1: SCRAM-SHA-256, 2: SCRAM-SHA-512


@struct
class ScramCredentialUpsertion:
    name: String
    mechanism: Int8  # 1: SCRAM-SHA-256, 2: SCRAM-SHA-512
    iterations: Int32
    salt: Bytes
    salted_password: Bytes


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsRequest:
    deletions: tuple[ScramCredentialDeletion, ...]
    upsertions: tuple[ScramCredentialUpsertion, ...]


@struct
class AlterUserScramCredentialsResult:
    user: String
    error_code: Int16 = 0
    error_message: String | None = None


@message(key=51, versions="0", flexible="0+")
class AlterUserScramCredentialsResponse:
    throttle_time_ms: Int32 = 0
    results: tuple[AlterUserScramCredentialsResult, ...]
