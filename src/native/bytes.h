/* Big-endian integers and Kafka's varints, for both compiled twins.
 *
 * Readers never look past `end`; writers trust their caller to have made room.
 */
#ifndef OTTLA_BYTES_H
#define OTTLA_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#define OTTLA_BE16(v) (v)
#define OTTLA_BE32(v) (v)
#define OTTLA_BE64(v) (v)
#else
#define OTTLA_BE16(v) __builtin_bswap16(v)
#define OTTLA_BE32(v) __builtin_bswap32(v)
#define OTTLA_BE64(v) __builtin_bswap64(v)
#endif

static inline uint16_t load_be16(const uint8_t *p) {
    uint16_t v;
    memcpy(&v, p, 2);
    return OTTLA_BE16(v);
}

static inline uint32_t load_be32(const uint8_t *p) {
    uint32_t v;
    memcpy(&v, p, 4);
    return OTTLA_BE32(v);
}

static inline uint64_t load_be64(const uint8_t *p) {
    uint64_t v;
    memcpy(&v, p, 8);
    return OTTLA_BE64(v);
}

static inline void store_be16(uint8_t *p, uint16_t v) {
    v = OTTLA_BE16(v);
    memcpy(p, &v, 2);
}

static inline void store_be32(uint8_t *p, uint32_t v) {
    v = OTTLA_BE32(v);
    memcpy(p, &v, 4);
}

static inline void store_be64(uint8_t *p, uint64_t v) {
    v = OTTLA_BE64(v);
    memcpy(p, &v, 8);
}

/* Least significant byte first, whatever the machine: for hashes defined that way. */
static inline uint32_t load_le32(const uint8_t *p) { return __builtin_bswap32(load_be32(p)); }

#define ZIGZAG(v) (((uint64_t)(v) << 1) ^ (uint64_t)((int64_t)(v) >> 63))
#define UNZIGZAG(raw) ((int64_t)((raw) >> 1) ^ -(int64_t)((raw) & 1))

/* Numbers of three bytes and more, and what is left when the bytes run out. */
__attribute__((noinline)) static const uint8_t *load_long_varint(
    const uint8_t *p, const uint8_t *end, int bits, int64_t *value) {
    uint64_t raw = 0;
    int shift;
    for (shift = 0;; shift += 7) {
        uint64_t byte, seven;
        if (shift >= bits || p >= end) return NULL;
        byte = *p++;
        seven = byte & 0x7f;
        /* The last byte of a full-length number has room for fewer than seven bits. */
        if (bits - shift < 7 && seven >> (bits - shift)) return NULL;
        raw |= seven << shift;
        if (!(byte & 0x80)) break;
    }
    *value = UNZIGZAG(raw);
    return p;
}

/* Read a zigzag varint of at most `bits` (32 or 64) bits into `*value`.  Returns the byte after
 * it, or NULL if it does not end before `end`, or is too long, or has more bits than allowed. */
static inline const uint8_t *load_varint(const uint8_t *p, const uint8_t *end, int bits,
                                         int64_t *value) {
    uint32_t raw;
    if (p >= end) return NULL;
    raw = p[0];
    if (raw < 0x80) {
        *value = UNZIGZAG(raw);
        return p + 1;
    }
    if (end - p < 2 || p[1] >= 0x80) return load_long_varint(p, end, bits, value);
    raw = (raw & 0x7f) | (uint32_t)p[1] << 7;
    *value = UNZIGZAG(raw);
    return p + 2;
}

#define SHORT_VARINT_BYTES 3

/* Read the raw, still zigzagged number at `p`, where at least SHORT_VARINT_BYTES are known to be
 * left.  Returns the byte after it, or NULL if it is longer than those. */
static inline const uint8_t *load_short_varint(const uint8_t *p, uint32_t *raw) {
    uint32_t first = p[0], second, third;
    if (first < 0x80) {
        *raw = first;
        return p + 1;
    }
    second = p[1];
    if (__builtin_expect(second < 0x80, 1)) {
        *raw = first + (second << 7) - 0x80;
        return p + 2;
    }
    third = p[2];
    *raw = first + (second << 7) + (third << 14) - 0x4080;
    return third < 0x80 ? p + 3 : NULL;
}

/* How many bytes `store_varint` will write: 1 to 10. */
static inline int varint_size(int64_t value) {
    uint64_t raw = ZIGZAG(value);
    /* 9/64 is close enough to 1/7 to divide every number of bits from 1 to 64. */
    return ((64 - __builtin_clzll(raw | 1)) * 9 + 64) >> 6;
}

static inline uint8_t *store_varint(uint8_t *p, int64_t value) {
    uint64_t raw = ZIGZAG(value);
    if (raw > 0x7f && raw < 0x4000) { /* most lengths and offsets */
        p[0] = (uint8_t)(raw | 0x80);
        p[1] = (uint8_t)(raw >> 7);
        return p + 2;
    }
    while (raw > 0x7f) {
        *p++ = (uint8_t)(raw | 0x80);
        raw >>= 7;
    }
    *p++ = (uint8_t)raw;
    return p;
}

#define COPY_STEP_BYTES 16
#define MAX_STEPPED_BYTES 256

/* Copy `size` bytes to where there is room for `room`, and from where as many can be read.  If that
 * is enough, it goes in whole steps: without a call, or a look at how many bytes the last one has.
 * What is behind the bytes is then no longer what it was. */
static inline void copy_in_steps(uint8_t *to, const uint8_t *from, int64_t size, int64_t room) {
    int64_t i;
    if (size > MAX_STEPPED_BYTES || size > room - COPY_STEP_BYTES) {
        memcpy(to, from, (size_t)size);
        return;
    }
    for (i = 0; i < size; i += COPY_STEP_BYTES) memcpy(to + i, from + i, COPY_STEP_BYTES);
}

#endif
