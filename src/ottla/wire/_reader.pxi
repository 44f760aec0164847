# Bytes -> values.
#
# Each function moves the cursor past what it has read, and raises `WireError` if it cannot.  After
# an error the cursor means nothing.  `view` is the memoryview that records are slices of.

cdef object plain_view(data):
    """A memoryview of `data` as plain bytes; `TypeError` where there can be none."""
    view = PyMemoryView_FromObject(data)
    cdef Py_buffer* buffer = PyMemoryView_GET_BUFFER(view)
    if (
        buffer.ndim == 1
        and buffer.format != NULL
        and buffer.format[0] == c"B"
        and buffer.format[1] == 0
        and PyBuffer_IsContiguous(buffer, c"C")
    ):
        return view
    return view.cast("B")


cdef inline Py_ssize_t left(const Cursor* cursor) noexcept:
    return cursor.end - cursor.at


cdef inline const uint8_t* take(Cursor* cursor, Py_ssize_t size_bytes) except NULL:
    """The next `size_bytes`, which exist."""
    cdef const uint8_t* taken = cursor.at
    if size_bytes > left(cursor):
        raise WireError("the data ends too early")
    cursor.at += size_bytes
    return taken


cdef inline int64_t read_uvarint(Cursor* cursor) except -1:
    """An unsigned varint of at most 32 bits.  Nearly all of them are one byte long."""
    cdef uint8_t byte = take(cursor, 1)[0]
    if byte < 0x80:
        return byte
    return rest_of_uvarint(cursor, byte & 0x7F)


cdef int64_t rest_of_uvarint(Cursor* cursor, uint64_t result) except -1:
    cdef uint8_t byte
    cdef int shift
    for shift in range(7, 35, 7):
        byte = take(cursor, 1)[0]
        result |= <uint64_t>(byte & 0x7F) << shift
        if byte < 0x80:
            if result > UINT32_MAX:
                break
            return <int64_t>result
    raise WireError("a varint does not fit 32 bits")


cdef int64_t read_length(Cursor* cursor, const Value* value) except -2:
    """The length in front of a string, bytes or array; -1 means null, and is allowed."""
    cdef int64_t length
    if value.compact:
        length = read_uvarint(cursor) - 1
    elif value.kind == STRING:
        length = <int16_t>load_be16(take(cursor, 2))
    else:
        length = <int32_t>load_be32(take(cursor, 4))
    if length < -1:
        raise WireError(f"a length of {length}")
    if length == -1:
        check_null(value)
    return length


cdef int check_null(const Value* value) except -1:
    if not value.nullable:
        raise WireError(f"{<object>value.name} is null")
    return 0


cdef inline int check_length(const Value* value, int64_t length) except -1:
    """Strings stay short in all versions, although a compact length could say more."""
    cdef int64_t most = MOST_STRING_BYTES if value.kind == STRING else MOST_BYTES
    if length > most:
        unit = "elements" if value.kind == ARRAY else "bytes"
        raise WireError(f"{<object>value.name} has {length} {unit}, at most {most} are allowed")
    return 0


cdef object read_struct(Cursor* cursor, const Layout* layout, view):
    message = PyType_GenericAlloc(layout.cls, 0)
    cdef const Value* field
    cdef const Rest* rest
    cdef Py_ssize_t index
    for index in range(layout.unsent_count):
        rest = &layout.unsent[index]
        fill_slot(message, rest.slot, <object>rest.default)
    for index in range(layout.field_count):
        field = &layout.fields[index]
        fill_slot(message, field.slot, read_value(cursor, field, view))
    if layout.flexible:
        read_tags(cursor, layout, message, view)
    return message


