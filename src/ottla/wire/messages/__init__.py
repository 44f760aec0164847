"""One file for each API: its request, its response and their structs.

Start with `api_versions`, the first message of every connection, then `metadata`, `produce` and
`fetch`; `join_group` and `sync_group` are the heart of consumer groups, `init_producer_id` and
`end_txn` that of transactions.  `docs/reference/messages.md` shows all of them as tables.

Names of classes and fields are those of Apache Kafka's schemas, in Python's spelling; the file is
named for the API.  A docstring says what the API is for, then what each version changed and why
it matters.  A version that only says "the client waits out throttle_time_ms" looks like the one
before it: until then a throttled broker held the response back; since then it answers at once,
and trusts the client to stay quiet for that long (KIP-219).  In a flexible version lengths are
varints, and fields may be tagged: absent when they have their default (KIP-482).

Never import here: anything but `ottla.wire.schema`.  Declarations do nothing; a module is imported
when its key is first used (`ottla.wire.registry`), so importing one must stay cheap.
"""
