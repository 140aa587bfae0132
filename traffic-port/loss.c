#include "loss.h"

#include <math.h>
#include <stdlib.h>

enum { WINDOW_LEAST = 1024, WINDOW_MOST = 1 << 18, RUNS = 1 << 20 };

static uint32_t power_above(uint64_t n)
{
	uint32_t power = WINDOW_LEAST;

	while (power < n && power < WINDOW_MOST)
		power *= 2;
	return power;
}

struct loss *loss_new(double probability, uint32_t flows, uint32_t in_flight, uint32_t per_ack,
		      bool outward)
{
	struct loss *l = calloc(1, sizeof(*l));

	if (l == NULL)
		return NULL;
	/* While a hole is open no ACK comes back; several losses of the same packet
	 * must not stop the source. */
	l->window = power_above(8ull * (in_flight / flows + per_ack));
	l->random = outward ? 0x9e3779b97f4a7c15u : 0xbf58476d1ce4e5b9u;
	l->per_log = 1 / log1p(-probability);
	l->until = loss_draw(l);
	l->sender = calloc(flows, sizeof(*l->sender));
	l->bits = calloc((uint64_t)flows * l->window / 64, sizeof(*l->bits));
	if (outward) {
		l->depot = calloc(flows, sizeof(*l->depot));
		l->runs.at = calloc(RUNS, sizeof(*l->runs.at));
		l->runs.mask = RUNS - 1;
	}
	if (l->sender == NULL || l->bits == NULL || (outward && (l->depot == NULL || l->runs.at == NULL))) {
		loss_free(l);
		return NULL;
	}
	return l;
}

void loss_free(struct loss *l)
{
	if (l == NULL)
		return;
	free(l->sender);
	free(l->depot);
	free(l->bits);
	free(l->runs.at);
	free(l);
}

uint64_t loss_draw(struct loss *l)
{
	/* xorshift64*; 53 bits of it are a number above 0 and up to 1. */
	uint64_t x = l->random;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	l->random = x;
	/* Nothing is lost. */
	if (isinf(l->per_log))
		return UINT64_MAX;
	return (uint64_t)(log((double)((x * 0x2545f4914f6cdd1du >> 11) + 1) * 0x1p-53) * l->per_log);
}

uint32_t loss_run_before(struct loss *l, uint32_t flow, uint32_t least, uint32_t to, bool set)
{
	while (to != least) {
		const uint32_t top = (to - 1) & 63;
		const uint64_t word = *loss_word(l, flow, to - 1);
		/* Ones where the run ends. */
		const uint64_t others = (set ? ~word : word) & (~0ull >> (63 - top));
		const uint32_t length = others != 0 ? top - (63 - (uint32_t)__builtin_clzll(others)) : top + 1;

		if (length >= to - least)
			return least;
		to -= length;
		if (others != 0)
			break;
	}
	return to;
}
