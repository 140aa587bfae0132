/* The world on the far sides of a pair of ports: hosts on the LAN, and behind the
 * WAN the other gateway and its hosts. One thread polls both ports.
 *
 *            LAN port                WAN port
 *   hosts --- rx, tx --- program --- rx, tx --- other gateway --- hosts
 *
 * A stream of data comes in at the port of its source, and is checked where it
 * goes out; its ACKs come in there `in_flight` frames later.
 */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_cycles.h>
#include <rte_mbuf.h>

#include "counters.h"
#include "frames.h"

enum side { LAN, WAN, SIDES };

/* Something that comes in when `due` frames of its stream have been delivered. */
struct ack {
	uint64_t due;
	uint64_t tsc;
	uint32_t flow;
	uint32_t seq;
};

/* A frame of any other sort that is to come in. */
struct job {
	enum { JOB_STATUS, JOB_SYNC, JOB_CM_REPLY } what;
	uint32_t flow;
	uint64_t due;
	/* STATUS: what was delivered when the SYNC came, and what it says of itself. */
	uint32_t seq;
	uint32_t epoch;
	uint64_t echo;
};

/* First in, first out; `mask` + 1 places. */
struct acks { struct ack *at; uint64_t head, tail, mask; };
struct jobs { struct job *at; uint64_t head, tail, mask; };

struct stream {
	enum stream_id id;
	uint32_t flows; /* a power of two, or 0 */
	/* Source: all flows have their turn in a round, in another order each. */
	uint64_t round;
	uint32_t turn, scramble;
	uint64_t round_began, round_took; /* ticks */
	/* Connections: how far a round of requests has come and when it began, which
	 * flows have theirs (one bit each), and how many. */
	uint32_t asked;
	uint64_t asked_at;
	uint64_t *joined;
	uint32_t connected;
	/* Where it goes out: by flow, packets that were delivered in order. */
	uint32_t *delivered;
	uint64_t total;
	struct acks acks;
	struct jobs jobs; /* that come in where the ACKs do */
	/* The other gateway: flows it has announced or answered, one bit each. */
	uint64_t *met;
	uint64_t next_sync; /* when, in ticks */
	uint32_t sync_flow;
};

/* The other gateway. */
struct peer {
	bool present;
	uint64_t boot, seq;
	uint64_t seen_boot, seen_seq;
	uint64_t tick_ns_16; /* nanoseconds of 65,536 ticks */
};

struct world {
	struct frames frames;
	struct stream streams[STREAMS];
	struct peer peer;
	uint32_t in_flight; /* frames between a packet and its ACK, over all flows */
	uint64_t round_trip; /* ticks, smoothed */
	uint64_t status_ticks; /* least time between two SYNC of one flow */
	struct counters count;
	struct counter_page *page;
	uint64_t next_page;
	/* For frames that are neither data nor ACK: a program may free them, and then
	 * their buffers don't come by here to be restored. NULL: they come from the
	 * program's pool, as Open vSwitch wants it, which hands all on. */
	bool own_pool;
	struct rte_mempool *others;
	struct { struct rte_mempool *pool; uint16_t port; } rx[SIDES];
	const void *thread;
};

/* Sets the flow's bit; true if it wasn't. */
static inline bool mark(uint64_t *bits, uint32_t flow)
{
	const uint64_t bit = 1ull << (flow & 63);
	const bool known = bits[flow >> 6] & bit;

	bits[flow >> 6] |= bit;
	return !known;
}

static inline void expect_write(const void *at)
{
	__builtin_prefetch(at, 1, 3);
}

static inline enum side source_side(enum stream_id stream)
{
	return stream == OUTWARD ? LAN : WAN;
}

/* The frames that come in at a side now, at most n. */
uint16_t world_give(struct world *world, enum side side, struct rte_mbuf **frames, uint16_t n);

/* Takes, checks and frees what goes out at a side. */
void world_take(struct world *world, enum side side, struct rte_mbuf **frames, uint16_t n);

/* peer.c */

/* A control message that went out at a side. */
void peer_hear(struct world *world, enum side side, const uint8_t *frame, uint32_t len);

/* Writes the message that a job is about; its length. `frame` has PEER_BYTES. */
enum { PEER_BYTES = AT_BODY + 52 + 48 + 16 + ICRC_BYTES };
uint32_t peer_say(struct world *world, struct stream *stream, const struct job *job, uint8_t *frame);

/* Room at the end, or NULL. */
static inline struct job *job_push(struct jobs *jobs)
{
	if (jobs->tail - jobs->head > jobs->mask)
		return NULL;
	return &jobs->at[jobs->tail++ & jobs->mask];
}

#endif
