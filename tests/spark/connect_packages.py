"""What Spark Connect needs beside PySpark, and `ottla[spark]` does not bring: pandas among it.

Our other tests run without it, as most of our users do.
"""

import importlib.util

import pytest

PACKAGES = ("grpc", "grpc_status", "pandas", "yaml", "zstandard")

needs_connect = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in PACKAGES),
    reason="needs the packages of Spark Connect: run `make compat-connect`",
)
