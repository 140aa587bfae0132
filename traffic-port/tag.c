#include "tag.h"

#include <string.h>

/* BLAKE3 (its paper, 2.1 to 2.5). */
enum { BLOCK = 64, CHUNK = 1024, CHUNK_START = 1, CHUNK_END = 2, PARENT = 4, ROOT = 8, KEYED = 16 };

typedef uint32_t row __attribute__((vector_size(16)));

/* Which words of the block the rounds use, in this order. */
static const uint8_t words[7][16] = {
	{ 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 },
	{ 2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8 },
	{ 3, 4, 10, 12, 13, 2, 7, 14, 6, 5, 9, 0, 11, 15, 8, 1 },
	{ 10, 7, 12, 9, 14, 3, 13, 15, 4, 0, 11, 2, 5, 8, 1, 6 },
	{ 12, 13, 9, 11, 15, 10, 14, 8, 7, 2, 5, 3, 0, 1, 6, 4 },
	{ 9, 14, 11, 5, 8, 12, 15, 1, 13, 3, 0, 10, 2, 6, 4, 7 },
	{ 11, 15, 5, 0, 1, 9, 8, 6, 14, 10, 2, 12, 3, 4, 7, 13 },
};

static inline row rotate(row x, int n)
{
	return x >> n | x << (32 - n);
}

/* Four columns, or diagonals, at once. */
static inline void mix(row s[4], row x, row y)
{
	s[0] += s[1] + x;
	s[3] = rotate(s[3] ^ s[0], 16);
	s[2] += s[3];
	s[1] = rotate(s[1] ^ s[2], 12);
	s[0] += s[1] + y;
	s[3] = rotate(s[3] ^ s[0], 8);
	s[2] += s[3];
	s[1] = rotate(s[1] ^ s[2], 7);
}

static inline row every_other(const uint32_t *m, const uint8_t *at)
{
	return (row) { m[at[0]], m[at[2]], m[at[4]], m[at[6]] };
}

static void compress(row chain[2], const uint8_t block[BLOCK], uint32_t number, uint32_t len, uint32_t flags)
{
	uint32_t m[16];
	row s[4] = {
		chain[0], chain[1], { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a }, { number, 0, len, flags },
	};

	memcpy(m, block, sizeof(m));
#pragma GCC unroll 7
	for (int round = 0; round < 7; round++) {
		const uint8_t *at = words[round];

		mix(s, every_other(m, at), every_other(m, at + 1));
		s[1] = __builtin_shuffle(s[1], (row) { 1, 2, 3, 0 });
		s[2] = __builtin_shuffle(s[2], (row) { 2, 3, 0, 1 });
		s[3] = __builtin_shuffle(s[3], (row) { 3, 0, 1, 2 });
		mix(s, every_other(m, at + 8), every_other(m, at + 9));
		s[1] = __builtin_shuffle(s[1], (row) { 3, 0, 1, 2 });
		s[2] = __builtin_shuffle(s[2], (row) { 2, 3, 0, 1 });
		s[3] = __builtin_shuffle(s[3], (row) { 1, 2, 3, 0 });
	}
	chain[0] = s[0] ^ s[2];
	chain[1] = s[1] ^ s[3];
}

/* The chaining value of a chunk. */
static void of_chunk(const uint8_t *bytes, uint32_t len, uint32_t number, uint32_t root, row chain[2])
{
	uint32_t flags = KEYED | CHUNK_START;
	uint8_t last[BLOCK] = { 0 };

	chain[0] = chain[1] = (row) { 0 };
	for (; len > BLOCK; len -= BLOCK, bytes += BLOCK) {
		compress(chain, bytes, number, BLOCK, flags);
		flags = KEYED;
	}
	memcpy(last, bytes, len);
	compress(chain, last, number, len, flags | CHUNK_END | root);
}

/* That of a tree, whose left half is the largest one that has a power of two of chunks. */
static void of_tree(const uint8_t *bytes, uint32_t len, uint32_t number, uint32_t root, row chain[2])
{
	row both[4];
	uint32_t left = CHUNK;

	if (len <= CHUNK) {
		of_chunk(bytes, len, number, root, chain);
		return;
	}
	while (2 * left < len)
		left *= 2;
	of_tree(bytes, left, number, 0, both);
	of_tree(bytes + left, len - left, number + left / CHUNK, 0, both + 2);
	chain[0] = chain[1] = (row) { 0 };
	compress(chain, (const uint8_t *)both, 0, BLOCK, KEYED | PARENT | root);
}

void tag_of(const uint8_t *bytes, uint32_t len, uint8_t tag[TAG_BYTES])
{
	row chain[2];

	of_tree(bytes, len, 0, ROOT, chain);
	memcpy(tag, chain, TAG_BYTES);
}
