/* Columns to records, written in one go.
 *
 * The columns come from a caller and may be wrong, or change under our hands, for the GIL is not
 * held.  So every row is checked before it is read, and the room before it is written.
 */
#ifndef OTTLA_COLUMNS_IN_H
#define OTTLA_COLUMNS_IN_H

#include "crc32c.h"
#include "record.h"

/* What is wrong with a row; `_codec.pyx` has the words. */
enum row_fault {
    ROW_IS_GOOD = 0,
    ROW_TIMESTAMP = 1,
    ROW_KEY = 2,
    ROW_VALUE = 3,
    ROW_HEADERS = 4,
    ROW_HEADER_KEY_NULL = 5,
    ROW_HEADER_KEY_UTF8 = 6,
    ROW_HAS_NO_ROOM = 7,
};

/* Laid out as Arrow does; nothing need be aligned.  `rows` is how many rows there are behind
 * `first_row`; a column without offsets is null everywhere. */
typedef struct {
    const uint8_t *offsets;
    const uint8_t *data;
    const uint8_t *validity;
    int64_t data_size;
    int64_t first_row;
    int64_t rows;
} column_in;

typedef struct {
    int64_t rows;
    const uint8_t *timestamps_ms; /* or NULL: then the next one is that of all rows */
    int64_t timestamp_ms;
    int64_t base_timestamp_ms;
    column_in key, value;
    column_in headers; /* its offsets count entries; it has no data */
    column_in header_keys, header_values;
} columns_in;

static inline int row_is_valid(const column_in *column, int64_t row) {
    row += column->first_row;
    return !column->validity || (column->validity[row >> 3] >> (row & 7) & 1);
}

/* Where a valid row begins and ends, in whatever its offsets count. */
static inline void row_bounds(const column_in *column, int64_t row, int32_t *start, int32_t *end) {
    const uint8_t *p = column->offsets + 4 * (column->first_row + row);
    memcpy(start, p, 4);
    memcpy(end, p + 4, 4);
}

static inline int row_field(const column_in *column, int64_t row, field_view *field) {
    int32_t start, end;
    field->p = column->data;
    field->size = -1;
    if (!column->offsets || (row < column->rows && !row_is_valid(column, row))) return 1;
    if (row >= column->rows) return 0;
    row_bounds(column, row, &start, &end);
    if (start < 0 || end < start || end > column->data_size) return 0;
    field->p = column->data + start;
    field->size = end - start;
    return 1;
}

typedef struct {
    int64_t timestamp_ms, timestamp_delta;
    field_view key, value;
    int32_t first_header, header_count;
} row_view;

static inline int row_header(const columns_in *in, int64_t entry, field_view *key,
                             field_view *value) {
    if (!row_field(&in->header_keys, entry, key) || !row_field(&in->header_values, entry, value))
        return ROW_HEADERS;
    if (key->size < 0) return ROW_HEADER_KEY_NULL;
    return is_utf8(key->p, key->size) ? ROW_IS_GOOD : ROW_HEADER_KEY_UTF8;
}

static inline int row_of(const columns_in *in, int64_t index, row_view *row) {
    row->timestamp_ms = in->timestamp_ms;
    if (in->timestamps_ms) memcpy(&row->timestamp_ms, in->timestamps_ms + 8 * index, 8);
    if (row->timestamp_ms < -1 ||
        __builtin_sub_overflow(row->timestamp_ms, in->base_timestamp_ms, &row->timestamp_delta))
        return ROW_TIMESTAMP;
    if (!row_field(&in->key, index, &row->key)) return ROW_KEY;
    if (!row_field(&in->value, index, &row->value)) return ROW_VALUE;
    row->first_header = row->header_count = 0;
    if (in->headers.offsets && row_is_valid(&in->headers, index)) {
        int32_t end;
        row_bounds(&in->headers, index, &row->first_header, &end);
        if (row->first_header < 0 || end < row->first_header) return ROW_HEADERS;
        row->header_count = end - row->first_header;
    }
    return ROW_IS_GOOD;
}

