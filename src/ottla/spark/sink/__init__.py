"""Writing from Spark: exactly once, or at least once.

Where to start: `protocol` says how a micro-batch gets into the log once, whatever fails; it is
pure, and `brokers` performs its steps.  `writer` is what Spark calls, `tasks` what runs on
executors, `rows` turns columns into records, `decisions` is what is kept of each batch.

`foreach` has the way for queries whose output mode is `update` or `complete`.
"""
