# Values -> bytes.
#
# Each function appends to the output, and raises `WireError` if the version cannot carry the value.
# After an error the output is thrown away.

@cython.final
@cython.freelist(4)
cdef class Output:
    """Encoded bytes in order: what we wrote ourselves, and record batches by reference."""

    cdef list parts
    cdef uint8_t* tail
    cdef Py_ssize_t size_bytes
    cdef Py_ssize_t capacity_bytes
    cdef int tag_depth  # in tagged fields bytes are moved to make room for their size

    def __cinit__(self):
        self.parts = []
        self.tail = <uint8_t*>PyMem_Malloc(FIRST_CAPACITY_BYTES)
        if self.tail == NULL:
            raise MemoryError
        self.capacity_bytes = FIRST_CAPACITY_BYTES

    def __dealloc__(self):
        PyMem_Free(self.tail)

    cdef inline uint8_t* room(self, Py_ssize_t size_bytes) except NULL:
        """Where to write the next `size_bytes`.  Valid until the next call."""
        if size_bytes > self.capacity_bytes - self.size_bytes:
            self.grow(size_bytes)
        self.size_bytes += size_bytes
        return self.tail + self.size_bytes - size_bytes

    cdef int grow(self, Py_ssize_t size_bytes) except -1:
        if size_bytes > PY_SSIZE_T_MAX // 2 - self.size_bytes:
            raise MemoryError
        cdef Py_ssize_t capacity_bytes = 2 * (self.size_bytes + size_bytes)
        cdef void* grown = PyMem_Realloc(self.tail, capacity_bytes)
        if grown == NULL:
            raise MemoryError
        self.tail = <uint8_t*>grown
        self.capacity_bytes = capacity_bytes
        return 0

    cdef int copy(self, const void* data, Py_ssize_t size_bytes) except -1:
        if size_bytes:  # an empty buffer may have no address
            memcpy(self.room(size_bytes), data, size_bytes)
        return 0

    cdef int refer(self, data) except -1:
        """Add `data` without copying it."""
        self.flush()
        self.parts.append(data)
        return 0

    cdef int flush(self) except -1:
        if self.size_bytes:
            self.parts.append(PyBytes_FromStringAndSize(<const char*>self.tail, self.size_bytes))
            self.size_bytes = 0
        return 0

    cdef inline int put_uvarint(self, uint64_t number) except -1:
        if number > 0x7F:
            return self.insert_uvarint(self.size_bytes, number)
        self.room(1)[0] = <uint8_t>number
        return 0

    cdef int insert_uvarint(self, Py_ssize_t position, uint64_t number) except -1:
        """Put `number` in front of what was written since `position`."""
        cdef Py_ssize_t size_bytes = 1, moved_bytes = self.size_bytes - position
        cdef uint64_t rest = number >> 7
        while rest:
            size_bytes += 1
            rest >>= 7
        self.room(size_bytes)
        cdef uint8_t* at = self.tail + position
        memmove(at + size_bytes, at, moved_bytes)
        while number > 0x7F:
            at[0] = <uint8_t>(number & 0x7F) | 0x80
            at += 1
            number >>= 7
        at[0] = <uint8_t>number
        return 0


cdef object wrong_type(const Value* value, item, str expected):
    return WireError(f"{<object>value.name} is a {type(item).__name__}, not {expected}")


cdef int write_length(Output output, const Value* value, Py_ssize_t length) except -1:
    """Write the length in front of a string, bytes or array; -1 means null."""
    check_length(value, length)
    if value.compact:
        output.put_uvarint(length + 1)
    elif value.kind == STRING:
        store_be16(output.room(2), <uint16_t>length)
    else:
        store_be32(output.room(4), <uint32_t>length)
    return 0


cdef int write_struct(Output output, const Layout* layout, message) except -1:
    cdef const Value* field
    cdef const Rest* rest
    cdef Py_ssize_t index
    if Py_TYPE(message) != layout.cls:
        expected = (<object>layout.cls).__name__
        raise WireError(f"a {type(message).__name__} where a {expected} belongs")
    for index in range(layout.unsendable_count):
        rest = &layout.unsendable[index]
        value = slot_value(message, rest.slot, rest.name)
        if PyObject_RichCompareBool(value, <object>rest.default, Py_NE):
            raise WireError(f"this version cannot carry {<object>rest.name} = {value!r}")
    for index in range(layout.field_count):
        field = &layout.fields[index]
        write_value(output, field, slot_value(message, field.slot, field.name))
    if layout.flexible:
        write_tags(output, layout, message)
    return 0


cdef int write_tags(Output output, const Layout* layout, message) except -1:
    """Write the tagged fields that differ from their defaults, and then their number before them.

    Positions in the tail must stay valid meanwhile, so records in tagged fields are copied.
    """
    cdef Py_ssize_t start = output.size_bytes, body, index, count = 0
    cdef const Value* field
    output.tag_depth += 1
    for index in range(layout.tagged_count):
        field = &layout.tagged[index]
        value = slot_value(message, field.slot, field.name)
        if PyObject_RichCompareBool(value, <object>field.default, Py_NE):
            count += 1
            output.put_uvarint(field.tag)
            body = output.size_bytes
            write_value(output, field, value)
            output.insert_uvarint(body, output.size_bytes - body)
    output.tag_depth -= 1
    return output.insert_uvarint(start, count)


