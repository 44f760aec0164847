/* One record after the other, from bytes that nobody vouches for.
 *
 * Every length is compared with the bytes that are left before it is used.  A pointer in a
 * `record_view` is good as long as the bytes behind the cursor are.
 */
#ifndef OTTLA_RECORD_H
#define OTTLA_RECORD_H

#include "bytes.h"

/* The part of a record that is broken; `ottla/records/faults.py` has the words for each. */
enum record_fault {
    RECORD_IS_GOOD = 0,
    FAULT_LENGTH = 1,
    FAULT_TIMESTAMP = 2,
    FAULT_OFFSET = 3,
    FAULT_KEY = 4,
    FAULT_VALUE = 5,
    FAULT_HEADER_COUNT = 6,
    FAULT_HEADER_KEY = 7,
    FAULT_HEADER_VALUE = 8,
    FAULT_SURPLUS = 9,
    FAULT_CHANGED = 10,
};

typedef struct {
    const uint8_t *p;
    const uint8_t *end;
    int64_t base_offset;
    int64_t base_timestamp_ms;
    int64_t append_time_ms;
    int has_append_time;
} record_cursor;

/* Some bytes, or null where the size is -1. */
typedef struct {
    const uint8_t *p;
    int64_t size;
} field_view;

typedef struct {
    int64_t offset;
    int64_t timestamp_ms;
    field_view key;
    field_view value;
    int64_t header_count;
    const uint8_t *headers;
    const uint8_t *end;
} record_view;

static inline const uint8_t *read_field(const uint8_t *p, const uint8_t *end, field_view *field) {
    p = load_varint(p, end, 32, &field->size);
    if (!p || field->size < -1 || field->size > end - p) return NULL;
    field->p = p;
    return field->size > 0 ? p + field->size : p;
}

/* The numbers before the key's bytes: attributes, timestamp, offset.  Returns a fault, or puts the
 * byte after them in `*p`. */
static inline int read_deltas(const record_cursor *cursor, const uint8_t **p, const uint8_t *end,
                              record_view *record) {
    int64_t timestamp_delta, offset_delta;
    const uint8_t *at;
    if (*p >= end) return FAULT_TIMESTAMP;
    at = load_varint(*p + 1, end, 64, &timestamp_delta); /* attributes mean nothing yet */
    if (!at || __builtin_add_overflow(cursor->base_timestamp_ms, timestamp_delta,
                                      &record->timestamp_ms))
        return FAULT_TIMESTAMP;
    if (cursor->has_append_time) record->timestamp_ms = cursor->append_time_ms;
    at = load_varint(at, end, 32, &offset_delta);
    if (!at || __builtin_add_overflow(cursor->base_offset, offset_delta, &record->offset))
        return FAULT_OFFSET;
    *p = at;
    return RECORD_IS_GOOD;
}

/* `next_record` for any record, good or not. */
__attribute__((noinline)) static int next_unusual_record(record_cursor *cursor,
                                                         record_view *record) {
    int64_t length;
    int fault;
    const uint8_t *end, *p = load_varint(cursor->p, cursor->end, 32, &length);
    if (!p || length < 0 || length > cursor->end - p) return FAULT_LENGTH;
    cursor->p = record->end = end = p + length;
    fault = read_deltas(cursor, &p, end, record);
    if (fault) return fault;
    p = read_field(p, end, &record->key);
    if (!p) return FAULT_KEY;
    p = read_field(p, end, &record->value);
    if (!p) return FAULT_VALUE;
    p = load_varint(p, end, 32, &record->header_count);
    /* A header takes two bytes at least: no memory is spent on more than can be there. */
    if (!p || record->header_count < 0 || record->header_count > (end - p) / 2)
        return FAULT_HEADER_COUNT;
    record->headers = p;
    return record->header_count || p == end ? RECORD_IS_GOOD : FAULT_SURPLUS;
}

/* `read_field` for a short length, where there is room to read one. */
static inline const uint8_t *read_usual_field(const uint8_t *p, const uint8_t *end,
                                              field_view *field) {
    uint32_t raw;
    field->size = -1;
    if (*p == 1) return p + 1;
    p = load_short_varint(p, &raw);
    field->p = p;
    field->size = raw >> 1;
    return !p || raw & 1 || field->size > end - p ? NULL : p + field->size;
}

