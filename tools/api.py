"""The public names of Ottla: what a user may import and we may not change lightly."""

import importlib
from typing import Final

PUBLIC_PACKAGES: Final = (
    "ottla",
    "ottla.errors",
    "ottla.pipeline",
    "ottla.telemetry",
    "ottla.testing",
)


def public_names() -> list[str]:
    """Every public name with its package, sorted: `ottla.errors.BatchError`."""
    return sorted(
        f"{package}.{name}"
        for package in PUBLIC_PACKAGES
        for name in importlib.import_module(package).__all__
    )


def page() -> str:
    """docs/reference/api.txt."""
    heading = "# Public names.  Written by `make fix`; a change here is a change for users.\n"
    return heading + "".join(f"{name}\n" for name in public_names())
