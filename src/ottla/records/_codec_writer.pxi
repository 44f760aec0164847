"""Records that are written one after the other, for `_codec.pyx`, which includes this file."""


cdef class _Headers:
    """The headers of one record at a time, made ready to be written."""

    def __cinit__(self):
        self.keys, self.values = [], []

    cdef int take(self, headers) except -1:
        cdef Py_ssize_t size
        self.keys.clear()
        self.values.clear()
        self.size_bytes = 0
        for key, value in headers:
            if not isinstance(key, str):
                raise TypeError(f"a header key must be str, not {type(key).__name__}")
            PyUnicode_AsUTF8AndSize(key, &size)
            value = bytes_of("header value", value)
            self.keys.append(key)
            self.values.append(value)
            self.size_bytes += varint_size(size) + size + field_bytes(value)
        self.size_bytes += varint_size(len(self.keys))
        return 0

    cdef uint8_t *write_to(self, uint8_t *p) except NULL:
        cdef Py_ssize_t i, size
        cdef const char *text
        p = store_varint(p, len(self.keys))
        for i in range(len(self.keys)):
            text = PyUnicode_AsUTF8AndSize(self.keys[i], &size)
            p = write_bytes(write(p, text, size), self.values[i])
        return p


cdef class Writer:
    """Records of a batch to be; see the Python twin.

    They are in a bytearray that grows, since it is not known how many will come.  Each method is
    one step for other threads: nothing in it gives up the GIL while a record is half written.
    """

    def __init__(self, base_timestamp_ms=None, Py_ssize_t headroom_bytes=0):
        self.has_base = base_timestamp_ms is not None
        self.base_ms = base_timestamp_ms if self.has_base else -1
        self.max_ms = -1
        self.headroom_bytes = self.used = self.room = headroom_bytes
        self.data = bytearray(headroom_bytes)
        self.headers = _Headers()

    def __len__(self):
        return self.count

    @property
    def size_bytes(self):
        return self.used

    def allow(self, Py_ssize_t size_bytes):
        self.allowed_bytes = size_bytes

    def offer(self, timestamp_ms, key, value):
        cdef Py_ssize_t size = 0 if key is None else len(key)
        if value is not None:
            size += len(value)
        return self.append(timestamp_ms, key, value) if self.takes(size) else -1

    cdef Py_ssize_t offer_plain(self, int64_t timestamp_ms, bytes key, bytes value) except -2:
        """As `offer`, for who has bytes and a timestamp that can be one."""
        cdef Py_ssize_t size = PyBytes_GET_SIZE(value)
        if key is not None:
            size += PyBytes_GET_SIZE(key)
        if not self.takes(size):
            return -1
        self.put(timestamp_ms, key, value, NO_HEADERS, self.count)
        return self.count - 1

    cdef bint takes(self, Py_ssize_t size):
        """Whether a record with so many bytes may be added, as far as `offer` is concerned."""
        return (
            self.data is not None
            and self.used + RECORD_OVERHEAD_BYTES + size <= self.allowed_bytes
        )

    cpdef Py_ssize_t append(self, timestamp_ms, key, value, headers=None) except -1:
        # As much again may come as has come so far.
        self.put(timestamp_of(timestamp_ms), key, value, headers, self.count)
        return self.count - 1

    def extend(self, records):
        cdef Py_ssize_t expected = len(records) if isinstance(records, (list, tuple)) else 64
        expected += self.count
        for timestamp_ms, key, value, headers in records:
            # Of an iterable that does not end where it was expected, as much again may come.
            self.put(
                timestamp_of(timestamp_ms), key, value, headers,
                expected - self.count if self.count < expected else self.count,
            )

    def encoded(self):
        data, self.data = self._held(), None
        PyByteArray_Resize(data, self.used)
        return Encoded(data, self.count, self.base_ms, self.max_ms)

    cdef _held(self):
        if self.data is None:
            raise ValueError("the records were taken out of this writer")
        return self.data

    cdef uint8_t *end_of(self, int64_t size, Py_ssize_t expected) except NULL:
        """Where to write `size` bytes; if room must be made, then for `expected` times as much."""
        assert size >= 0 and expected >= 0, "room can only be added"
        data = self._held()
        cdef int64_t needed = self.used + size
        cdef int64_t most = self.headroom_bytes + MAX_BODY_BYTES
        if needed > most:
            raise body_too_large()
        if needed > self.room:
            needed += min((size + 4) * expected, max(self.used, GROWTH_BYTES))
            PyByteArray_Resize(data, min(needed, most))
            self.room = min(needed, most)
        return <uint8_t *>PyByteArray_AS_STRING(data) + self.used

    cdef int put(
        self, int64_t timestamp_ms, key, value, headers, Py_ssize_t expected
    ) except -1:
        cdef int64_t delta_ms, size
        cdef bint has_headers = headers is not NO_HEADERS and bool(headers)
        cdef uint8_t *p
        if key is not None and not PyBytes_CheckExact(key):
            key = bytes_of("key", key)
        if value is not None and not PyBytes_CheckExact(value):
            value = bytes_of("value", value)
        if has_headers:
            self.headers.take(headers)
        cdef int64_t base_ms = self.base_ms if self.has_base else timestamp_ms
        if sub_overflow(timestamp_ms, base_ms, &delta_ms):
            raise impossible_timestamp(timestamp_ms)
        size = 1 + varint_size(delta_ms) + varint_size(self.count) + field_bytes(key)
        size += field_bytes(value) + (self.headers.size_bytes if has_headers else 1)
        p = self.end_of(size + varint_size(size), expected)
        # From here on nothing can fail, and no code of anybody else runs.
        p = store_varint(p, size)
        p[0] = 0  # attributes
        p = store_varint(store_varint(p + 1, delta_ms), self.count)
        p = write_bytes(write_bytes(p, key), value)
        if has_headers:
            p = self.headers.write_to(p)
        else:
            p[0] = 0
        self.used += size + varint_size(size)
        self.has_base, self.base_ms = True, base_ms
        self.max_ms = max(self.max_ms, timestamp_ms)
        self.count += 1
        return 0
