/* CRC-32C (Castagnoli), by the processor's own instruction where it has one.
 *
 * Call crc32c_setup() once before anything else, while there is one thread.  All functions work
 * on the raw register; crc32c() inverts it before and after, as the checksum is defined.
 */
#ifndef OTTLA_CRC32C_H
#define OTTLA_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#define OTTLA_CRC_X86 1
#include <nmmintrin.h>
#elif defined(__aarch64__) && defined(__ARM_FEATURE_CRC32)
#define OTTLA_CRC_ARM 1
#include <arm_acle.h>
#endif

#define CRC32C_POLYNOMIAL 0x82f63b78u

/* Who goes through data piece by piece does it in multiples of this: see the lanes below. */
#define CRC32C_LANE_BYTES 4096
#define CRC32C_STRIDE_BYTES (3 * CRC32C_LANE_BYTES)

/* slices[k][b]: the remainder of byte b followed by k zero bytes. */
static uint32_t crc32c_slices[8][256];

static inline uint32_t crc32c_byte(uint32_t crc, uint8_t byte) {
    return crc32c_slices[0][(crc ^ byte) & 0xff] ^ (crc >> 8);
}

/* Eight bytes a step, each through a table of its own. */
static uint32_t crc32c_by_table(uint32_t crc, const uint8_t *p, size_t size) {
    for (; size >= 8; size -= 8, p += 8) {
        uint32_t low = crc ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
                              (uint32_t)p[3] << 24);
        crc = crc32c_slices[7][low & 0xff] ^ crc32c_slices[6][low >> 8 & 0xff] ^
              crc32c_slices[5][low >> 16 & 0xff] ^ crc32c_slices[4][low >> 24] ^
              crc32c_slices[3][p[4]] ^ crc32c_slices[2][p[5]] ^ crc32c_slices[1][p[6]] ^
              crc32c_slices[0][p[7]];
    }
    while (size--) crc = crc32c_byte(crc, *p++);
    return crc;
}

static uint32_t (*crc32c_register)(uint32_t, const uint8_t *, size_t) = crc32c_by_table;

#if defined(OTTLA_CRC_X86) || defined(OTTLA_CRC_ARM)

/* The instruction takes eight bytes, can start every cycle, and answers after three.  So three
 * lanes run at once; then the first two are moved past the lanes behind them.  Moving a remainder
 * past zero bytes is linear, hence four tables, one for each of its bytes.  Long lanes are moved
 * less often, and fetched ahead by the processor; short ones take most of what is left. */
typedef struct {
    size_t bytes;
    uint32_t past[4][256];
} crc32c_lane;

static crc32c_lane crc32c_long_lane = {CRC32C_LANE_BYTES, {{0}}}, crc32c_short_lane = {256, {{0}}};

static void crc32c_setup_lane(crc32c_lane *lane) {
    int byte, bit, value;
    for (byte = 0; byte < 4; byte++) {
        uint32_t moved[8];
        for (bit = 0; bit < 8; bit++) {
            uint32_t crc = 1u << (8 * byte + bit);
            size_t i;
            for (i = 0; i < lane->bytes; i++) crc = crc32c_byte(crc, 0);
            moved[bit] = crc;
        }
        for (value = 0; value < 256; value++) {
            uint32_t sum = 0;
            for (bit = 0; bit < 8; bit++)
                if (value >> bit & 1) sum ^= moved[bit];
            lane->past[byte][value] = sum;
        }
    }
}

static inline uint32_t crc32c_past(const crc32c_lane *lane, uint32_t crc) {
    return lane->past[0][crc & 0xff] ^ lane->past[1][crc >> 8 & 0xff] ^
           lane->past[2][crc >> 16 & 0xff] ^ lane->past[3][crc >> 24];
}

static inline uint64_t crc32c_word(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, 8);
    return word;
}

