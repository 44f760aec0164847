"""Consumer groups: their members, their generations, and the offsets they commit.

Start with `machine`: the coordinator of one partition of `__consumer_offsets`, one method for each
request.  `classic` is one group with its table of states; `rebalance` takes a group from one
generation to the next, `joining` and `membership` are the requests of its members.  `offsets` has
what was committed, `committing` the requests about it, `records` how all of it lies in the log, and
`telling` what is told about groups.  Groups of the new protocol are in `consumer`, and `registry`
holds both kinds.

The log of a machine is Kafka's own format, so that either program reads the other's.
"""
