"""What the console refuses on its own, before it asks the cluster."""

from ottla.errors import OttlaError


class InputError(OttlaError, ValueError):
    """What somebody typed makes no sense; the text says what would."""
