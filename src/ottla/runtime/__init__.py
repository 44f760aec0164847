"""The ports on a real machine, and the owner of a program's tasks.

Start with `disk`, the only one with rules of its own; `network`, `clock` and `entropy` are thin.
`supervisor` starts, watches and stops what a program runs.  Each port has a simulated twin in
`ottla.testing`, and `tests/conformance/test_ports_*.py` holds both to the same promises.

Threads live here and in the clients, nowhere else: `disk` hides those that wait for the device.
Never import here: the broker, the clients, or anything that knows what a record is.
"""
