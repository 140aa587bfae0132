#include "crc.h"

#include <string.h>

/* Slices of 8 bytes: 1 kB frames are checked now and then while the clock runs. */
static uint32_t table[8][256];

void crc_init(void)
{
	for (uint32_t i = 0; i < 256; i++) {
		uint32_t c = i;

		for (int bit = 0; bit < 8; bit++)
			c = c >> 1 ^ (c & 1 ? 0xedb88320u : 0);
		table[0][i] = c;
	}
	for (uint32_t i = 0; i < 256; i++)
		for (int slice = 1; slice < 8; slice++)
			table[slice][i] = table[slice - 1][i] >> 8 ^ table[0][table[slice - 1][i] & 0xff];
}

static uint32_t update(uint32_t crc, const uint8_t *bytes, uint32_t n)
{
	for (; n >= 8; n -= 8, bytes += 8) {
		uint32_t low, high;

		memcpy(&low, bytes, 4);
		memcpy(&high, bytes + 4, 4);
		low ^= crc;
		crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^ table[5][low >> 16 & 0xff] ^
		      table[4][low >> 24] ^ table[3][high & 0xff] ^ table[2][high >> 8 & 0xff] ^
		      table[1][high >> 16 & 0xff] ^ table[0][high >> 24];
	}
	for (; n > 0; n--, bytes++)
		crc = crc >> 8 ^ table[0][(crc ^ *bytes) & 0xff];
	return crc;
}

uint32_t crc_of_frame(const uint8_t *frame, uint32_t len)
{
	/* From the IP header to the end of the BTH, with ones for what routers may change. */
	uint8_t head[AT_BODY - AT_IP];
	uint32_t crc = 0xdebb20e3; /* after eight bytes of ones */

	memcpy(head, frame + AT_IP, sizeof(head));
	head[1] = 0xff;                                        /* DSCP, ECN */
	head[8] = 0xff;                                        /* TTL */
	memset(head + 10, 0xff, 2);                            /* IP checksum */
	memset(head + (AT_UDP - AT_IP) + 6, 0xff, 2);          /* UDP checksum */
	head[AT_BTH - AT_IP + 4] = 0xff;                       /* FECN, BECN, reserved */
	crc = update(crc, head, sizeof(head));
	return ~update(crc, frame + AT_BODY, len - AT_BODY - ICRC_BYTES);
}

bool crc_is_right(const uint8_t *frame, uint32_t len)
{
	uint32_t crc = crc_of_frame(frame, len);

	/* Little-endian, as this machine is. */
	return memcmp(frame + len - ICRC_BYTES, &crc, ICRC_BYTES) == 0;
}

void crc_close(uint8_t *frame, uint32_t len)
{
	uint32_t crc = crc_of_frame(frame, len);

	memcpy(frame + len - ICRC_BYTES, &crc, ICRC_BYTES);
}

bool crc_invert(const uint32_t of_bit[32], uint32_t inverse_of_bit[32])
{
	/* Gauss-Jordan on pairs (value, what gives it). */
	uint32_t value[32], cause[32];

	for (int i = 0; i < 32; i++) {
		value[i] = of_bit[i];
		cause[i] = 1u << i;
	}
	for (int bit = 0; bit < 32; bit++) {
		int pivot = bit;

		while (pivot < 32 && !(value[pivot] >> bit & 1))
			pivot++;
		if (pivot == 32)
			return false;
		uint32_t v = value[pivot], c = cause[pivot];

		value[pivot] = value[bit];
		cause[pivot] = cause[bit];
		value[bit] = v;
		cause[bit] = c;
		for (int row = 0; row < 32; row++) {
			if (row != bit && value[row] >> bit & 1) {
				value[row] ^= v;
				cause[row] ^= c;
			}
		}
	}
	memcpy(inverse_of_bit, cause, sizeof(cause));
	return true;
}
