/* Records to columns: one walk that takes everything but the bytes, then one that copies those.
 * Where there is room for all bytes that could be there, the first walk copies them as well.
 *
 * Both run without the GIL, and the records may belong to somebody who writes to them meanwhile.
 * So the copy goes by what the walk noted down in memory of our own, and not by the records; and
 * headers, whose number is not known before, are checked again and against their room.
 */
#ifndef OTTLA_COLUMNS_OUT_H
#define OTTLA_COLUMNS_OUT_H

#include "record.h"

/* Stands for the place of a row that is null. */
#define NULL_ROW UINT32_MAX

/* A column with a row for each record; it has room for all of them. */
typedef struct {
    int32_t *ends;
    uint32_t *at;  /* where the row's bytes are in its section; NULL_ROW: nowhere */
    int64_t bytes; /* `ends` are only good while this fits 31 bits */
    int64_t nulls;
    uint8_t *data; /* where bytes are copied to in the first walk; NULL: by `copy_rows` */
    int64_t room;  /* how many bytes `data` has room for */
} column_out;

/* A column with a row for each header: first counted, then filled. */
typedef struct {
    int32_t *ends;
    uint8_t *data;
    uint8_t *validity; /* all ones to begin with; NULL where nothing is null */
    int64_t rows;
    int64_t bytes;
    int64_t nulls;
    int64_t filled_rows;
    int64_t filled_bytes;
} entry_column_out;

typedef struct {
    int64_t rows;
    int64_t *offset;
    int64_t *timestamp_ms;
    int32_t *header_ends;
    uint32_t *header_at; /* set for rows that have headers */
    column_out key, value;
    entry_column_out header_key, header_value;
    int has_bad_utf8;
} columns_out;

static inline void clear_bit(uint8_t *bits, int64_t index) {
    bits[index >> 3] &= (uint8_t)~(1u << (index & 7));
}

static inline void take_field(column_out *column, int64_t row, const field_view *field,
                              const uint8_t *start) {
    if (field->size < 0) {
        column->at[row] = NULL_ROW;
        column->nulls++;
    } else {
        column->at[row] = (uint32_t)(field->p - start);
        column->bytes += field->size;
    }
    column->ends[row + 1] = (int32_t)column->bytes;
}

/* Copy a field, which `take_field` comes to next, to where its column has room. */
static inline int copy_field(const column_out *column, const field_view *field,
                             const uint8_t *end) {
    if (field->size <= 0) return RECORD_IS_GOOD; /* and what is null is nowhere */
    int64_t room = column->room - column->bytes, left = end - field->p;
    if (field->size > room) return FAULT_CHANGED;
    copy_in_steps(column->data + column->bytes, field->p, field->size, left < room ? left : room);
    return RECORD_IS_GOOD;
}

static inline void count_entry(entry_column_out *column, const field_view *field) {
    column->rows++;
    if (field->size < 0)
        column->nulls++;
    else
        column->bytes += field->size;
}

static int count_headers(record_view record, columns_out *out) {
    field_view key, value;
    int64_t i;
    for (i = 0; i < record.header_count; i++) {
        int fault = next_header(&record, &key, &value);
        if (fault) return fault;
        count_entry(&out->header_key, &key);
        count_entry(&out->header_value, &value);
        if (!is_utf8(key.p, key.size)) out->has_bad_utf8 = 1;
    }
    return record.headers == record.end ? RECORD_IS_GOOD : FAULT_SURPLUS;
}

/* Append `count` records; their bytes only to columns that have `data`.  `*index` is the record at
 * fault, if any is. */
static int take_records(record_cursor *cursor, int64_t count, columns_out *out, int64_t *index) {
    /* Copies, so that no store into a buffer can be suspected of changing them. */
    record_cursor at = *cursor;
    column_out key = out->key, value = out->value;
    int64_t *offset = out->offset, *timestamp_ms = out->timestamp_ms;
    int32_t *header_ends = out->header_ends;
    uint32_t *header_at = out->header_at;
    const uint8_t *start = cursor->p;
    int64_t first_row = out->rows, i;
    int32_t header_count = (int32_t)out->header_key.rows;
    int fault = RECORD_IS_GOOD;
    for (i = 0; i < count; i++) {
        int64_t row = first_row + i;
        record_view record;
        fault = next_record(&at, &record);
        if (fault) break;
        offset[row] = record.offset;
        timestamp_ms[row] = record.timestamp_ms;
        take_field(&key, row, &record.key, start);
        if (value.data) {
            fault = copy_field(&value, &record.value, at.end);
            if (fault) break;
        }
        take_field(&value, row, &record.value, start);
        if (record.header_count) {
            header_at[row] = (uint32_t)(record.headers - start);
            fault = count_headers(record, out);
            if (fault) break;
            header_count = (int32_t)out->header_key.rows;
        }
        header_ends[row + 1] = header_count;
    }
    *cursor = at;
    out->key = key;
    out->value = value;
    out->rows = first_row + count;
    *index = i;
    return fault;
}

/* Copy the bytes of `count` rows from their section to the column's data.
 *
 * That may be where the sections themselves lie, from the first one on: rows only move forward, for
 * other bytes of their records were before them, so none is overwritten before it has moved.
 */
static void copy_rows(const column_out *column, int64_t first_row, int64_t count,
                      const uint8_t *section, uint8_t *data) {
    int64_t row;
    for (row = first_row; row < first_row + count; row++) {
        int32_t start = column->ends[row], size = column->ends[row + 1] - start;
        if (size) memmove(data + start, section + column->at[row], (size_t)size);
    }
}

/* Clear the bits of null rows in `validity`, which is all ones. */
static void mark_nulls(const column_out *column, int64_t rows, uint8_t *validity) {
    int64_t row;
    if (column->nulls == rows) {
        memset(validity, 0, (size_t)((rows + 7) / 8));
        return;
    }
    for (row = 0; row < rows; row++)
        if (column->at[row] == NULL_ROW) clear_bit(validity, row);
}

static inline int fill_entry(entry_column_out *column, const field_view *field) {
    if (column->filled_rows >= column->rows) return 0;
    if (field->size < 0) {
        if (!column->validity) return 0;
        clear_bit(column->validity, column->filled_rows);
    } else {
        if (field->size > column->bytes - column->filled_bytes) return 0;
        memcpy(column->data + column->filled_bytes, field->p, (size_t)field->size);
        column->filled_bytes += field->size;
    }
    column->ends[++column->filled_rows] = (int32_t)column->filled_bytes;
    return 1;
}

static inline int is_full(const entry_column_out *column) {
    return column->filled_rows == column->rows && column->filled_bytes == column->bytes;
}

/* Read the headers of `count` rows again, and fill their columns. */
static int fill_headers(columns_out *out, int64_t first_row, int64_t count, const uint8_t *section,
                        const uint8_t *end) {
    int64_t row;
    for (row = first_row; row < first_row + count; row++) {
        int32_t left = out->header_ends[row + 1] - out->header_ends[row];
        record_view record;
        if (left == 0) continue;
        record.headers = section + out->header_at[row];
        record.end = end;
        for (; left > 0; left--) {
            field_view key, value;
            int fault = next_header(&record, &key, &value);
            if (fault) return fault;
            if (!fill_entry(&out->header_key, &key) || !fill_entry(&out->header_value, &value))
                return FAULT_CHANGED;
        }
    }
    return RECORD_IS_GOOD;
}

#endif
