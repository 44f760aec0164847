"""Columns, for `_codec.pyx`, which includes this file."""


cdef bytes new_bytes(int64_t size):
    """Bytes to be filled before anybody sees them."""
    return PyBytes_FromStringAndSize(NULL, size)


cdef bytes new_validity(int64_t rows):
    """A bit for each row, all of them set, and none behind the last."""
    cdef bytes bits = new_bytes((rows + 7) // 8)
    cdef uint8_t *p = <uint8_t *>PyBytes_AS_STRING(bits)
    memset(p, 0xFF, (rows + 7) // 8)
    if rows & 7:
        p[rows >> 3] = (1 << (rows & 7)) - 1
    return bits


cdef class _RowColumn:
    """A column with a row for each record, being filled."""

    cdef bytes ends
    cdef bytes at
    cdef bytearray data

    def __cinit__(self, int64_t rows):
        self.ends = new_bytes(4 * (rows + 1))
        self.at = new_bytes(4 * rows)

    cdef void open(self, column_out *out) noexcept:
        out.ends = <int32_t *>PyBytes_AS_STRING(self.ends)
        out.ends[0] = 0
        out.at = <uint32_t *>PyBytes_AS_STRING(self.at)

    cdef open_data(self, list sections, column_out *out):
        """Make room for all bytes of the sections, so that the first walk copies those it finds."""
        out.room = 0
        for section in sections:
            out.room += (<_Records>section).body.size
        self.data = PyByteArray_FromStringAndSize(NULL, out.room)
        out.data = <uint8_t *>PyByteArray_AS_STRING(self.data)

    cdef taken(self, const column_out *out, int64_t rows):
        """The whole column, after the first walk.

        An array that shrinks by little keeps its memory, and gives it back as a whole: what is cut
        off goes back to the system, which fills it with zeros for the next one.  That takes longer
        than to read the records.  Where much would lie idle, the rest is copied.
        """
        if out.bytes >= out.room - out.room // IDLE_SHARE:
            PyByteArray_Resize(self.data, out.bytes)
            data = self.data
        else:
            data = PyBytes_FromStringAndSize(<const char *>out.data, out.bytes)
        return BinaryColumn(self.ends, data, self.validity_of(out, rows))

    cdef copied(self, list sections, const column_out *out):
        """The whole column, with the bytes that `take_records` found in the sections."""
        cdef bytes data = new_bytes(out.bytes)
        return self.filled(sections, out, data, <uint8_t *>PyBytes_AS_STRING(data))

    cdef moved(self, list sections, const column_out *out):
        """As `copied`, but its bytes move to where the sections begin, if they can be written to.

        Nothing can be read from the sections after this.
        """
        cdef _Bytes room
        cdef int64_t first
        whole = buffer_of(sections) if out.bytes else None
        if whole is None:
            return self.copied(sections, out)
        room = _Bytes(whole)
        first = (<_Records>sections[0]).body.start - room.start
        data = whole[first : first + out.bytes]
        return self.filled(sections, out, data, <uint8_t *>room.start + first)

    cdef filled(self, list sections, const column_out *out, data, uint8_t *p):
        """The whole column; `p` is where the bytes of `data` are."""
        cdef int64_t row = 0
        cdef _Records records
        for section in sections:
            records = section
            if out.bytes:
                with nogil:
                    copy_rows(out, row, records.count, records.body.start, p)
            row += records.count
        return BinaryColumn(self.ends, data, self.validity_of(out, row))

    cdef validity_of(self, const column_out *out, int64_t rows):
        if not out.nulls:
            return None
        cdef bytes validity = new_validity(rows)
        cdef uint8_t *bits = <uint8_t *>PyBytes_AS_STRING(validity)
        with nogil:
            mark_nulls(out, rows, bits)
        return validity


cdef buffer_of(list sections):
    """All of the `bytearray` in which the sections lie, one behind the other; else None."""
    cdef _Bytes body
    cdef const uint8_t *end = NULL
    owner = None
    for records in sections:
        body = (<_Records>records).body
        view = <object>body.buffer.obj
        if not isinstance(view, memoryview) or type(view.obj) is not bytearray or view.readonly:
            return None
        if body.start < end or (owner is not None and view.obj is not owner):
            return None
        owner, end = view.obj, body.start + body.size
    return None if owner is None else memoryview(owner)


cdef class _EntryColumn:
    """A column with a row for each header, being filled."""

    cdef bytes ends
    cdef bytes data
    cdef bytes validity

    cdef void open(self, entry_column_out *out):
        self.ends = new_bytes(4 * (out.rows + 1))
        self.data = new_bytes(out.bytes)
        out.ends = <int32_t *>PyBytes_AS_STRING(self.ends)
        out.ends[0] = 0
        out.data = <uint8_t *>PyBytes_AS_STRING(self.data)
        if out.nulls:
            self.validity = new_validity(out.rows)
            out.validity = <uint8_t *>PyBytes_AS_STRING(self.validity)

    cdef column(self):
        return BinaryColumn(self.ends, self.data, self.validity)


def columns(sections, bint may_overwrite=False):
    """The records of all sections as one set of columns; see the Python twin."""
    cdef columns_out out
    cdef list opened = [_Records(section) for section in sections]
    cdef int64_t rows = 0
    for records in opened:
        rows += (<_Records>records).count
    cdef bytes offset = new_bytes(8 * rows), timestamp_ms = new_bytes(8 * rows)
    cdef bytes header_ends = new_bytes(4 * (rows + 1)), header_at = new_bytes(4 * rows)
    cdef _RowColumn key = _RowColumn(rows), value = _RowColumn(rows)
    memset(&out, 0, sizeof(out))
    out.offset = <int64_t *>PyBytes_AS_STRING(offset)
    out.timestamp_ms = <int64_t *>PyBytes_AS_STRING(timestamp_ms)
    out.header_ends = <int32_t *>PyBytes_AS_STRING(header_ends)
    out.header_ends[0] = 0
    out.header_at = <uint32_t *>PyBytes_AS_STRING(header_at)
    key.open(&out.key)
    value.open(&out.value)
    if not may_overwrite:
        value.open_data(opened, &out.value)
    for records in opened:
        take(<_Records>records, &out)
    if out.has_bad_utf8:
        # Replacements change the sizes.  It is rare enough for the twin that has time.
        from ottla.records.codec import columns as columns_in_python

        return columns_in_python(sections)
    headers = header_column(header_ends, opened, &out)
    keys = key.copied(opened, &out.key)
    if may_overwrite:
        values = value.moved(opened, &out.value)
    else:
        values = value.taken(&out.value, rows)
    return Columns(rows, offset, timestamp_ms, keys, values, headers)


cdef int take(_Records records, columns_out *out) except -1:
    cdef record_cursor cursor = records.cursor
    cdef int64_t index = 0
    cdef int fault
    if records.body.size > MAX_INT32:
        raise column_too_large("value")  # where a row is in its section is noted in 32 bits
    with nogil:
        fault = take_records(&cursor, records.count, out, &index)
    if fault:
        raise broken_record(index, fault)
    if cursor.p != cursor.end:
        raise trailing_bytes(records.count, cursor.end - cursor.p)
    if out.key.bytes > MAX_INT32:
        raise column_too_large("key")
    if out.value.bytes > MAX_INT32:
        raise column_too_large("value")
    if max(out.header_key.rows, out.header_key.bytes, out.header_value.bytes) > MAX_INT32:
        raise column_too_large("headers")
    return 0


cdef header_column(bytes header_ends, list opened, columns_out *out):
    cdef _EntryColumn key = _EntryColumn(), value = _EntryColumn()
    cdef _Records records
    cdef int64_t row = 0
    cdef int fault = 0
    key.open(&out.header_key)
    value.open(&out.header_value)
    for section in opened:
        records = section
        if out.header_key.rows:
            with nogil:
                fault = fill_headers(
                    out, row, records.count, records.body.start, records.cursor.end
                )
        if fault:
            raise broken_record(0, FAULT_CHANGED)
        row += records.count
    if not (is_full(&out.header_key) and is_full(&out.header_value)):
        raise broken_record(0, FAULT_CHANGED)
    return HeaderColumn(header_ends, key.column(), value.column())


cdef class _Column:
    """A caller's column, its buffers held and measured."""

    cdef column_in rows
    cdef _Bytes offsets
    cdef _Bytes data
    cdef _Bytes validity

    def __cinit__(self, str what, offsets, data, validity, int64_t first_row, int64_t row_count):
        """`row_count` is how many rows must be there; -1 takes as many as there are."""
        self.offsets = _Bytes(offsets)
        self.data = _Bytes(data)
        self.validity = None if validity is None else _Bytes(validity)
        cdef int64_t there = self.offsets.size // 4 - 1 - first_row
        if first_row < 0:
            raise ValueError(f"column {what}: rows {first_row} and {row_count} must not be negative")
        if there < row_count:
            raise ValueError(f"column {what}: its buffer is too short for {row_count} rows")
        if self.validity is not None and 8 * self.validity.size - first_row < there:
            there = 8 * self.validity.size - first_row
            if there < row_count:
                raise ValueError(f"column {what}: its validity is too short for {row_count} rows")
        self.rows.rows = max(there, 0)
        self.rows.first_row = first_row
        self.rows.offsets = self.offsets.start
        self.rows.data = self.data.start
        self.rows.data_size = self.data.size
        if self.validity is not None:
            self.rows.validity = self.validity.start


cdef _Column binary_column(str what, column, int64_t row_count, column_in *rows):
    """Open a `BinaryColumn`, and keep the result until its rows are no longer used."""
    cdef _Column opened = _Column(what, column[0], column[1], column[2], column[3], row_count)
    rows[0] = opened.rows
    return opened


cdef list open_columns(columns, columns_in *rows):
    """Fill `rows` from an `UnwrittenColumns`; the list keeps the buffers alive."""
    record_count, timestamp_ms, key, value, headers = columns
    cdef list held = []
    cdef _Bytes timestamps_ms
    cdef _Column lists
    memset(rows, 0, sizeof(rows[0]))
    if record_count < 0:
        raise ValueError(f"columns cannot have {record_count} rows")
    rows.rows = record_count
    if isinstance(timestamp_ms, int):
        rows.timestamp_ms = timestamp_of(timestamp_ms)
    else:
        timestamps_ms = _Bytes(timestamp_ms)
        if timestamps_ms.size // 8 < rows.rows:
            raise ValueError(f"column timestamp: its buffer is too short for {record_count} rows")
        rows.timestamps_ms = timestamps_ms.start
        if rows.rows:
            memcpy(&rows.timestamp_ms, timestamps_ms.start, 8)
        held.append(timestamps_ms)
    if key is not None:
        held.append(binary_column("key", key, rows.rows, &rows.key))
    if value is not None:
        held.append(binary_column("value", value, rows.rows, &rows.value))
    if headers is not None:
        lists = _Column("headers", headers[0], b"", headers[3], headers[4], rows.rows)
        rows.headers = lists.rows
        held.append(lists)
        held.append(binary_column("headers", headers[1], -1, &rows.header_keys))
        held.append(binary_column("headers", headers[2], -1, &rows.header_values))
    return held


def encode_columns(
    columns, base_timestamp_ms=None, Py_ssize_t headroom_bytes=0, bytearray into=None,
    bint has_crc=False,
):
    """Write the rows of columns as `encode` writes records; see the Python twin."""
    cdef columns_in rows
    cdef list held = open_columns(columns, &rows)  # until we return, the rows point into it
    cdef rows_written written
    cdef uint32_t crc = 0
    cdef int64_t room, most, size
    cdef uint8_t *start
    rows.base_timestamp_ms = rows.timestamp_ms if base_timestamp_ms is None else base_timestamp_ms
    if rows.rows == 0 and base_timestamp_ms is None:
        rows.base_timestamp_ms = -1
    if rows.rows > MAX_BODY_BYTES // MIN_RECORD_BYTES:
        raise body_too_large()
    # A row is begun only where there is room for the longest numbers it could have.
    most = MAX_BODY_BYTES + MAX_ROW_OVERHEAD_BYTES
    room = min(most_bytes(&rows, HEADER_OVERHEAD_BYTES), most)
    while True:
        if into is None:
            data = PyByteArray_FromStringAndSize(NULL, headroom_bytes + room)
        else:
            data = into
            PyByteArray_Resize(data, headroom_bytes + room)
        start = <uint8_t *>PyByteArray_AS_STRING(data)
        memset(start, 0, headroom_bytes)
        start += headroom_bytes
        with nogil:
            written = write_rows(&rows, start, start + room, &crc if has_crc else NULL)
        if written.fault != ROW_HAS_NO_ROOM or room == most:
            break
        # Only where null rows have offsets out of order, which Arrow itself never does.
        room = min(2 * room + MAX_ROW_OVERHEAD_BYTES, most)
    size = written.at - start
    if written.fault == ROW_HAS_NO_ROOM or size > MAX_BODY_BYTES:
        raise body_too_large()
    if written.fault:
        raise broken_row(&rows, &written)
    PyByteArray_Resize(data, headroom_bytes + size)
    return Encoded(
        data, rows.rows, rows.base_timestamp_ms, written.max_timestamp_ms, crc if has_crc else None
    )


cdef broken_row(const columns_in *rows, const rows_written *written):
    cdef int64_t timestamp_ms = rows.timestamp_ms, index = written.index
    cdef int fault = written.fault
    if fault == ROW_TIMESTAMP:
        if rows.timestamps_ms:
            memcpy(&timestamp_ms, rows.timestamps_ms + 8 * index, 8)
        return impossible_timestamp(timestamp_ms)
    if fault == ROW_HEADER_KEY_NULL:
        return ValueError("column headers: a header key is null")
    if fault == ROW_HEADER_KEY_UTF8:
        return ValueError("column headers: a header key is not UTF-8")
    what = "key" if fault == ROW_KEY else "value" if fault == ROW_VALUE else "headers"
    return ValueError(f"column {what}: row {index} lies outside its data")


def murmur2_column(column, int64_t row_count):
    """The hashes of `row_count` keys, 0 where a key is null; see the Python twin."""
    cdef column_in rows
    cdef field_view key
    cdef int64_t i, bad = -1
    # Until we return, the rows point into what this holds.
    cdef _Column held = binary_column("key", column, row_count, &rows)
    if row_count < 0:
        raise ValueError(f"column key: rows 0 and {row_count} must not be negative")
    cdef bytes hashes = PyBytes_FromStringAndSize(NULL, 4 * row_count)
    cdef int32_t *out = <int32_t *>PyBytes_AS_STRING(hashes)
    with nogil:
        for i in range(row_count):
            if not row_field(&rows, i, &key):
                bad = i
                break
            out[i] = murmur2_of(key.p, key.size) if key.size >= 0 else 0
    if bad >= 0:
        raise ValueError(f"column key: row {bad} lies outside its data")
    return hashes
