"""Record batches: the unit in which records are sent, stored and fetched.

Start with `batch`, a view on the bytes of one batch; then `builder`, which makes those bytes, and
`control`, the batches that end transactions.  `codec` says how records lie inside a batch, in
readable Python (`plain_writer` and `plain_hashes` are parts of it); `_codec.pyx` is its compiled
twin, and `kernel` is whichever of the two runs here.
`arrow` turns batches into columns and back; `compression`, `crc32c` and `murmur2` do what they are
named for.  `shapes` has the types that go in and out of all these, `faults` the words of refusal.

A batch is bytes, and stays bytes: whoever only moves or stores it never looks at its records.
Bytes that come from outside are never trusted: each length is checked against what is left before
anything is read or allocated, and whatever is wrong raises `BatchError`, nothing else.

Never import here: clocks, sockets, threads, files, or `ottla.wire`.  `pyarrow` and the compression
wheels are imported inside functions, because most programs that use this package need none.
"""
