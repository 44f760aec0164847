"""The public names are those that docs/reference/api.txt lists, so that a change shows."""

import importlib

import pytest

from tests.architecture.source import ROOT
from tools.api import PUBLIC_PACKAGES, public_names

LISTED = (ROOT / "docs" / "reference" / "api.txt").read_text("utf-8").splitlines()


def test_the_list_is_what_can_be_imported() -> None:
    assert [line for line in LISTED if not line.startswith("#")] == public_names()


@pytest.mark.parametrize("package", PUBLIC_PACKAGES)
def test_all_names_exist_and_come_sorted(package: str) -> None:
    module = importlib.import_module(package)
    assert [name for name in module.__all__ if not hasattr(module, name)] == []
    assert len(module.__all__) == len(set(module.__all__))


@pytest.mark.parametrize("package", PUBLIC_PACKAGES)
def test_no_public_class_or_function_is_left_out(package: str) -> None:
    module = importlib.import_module(package)
    defined = {
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == package
    }
    assert defined <= set(module.__all__)
