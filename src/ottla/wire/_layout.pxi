# Plans -> layouts, and the slots that they point at.
#
# Memory comes zeroed, and a count is set together with its array, so `free_layout` can take down
# a layout that an error left half-built.

cdef void* allocate(size_t count, size_t size_bytes) except NULL:
    cdef void* memory = PyMem_Calloc(count, size_bytes)
    if memory == NULL:
        raise MemoryError
    return memory


cdef Layout* new_layout(plan) except NULL:
    cdef Layout* layout = <Layout*>allocate(1, sizeof(Layout))
    try:
        fill_layout(layout, plan)
    except:
        free_layout(layout)
        raise
    return layout


cdef int fill_layout(Layout* layout, plan) except -1:
    if type(plan) is not Plan:
        raise TypeError(f"a {type(plan).__name__} where a Plan belongs")
    cls, absent = plan.cls, plan.absent
    check_declared(cls, [planned.name for planned in plan.fields + plan.tagged + absent])
    layout.cls = <PyTypeObject*>cls
    layout.flexible = plan.flexible
    layout.fields = new_values(cls, plan.fields, &layout.field_count)
    layout.tagged = new_values(cls, plan.tagged, &layout.tagged_count)
    layout.unsent = new_rests(cls, plan.tagged + absent, &layout.unsent_count)
    unsendable = tuple([planned for planned in absent if not planned.ignorable])
    layout.unsendable = new_rests(cls, unsendable, &layout.unsendable_count)
    hasten(cls)
    return 0


cdef int check_declared(cls, names) except -1:
    """Allocating without a constructor is safe for plain declared classes, and only for them."""
    if type(cls) is not type or cls.__bases__ != (Declared,):
        raise TypeError(f"{cls!r} is not a declared class")
    if sorted(names) != sorted(cls.__slots__):
        raise TypeError(f"the plan of {cls.__name__} names {names}, its slots are {cls.__slots__}")
    return 0


cdef Value* new_values(cls, tuple planned, Py_ssize_t* count) except NULL:
    cdef Value* values = <Value*>allocate(len(planned), sizeof(Value))
    cdef Py_ssize_t index
    try:
        for index, field in enumerate(planned):
            fill_value(&values[index], field)
            values[index].slot = slot_offset(cls, field.name)
    except:
        free_values(values, len(planned))
        raise
    count[0] = len(planned)
    return values


cdef int fill_value(Value* value, field) except -1:
    if type(field) is not FieldPlan:
        raise TypeError(f"a {type(field).__name__} where a FieldPlan belongs")
    name, default = field.name, field.default
    value.kind = field.kind
    value.nullable = field.nullable
    value.compact = field.compact
    value.least_bytes = field.least_bytes
    value.tag = field.tag if field.tag >= 0 else 0
    value.name = <PyObject*>name
    value.default = <PyObject*>default
    if value.kind == ARRAY:
        value.element = <Value*>allocate(1, sizeof(Value))
        fill_value(value.element, field.element)
        if value.element.least_bytes <= 0:
            raise TypeError(f"{name}: nothing bounds an array whose elements may take no bytes")
    elif value.kind == STRUCT:
        value.layout = new_layout(field.struct)
    elif not BOOL <= value.kind <= RECORDS:
        raise TypeError(f"{name}: {field.kind} is no kind of value")
    return 0


cdef Rest* new_rests(cls, tuple planned, Py_ssize_t* count) except NULL:
    cdef Rest* rests = <Rest*>allocate(len(planned), sizeof(Rest))
    cdef Py_ssize_t index
    try:
        for index, field in enumerate(planned):
            if type(field) is not Absent and type(field) is not FieldPlan:
                raise TypeError(f"a {type(field).__name__} where an Absent belongs")
            name, default = field.name, field.default
            rests[index].slot = slot_offset(cls, name)
            rests[index].name = <PyObject*>name
            rests[index].default = <PyObject*>default
    except:
        PyMem_Free(rests)
        raise
    count[0] = len(planned)
    return rests


cdef Py_ssize_t slot_offset(cls, str name) except -1:
    """Where the instances of `cls` keep `name`, as its own member descriptor says."""
    descriptor = cls.__dict__.get(name)
    cdef PyObject* member = <PyObject*>descriptor
    if (
        Py_TYPE(descriptor) != &PyMemberDescr_Type
        or PyDescr_TYPE(member) != <PyTypeObject*>cls
        or (<PyMemberDescrObject*>member).d_member.type != T_OBJECT_EX
    ):
        raise TypeError(f"{cls.__name__}.{name} is not a slot")
    return (<PyMemberDescrObject*>member).d_member.offset


cdef void free_layout(Layout* layout) noexcept:
    if layout != NULL:
        free_values(layout.fields, layout.field_count)
        free_values(layout.tagged, layout.tagged_count)
        PyMem_Free(layout.unsent)
        PyMem_Free(layout.unsendable)
        PyMem_Free(layout)


cdef void free_values(Value* values, Py_ssize_t count) noexcept:
    cdef Py_ssize_t index
    if values != NULL:
        for index in range(count):
            free_values(values[index].element, 1)
            free_layout(values[index].layout)
        PyMem_Free(values)


cdef inline PyObject** slot_in(PyObject* message, Py_ssize_t offset) noexcept:
    return <PyObject**>(<char*>message + offset)


cdef inline void fill_slot(message, Py_ssize_t offset, value) noexcept:
    cdef PyObject** slot = slot_in(<PyObject*>message, offset)
    cdef PyObject* previous = slot[0]
    Py_INCREF(value)
    slot[0] = <PyObject*>value
    Py_XDECREF(previous)


cdef inline object slot_value(message, Py_ssize_t offset, PyObject* name):
    cdef PyObject* value = slot_in(<PyObject*>message, offset)[0]
    if value == NULL:
        return getattr(message, <object>name)  # raises the AttributeError that fits
    return <object>value