/* Attributes and four numbers: what is read of a record, at the most, before its end is asked. */
#define USUAL_ROOM_BYTES (1 + 4 * SHORT_VARINT_BYTES)

/* `next_record` for a good record whose numbers are all short, as they mostly are; otherwise
 * returns 0, and the cursor stays.  There must be room for short numbers behind the record as
 * well.  So they can be read without looking for its end, which the last of them must hit. */
static inline int next_usual_record(record_cursor *cursor, record_view *record) {
    const uint8_t *end, *p = cursor->p;
    uint32_t length, timestamp_delta, offset_delta;
    if (cursor->end - p < USUAL_ROOM_BYTES) return 0;
    p = load_short_varint(p, &length);
    if (!p || length & 1 || length >> 1 > cursor->end - p - USUAL_ROOM_BYTES) return 0;
    end = p + (length >> 1);
    p = load_short_varint(p + 1, &timestamp_delta);
    if (!p) return 0;
    p = load_short_varint(p, &offset_delta);
    if (!p) return 0;
    p = read_usual_field(p, end, &record->key);
    if (!p) return 0;
    p = read_usual_field(p, end, &record->value);
    if (!p) return 0;
    record->header_count = 0;
    record->headers = p + 1;
    if (p + 1 != end || *p != 0) {
        if (p >= end || *p == 0 || *p & 0x81 || *p >= end - p) return 0;
        record->header_count = *p >> 1;
    }
    if (__builtin_add_overflow(cursor->base_timestamp_ms, UNZIGZAG(timestamp_delta),
                               &record->timestamp_ms) ||
        __builtin_add_overflow(cursor->base_offset, UNZIGZAG(offset_delta), &record->offset))
        return 0;
    if (cursor->has_append_time) record->timestamp_ms = cursor->append_time_ms;
    cursor->p = record->end = end;
    return 1;
}

/* Take the record at the cursor and step over it.  Its headers are not looked at yet; where it
 * has none, it is known to end where it should. */
__attribute__((always_inline)) static inline int next_record(record_cursor *cursor,
                                                             record_view *record) {
    /* Only copies are handed out, so that a loop can keep the originals in registers. */
    record_cursor at;
    record_view unusual;
    int fault;
    if (next_usual_record(cursor, record)) return RECORD_IS_GOOD;
    at = *cursor;
    fault = next_unusual_record(&at, &unusual);
    *cursor = at;
    *record = unusual;
    return fault;
}

/* Take the header at `record->headers` and step over it. */
static inline int next_header(record_view *record, field_view *key, field_view *value) {
    const uint8_t *p = read_field(record->headers, record->end, key);
    if (!p || key->size < 0) return FAULT_HEADER_KEY;
    p = read_field(p, record->end, value);
    if (!p) return FAULT_HEADER_VALUE;
    record->headers = p;
    return RECORD_IS_GOOD;
}

/* Step over all headers, which must fill the record to its end. */
static inline int skip_headers(record_view *record) {
    field_view key, value;
    int64_t i;
    for (i = 0; i < record->header_count; i++) {
        int fault = next_header(record, &key, &value);
        if (fault) return fault;
    }
    return record->headers == record->end ? RECORD_IS_GOOD : FAULT_SURPLUS;
}

/* Strictly as Python decodes it: no overlong forms, no surrogates, nothing above U+10FFFF. */
static inline int is_utf8(const uint8_t *p, int64_t size) {
    const uint8_t *end = p + size;
    while (p < end) {
        uint8_t lead = *p++;
        uint8_t low = 0x80, high = 0xbf;
        int more;
        if (lead < 0x80) continue;
        if (lead < 0xc2 || lead > 0xf4) return 0;
        more = lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : 3;
        if (lead == 0xe0) low = 0xa0;
        if (lead == 0xed) high = 0x9f;
        if (lead == 0xf0) low = 0x90;
        if (lead == 0xf4) high = 0x8f;
        if (end - p < more || *p < low || *p > high) return 0;
        for (p++; --more; p++)
            if ((*p & 0xc0) != 0x80) return 0;
    }
    return 1;
}

#endif
