/* Losses of the long haul, and the memory of its ends about them.
 *
 * Data packets are lost, none of anything else, each with the same probability.
 * Which ones follows from a generator of fixed seed. A stream has no such record
 * where nothing is lost: then a packet's place follows from the round it is sent in.
 */
#ifndef LOSS_H
#define LOSS_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_branch_prediction.h>

/* The source of a flow: the place of the packet it sends next, and the place that
 * no packet was sent for yet. The first is behind where it has gone back. */
struct sender { uint32_t cursor, next; };

/* A flow at the other gateway as a Depot. */
struct depot {
	uint32_t high; /* one past the newest that should have arrived */
	uint32_t epoch;
	uint64_t echo, heard; /* the time in the newest SYNC; when that came, in ticks */
};

/* A run of packets: from here to before there. */
struct run { uint32_t from, to; };

struct loss {
	uint64_t random;
	double per_log; /* makes the distance to the next loss from a logarithm */
	uint64_t until; /* packets before that one */
	/* A source sends that many packets beyond what was delivered, no more. A power
	 * of two, 64 at least. */
	uint32_t window;
	struct sender *sender;
	/* Outward, where the other gateway is a Depot: its flows; a bit for each packet
	 * that has arrived ahead of a hole. */
	struct depot *depot;
	/* Inward, where it is a Sentry: a bit for each packet that was lost and that
	 * nobody has asked for since. */
	uint64_t *bits;
	/* The gaps that STATUS jobs are about, in the order of the jobs. */
	struct { struct run *at; uint64_t head, tail, mask; } runs;
};

/* NULL if there is no memory. */
struct loss *loss_new(double probability, uint32_t flows, uint32_t in_flight, uint32_t per_ack,
		      bool outward);
void loss_free(struct loss *loss);

/* Draws how many packets come through before the next one that does not. */
uint64_t loss_draw(struct loss *loss);

/* Whether the long haul loses the packet that it is given now. */
static inline bool loss_strikes(struct loss *loss)
{
	if (likely(loss->until-- != 0))
		return false;
	loss->until = loss_draw(loss);
	return true;
}

static inline uint64_t *loss_word(struct loss *loss, uint32_t flow, uint32_t seq)
{
	return &loss->bits[((uint64_t)flow * loss->window + (seq & (loss->window - 1))) >> 6];
}

/* Sets a packet's bit; true if it wasn't. */
static inline bool loss_set(struct loss *loss, uint32_t flow, uint32_t seq)
{
	uint64_t *word = loss_word(loss, flow, seq);
	const uint64_t bit = 1ull << (seq & 63), before = *word;

	*word = before | bit;
	return !(before & bit);
}

/* Clears it; true if it was set. */
static inline bool loss_clear(struct loss *loss, uint32_t flow, uint32_t seq)
{
	uint64_t *word = loss_word(loss, flow, seq);
	const uint64_t bit = 1ull << (seq & 63), before = *word;

	*word = before & ~bit;
	return before & bit;
}

/* Where the run begins that ends before `to` and has only bits that are set, or
 * only such that are not; `least` at the earliest. */
uint32_t loss_run_before(struct loss *loss, uint32_t flow, uint32_t least, uint32_t to, bool set);

static inline bool is_before(uint32_t a, uint32_t b)
{
	return (int32_t)(a - b) < 0;
}

#endif
