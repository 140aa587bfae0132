/* Transmitted frames: checked and freed. */
#include "traffic.h"

#include <rte_branch_prediction.h>
#include <rte_mempool.h>

enum { BURST = 64, VERIFY_EVERY = 1024, ASKS = 0x80 };

static inline bool is_ours(const struct rte_mbuf *m, const uint8_t *frame, uint32_t len)
{
	/* EtherType and IP version; UDP ports. */
	return len >= ACK_BYTES && m->nb_segs == 1 &&
	       get8_24(frame + AT_IP - 2) >> 8 == 0x080045 && (get8_24(frame + AT_UDP) & 0xffff) == 4791;
}

/* All that is in a frame, now and then: payload, addresses, checksum, ICRC. */
static void verify(struct world *w, const struct stream *s, uint32_t flow, uint32_t seq,
		   const uint8_t *frame, uint32_t len)
{
	uint8_t head[HEAD_BYTES];

	w->count.verified++;
	put_data(&w->frames, s->id, flow, seq, head);
	/* Who repairs a LAN may ask for an ACK. */
	if (w->tunnel != NULL && w->peer.present)
		head[AT_BTH + 8] |= frame[AT_BTH + 8] & ASKS;
	/* MAC addresses may have been swapped. */
	if (!crc_is_right(frame, len) || memcmp(frame + 12, head + 12, HEAD_BYTES - 12) != 0 ||
	    memcmp(frame + HEAD_BYTES, w->frames.whole + HEAD_BYTES, len - HEAD_BYTES - ICRC_BYTES) != 0)
		w->count.bad_icrc++;
}

/* The next packet of a flow, in order. */
static inline void deliver(struct world *w, struct stream *s, uint32_t flow, uint32_t seq, bool asks,
			   uint64_t now)
{
	struct acks *acks = &s->acks;

	s->delivered[flow] = seq + 1;
	w->count.out_data++;
	w->count.out_data_bytes += w->frames.data_bytes;
	if (!asks)
		return;
	if (unlikely(acks->tail - acks->head > acks->mask)) {
		w->count.unexpected++;
		return;
	}
	acks->at[acks->tail++ & acks->mask] = (struct ack) {
		.due = s->total + w->in_flight, .tsc = now, .flow = flow, .seq = seq,
	};
}

static bool asks_at(const struct world *w, uint32_t flow, uint32_t seq)
{
	const enum kind kind = kind_at(&w->frames, flow, seq);

	return kind == LAST || kind == ONLY_ASKING;
}

/* A packet that the long haul does or doesn't lose, and the other gateway as a Depot
 * that puts into order what follows a hole. */
static void take_with_loss(struct world *w, struct stream *s, uint32_t flow, uint32_t ahead,
			   const uint8_t *frame, uint64_t now)
{
	struct loss *l = s->loss;
	struct depot *depot = &l->depot[flow];
	uint32_t seq = s->delivered[flow] + ahead;

	s->total++;
	/* Before it is announced, nobody would mend it. */
	if (loss_strikes(l) && (w->tunnel != NULL || is_marked(s->met, flow))) {
		if (w->tunnel != NULL)
			tunnel_lost(w);
		w->count.lost++;
		return;
	}
	if (w->tunnel != NULL)
		tunnel_arrived(w);
	if (ahead > PSN_MASK / 2 || (ahead != 0 && ahead < l->window && !loss_set(l, flow, seq))) {
		w->count.out_repeats++;
		return;
	}
	if (ahead >= l->window) {
		w->count.bad_order++;
		return;
	}
	if (unlikely(s->total % VERIFY_EVERY == 0))
		verify(w, s, flow, seq, frame, w->frames.data_bytes);
	if (ahead != 0) {
		const bool gap = is_before(depot->high, seq);

		if (!is_before(seq, depot->high))
			depot->high = seq + 1;
		if (gap && w->tunnel == NULL)
			peer_report(w, s, flow, false);
		return;
	}
	do
		deliver(w, s, flow, seq, asks_at(w, flow, seq), now);
	while (is_before(++seq, depot->high) && loss_clear(l, flow, seq));
	if (is_before(depot->high, seq))
		depot->high = seq;
}

