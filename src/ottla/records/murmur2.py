"""Murmur2 as Kafka's Java client computes it, so that a key finds the same partition everywhere.

The hash is a signed 32-bit integer, as in Java; `(hash & 0x7FFFFFFF) % partition_count` is the
partition of a key.  For a column of keys see `ottla.records.arrow.murmur2_of`.
"""

from ottla.records.kernel import kernel

murmur2 = kernel.murmur2
murmur2_column = kernel.murmur2_column
