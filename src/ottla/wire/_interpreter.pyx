"""Executes plans in C: the compiled twin of `ottla.wire.interpreter`, which specifies it.

Same values, same bytes, same errors: one test suite runs both, and property tests feed both the
same messages and the same noise.  This file says what is where; `_layout.pxi` makes layouts,
`_reader.pxi` decodes, `_writer.pxi` encodes, `_maker.pxi` stands in for constructors.

**Layout.**  A `Codec` flattens its plan into C structs once, when it is made, and walks them for
every message.  There is no generated code and no case for any one message.

    Codec ──plan──▶ Plan (Python; owns every name, default and class)
      └──layout──▶ Layout             one declared class at one version
                     ├─ cls           what to allocate, what to accept
                     ├─ fields[]      ─▶ Value: what to read, and the slot to put it in
                     ├─ tagged[]      ─▶ Value ─┬─ element ─▶ Value    of an array
                     ├─ unsent[]      ─▶ Rest   └─ layout  ─▶ Layout   of a struct
                     └─ unsendable[]  ─▶ Rest: a slot and the default that must be in it

Instances of declared classes have no `__dict__`: their fields are slots at fixed offsets, which
the class's own member descriptors tell.  Decoding allocates an instance without calling its
constructor and stores straight into the slots; encoding loads from them.  That is where the speed
is: no argument parsing, no attribute lookup, no Python call for any field.

**Invariants**, on which memory safety rests:

1. *A `PyObject*` in a struct is borrowed from the plan.*  Plans are tuples all the way down (the
   constructor insists), so nothing in them can be replaced, and `Codec.plan` is read-only and not
   cleared by the garbage collector: what the structs point to lives as long as they do.
2. *A slot is touched only in an object whose exact type is the layout's class*, and the layout was
   made from that class.  An offset is taken only from a member descriptor that belongs to the
   class itself and says that an object is there.
3. *A slot owns its reference or is NULL.*  A fresh instance has NULLs, which the garbage collector
   and the destructor understand, so one that is dropped halfway needs no care.  Encoding may meet
   NULL in an instance that somebody made without its constructor, and raises `AttributeError`.
4. *`take` is the only way to read input, `Output.room` the only way to make output.*  Both check.
   A count is compared with the bytes that are left before anything is allocated for it.
5. *A value is owned by us while we encode it*: comparing or converting it may run Python code that
   changes the message under our feet.  Lists are copied first for the same reason.

The recursion is as deep as the declaration, never as deep as the data.
"""

cimport cython
from cpython.buffer cimport (
    PyBUF_SIMPLE, Py_buffer, PyBuffer_IsContiguous, PyBuffer_Release, PyObject_GetBuffer)
from cpython.bytes cimport PyBytes_FromStringAndSize
from cpython.dict cimport PyDict_GetItemWithError
from cpython.mem cimport PyMem_Calloc, PyMem_Free, PyMem_Malloc, PyMem_Realloc
from cpython.memoryview cimport PyMemoryView_FromObject, PyMemoryView_GET_BUFFER
from cpython.number cimport PyNumber_Index
from cpython.object cimport Py_NE, PyObject, PyObject_RichCompareBool, Py_TYPE
from cpython.ref cimport Py_INCREF, Py_XDECREF
from cpython.sequence cimport PySequence_GetSlice
from cpython.tuple cimport PyTuple_GET_ITEM, PyTuple_GET_SIZE, PyTuple_New, PyTuple_SET_ITEM
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport (
    INT8_MAX, INT8_MIN, INT16_MAX, INT16_MIN, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN,
    UINT16_MAX, UINT32_MAX, int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t,
    uint64_t)
from libc.string cimport memcpy, memmove

from ottla.errors import WireError
from ottla.wire.compiler import Absent, FieldPlan, Plan
from ottla.wire.schema import MISSING, Declared, fields


cdef extern from "bytes.h" nogil:
    uint16_t load_be16(const uint8_t*)
    uint32_t load_be32(const uint8_t*)
    uint64_t load_be64(const uint8_t*)
    void store_be16(uint8_t*, uint16_t)
    void store_be32(uint8_t*, uint32_t)
    void store_be64(uint8_t*, uint64_t)