cdef int write_value(Output output, const Value* value, item) except -1:
    cdef int kind = value.kind
    if kind <= FLOAT64:
        return write_number(output, value, item)
    if kind == UUID:
        return write_uuid(output, value, item)
    if kind == STRUCT:
        return write_nested(output, value, item)
    if item is None:
        check_null(value)
        return write_length(output, value, -1)
    if kind == STRING:
        return write_string(output, value, item)
    if kind == ARRAY:
        return write_array(output, value, item)
    return write_bytes(output, value, item)


cdef int write_number(Output output, const Value* value, item) except -1:
    cdef int kind = value.kind
    cdef int64_t number
    cdef double real
    if kind == INT32:
        number = integer(value, item, INT32_MIN, INT32_MAX)
        store_be32(output.room(4), <uint32_t>number)
    elif kind == INT64:
        number = integer(value, item, INT64_MIN, INT64_MAX)
        store_be64(output.room(8), <uint64_t>number)
    elif kind == INT16:
        number = integer(value, item, INT16_MIN, INT16_MAX)
        store_be16(output.room(2), <uint16_t>number)
    elif kind == INT8:
        number = integer(value, item, INT8_MIN, INT8_MAX)
        output.room(1)[0] = <uint8_t>number
    elif kind == BOOL:
        number = bool(item)
        output.room(1)[0] = <uint8_t>number
    elif kind == UINT16:
        number = integer(value, item, 0, UINT16_MAX)
        store_be16(output.room(2), <uint16_t>number)
    elif kind == UINT32:
        number = integer(value, item, 0, UINT32_MAX)
        store_be32(output.room(4), <uint32_t>number)
    else:
        real = real_number(value, item)
        memcpy(&number, &real, sizeof(number))
        store_be64(output.room(8), <uint64_t>number)
    return 0


cdef inline int64_t integer(const Value* value, item, int64_t low, int64_t high) except? -1:
    cdef int overflow = 0
    cdef int64_t number
    if isinstance(item, int):
        number = PyLong_AsLongLongAndOverflow(item, &overflow)
    else:
        number = PyLong_AsLongLongAndOverflow(index_of(value, item), &overflow)
    if overflow or not low <= number <= high:
        raise not_a_number(value, item)
    return number


cdef object index_of(const Value* value, item):
    try:
        return PyNumber_Index(item)
    except TypeError:
        raise not_a_number(value, item) from None


cdef double real_number(const Value* value, item) except? -1:
    try:
        return item
    except (TypeError, OverflowError):
        raise not_a_number(value, item) from None


cdef tuple NUMBER_NAMES = (
    "BOOL", "INT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "FLOAT64")


cdef object not_a_number(const Value* value, item):
    kind = NUMBER_NAMES[value.kind]
    return WireError(f"{<object>value.name} = {item!r} is not of type {kind}")


cdef int write_string(Output output, const Value* value, item) except -1:
    cdef Py_ssize_t size_bytes
    cdef const char* text
    if not isinstance(item, str):
        raise wrong_type(value, item, "a str")
    try:
        text = PyUnicode_AsUTF8AndSize(item, &size_bytes)  # belongs to `item`
    except UnicodeEncodeError as error:
        raise WireError(f"{<object>value.name}: {error}") from None
    write_length(output, value, size_bytes)
    return output.copy(text, size_bytes)


cdef int hold_buffer(const Value* value, item, Py_buffer* buffer) except -1:
    try:
        return PyObject_GetBuffer(item, buffer, PyBUF_SIMPLE)
    except (TypeError, BufferError):
        raise wrong_type(value, item, "contiguous bytes") from None


cdef int write_uuid(Output output, const Value* value, item) except -1:
    cdef Py_buffer buffer
    hold_buffer(value, item, &buffer)
    try:
        if buffer.len != UUID_BYTES:
            raise WireError(f"{<object>value.name} is a UUID of {buffer.len} bytes")
        return output.copy(buffer.buf, UUID_BYTES)
    finally:
        PyBuffer_Release(&buffer)


cdef int write_bytes(Output output, const Value* value, item) except -1:
    """Write bytes, or refer to records."""
    cdef Py_buffer buffer
    cdef bint referred = value.kind == RECORDS and output.tag_depth == 0
    hold_buffer(value, item, &buffer)
    try:
        write_length(output, value, buffer.len)
        if not referred:
            output.copy(buffer.buf, buffer.len)
        elif buffer.len:
            output.refer(item)
    finally:
        PyBuffer_Release(&buffer)
    return 0


cdef int write_array(Output output, const Value* value, item) except -1:
    if not isinstance(item, (tuple, list)):
        raise wrong_type(value, item, "a tuple")
    cdef tuple items = tuple(item)  # the same object if it is a tuple
    cdef Py_ssize_t index
    write_length(output, value, PyTuple_GET_SIZE(items))
    for index in range(PyTuple_GET_SIZE(items)):
        write_value(output, value.element, <object>PyTuple_GET_ITEM(items, index))
    return 0


cdef int write_nested(Output output, const Value* value, item) except -1:
    if value.nullable:
        output.room(1)[0] = 0xFF if item is None else 1
        if item is None:
            return 0
    return write_struct(output, value.layout, item)
