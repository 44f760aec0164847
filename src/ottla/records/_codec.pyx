"""How records lie inside a batch: the compiled twin of `codec`, which documents each function.

The work on bytes is C without the GIL (`src/native`); here are the Python objects.  Whoever reads
a buffer holds it through `_Bytes` or `_Records`, so it cannot be freed or resized meanwhile.
"""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport (
    PyBytes_AS_STRING,
    PyBytes_CheckExact,
    PyBytes_FromStringAndSize,
    PyBytes_GET_SIZE,
)
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF
from cpython.tuple cimport PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int8_t, int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from ottla.records._native cimport *

from ottla.records.faults import (
    body_too_large,
    broken_record,
    column_too_large,
    trailing_bytes,
    wrong_count,
)
from ottla.records.shapes import BinaryColumn, Columns, Encoded, HeaderColumn, Survey
from ottla.records import layout, shapes

cdef extern from "Python.h":
    object PyByteArray_FromStringAndSize(const char *data, Py_ssize_t size)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1
    ctypedef struct PyTypeObject
    object PyType_GenericAlloc(PyTypeObject *make, Py_ssize_t item_count)
    void PyObject_GC_UnTrack(PyObject *object)

cdef Py_ssize_t NOGIL_FROM_BYTES = 16384  # below this, giving up the GIL costs more than it gives
cdef int64_t GROWTH_BYTES = 4 << 20  # what is never written to costs nothing
cdef int64_t IDLE_SHARE = 8  # of a column's memory, so much may lie idle: an eighth
cdef int64_t BATCH_HEADER_BYTES = shapes.BATCH_HEADER_BYTES
cdef int64_t CHECKED_FROM = layout.CHECKED_FROM
cdef int64_t LOG_OVERHEAD_BYTES = layout.LOG_OVERHEAD_BYTES
cdef int MAGIC = layout.MAGIC
cdef int TRANSACTIONAL_BIT = layout.TRANSACTIONAL_BIT
cdef int64_t NO_PRODUCER_ID = layout.NO_PRODUCER_ID
cdef int32_t NO_SEQUENCE = layout.NO_SEQUENCE
cdef int64_t MAX_BODY_BYTES = shapes.MAX_BODY_BYTES
cdef int64_t MAX_INT32 = shapes.MAX_INT32
cdef int64_t MIN_RECORD_BYTES = shapes.MIN_RECORD_BYTES
cdef Py_ssize_t RECORD_OVERHEAD_BYTES = shapes.MAX_RECORD_OVERHEAD_BYTES
cdef int64_t HEADER_OVERHEAD_BYTES = shapes.MAX_HEADER_OVERHEAD_BYTES
cdef tuple NO_HEADERS = ()

crc32c_setup()


cdef class _Bytes:
    """Somebody's buffer, held until this object goes."""

    cdef Py_buffer buffer
    cdef const uint8_t *start
    cdef Py_ssize_t size

    def __cinit__(self, data):
        PyObject_GetBuffer(data, &self.buffer, PyBUF_SIMPLE)
        self.start = <const uint8_t *>self.buffer.buf
        self.size = self.buffer.len

    def __dealloc__(self):
        PyBuffer_Release(&self.buffer)


def crc32c(data, uint32_t crc=0, Py_ssize_t nogil_from_bytes=NOGIL_FROM_BYTES):
    """The checksum of `data`; see the Python twin."""
    cdef _Bytes view = _Bytes(data)
    if view.size < nogil_from_bytes:
        return crc32c_of(crc, view.start, view.size)
    with nogil:
        crc = crc32c_of(crc, view.start, view.size)
    return crc


def crc32c_joined(uint32_t first, uint32_t second, uint64_t second_bytes):
    """The checksum of two pieces, one behind the other, from that of each; see the Python twin."""
    return join_crc32c(first, second, second_bytes)


def murmur2(key):
    """The hash of one key."""
    if not isinstance(key, (bytes, bytearray, memoryview)):
        raise TypeError(f"a key must be bytes, bytearray or memoryview, not {type(key).__name__}")
    cdef _Bytes view = _Bytes(key)
    return murmur2_of(view.start, view.size)


cdef bytes_of(str what, field):
    """`field` as exact bytes, or None."""
    if field is None or PyBytes_CheckExact(field):
        return field
    if not isinstance(field, (bytes, bytearray, memoryview)):
        raise TypeError(
            f"a {what} must be bytes, bytearray, memoryview or None, not {type(field).__name__}"
        )
    if memoryview(field).nbytes > MAX_BODY_BYTES:
        raise body_too_large()
    return bytes(field)


cdef inline int64_t timestamp_of(timestamp_ms) except? -2:
    cdef int overflow = 0
    cdef int64_t value = PyLong_AsLongLongAndOverflow(timestamp_ms, &overflow)
    if overflow or value < -1:
        raise impossible_timestamp(timestamp_ms)
    return value


