"""CRC-32C (Castagnoli): the checksum in every batch, and of our own files.

`crc32c(data, crc=0)` takes any bytes-like object; `crc` is the checksum of the bytes before it.
It is the compiled twin's where that was built, else the `crc32c` wheel's, else a table's.
"""

from ottla.records.kernel import kernel

crc32c = kernel.crc32c
