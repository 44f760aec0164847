"""The log of one partition: segments, their indexes, recovery, retention, compaction.

Start with `log` (append, read, roll, truncate), then `segment` (one file of batches), then
`recovery` (what is on disk after a crash, and what we make of it).  `files` has the names,
`checkpoints` the small text files beside them.

Everything here is synchronous and owned by one loop.  Files are reached through `ottla.ports.Disk`
only; clock, threads and sockets are never imported.
"""
