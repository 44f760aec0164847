/* Murmur2 as Kafka's Java client computes it. */
#ifndef OTTLA_MURMUR2_H
#define OTTLA_MURMUR2_H

#include "bytes.h"

static inline int32_t murmur2(const uint8_t *p, size_t size) {
    const uint32_t mix = 0x5bd1e995u;
    uint32_t hash = 0x9747b28cu ^ (uint32_t)size;
    for (; size >= 4; size -= 4, p += 4) {
        uint32_t word = load_le32(p) * mix;
        word = (word ^ word >> 24) * mix;
        hash = hash * mix ^ word;
    }
    if (size) {
        if (size == 3) hash ^= (uint32_t)p[2] << 16;
        if (size >= 2) hash ^= (uint32_t)p[1] << 8;
        hash = (hash ^ p[0]) * mix;
    }
    hash = (hash ^ hash >> 13) * mix;
    return (int32_t)(hash ^ hash >> 15);
}

#endif
