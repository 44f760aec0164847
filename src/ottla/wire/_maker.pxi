# Keyword arguments -> an instance, without a frame of Python.
#
# A class of Python is called through its `tp_vectorcall`, if it has one.  The classes of a layout
# get `make`, which does what their written constructor does: it stores the arguments and, for the
# rest, the defaults.  Whatever is out of the ordinary (a name that is wrong or missing, a position)
# goes the long way through the constructor itself, which knows what to say about it.

@cython.final
@cython.no_gc_clear  # `make` borrows from its tuples
cdef class _Maker:
    """What `make` must know of one declared class."""

    cdef tuple names
    cdef tuple defaults
    cdef Py_ssize_t* slots

    def __cinit__(self, cls):
        cdef Py_ssize_t index
        declared = fields(cls)
        self.names = tuple([field.name for field in declared])
        self.defaults = tuple([field.default for field in declared])
        self.slots = <Py_ssize_t*>allocate(max(len(declared), 1), sizeof(Py_ssize_t))
        for index, name in enumerate(self.names):
            self.slots[index] = slot_offset(cls, name)

    def __dealloc__(self):
        PyMem_Free(self.slots)


cdef str MAKER = "__maker__"  # lives and dies with its class


cdef int hasten(cls) except -1:
    """Let `cls`, which `check_declared` has looked at, be called without its constructor."""
    if MAKER not in cls.__dict__:
        setattr(cls, MAKER, _Maker(cls))
        (<PyTypeObject*>cls).tp_vectorcall = <vectorcallfunc>make
    return 0


cdef object make(object cls, PyObject** values, size_t count_and_flag, PyObject* keywords):
    cdef PyObject* known = PyDict_GetItemWithError(
        <object>(<PyTypeObject*>cls).tp_dict, MAKER)
    if known == NULL or type(<object>known) is not _Maker or PyVectorcall_NARGS(count_and_flag):
        return construct(cls, values, count_and_flag, keywords)
    cdef _Maker maker = <_Maker>known
    cdef Py_ssize_t field_count = PyTuple_GET_SIZE(maker.names)
    cdef Py_ssize_t given_count = 0 if keywords == NULL else PyTuple_GET_SIZE(<object>keywords)
    cdef Py_ssize_t at = 0, given, tried
    cdef PyObject* name
    cdef PyObject* default
    message = PyType_GenericAlloc(<PyTypeObject*>cls, 0)
    for given in range(given_count):
        name = PyTuple_GET_ITEM(<object>keywords, given)
        for tried in range(field_count):
            if PyTuple_GET_ITEM(maker.names, at) == name:
                break
            at = at + 1 if at + 1 < field_count else 0
        else:
            return construct(cls, values, count_and_flag, keywords)
        fill_slot(message, maker.slots[at], <object>values[given])
        at = at + 1 if at + 1 < field_count else 0
    for at in range(field_count):
        if slot_in(<PyObject*>message, maker.slots[at])[0] == NULL:
            default = PyTuple_GET_ITEM(maker.defaults, at)
            if default == <PyObject*>MISSING:
                return construct(cls, values, count_and_flag, keywords)
            fill_slot(message, maker.slots[at], <object>default)
    return message


cdef object construct(cls, PyObject** values, size_t count_and_flag, PyObject* keywords):
    """Call `cls` as if it had no `tp_vectorcall`."""
    cdef Py_ssize_t count = PyVectorcall_NARGS(count_and_flag), index
    positional = tuple([<object>values[index] for index in range(count)])
    named = {}
    if keywords != NULL:
        for index, name in enumerate(<object>keywords):
            named[name] = <object>values[count + index]
    return PyType_Type.tp_call(cls, positional, named)