/* `varint_size` for a length, faster where most lengths have the same size. */
static inline int length_size(int64_t length) {
    return length < 0x40 ? 1 : length < 0x2000 ? 2 : varint_size(length);
}

static inline int64_t payload_size(const field_view *field) {
    return field->size > 0 ? field->size : 0;
}

static inline uint8_t *write_field(uint8_t *p, const field_view *field) {
    p = store_varint(p, field->size);
    if (field->size <= 0) return p;
    memcpy(p, field->p, (size_t)field->size);
    return p + field->size;
}

static inline int write_headers(const columns_in *in, const row_view *row, uint8_t **p,
                                const uint8_t *end) {
    uint8_t *at = *p;
    int64_t i;
    for (i = 0; i < row->header_count; i++) {
        field_view key, value;
        int fault = row_header(in, row->first_header + i, &key, &value);
        if (fault) return fault;
        if (varint_size(key.size) + key.size + varint_size(value.size) + payload_size(&value) >
            end - at)
            return ROW_HAS_NO_ROOM;
        at = write_field(write_field(at, &key), &value);
    }
    *p = at;
    return ROW_IS_GOOD;
}

/* The numbers of a record: six bytes at the least, without its length in front; with it, five of
 * 32 bits, one of 64 and the attributes at the most. */
#define MIN_ROW_BYTES 6
#define MAX_ROW_OVERHEAD_BYTES 36

/* Write one record to `*p`, and leave `*p` behind it. */
static inline int write_row(const columns_in *in, const row_view *row, int64_t index, uint8_t **p,
                            const uint8_t *end) {
    int64_t size, payload = payload_size(&row->key) + payload_size(&row->value);
    /* The length stands in front, but adding it up takes longer than to write the record behind
     * room for the shortest length it can have.  It is seldom longer than that. */
    int width, expected_width = length_size(payload + MIN_ROW_BYTES);
    uint8_t *start = *p, *body = start + expected_width, *at = body;
    if (payload + MAX_ROW_OVERHEAD_BYTES > end - start) return ROW_HAS_NO_ROOM;
    *at++ = 0; /* attributes */
    at = store_varint(store_varint(at, row->timestamp_delta), index);
    at = write_field(write_field(at, &row->key), &row->value);
    at = store_varint(at, row->header_count);
    if (row->header_count) {
        int fault = write_headers(in, row, &at, end);
        if (fault) return fault;
    }
    size = at - body;
    width = length_size(size);
    if (width > expected_width) {
        if (width - expected_width > end - at) return ROW_HAS_NO_ROOM;
        memmove(start + width, body, (size_t)size);
    }
    store_varint(start, size);
    *p = start + width + size;
    return ROW_IS_GOOD;
}

/* Whether the rows are values and nothing else: no key, no headers, none null, all of one time. */
static inline int are_values_only(const columns_in *in) {
    return in->rows > 0 && in->value.offsets && in->value.rows >= in->rows &&
           !in->value.validity && !in->key.offsets && !in->headers.offsets && !in->timestamps_ms &&
           in->timestamp_ms >= -1 && in->timestamp_ms == in->base_timestamp_ms;
}

/* `write_row` for the rows from `index` on, which are values only: most tables that are written
 * are.  Stops at `stop`, or at a row that is not as it should be; returns the index of the next. */
static inline int64_t write_values(const columns_in *in, int64_t index, uint8_t **p,
                                   const uint8_t *stop, const uint8_t *end) {
    const column_in column = in->value;
    const int64_t rows = in->rows;
    uint8_t *at = *p;
    for (; index < rows && at < stop; index++) {
        int32_t row_start, row_end;
        int64_t size;
        row_bounds(&column, index, &row_start, &row_end);
        if (row_start < 0 || row_end < row_start || row_end > column.data_size) break;
        size = row_end - row_start;
        if (size + MAX_ROW_OVERHEAD_BYTES > end - at) break;
        at = store_varint(at, MIN_ROW_BYTES - 2 + length_size(index) + length_size(size) + size);
        *at++ = 0; /* attributes */
        *at++ = 0; /* the timestamp is that of the batch */
        at = store_varint(at, index);
        *at++ = 1; /* no key */
        at = store_varint(at, size);
        copy_in_steps(at, column.data + row_start, size, column.data_size - row_start);
        at += size;
        *at++ = 0; /* no headers */
    }
    *p = at;
    return index;
}

