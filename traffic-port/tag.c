#include "tag.h"

#include <string.h>

/* BLAKE3 (its paper, 2.2 to 2.5) of a single chunk. */
enum { BLOCK = 64, CHUNK_START = 1, CHUNK_END = 2, ROOT = 8, KEYED = 16 };

static const uint32_t iv[4] = { 0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a };
static const uint8_t permutation[16] = { 2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8 };

static inline uint32_t rotate(uint32_t x, int n)
{
	return x >> n | x << (32 - n);
}

static inline void mix(uint32_t *s, int a, int b, int c, int d, uint32_t x, uint32_t y)
{
	s[a] += s[b] + x;
	s[d] = rotate(s[d] ^ s[a], 16);
	s[c] += s[d];
	s[b] = rotate(s[b] ^ s[c], 12);
	s[a] += s[b] + y;
	s[d] = rotate(s[d] ^ s[a], 8);
	s[c] += s[d];
	s[b] = rotate(s[b] ^ s[c], 7);
}

static void compress(uint32_t chain[8], const uint8_t block[BLOCK], uint32_t len, uint32_t flags)
{
	uint32_t m[16], s[16];

	memcpy(m, block, sizeof(m));
	memcpy(s, chain, 8 * sizeof(*s));
	memcpy(s + 8, iv, sizeof(iv));
	s[12] = 0; /* the number of the chunk */
	s[13] = 0;
	s[14] = len;
	s[15] = flags;
	for (int round = 0;; round++) {
		uint32_t next[16];

		mix(s, 0, 4, 8, 12, m[0], m[1]);
		mix(s, 1, 5, 9, 13, m[2], m[3]);
		mix(s, 2, 6, 10, 14, m[4], m[5]);
		mix(s, 3, 7, 11, 15, m[6], m[7]);
		mix(s, 0, 5, 10, 15, m[8], m[9]);
		mix(s, 1, 6, 11, 12, m[10], m[11]);
		mix(s, 2, 7, 8, 13, m[12], m[13]);
		mix(s, 3, 4, 9, 14, m[14], m[15]);
		if (round == 6)
			break;
		for (int i = 0; i < 16; i++)
			next[i] = m[permutation[i]];
		memcpy(m, next, sizeof(m));
	}
	for (int i = 0; i < 8; i++)
		chain[i] = s[i] ^ s[i + 8];
}

void tag_of(const uint8_t *bytes, uint32_t len, uint8_t tag[TAG_BYTES])
{
	uint32_t chain[8] = { 0 };
	uint32_t flags = KEYED | CHUNK_START;

	for (; len > BLOCK; len -= BLOCK, bytes += BLOCK) {
		compress(chain, bytes, BLOCK, flags);
		flags = KEYED;
	}
	uint8_t last[BLOCK] = { 0 };

	memcpy(last, bytes, len);
	compress(chain, last, len, flags | CHUNK_END | ROOT);
	memcpy(tag, chain, TAG_BYTES);
}
