"""The TLS context of a client, from its settings, and what its failures mean."""

import ssl
from typing import Final

from ottla.client.config import ClientConfig
from ottla.errors import ConfigError, TrustError

_CERTIFICATE: Final = ": it may want another certificate, see ssl_certfile and ssl_keyfile"
_HINTS: Final = {"PROTOCOL_VERSION": ": it speaks no version of TLS that we speak"}


def context_of(config: ClientConfig) -> ssl.SSLContext | None:
    """What to wrap connections in; None where they are not encrypted.

    Raises `ConfigError` for files that cannot be read as what they should be.
    """
    if not config.uses_tls:
        return None
    if config.ssl_context is not None:
        return config.ssl_context
    try:
        context = ssl.create_default_context(cafile=config.ssl_cafile)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if config.ssl_certfile is not None:
            context.load_cert_chain(
                config.ssl_certfile, config.ssl_keyfile, lambda: config.ssl_key_password or ""
            )
        if config.ssl_cipher_suites is not None:
            context.set_ciphers(config.ssl_cipher_suites)
    except (OSError, ssl.SSLError) as error:
        files = (config.ssl_cafile, config.ssl_certfile, config.ssl_keyfile)
        named = ", ".join(name for name in files if name is not None) or "ssl settings"
        raise ConfigError(f"{named}: {error.strerror or error}") from None
    context.check_hostname = config.ssl_endpoint_identification_algorithm == "https"
    return context


def refusal(node: str, error: Exception | None) -> TrustError | None:
    """The error to raise if `error` is an alert: the broker speaks TLS, but not with us.

    With TLS 1.3 it comes when our side of the handshake is over, as an answer to the first request.
    """
    reason = error.reason if isinstance(error, ssl.SSLError) else None
    if reason is None or "_ALERT_" not in reason:
        return None
    alert = reason.partition("_ALERT_")[2]
    if alert == "INTERNAL_ERROR":
        return None  # its own trouble, which may pass
    words = alert.replace("_", " ").lower()
    return TrustError(
        f"{node} refused the TLS handshake ({words}){_HINTS.get(alert, _CERTIFICATE)}"
    )