cdef int read_tags(Cursor* cursor, const Layout* layout, message, view) except -1:
    """Read tagged fields: those we know into slots, past those a newer peer may send."""
    cdef int64_t count = read_uvarint(cursor), index, tag, last = -1, size_bytes
    cdef const Value* known
    cdef Cursor inner
    for index in range(count):
        tag = read_uvarint(cursor)
        if tag <= last:
            raise WireError(f"tag {tag} comes after tag {last}")
        last = tag
        size_bytes = read_uvarint(cursor)
        if size_bytes > left(cursor):
            raise WireError(f"tag {tag} has {size_bytes} bytes, {left(cursor)} are left")
        inner = cursor[0]
        inner.end = inner.at + size_bytes
        cursor.at = inner.end
        known = find_tag(layout, tag)
        if known != NULL:
            fill_slot(message, known.slot, read_value(&inner, known, view))
            if left(&inner) > 0:
                raise WireError(f"tag {tag} has {left(&inner)} bytes too many")
    return 0


cdef const Value* find_tag(const Layout* layout, int64_t tag) noexcept:
    cdef Py_ssize_t index
    for index in range(layout.tagged_count):
        if layout.tagged[index].tag == tag:
            return &layout.tagged[index]
    return NULL


cdef object read_value(Cursor* cursor, const Value* value, view):
    cdef int kind = value.kind
    if kind <= UUID:
        return read_fixed(cursor, kind)
    if kind <= RECORDS:
        return read_sized(cursor, value, view)
    if kind == ARRAY:
        return read_array(cursor, value, view)
    # A struct that may be null is preceded by 1, or replaced by -1.
    if value.nullable and take(cursor, 1)[0] >= 0x80:
        return None
    return read_struct(cursor, value.layout, view)


cdef inline object read_fixed(Cursor* cursor, int kind):
    cdef uint64_t bits
    cdef double number
    if kind == INT32:
        return <int32_t>load_be32(take(cursor, 4))
    if kind == INT64:
        return <int64_t>load_be64(take(cursor, 8))
    if kind == INT16:
        return <int16_t>load_be16(take(cursor, 2))
    if kind == INT8:
        return <int8_t>take(cursor, 1)[0]
    if kind == BOOL:
        return take(cursor, 1)[0] != 0
    if kind == UINT16:
        return load_be16(take(cursor, 2))
    if kind == UINT32:
        return load_be32(take(cursor, 4))
    if kind == UUID:
        return PyBytes_FromStringAndSize(<const char*>take(cursor, UUID_BYTES), UUID_BYTES)
    bits = load_be64(take(cursor, 8))
    memcpy(&number, &bits, sizeof(number))
    return number


cdef object read_sized(Cursor* cursor, const Value* value, view):
    cdef int64_t length = read_length(cursor, value)
    cdef const char* taken
    if length < 0:
        return None
    check_length(value, length)
    if length > left(cursor):
        raise WireError(f"{<object>value.name} has {length} bytes, {left(cursor)} are left")
    taken = <const char*>take(cursor, length)
    if value.kind == STRING:
        return PyUnicode_DecodeUTF8(taken, length, NULL)
    if value.kind == BYTES:
        return PyBytes_FromStringAndSize(taken, length)
    cdef Py_ssize_t end = cursor.at - cursor.start
    return PySequence_GetSlice(view, end - length, end)


cdef object read_array(Cursor* cursor, const Value* value, view):
    cdef const Value* element = value.element
    cdef int64_t count = read_length(cursor, value)
    cdef Py_ssize_t index
    if count < 0:
        return None
    if count > left(cursor) // element.least_bytes:
        raise WireError(
            f"{<object>value.name} has {count} elements, {left(cursor)} bytes are left"
        )
    if count == 0:
        return ()
    items = PyTuple_New(count)
    # No Python code that the garbage collector runs may find a tuple with NULLs in it.  One of
    # numbers and strings can be in no cycle and stays untracked, as the collector would have it.
    PyObject_GC_UnTrack(<PyObject*>items)
    for index in range(count):
        item = read_value(cursor, element, view)
        Py_INCREF(item)
        PyTuple_SET_ITEM(items, index, item)
    if element.kind >= RECORDS:
        PyObject_GC_Track(<PyObject*>items)
    return items
