"""Consumers: read records, alone or as members of a group.

A consumer has two halves.  On its I/O thread, `core` holds what asks brokers: `fetcher` (records,
ahead of the caller), `positioner` (where to read), `committer`, and a `membership`: `solo`,
`classic_group` or `modern_group`.  In its caller's thread are `reading` (what a caller may ask
for), `taking` (waits for records, and takes them off the shelf) and `turns` (carries out what a
rebalance asks).  Between the halves: `shelf` (chunks of records), `mailbox` (turns and errors),
`Presence` (when the caller polled).

Where to start: `consumer` and `asynchronous`, the two faces; then `reading`; then `core`.

Pure, tested without a loop: `chunks`, `partition`, `shelf`, `fetch_session`, `subscription`,
`progress`, `classic`, `modern`, `assignors`, `sticky`.

Invariants: a position moves only when its records are handed out, or by a seek; partitions change
hands only inside a call of the caller; what is committed by itself was processed (`progress`).
"""
