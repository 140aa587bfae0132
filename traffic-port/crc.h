/* The invariant CRC of RoCEv2 (ICRC), as a linear function.
 *
 * For frames of one length, the ICRC of the exclusive or of some frames is the
 * exclusive or of theirs, but for a constant. So what a field adds to the ICRC is
 * looked up in a table by its value, and never computed over the frame again.
 */
#ifndef CRC_H
#define CRC_H

#include <stdbool.h>
#include <stdint.h>

/* Offsets in the frames of this port: Ethernet, IPv4 without options, UDP, BTH. */
enum {
	AT_IP = 14,
	AT_UDP = 34,
	AT_BTH = 42,
	AT_BODY = 54,
	ICRC_BYTES = 4,
};

void crc_init(void);

/* The ICRC of a frame of `len` bytes, its last four not counted. */
uint32_t crc_of_frame(const uint8_t *frame, uint32_t len);

/* Whether the last four bytes are right. */
bool crc_is_right(const uint8_t *frame, uint32_t len);

/* Writes the last four bytes. */
void crc_close(uint8_t *frame, uint32_t len);

/* The inverse of a linear function of 32 bits, given by its values at single
 * bits; false if it has none. */
bool crc_invert(const uint32_t of_bit[32], uint32_t inverse_of_bit[32]);

/* A linear function at any place. */
static inline uint32_t crc_apply(const uint32_t of_bit[32], uint32_t x)
{
	uint32_t sum = 0;

	for (; x != 0; x &= x - 1)
		sum ^= of_bit[__builtin_ctz(x)];
	return sum;
}

#endif