static void note_wait(struct world *w, uint64_t now)
{
	static const uint32_t most_us[] = { 1, 2, 5, 10, 20, 40, 60, 80, 100, 150, 200, 500, 1000 };
	const uint64_t ns = (now - w->came) * 1000 / (rte_get_tsc_hz() / 1000000);
	uint64_t *fits = &w->count.wait_1us;

	w->count.waits++;
	w->count.wait_ns += ns;
	w->count.wait_most_ns = RTE_MAX(w->count.wait_most_ns, ns);
	for (size_t i = 0; i < RTE_DIM(most_us); i++)
		fits[i] += ns <= 1000ull * most_us[i];
}

static inline void take_data(struct world *w, enum side side, const uint8_t *frame, uint32_t len,
			     uint64_t now)
{
	struct stream *s = &w->streams[side == WAN ? OUTWARD : INWARD];
	const uint32_t qpn = qpn_of(frame), flow = qpn & (FLOWS_MOST - 1);
	uint32_t seq, ahead;

	if (unlikely(flow >= s->flows || qpn != responder_qpn(s->id, flow))) {
		w->count.bad_flow++;
		return;
	}
	if (unlikely(len != w->frames.data_bytes)) {
		w->count.bad_length++;
		return;
	}
	seq = s->delivered[flow];
	ahead = (psn_of(frame) - first_psn(flow) - seq) & PSN_MASK;
	if (s->loss != NULL && s->id == OUTWARD) {
		take_with_loss(w, s, flow, ahead, frame, now);
		return;
	}
	if (unlikely(ahead != 0)) {
		if (ahead > PSN_MASK / 2) {
			w->count.out_repeats++;
			return;
		}
		/* What is missing won't come: nothing is lost on the way here. */
		w->count.bad_order++;
		seq += ahead;
	}
	s->total++;
	deliver(w, s, flow, seq, frame[AT_BTH + 8] & ASKS, now);
	if (unlikely(w->pause != 0))
		note_wait(w, now);
	if (unlikely(w->count.out_data % VERIFY_EVERY == 0))
		verify(w, s, flow, seq, frame, len);
}

/* An answer where packets are lost: it must not say that more has arrived than has.
 * A source that is told goes back, and does not send again what was acknowledged. */
static void take_claim(struct world *w, struct stream *s, uint32_t flow, const uint8_t *frame, bool nak)
{
	struct sender *sender = &s->loss->sender[flow];
	/* All before it. */
	const uint32_t acked = seq_of(flow, psn_of(frame), s->delivered[flow]) + !nak;

	if (is_before(s->delivered[flow], acked)) {
		w->count.bad_claim++;
	} else if (s->id == OUTWARD) {
		if (nak && is_before(acked, sender->cursor)) {
			w->count.rewinds++;
			sender->cursor = acked;
		} else if (is_before(sender->cursor, acked)) {
			sender->cursor = acked;
		}
	}
}

static inline void take_ack(struct world *w, enum side side, const uint8_t *frame, uint32_t len)
{
	struct stream *s = &w->streams[side == WAN ? INWARD : OUTWARD];
	const uint32_t qpn = qpn_of(frame), flow = qpn & (FLOWS_MOST - 1);

	if (unlikely(flow >= s->flows || qpn != requester_qpn(s->id, flow))) {
		w->count.bad_flow += !is_nobodys(qpn);
		return;
	}
	if (unlikely(len != ACK_BYTES)) {
		w->count.bad_length++;
		return;
	}
	if (s->loss != NULL)
		take_claim(w, s, flow, frame, frame[AT_BODY] == PSN_ERROR);
	if (likely(frame[AT_BODY] == 0x1f))
		w->count.out_acks++;
	else
		w->count.naks++;
}

static void take_cm(struct world *w, enum side side, const uint8_t *frame, uint32_t len)
{
	const bool reply = cm_attribute(frame) == CM_REPLY;
	/* A request goes out where the data will; a reply where the ACKs will. */
	struct stream *s = &w->streams[(side == WAN) == !reply ? OUTWARD : INWARD];
	const uint32_t flow = cm_name(frame, reply);
	struct job *job;

	if (len != CM_BYTES || flow >= s->flows) {
		w->count.foreign++;
		return;
	}
	w->count.out_cm++;
	if (reply) {
		const bool news = mark(s->joined, flow);

		s->connected += news;
		w->count.connected += news;
	} else if ((job = job_push(&s->jobs)) != NULL) {
		*job = (struct job) { .what = JOB_CM_REPLY, .flow = flow };
	} else {
		w->count.unexpected++;
	}
}