cdef impossible_timestamp(timestamp_ms):
    return ValueError(
        f"timestamp {timestamp_ms} ms is outside [-1, 2**63 - 1], or that far from the first"
    )


cdef inline int64_t field_bytes(field) noexcept:
    """How many bytes `write` takes for `field`, which is bytes or None."""
    if field is None:
        return 1
    return varint_size(PyBytes_GET_SIZE(field)) + PyBytes_GET_SIZE(field)


cdef inline uint8_t *write(uint8_t *p, const char *data, Py_ssize_t size) noexcept:
    p = store_varint(p, size)
    memcpy(p, data, size)
    return p + size


cdef inline uint8_t *write_bytes(uint8_t *p, field) noexcept:
    if field is None:
        p[0] = 1
        return p + 1
    return write(p, PyBytes_AS_STRING(field), PyBytes_GET_SIZE(field))


include "_codec_writer.pxi"


def encode(records, base_timestamp_ms=None, Py_ssize_t headroom_bytes=0):
    """Write records one after the other; see the Python twin."""
    cdef Writer writer = Writer(base_timestamp_ms, headroom_bytes)
    writer.extend(records)
    return writer.encoded()


cdef class _Records:
    """The records of one section: an iterator that holds the section's buffer."""

    cdef _Bytes body
    cdef record_cursor cursor
    cdef int64_t count
    cdef int64_t index
    cdef object timestamp
    cdef int64_t timestamp_ms

    def __cinit__(self, section):
        body, self.count, base_offset, base_timestamp_ms, append_time_ms = section
        self.body = _Bytes(body)
        self.cursor.base_offset = base_offset
        self.cursor.base_timestamp_ms = base_timestamp_ms
        self.cursor.has_append_time = append_time_ms is not None
        self.cursor.append_time_ms = -1 if append_time_ms is None else append_time_ms
        self.cursor.p = self.body.start
        self.cursor.end = self.body.start + self.body.size
        if self.count < 0 or self.count > self.body.size // MIN_RECORD_BYTES:
            raise wrong_count(self.count, self.body.size)
        if self.count == 0 and self.body.size > 0:
            raise trailing_bytes(0, self.body.size)

    def __iter__(self):
        return self

    def __next__(self):
        if self.index >= self.count:
            raise StopIteration
        try:
            return self.next_tuple()
        except BaseException:
            self.index = self.count  # whatever follows a broken record is noise
            raise

    cdef int check_end(self) except -1:
        if self.cursor.p != self.cursor.end:
            raise trailing_bytes(self.count, self.cursor.end - self.cursor.p)
        return 0

    cdef tuple next_headers(self, record_view *record):
        """Go to the next record, and return its headers."""
        cdef int fault = next_record(&self.cursor, record)
        cdef tuple headers = NO_HEADERS
        if fault:
            raise broken_record(self.index, fault)
        if record.header_count:
            headers = self.headers_of(record)
        self.index += 1
        if self.index == self.count:
            self.check_end()
        if self.timestamp is None or record.timestamp_ms != self.timestamp_ms:
            self.timestamp_ms = record.timestamp_ms
            self.timestamp = record.timestamp_ms  # often the same for many records in a row
        return headers

    cdef tuple next_tuple(self):
        cdef record_view record
        cdef tuple headers = self.next_headers(&record)
        cdef tuple decoded = (
            record.offset, self.timestamp, object_of(&record.key), object_of(&record.value), headers
        )
        # Nothing in it can be part of a cycle, so the garbage collector need not look at it.
        PyObject_GC_UnTrack(<PyObject *>decoded)
        return decoded

    cdef tuple headers_of(self, record_view *record):
        cdef field_view key, value
        cdef tuple headers = PyTuple_New(record.header_count)
        cdef tuple header
        cdef int64_t i
        cdef int fault
        PyObject_GC_UnTrack(<PyObject *>headers)  # nobody may find it half full
        for i in range(record.header_count):
            fault = next_header(record, &key, &value)
            if fault:
                raise broken_record(self.index, fault)
            header = (
                PyUnicode_DecodeUTF8(<const char *>key.p, key.size, "replace"), object_of(&value)
            )
            PyObject_GC_UnTrack(<PyObject *>header)
            Py_INCREF(header)
            PyTuple_SET_ITEM(headers, i, header)
        if record.headers != record.end:
            raise broken_record(self.index, FAULT_SURPLUS)
        return headers


cdef inline object_of(const field_view *field):
    if field.size < 0:
        return None
    return PyBytes_FromStringAndSize(<const char *>field.p, field.size)


def iterate(section):
    """The records one by one; see the Python twin."""
    return _Records(section)


