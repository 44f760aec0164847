"""A broker on one event loop: bytes in, requests handled, bytes out.

Start with `server`, which puts the parts together, then follow a request: `listener` accepts a
connection, `session` turns its bytes into requests and keeps responses in order, `dispatch` finds
the handler, and `handlers` has one file for each API.  What they work on: `partition` (the leader's
side of a log), `validation` (what a produced batch must be), `fetching` and `fetch_sessions` (reads
that wait, and what a client need not repeat), `flusher` (group commit), `storage` (the data
directory), `cleaning` (retention and compaction), `chores` (when that is due), `freezing` (a copy
of it all at one moment, asked for at the socket of `control`).  `meters` count and time, and
`metrics` tells of it over `http`.  `embedded` runs it all inside another program.

Handlers ask and answer; decisions live in the layers below.  Nothing here may block the loop: a
sync of the disk is the only thing that waits, and it waits in `ottla.runtime`.

Never import here: `ottla.client`, or anything above.
"""
