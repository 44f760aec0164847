"""The C of `src/native`, as the record codec calls it; each header documents its functions."""

from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

cdef extern from "bytes.h" nogil:
    bint sub_overflow "__builtin_sub_overflow" (int64_t a, int64_t b, int64_t *difference)
    uint16_t load_be16(const uint8_t *p)
    uint32_t load_be32(const uint8_t *p)
    uint64_t load_be64(const uint8_t *p)
    int varint_size(int64_t value)
    uint8_t *store_varint(uint8_t *p, int64_t value)

cdef extern from "crc32c.h" nogil:
    void crc32c_setup()
    uint32_t crc32c_of "crc32c" (uint32_t crc, const uint8_t *p, size_t size)
    uint32_t join_crc32c "crc32c_joined" (uint32_t first, uint32_t second, uint64_t second_size)

cdef extern from "murmur2.h" nogil:
    int32_t murmur2_of "murmur2" (const uint8_t *p, size_t size)

cdef extern from "record.h" nogil:
    ctypedef struct record_cursor:
        const uint8_t *p
        const uint8_t *end
        int64_t base_offset
        int64_t base_timestamp_ms
        int64_t append_time_ms
        int has_append_time

    ctypedef struct field_view:
        const uint8_t *p
        int64_t size

    ctypedef struct record_view:
        int64_t offset
        int64_t timestamp_ms
        field_view key
        field_view value
        int64_t header_count
        const uint8_t *headers
        const uint8_t *end

    int FAULT_SURPLUS
    int FAULT_CHANGED
    int next_record(record_cursor *cursor, record_view *record)
    int next_header(record_view *record, field_view *key, field_view *value)
    int skip_headers(record_view *record)

cdef extern from "columns_out.h" nogil:
    ctypedef struct column_out:
        int32_t *ends
        uint32_t *at
        int64_t bytes
        int64_t nulls
        uint8_t *data
        int64_t room

    ctypedef struct entry_column_out:
        int32_t *ends
        uint8_t *data
        uint8_t *validity
        int64_t rows
        int64_t bytes
        int64_t nulls

    ctypedef struct columns_out:
        int64_t rows
        int64_t *offset
        int64_t *timestamp_ms
        int32_t *header_ends
        uint32_t *header_at
        column_out key
        column_out value
        entry_column_out header_key
        entry_column_out header_value
        int has_bad_utf8

    int take_records(record_cursor *cursor, int64_t count, columns_out *out, int64_t *index)
    void copy_rows(
        const column_out *column, int64_t first_row, int64_t count, const uint8_t *section,
        uint8_t *data,
    )
    void mark_nulls(const column_out *column, int64_t rows, uint8_t *validity)
    int fill_headers(
        columns_out *out, int64_t first_row, int64_t count, const uint8_t *section,
        const uint8_t *end,
    )
    int is_full(const entry_column_out *column)

cdef extern from "columns_in.h" nogil:
    ctypedef struct column_in:
        const uint8_t *offsets
        const uint8_t *data
        const uint8_t *validity
        int64_t data_size
        int64_t first_row
        int64_t rows

    ctypedef struct columns_in:
        int64_t rows
        const uint8_t *timestamps_ms
        int64_t timestamp_ms
        int64_t base_timestamp_ms
        column_in key
        column_in value
        column_in headers
        column_in header_keys
        column_in header_values

    int ROW_TIMESTAMP
    int ROW_KEY
    int ROW_VALUE
    int ROW_HEADER_KEY_NULL
    int ROW_HEADER_KEY_UTF8
    int ROW_HAS_NO_ROOM
    int MAX_ROW_OVERHEAD_BYTES
    int row_field(const column_in *column, int64_t row, field_view *field)
    int64_t most_bytes(const columns_in *rows, int64_t header_overhead)
    ctypedef struct rows_written:
        uint8_t *at
        int64_t index
        int64_t max_timestamp_ms
        int fault

    rows_written write_rows(const columns_in *rows, uint8_t *p, const uint8_t *end, uint32_t *crc)