#ifdef OTTLA_CRC_X86
#define OTTLA_CRC_TARGET __attribute__((target("sse4.2")))
#define OTTLA_CRC_STEP8(crc, word) ((uint32_t)_mm_crc32_u64((crc), (word)))
#define OTTLA_CRC_STEP1(crc, byte) _mm_crc32_u8((crc), (byte))
#else
#define OTTLA_CRC_TARGET
#define OTTLA_CRC_STEP8(crc, word) __crc32cd((crc), (word))
#define OTTLA_CRC_STEP1(crc, byte) __crc32cb((crc), (byte))
#endif

/* Step over as many triples of `lane` as there are. */
OTTLA_CRC_TARGET
static inline uint32_t crc32c_in_lanes(uint32_t crc, const uint8_t **p, size_t *size,
                                       const crc32c_lane *lane) {
    const uint8_t *at = *p;
    const size_t bytes = lane->bytes;
    for (; *size >= 3 * bytes; *size -= 3 * bytes, at += 3 * bytes) {
        uint32_t second = 0, third = 0;
        size_t i;
        for (i = 0; i < bytes; i += 8) {
            crc = OTTLA_CRC_STEP8(crc, crc32c_word(at + i));
            second = OTTLA_CRC_STEP8(second, crc32c_word(at + bytes + i));
            third = OTTLA_CRC_STEP8(third, crc32c_word(at + 2 * bytes + i));
        }
        crc = crc32c_past(lane, crc32c_past(lane, crc) ^ second) ^ third;
    }
    *p = at;
    return crc;
}

OTTLA_CRC_TARGET
static uint32_t crc32c_by_instruction(uint32_t crc, const uint8_t *p, size_t size) {
    crc = crc32c_in_lanes(crc, &p, &size, &crc32c_long_lane);
    crc = crc32c_in_lanes(crc, &p, &size, &crc32c_short_lane);
    for (; size >= 8; size -= 8, p += 8) crc = OTTLA_CRC_STEP8(crc, crc32c_word(p));
    while (size--) crc = OTTLA_CRC_STEP1(crc, *p++);
    return crc;
}

#endif

/* Fill the tables and choose the fastest way this processor has. */
static void crc32c_setup(void) {
    int byte, step;
    for (byte = 0; byte < 256; byte++) {
        uint32_t crc = (uint32_t)byte;
        for (step = 0; step < 8; step++) crc = crc >> 1 ^ (crc & 1 ? CRC32C_POLYNOMIAL : 0);
        crc32c_slices[0][byte] = crc;
    }
    for (step = 1; step < 8; step++)
        for (byte = 0; byte < 256; byte++)
            crc32c_slices[step][byte] = crc32c_byte(crc32c_slices[step - 1][byte], 0);
#if defined(OTTLA_CRC_X86) || defined(OTTLA_CRC_ARM)
    crc32c_setup_lane(&crc32c_long_lane);
    crc32c_setup_lane(&crc32c_short_lane);
#if defined(OTTLA_CRC_X86)
    if (!__builtin_cpu_supports("sse4.2")) return;
#endif
    crc32c_register = crc32c_by_instruction;
#endif
}

/* Remainders are polynomials over two elements, with the highest power in the lowest bit.  This is
 * the product of two of them, less all multiples of the polynomial. */
static uint32_t crc32c_product(uint32_t a, uint32_t b) {
    uint32_t product = 0;
    for (; a; a <<= 1) {
        if (a & 0x80000000u) product ^= b;
        b = b >> 1 ^ (b & 1 ? CRC32C_POLYNOMIAL : 0);
    }
    return product;
}

/* The checksum of two pieces of data, one behind the other, from the checksum of each.  A remainder
 * moves past a byte by a factor of x^8, and past many by its power, which takes a few squares. */
static uint32_t crc32c_joined(uint32_t first, uint32_t second, uint64_t second_size) {
    uint32_t factor = 0x80000000u >> 8;
    for (; second_size; second_size >>= 1) {
        if (second_size & 1) first = crc32c_product(factor, first);
        factor = crc32c_product(factor, factor);
    }
    return first ^ second;
}

/* The checksum of `size` bytes that follow others whose checksum is `crc` (0 for none). */
static inline uint32_t crc32c(uint32_t crc, const uint8_t *p, size_t size) {
    return ~crc32c_register(~crc, p, size);
}

#endif