/* What is written so far, and how: `fault` is that of the row `index`. */
typedef struct {
    uint8_t *at;
    int64_t index;
    int64_t max_timestamp_ms;
    int fault;
} rows_written;

/* Write rows until there are none left, `stop` is reached, or one is at fault. */
static inline void write_until(const columns_in *in, rows_written *so_far, const uint8_t *stop,
                               const uint8_t *end) {
    rows_written now = *so_far;
    if (are_values_only(in)) {
        if (in->timestamp_ms > now.max_timestamp_ms) now.max_timestamp_ms = in->timestamp_ms;
        now.index = write_values(in, now.index, &now.at, stop, end);
    }
    for (; now.index < in->rows && now.at < stop; now.index++) {
        row_view row;
        now.fault = row_of(in, now.index, &row);
        if (!now.fault) now.fault = write_row(in, &row, now.index, &now.at, end);
        if (now.fault) break;
        if (row.timestamp_ms > now.max_timestamp_ms) now.max_timestamp_ms = row.timestamp_ms;
    }
    *so_far = now;
}

/* Write all rows to `p`.  Their checksum goes to `*crc`, if that is not NULL: it is computed piece
 * by piece, of what is still in the processor's nearest cache. */
static rows_written write_rows(const columns_in *rows, uint8_t *p, const uint8_t *end,
                               uint32_t *crc) {
    /* A copy, so that no byte that is written can be suspected of changing it. */
    const columns_in in = *rows;
    rows_written now = {p, 0, -1, ROW_IS_GOOD};
    uint32_t sum = 0;
    while (now.index < in.rows && !now.fault) {
        const uint8_t *stop = !crc || end - p < CRC32C_STRIDE_BYTES ? end : p + CRC32C_STRIDE_BYTES;
        write_until(&in, &now, stop, end);
        if (now.at >= end && now.index < in.rows && !now.fault) now.fault = ROW_HAS_NO_ROOM;
        if (crc && now.at - p >= CRC32C_STRIDE_BYTES) {
            int64_t whole = (now.at - p) / CRC32C_STRIDE_BYTES * CRC32C_STRIDE_BYTES;
            sum = crc32c(sum, p, (size_t)whole);
            p += whole;
        }
    }
    if (crc) *crc = crc32c(sum, p, (size_t)(now.at - p));
    return now;
}

/* How many bytes the rows of a column have together: those between its first and last offset.
 * What is negative or too much here is found out row by row. */
static inline int64_t span_of(const column_in *column, int64_t first, int64_t count) {
    int32_t start, end, unused;
    if (!column->offsets || count <= 0 || first < 0 || first + count > column->rows) return 0;
    row_bounds(column, first, &start, &unused);
    row_bounds(column, first + count - 1, &unused, &end);
    return start < 0 || end < start || end > column->data_size ? 0 : end - start;
}

/* The most bytes that all rows can take, if their offsets are in order, as Arrow's are. */
static inline int64_t most_bytes(const columns_in *in, int64_t header_overhead) {
    int64_t most = in->rows * MAX_ROW_OVERHEAD_BYTES + span_of(&in->key, 0, in->rows) +
                   span_of(&in->value, 0, in->rows);
    if (in->headers.offsets && in->rows > 0) {
        int32_t first, end, unused;
        row_bounds(&in->headers, 0, &first, &unused);
        row_bounds(&in->headers, in->rows - 1, &unused, &end);
        if (first >= 0 && end > first) {
            most += (int64_t)(end - first) * header_overhead;
            most += span_of(&in->header_keys, first, end - first);
            most += span_of(&in->header_values, first, end - first);
        }
    }
    return most;
}

#endif
