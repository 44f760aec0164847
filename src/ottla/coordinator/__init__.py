"""Coordinators as machines: who is in a group, what it has read, what a transaction has written.

Start with `effects`: what a machine may ask of the world.  `group` holds consumer groups and the
offsets they commit, `txn` transactions, `config` the settings of all coordinators, `patterns` the
expressions by which clients choose names.

Nothing here waits.  A method takes a request and the time and returns effects, which the broker's
shell performs; clock, sockets, threads and randomness are never imported.
"""
