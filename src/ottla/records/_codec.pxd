"""What other compiled modules may use of the record codec: the writer, without a call of Python."""

from libc.stdint cimport int64_t, uint8_t


cdef class _Headers:
    cdef list keys
    cdef list values
    cdef int64_t size_bytes
    cdef int take(self, headers) except -1
    cdef uint8_t *write_to(self, uint8_t *p) except NULL


cdef class Writer:
    cdef object data
    cdef _Headers headers
    cdef readonly Py_ssize_t allowed_bytes
    cdef Py_ssize_t headroom_bytes
    cdef Py_ssize_t used
    cdef Py_ssize_t room
    cdef Py_ssize_t count
    cdef bint has_base
    cdef int64_t base_ms
    cdef int64_t max_ms
    cdef Py_ssize_t offer_plain(self, int64_t timestamp_ms, bytes key, bytes value) except -2
    cdef bint takes(self, Py_ssize_t size)
    cpdef Py_ssize_t append(self, timestamp_ms, key, value, headers=*) except -1
    cdef _held(self)
    cdef uint8_t *end_of(self, int64_t size, Py_ssize_t expected) except NULL
    cdef int put(
        self, int64_t timestamp_ms, key, value, headers, Py_ssize_t expected
    ) except -1
