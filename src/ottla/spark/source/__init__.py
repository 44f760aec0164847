"""The source: reading topics into Spark, as batches and as streams.

What Spark calls: `stream` and `batch`.  On the driver, `tracking` decides how far each batch goes
and `starting` where the first one begins; both ask through `lookup`, a protocol, of which `brokers`
(with `watching`) is the real one.  `planning` shares offsets out among tasks, `loss` has the words
for what is gone.  In a task, `reading` makes rows, from what `fetching` brings: `columns` says
which, `decoding` and `avro` read values.

`planning`, `starting` and `tracking` touch neither network nor clock, and are tested without.
Nothing here keeps a record as a Python object.
"""
