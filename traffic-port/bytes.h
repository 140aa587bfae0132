/* Integers in network byte order. */
#ifndef BYTES_H
#define BYTES_H

#include <stdint.h>
#include <string.h>

#include <rte_byteorder.h>

static inline void put32(uint8_t *at, uint32_t value)
{
	value = rte_cpu_to_be_32(value);
	memcpy(at, &value, sizeof(value));
}

static inline void put64(uint8_t *at, uint64_t value)
{
	value = rte_cpu_to_be_64(value);
	memcpy(at, &value, sizeof(value));
}

static inline uint32_t get16(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

static inline uint32_t get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return rte_be_to_cpu_32(value);
}

static inline uint64_t get64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return rte_be_to_cpu_64(value);
}

#endif
