"""The producer: from `send` to the acknowledgment.

Where to start: `producer` and `asynchronous` (the two faces), then `core`, what is behind them in
the caller's thread, and `pump`, which moves batches on the I/O thread.

    quick           plain bytes straight into an open batch; compiled, where  kernel  finds that
    outgoing        interceptors, serdes, headers: what a program sends -> bytes
    routes          topic -> the lines of its partitions; partitioners chooses one
    lines           batches that wait, one line for each partition, and the memory they share
    many, arrow     many records at once; rows of Arrow tables;  pieces  as large as a batch
    workshop        batches of long tables, which the I/O thread builds
    batch           one batch on its way;  delivery  futures, callbacks, failures nobody looked at
    sender          what leaves when and in which order, and what each answer means
    numbering       sequence numbers and epochs: nothing twice, nothing out of order
    requests        shipments as Produce requests;  intake  where callers put records
    transactions    what may be done when;  coordination  talks to the coordinator
    config          its settings;  settings  their types, for type checkers

`batch`, `lines`, `numbering`, `partitioners`, `requests`, `routes`, `sender` and `transactions` are
pure: tested without a loop or a thread.  One lock guards what callers and the I/O thread share
(`pump.Stock`); users' callbacks are called without it.
"""
