"""The TLS context of a client, from its settings."""

import ssl

from ottla.client.config import ClientConfig
from ottla.errors import ConfigError


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
