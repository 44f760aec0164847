"""The metadata store: a small ordered map with transactions.

`interface` is what a store promises, and `tests/conformance/test_ports_store.py` holds every store
to it.  `sqlite` keeps one node's metadata in a file, `memory` is for simulations.
"""