/* Frames of other sorts that the program made in buffers of the pool that data
 * comes in: payload and ICRC are put back as data frames have them. */
static void restore(const struct world *w, struct rte_mbuf *m, enum side side)
{
	if (rte_mbuf_refcnt_read(m) == 1 && RTE_MBUF_DIRECT(m) && m->pool != w->others &&
	    (m->pool == w->rx[side].pool || m->pool == w->rx[!side].pool))
		memcpy((uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM, w->frames.whole,
		       RTE_MIN(w->frames.data_bytes, (uint32_t)RTE_PKTMBUF_HEADROOM + m->data_len));
}

static void take_other(struct world *w, enum side side, struct rte_mbuf *m, const uint8_t *frame, uint32_t len)
{
	if (!is_ours(m, frame, len)) {
		w->count.foreign++;
	} else if (frame[AT_BTH] == UD_SEND_ONLY) {
		take_cm(w, side, frame, len);
	} else if (frame[AT_BTH] == CONTROL) {
		w->count.out_control++;
		peer_hear(w, side, frame, len);
	} else {
		w->count.foreign++;
	}
	restore(w, m, side);
}

static void free_all(struct rte_mbuf **frames, uint16_t n)
{
	struct rte_mbuf *free[BURST];
	struct rte_mempool *pool = NULL;
	unsigned int count = 0;

	/* As drivers of NICs do where no offload promises anything. */
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = rte_pktmbuf_prefree_seg(frames[i]);

		if (m == NULL)
			continue;
		if (m->pool != pool && count > 0) {
			rte_mempool_put_bulk(pool, (void **)free, count);
			count = 0;
		}
		pool = m->pool;
		free[count++] = m;
	}
	if (count > 0)
		rte_mempool_put_bulk(pool, (void **)free, count);
}

static void take_burst(struct world *w, enum side side, uint32_t port, struct rte_mbuf **frames, uint16_t n)
{
	const struct stream *s = &w->streams[side == WAN ? OUTWARD : INWARD];
	const uint64_t now = rte_rdtsc();

	const bool tunnel = w->tunnel != NULL && side == WAN;

	if (s->flows > 4096)
		for (uint16_t i = 0; i < n; i++) {
			const uint8_t *frame = rte_pktmbuf_mtod(frames[i], const uint8_t *) + (tunnel ? w->tunnel->front : 0);

			expect_write(&s->delivered[qpn_of(frame) & (s->flows - 1)]);
		}
	for (uint16_t i = 0; i < n; i++) {
		const uint8_t *frame = rte_pktmbuf_mtod(frames[i], const uint8_t *);
		uint32_t len = frames[i]->data_len;

		if (tunnel && unlikely(!tunnel_open(w, port, frames[i], &frame, &len))) {
			restore(w, frames[i], side);
			continue;
		}

		const uint8_t opcode = is_ours(frames[i], frame, len) ? frame[AT_BTH] : 0xff;

		if (likely(opcode <= SEND_ONLY))
			take_data(w, side, frame, len, now);
		else if (likely(opcode == ACKNOWLEDGE))
			take_ack(w, side, frame, len);
		else
			take_other(w, side, frames[i], frame, len);
		/* A box that repairs a LAN has asked for an ACK: another ICRC. */
		if (w->peer.present && w->tunnel != NULL && opcode < SEND_LAST && unlikely(frame[AT_BTH + 8] & ASKS))
			restore(w, frames[i], side);
		/* A resent frame is a copy, that begins elsewhere. */
		if (tunnel && unlikely(w->tunnel->is_resent))
			restore(w, frames[i], side);
	}
	free_all(frames, n);
}

void world_take(struct world *w, enum side side, uint32_t port, struct rte_mbuf **frames, uint16_t n)
{
	for (uint16_t done = 0; done < n; done += BURST)
		take_burst(w, side, port, frames + done, RTE_MIN(n - done, BURST));
}
