"""How fast we are, as ratios to named peers in the same run.

Start with `__main__`, the command; then `harness`, which races two contestants, and `records` and
`wire`, which say who races whom at what.  `child` runs one table in a process of its own, and
`report` words the outcome.  `broker` measures a whole broker: `blast` loads it, `processes` runs
it, `bare` is the loopback that it is compared with, and `standing` is what it costs at rest.
`transactions` compares transactional producers (`txn_producers`) with idempotent ones.  `groups`
measures the coordinators of groups, through the bare members of `membership`.  `clients` puts our
clients beside others: `contest` says what a contestant is, `writers`, `readers` and `round_trips`
have them, and `contestants` runs one in a process of its own.  `kafka` and `load` put our broker
beside Apache Kafka: `rivals` has them take turns, `rest` looks at them when nobody asks anything.
`scale` asks how cost grows.  `results` writes the page, and `plots` draws it.  `guard` is not a
benchmark but a check: of CPU time, and of the `lines` that a request runs.

A figure is worth something only if both contestants did the same work.  So each race compares
what they give before it times them, and a difference is an error, not a footnote.
"""
