/* The world on the far sides of a pair of ports: hosts on the LAN, and behind the
 * WAN the other gateway and its hosts. One thread polls both ports; with two, the first
 * one polls the LAN's and the second one the WAN's, and both transmit. Where the ports have several queues,
 * there is a world of its own behind each, with hosts and a tunnel of its own, and a
 * thread of its own polls it.
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
#include <rte_spinlock.h>

#include "counters.h"
#include "frames.h"
#include "loss.h"
#include "tunnel.h"

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
	enum { JOB_STATUS, JOB_SYNC, JOB_SYNC_RESENT, JOB_CM_REPLY, JOB_RESEND } what;
	uint32_t flow;
	uint64_t due;
	/* STATUS: what was delivered by then, what the newest SYNC says of itself and
	 * how long ago it came, in ticks, and which worker's boot and message that was. If `gaps`, more is in the runs of the stream's
	 * losses: of what the list is complete, up to where packets should have arrived
	 * and how many gaps follow, and the gaps, the newest first. */
	uint32_t seq;
	uint32_t epoch;
	uint64_t echo;
	uint64_t hold;
	uint64_t seen_boot;
	bool gaps;
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
	struct loss *loss; /* NULL: nothing is lost */
	/* Inward: packets that were asked for. They come in where the data does, when
	 * `sent` packets have. */
	struct jobs resends;
	uint64_t sent;
	/* The other gateway: flows it has announced or answered, one bit each. */
	uint64_t *met;
	uint64_t next_sync; /* when, in ticks */
	uint64_t sync_then, data_then; /* the newest SYNC: when, and data by then */
	uint32_t sync_flow; /* whose turn it is, or was */
	bool sync_waits; /* for that flow's packet */
};

/* The other gateway. */
struct peer {
	bool present;
	uint64_t boot, seq;
	uint64_t seen_boot;
	uint64_t tick_ns_16; /* nanoseconds of 65,536 ticks */
};

struct world {
	struct frames frames;
	struct stream streams[STREAMS];
	struct peer peer;
	uint32_t queue; /* of each port, that it is behind */
	struct tunnel *tunnel; /* NULL: the other gateway is none of a tunnel */
	/* The other gateway repairs the LANs beside a tunnel: a NAK has come for so many pairs of hosts, of so many; 0: all are
	 * repaired, without any. */
	uint32_t naks, repaired;
	uint32_t in_flight; /* frames between a packet and its ACK, over all flows */
	uint64_t round_trip; /* ticks, smoothed */
	uint64_t status_ticks; /* least time between two SYNC of one flow */
	/* Where data comes now and then only: the time between two packets, in ticks,
	 * and when the next one is to come; the newest of those that have, which then
	 * is on its way through the program. */
	uint64_t pause, next_data, came;
	struct counters count;
	struct counter_page *page;
	uint64_t next_page;
	/* For frames that are neither data nor ACK: a program may free them, and then
	 * their buffers don't come by here to be restored. NULL: they come from the
	 * program's pool, as Open vSwitch wants it, which hands all on. */
	bool own_pool;
	struct rte_mempool *others;
	struct { struct rte_mempool *pool; uint16_t port; } rx[SIDES];
	/* Frames that come in at one of several WAN ports are taken there. */
	uint16_t wan_port[PORTS_MOST];
	uint32_t ports;
	/* One thread polls both ports; or two a port each, and transmit, each under the lock. */
	const void *thread;
	uint32_t threads;
	rte_spinlock_t lock;
	bool full; /* nothing comes in until more has gone out */
};

static inline bool is_marked(const uint64_t *bits, uint32_t flow)
{
	return bits[flow >> 6] >> (flow & 63) & 1;
}

/* Sets the flow's bit; true if it wasn't. */
static inline bool mark(uint64_t *bits, uint32_t flow)
{
	const uint64_t bit = 1ull << (flow & 63);
	const bool known = bits[flow >> 6] & bit;

	bits[flow >> 6] |= bit;
	return !known;
}

/* The place in the flow's sequence that a PSN stands for, next to a place that is
 * near it. */
static inline uint32_t seq_of(uint32_t flow, uint32_t psn, uint32_t near)
{
	const uint32_t ahead = (psn - first_psn(flow) - near) & PSN_MASK;

	return near + ahead - (ahead > PSN_MASK / 2 ? PSN_MASK + 1 : 0);
}

static inline void expect_write(const void *at)
{
	__builtin_prefetch(at, 1, 3);
}

static inline enum side source_side(enum stream_id stream)
{
	return stream == OUTWARD ? LAN : WAN;
}

/* Room for a frame that is neither data nor ACK. */
enum { MESSAGE_BYTES = 960 };

/* One that is written as a whole; NULL, which is counted, if there is none. */
struct rte_mbuf *other_frame(struct world *world, enum side side, uint16_t len);

static inline void set_mbuf(const struct world *w, enum side side, struct rte_mbuf *m, uint16_t len)
{
	m->data_off = RTE_PKTMBUF_HEADROOM;
	rte_mbuf_refcnt_set(m, 1);
	m->nb_segs = 1;
	m->port = w->rx[side].port;
	m->ol_flags = 0;
	m->packet_type = 0;
	m->pkt_len = len;
	m->data_len = len;
}

/* The frames that come in at a side now, of the WAN at one of its ports, at most n. */
uint16_t world_give(struct world *world, enum side side, uint32_t port, struct rte_mbuf **frames, uint16_t n);

/* Takes, checks and frees what goes out at a side. */
void world_take(struct world *world, enum side side, uint32_t port, struct rte_mbuf **frames, uint16_t n);

/* peer.c */

/* A control message that went out at a side. */
void peer_hear(struct world *world, enum side side, const uint8_t *frame, uint32_t len);

/* The other gateway, a Depot, tells of the gaps of a flow: of the newest ones, as many as a
 * message can hold, or of all. */
void peer_report(struct world *world, struct stream *stream, uint32_t flow, bool all);

/* Writes the message that a job is about; its length. `frame` has PEER_BYTES. */
enum { GAPS_MOST = 32, PEER_BYTES = AT_BODY + 52 + 48 + 8 * GAPS_MOST + 16 + ICRC_BYTES };
uint32_t peer_say(struct world *world, struct stream *stream, const struct job *job, uint8_t *frame);

/* Room at the end, or NULL. */
static inline struct job *job_push(struct jobs *jobs)
{
	if (jobs->tail - jobs->head > jobs->mask)
		return NULL;
	return &jobs->at[jobs->tail++ & jobs->mask];
}

#endif