cdef extern from "Python.h":
    Py_ssize_t PY_SSIZE_T_MAX
    ctypedef struct PyMemberDef:
        int type
        Py_ssize_t offset
    ctypedef struct PyMemberDescrObject:
        PyMemberDef* d_member
    ctypedef object (*vectorcallfunc)(object, PyObject**, size_t, PyObject*)
    ctypedef struct PyTypeObject:
        PyObject* tp_dict
        vectorcallfunc tp_vectorcall
        object (*tp_call)(object, object, object)
    PyTypeObject PyMemberDescr_Type
    PyTypeObject PyType_Type
    Py_ssize_t PyVectorcall_NARGS(size_t)
    PyTypeObject* PyDescr_TYPE(PyObject*)
    object PyType_GenericAlloc(PyTypeObject*, Py_ssize_t)
    void PyObject_GC_Track(PyObject*)
    void PyObject_GC_UnTrack(PyObject*)
    long long PyLong_AsLongLongAndOverflow(object, int*) except? -1
    const char* PyUnicode_AsUTF8AndSize(object, Py_ssize_t*) except NULL

cdef extern from "structmember.h":
    int T_OBJECT_EX

cdef enum:
    # `ottla.wire.schema.Kind`, whose numbers are part of the plan.
    BOOL = 0
    INT8 = 1
    INT16 = 2
    UINT16 = 3
    INT32 = 4
    UINT32 = 5
    INT64 = 6
    FLOAT64 = 7
    UUID = 8
    STRING = 9
    BYTES = 10
    RECORDS = 11
    ARRAY = 12
    STRUCT = 13

cdef enum:
    UUID_BYTES = 16
    MOST_STRING_BYTES = 0x7FFF
    MOST_BYTES = 0x7FFF_FFFF
    FIRST_CAPACITY_BYTES = 512

cdef struct Layout

cdef struct Value:
    # One value on the wire: `FieldPlan`, flattened.
    int kind
    bint nullable
    bint compact
    uint32_t tag
    int64_t least_bytes
    Py_ssize_t slot  # its offset in the instance; unused in elements
    PyObject* name
    PyObject* default
    Value* element
    Layout* layout

cdef struct Rest:
    # A field at rest: not on the wire, and its slot holds the default.
    Py_ssize_t slot
    PyObject* name
    PyObject* default

cdef struct Layout:
    # One declared class at one version: `Plan`, flattened.
    PyTypeObject* cls
    bint flexible
    Py_ssize_t field_count
    Py_ssize_t tagged_count
    Py_ssize_t unsent_count
    Py_ssize_t unsendable_count
    Value* fields
    Value* tagged
    Rest* unsent  # tagged and absent fields: what decoding starts from
    Rest* unsendable  # absent fields that encoding must not drop

cdef struct Cursor:
    # Where decoding stands.  Invariant: start <= at <= end, and all of it is in the buffer.
    const uint8_t* start
    const uint8_t* at
    const uint8_t* end


include "_maker.pxi"
include "_layout.pxi"
include "_reader.pxi"
include "_writer.pxi"


@cython.final
@cython.no_gc_clear  # the layout borrows from the plan
cdef class Codec:
    """Encodes and decodes one message at one version."""

    cdef readonly object plan
    cdef Layout* layout

    def __cinit__(self, plan):
        self.plan = plan
        self.layout = new_layout(plan)

    def __dealloc__(self):
        free_layout(self.layout)

    def decode(self, data, Py_ssize_t position=0):
        """Decode one message that starts at `position`; return it and where it ends.

        Record batches in it are views of `data`.  Raises `WireError` if the bytes are not such a
        message.
        """
        cdef Cursor cursor
        if position < 0:
            raise ValueError(f"a position of {position}")
        view = plain_view(data)  # holds the buffer until we return
        cdef Py_buffer* buffer = PyMemoryView_GET_BUFFER(view)
        cursor.start = <const uint8_t*>buffer.buf
        cursor.end = cursor.start + buffer.len
        try:
            if position > buffer.len:
                raise WireError("the data ends too early")
            cursor.at = cursor.start + position
            message = read_struct(&cursor, self.layout, view)
        except (WireError, UnicodeDecodeError) as error:
            raise WireError(f"{self.plan.title}: {error}") from None
        return message, cursor.at - cursor.start

    def encode(self, message):
        """Encode `message` as a list of buffers, in which record batches are not copied.

        Raises `WireError` if this version cannot carry it.
        """
        cdef Output output = Output.__new__(Output)
        try:
            write_struct(output, self.layout, message)
        except WireError as error:
            raise WireError(f"{self.plan.title}: {error}") from None
        output.flush()
        return output.parts