def decode(section):
    """All records as tuples; see the Python twin."""
    cdef _Records records = _Records(section)
    cdef list decoded = [None] * records.count
    cdef Py_ssize_t i
    for i in range(records.count):
        decoded[i] = records.next_tuple()
    return decoded


def decode_as(section, common):
    """All records as tuples of a class of the caller's; see the Python twin."""
    cdef _Records records = _Records(section)
    cdef list decoded = [None] * records.count
    cdef record_view record
    cdef Py_ssize_t i
    cdef type make = common[0]
    _, topic, partition, timestamp_type, leader_epoch, no_headers, headers_of = common
    if not issubclass(make, tuple):
        raise TypeError(f"records are made as tuples, not as {make.__name__}")
    for i in range(records.count):
        headers = records.next_headers(&record)
        headers = headers_of(headers) if headers else no_headers
        made = PyType_GenericAlloc(<PyTypeObject *>make, 9)
        PyObject_GC_UnTrack(<PyObject *>made)  # nobody may find it half full, nor need to later
        put(made, 0, topic)
        put(made, 1, partition)
        put(made, 2, record.offset)
        put(made, 3, object_of(&record.key))
        put(made, 4, object_of(&record.value))
        put(made, 5, headers)
        put(made, 6, records.timestamp)
        put(made, 7, timestamp_type)
        put(made, 8, leader_epoch)
        decoded[i] = made
    return decoded


cdef inline void put(made, Py_ssize_t at, item) noexcept:
    Py_INCREF(item)
    PyTuple_SET_ITEM(made, at, item)


def survey(section):
    """Walk over all records, check them as `decode` does, and keep none."""
    cdef _Records records = _Records(section)
    cdef record_view record
    cdef int64_t max_ms = -1, max_offset = -1, null_keys = 0, i
    cdef bint is_dense = True
    cdef int fault = 0
    with nogil:
        for i in range(records.count):
            fault = next_record(&records.cursor, &record)
            if not fault:
                fault = skip_headers(&record)
            if fault:
                records.index = i
                break
            if max_offset == -1 or record.timestamp_ms > max_ms:
                max_ms, max_offset = record.timestamp_ms, record.offset
            null_keys += record.key.size < 0
            if <uint64_t>record.offset - <uint64_t>records.cursor.base_offset != <uint64_t>i:
                is_dense = False
    if fault:
        raise broken_record(records.index, fault)
    if records.count:
        records.check_end()
    return Survey(max_ms, max_offset, null_keys, is_dense)


def is_plain(data, int64_t latest_ms, bint needs_keys):
    """Whether a batch can be appended as it is; see the Python twin."""
    cdef _Bytes batch = _Bytes(data)
    cdef bint is_good
    if batch.size < NOGIL_FROM_BYTES:
        return has_plain_header(batch) and has_plain_records(batch, latest_ms, needs_keys)
    with nogil:
        is_good = has_plain_header(batch) and has_plain_records(batch, latest_ms, needs_keys)
    return is_good


cdef bint has_plain_header(_Bytes batch) noexcept nogil:
    cdef const uint8_t *p = batch.start
    return (
        batch.size >= BATCH_HEADER_BYTES
        and <int32_t>load_be32(p + 8) == batch.size - LOG_OVERHEAD_BYTES
        and <int8_t>p[16] == MAGIC
        and (load_be16(p + 21) & ~TRANSACTIONAL_BIT) == 0
        and load_be64(p) == 0
        and <int32_t>load_be32(p + 57) >= 1
        and <int64_t><int32_t>load_be32(p + 57) == <int64_t><int32_t>load_be32(p + 23) + 1
        and (
            <int64_t>load_be64(p + 43) == NO_PRODUCER_ID
            or <int32_t>load_be32(p + 53) != NO_SEQUENCE
        )
        and load_be32(p + 17)
        == crc32c_of(0, p + CHECKED_FROM, batch.size - CHECKED_FROM)
    )


cdef bint has_plain_records(_Bytes batch, int64_t latest_ms, bint needs_keys) noexcept nogil:
    cdef record_cursor cursor
    cdef record_view record
    cdef int64_t i
    cursor.p, cursor.end = batch.start + BATCH_HEADER_BYTES, batch.start + batch.size
    cursor.base_offset, cursor.base_timestamp_ms = 0, <int64_t>load_be64(batch.start + 27)
    cursor.append_time_ms, cursor.has_append_time = -1, False
    for i in range(<int32_t>load_be32(batch.start + 57)):
        if next_record(&cursor, &record) or skip_headers(&record):
            return False
        if record.offset != i or record.timestamp_ms > latest_ms:
            return False
        if needs_keys and record.key.size < 0:
            return False
    return cursor.p == cursor.end


include "_codec_columns.pxi"
