"""What is written down rather than sent: records of internal topics, and files next to segments.

Start with `group_records`, the committed offsets and groups in __consumer_offsets; groups of the
new protocol are in `consumer_group_records`, the records of __transaction_state in
`transaction_records`.  `control_records` end transactions in a partition, `log_files` are the
aborted transactions and producers of one, and `consumer_protocol` is what consumers put into
JoinGroup and SyncGroup for each other.  `versioned` reads and writes the two bytes in front of
each of them.

The formats are Apache Kafka's own, so that its tools can read our files and we can read its.  What
is written today may be read by an older broker after a downgrade, so records that change gain
tagged fields, which an older broker skips, rather than new versions (KIP-915).

Never import here: `ottla.wire.messages`, or anything that `ottla.wire` itself must not.
"""
