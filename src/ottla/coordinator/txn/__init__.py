"""Transactions: who may write under a transactional id, and how each transaction ends.

Start with `machine`: the coordinator of one partition of `__transaction_state`, one method for each
request.  `transaction` is one transactional id with its table of states; `beginning` gives out
producer ids and fences those who had them, `adding` takes partitions into a transaction, `ending`
decides it.  `records` is how all of it lies in the log, and `telling` what is told about it.

Two versions of the protocol live side by side.  In version 1 a producer keeps its epoch from one
transaction to the next; in version 2 (KIP-890) every end bumps it, so that a request of the last
transaction cannot be taken for one of the next.  Who speaks which is told by the versions of its
requests.  The log is in Kafka's own format, so that either program reads the other's.
"""
