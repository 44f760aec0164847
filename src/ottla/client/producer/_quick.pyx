"""The quick way into a batch: the compiled twin of `quick`, which documents it.

A record is written in one step: nothing here gives up the GIL between the look at a batch and the
last byte of the record.  So it needs no lock, and comes before or after anything that others do
under theirs; into a batch that was closed, or is not the last one any more, it is not written
(`Writer.allow`).  That is why the last batch may be kept in mind.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_GET_SIZE
from cpython.object cimport PyObject
from cpython.time cimport time_ns
from libc.stdint cimport int32_t, int64_t, uint8_t

from ottla.records._codec cimport Writer

from ottla.runtime.clock import SystemClock

cdef extern from "murmur2.h" nogil:
    int32_t murmur2_of "murmur2" (const uint8_t *p, size_t size)

cdef extern from "Python.h":
    ctypedef struct PyTypeObject:
        object (*tp_new)(PyTypeObject *cls, object arguments, PyObject *names)

cdef int64_t POSITIVE = 0x7FFF_FFFF
cdef int64_t NS_PER_MS = 1_000_000
cdef tuple NOTHING = ()


cdef class Receipt:
    """Where a record is."""

    cdef readonly object delivery
    cdef readonly Py_ssize_t index
    cdef readonly int64_t timestamp_ms

    def __init__(self, delivery, Py_ssize_t index, int64_t timestamp_ms):
        self.delivery = delivery
        self.index = index
        self.timestamp_ms = timestamp_ms


cdef class Door:
    """Lets records into the open batches of one producer."""

    cdef readonly dict routes
    cdef object clock
    cdef object metadata
    cdef object make
    cdef object murmur2
    cdef bint is_real_time
    # Where records without a key went last, and where that is.
    cdef object last_topic
    cdef object last_delivery
    cdef Writer last_writer

    def __init__(self, lock, clock, metadata):
        # Later than this module: it is made of batches, which have receipts.
        from ottla.client.producer.partitioners import murmur2

        self.clock = clock
        self.is_real_time = type(clock) is SystemClock
        self.metadata = metadata
        self.murmur2 = murmur2
        self.shut()

    def open(self, make):
        if not issubclass(make, Receipt):
            raise TypeError(f"{make.__name__} is not a Receipt")
        self.make = make

    def shut(self):
        self.routes = {}
        self.last_topic = self.last_delivery = self.last_writer = None

    def put(self, topic, value, key, partition, headers, timestamp, on_delivery):
        cdef Receipt made
        cdef int64_t timestamp_ms
        cdef Py_ssize_t index
        if (
            self.make is None
            or not PyBytes_CheckExact(value)
            or partition is not None
            or headers
            or timestamp is not None
            or on_delivery is not None
            or not (key is None or PyBytes_CheckExact(key))
        ):
            return None
        # A simulated clock is Python, in which other threads may run: ask it before all else.
        timestamp_ms = time_ns() // NS_PER_MS if self.is_real_time else self.clock.now_ms()
        if key is None and self.last_writer is not None and topic is self.last_topic:
            delivery = self.last_delivery
            index = self.last_writer.offer_plain(timestamp_ms, None, value)
            if index < 0:
                self.last_topic = self.last_delivery = self.last_writer = None
        else:
            index, delivery = -1, None
        if index < 0:
            batch = self.open_batch(topic, key)
            if batch is None:
                return None
            delivery = batch.delivery
            index = (<Writer>batch.writer).offer_plain(timestamp_ms, key, value)
            if index < 0:
                return None
            if key is None:
                self.last_topic, self.last_delivery = topic, delivery
                self.last_writer = batch.writer
        made = (<PyTypeObject *>self.make).tp_new(<PyTypeObject *>self.make, NOTHING, NULL)
        made.delivery, made.index, made.timestamp_ms = delivery, index, timestamp_ms
        return made

    cdef open_batch(self, topic, key):
        """Where such records go now, if that is simple to say; its writer is the compiled one."""
        cdef int64_t hashed, count
        route = self.routes.get(topic)
        if route is None or route.cluster is not self.metadata.cluster:
            return None
        if key is None:
            sticky = route.sticky
            batch = None if sticky is None else sticky.current.open
        else:
            key_hash, lines = route.key_hash, route.lines
            count = len(lines)
            if not key or key_hash is None or count == 0:
                return None
            if key_hash is self.murmur2:
                hashed = murmur2_of(<const uint8_t *>PyBytes_AS_STRING(key), PyBytes_GET_SIZE(key))
                hashed &= POSITIVE
            else:
                hashed = key_hash(key)
            if hashed < 0:
                return None
            batch = lines[hashed % count].open
        if batch is None or type(batch.writer) is not Writer:
            return None
        return batch
