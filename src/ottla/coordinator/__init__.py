"""Coordinators as machines: who is in a group, what it has read, what a transaction has written.

Start with `effects`: what a machine may ask of the world.  `group` holds consumer groups and the
offsets they commit, `txn` transactions (no shell drives it yet), `config` the settings of all
coordinators.

Nothing here waits.  A method takes a request and the time and returns effects, which the broker's
shell performs; clock, sockets, threads and randomness are never imported.
"""
