"""An Apache Kafka that wants to know who it talks to, and the clients that say so.

Its plain listener is the administrator's: whoever comes that way may do everything.  The others
have TLS with or without a client's certificate, and SASL with or without TLS.
"""

import base64
import json
import time
from pathlib import Path
from typing import Any, Final

from tests.client.certificates import AUTHORITY, CERTIFICATE, KEY, STRANGER
from tests.kafka_cluster import DEFAULTS, HEAP
from tools.apache_kafka import ApacheKafka, Setup

USER: Final = "ada"
PASSWORD: Final = "love,lace="  # what SCRAM has to escape in names may be in passwords as it is
LISTENERS: Final = {
    "TLS": "SSL",
    "MUTUAL": "SSL",
    "SASL": "SASL_PLAINTEXT",
    "SASLTLS": "SASL_SSL",
    "BRIEF": "SASL_PLAINTEXT",
}
MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")
SESSION_MS: Final = 1_500
"""How long a client of listener BRIEF is known before it must say again who it is.

Kafka wants to hear it once a second at most, and we say it when 85 % of the time are over.
"""

_MODULES: Final = "org.apache.kafka.common.security"
_LOGINS: Final = {
    "PLAIN": f'{_MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";',
    "SCRAM-SHA-256": f"{_MODULES}.scram.ScramLoginModule required;",
    "SCRAM-SHA-512": f"{_MODULES}.scram.ScramLoginModule required;",
    "OAUTHBEARER": f"{_MODULES}.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="broker";',
}


def guarded(version: str) -> ApacheKafka:
    """Such a Kafka, to be started."""
    settings: dict[str, object] = {
        **DEFAULTS,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": CERTIFICATE,
        "ssl.keystore.key": KEY,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": AUTHORITY,
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.brief.connections.max.reauth.ms": SESSION_MS,
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "allow.everyone.if.no.acl.found": True,
    }
    for listener in ("sasl", "sasltls", "brief"):
        settings[f"listener.name.{listener}.sasl.enabled.mechanisms"] = ",".join(MECHANISMS)
        for mechanism, login in _LOGINS.items():
            prefix = f"listener.name.{listener}.{mechanism.lower()}"
            settings[f"{prefix}.sasl.jaas.config"] = login
    return ApacheKafka(version, Setup(settings=settings, listeners=LISTENERS, heap=HEAP))


class Door:
    """How clients get in: what they need to know for each listener."""

    def __init__(self, kafka: ApacheKafka, folder: Path) -> None:
        self.kafka = kafka
        self.authority = self._file(folder / "ca.pem", AUTHORITY)
        self.ours = self._file(folder / "ours.pem", CERTIFICATE + KEY)
        self.strangers = self._file(folder / "stranger.pem", STRANGER)

    def options(self, listener: str, **more: Any) -> Any:
        """The options of a client that comes through a listener."""
        protocol = LISTENERS[listener]
        options: dict[str, Any] = {
            "bootstrap_servers": self.kafka.address(listener),
            "security_protocol": protocol,
        }
        if protocol.endswith("SSL"):
            options["ssl_cafile"] = self.authority
        return options | more

    def _file(self, path: Path, text: str) -> Path:
        path.write_text(text, "utf-8")
        return path


def credentials(mechanism: str, *, is_right: bool = True) -> dict[str, Any]:
    """What a client says of itself."""
    if mechanism == "OAUTHBEARER":
        return {
            "sasl_mechanism": mechanism,
            "sasl_oauth_token": lambda: token() if is_right else token(lifetime_s=-3600),
        }
    return {
        "sasl_mechanism": mechanism,
        "sasl_username": USER,
        "sasl_password": PASSWORD if is_right else "byron",
    }


def token(lifetime_s: float = 3600) -> str:
    """A token that nobody signed, as Kafka takes it unless it is told otherwise."""
    now_s = time.time()
    claims = {"sub": USER, "iat": now_s, "exp": now_s + lifetime_s}
    return ".".join(_encoded(part) for part in ({"alg": "none"}, claims)) + "."


def _encoded(part: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
