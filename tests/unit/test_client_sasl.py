"""SASL conversations, against the examples of the RFCs."""

import pytest

from ottla.client.sasl import OAuthBearer, Plain, Scram, conversation
from ottla.errors import CredentialsError

# RFC 7677, section 3.
SHA256_NONCE = "rOprNGfwEbeRWgbNEkqO"
SHA256_SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
SHA256_CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SHA256_SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram() -> Scram:
    """The conversation of RFC 7677."""
    return Scram("sha256", "user", "pencil", SHA256_NONCE)


def test_scram_sha_256_speaks_as_rfc_7677_shows() -> None:
    talk = scram()
    assert talk.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert talk.step(SHA256_SERVER_FIRST) == SHA256_CLIENT_FINAL
    assert talk.step(SHA256_SERVER_FINAL) is None


def test_scram_speaks_as_rfc_5802_shows() -> None:
    talk = Scram("sha1", "user", "pencil", "fyko+d2lbbFgONRv9qkxdawL")
    assert talk.first() == b"n,,n=user,r=fyko+d2lbbFgONRv9qkxdawL"
    server_first = b"r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,s=QSXCR+Q6sek8bf92,i=4096"
    assert talk.step(server_first) == (
        b"c=biws,r=fyko+d2lbbFgONRv9qkxdawL3rfcNHYJY1ZVvWVs7j,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="
    )
    assert talk.step(b"v=rmF9pqV8S7suAoZWja4dJRkFsKQ=") is None


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        (b"v=7rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "does not know the password"),
        (b"e=invalid-proof", "refused the password: invalid-proof"),
        (b"x=1", "has no field 'v'"),
        (b"v=?", "not base64"),
        (b"\xff", "not text"),
    ],
)
def test_a_broker_that_proves_nothing_is_not_believed(verdict: bytes, reason: str) -> None:
    talk = scram()
    talk.step(SHA256_SERVER_FIRST)
    with pytest.raises(CredentialsError, match=reason):
        talk.step(verdict)


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (SHA256_SERVER_FIRST.replace(b"r=rO", b"r=xx"), "nonce does not match"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "nonce does not match"),
        (SHA256_SERVER_FIRST.replace(b"i=4096", b"i=1"), "'1' iterations are not 4096 to"),
        (SHA256_SERVER_FIRST.replace(b"i=4096", b"i=99999999"), "iterations are not 4096 to"),
        (SHA256_SERVER_FIRST.replace(b"i=4096", b"i=-4096"), "iterations are not 4096 to"),
        (SHA256_SERVER_FIRST.replace(b",i=4096", b""), "has no field 'i'"),
        (SHA256_SERVER_FIRST.replace(b"s=W22", b"s=%%"), "not base64"),
    ],
)
def test_a_challenge_that_weakens_the_proof_is_refused(challenge: bytes, reason: str) -> None:
    with pytest.raises(CredentialsError, match=reason):
        scram().step(challenge)


def test_commas_and_equal_signs_in_names_are_escaped() -> None:
    assert Scram("sha256", "a=b,c", "p", "nonce").first() == b"n,,n=a=3Db=2Cc,r=nonce"


def test_plain_is_two_zeros_and_two_words() -> None:
    talk = Plain("tim", "tanstaaftanstaaf")  # RFC 4616, section 4
    assert talk.first() == b"\0tim\0tanstaaftanstaaf"
    assert talk.step(b"") is None


def test_a_bearer_shows_its_token() -> None:
    talk = OAuthBearer("vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==", {"logicalCluster": "lkc-1"})
    assert talk.first() == (
        b"n,,\x01auth=Bearer vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg==\x01"
        b"logicalCluster=lkc-1\x01\x01"
    )
    assert talk.step(b"") is None


def test_a_bearer_acknowledges_the_brokers_complaint() -> None:
    assert OAuthBearer("t").step(b'{"status":"invalid_token"}') == b"\x01"


def test_each_mechanism_of_the_settings_begins_a_conversation() -> None:
    def first(mechanism: str) -> bytes:
        return conversation(
            mechanism, username="u", password="p", token="t", random_bytes=b"\xff\xff\xff"
        ).first()

    assert first("PLAIN") == b"\0u\0p"
    assert first("SCRAM-SHA-256") == first("SCRAM-SHA-512") == b"n,,n=u,r=////"
    assert first("OAUTHBEARER") == b"n,,\x01auth=Bearer t\x01\x01"
