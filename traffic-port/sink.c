/* What goes out. */
#include "traffic.h"

#include <rte_branch_prediction.h>
#include <rte_mempool.h>

enum { BURST = 64, VERIFY_EVERY = 1024, ASKS = 0x80 };

static inline bool is_ours(const struct rte_mbuf *m, const uint8_t *frame)
{
	/* EtherType and IP version; UDP ports. */
	return m->data_len >= ACK_BYTES && m->nb_segs == 1 &&
	       get8_24(frame + AT_IP - 2) >> 8 == 0x080045 && (get8_24(frame + AT_UDP) & 0xffff) == 4791;
}

/* All that is in a frame, now and then: payload, addresses, checksum, ICRC. */
static void verify(struct world *w, const struct stream *s, uint32_t flow, uint32_t seq,
		   const uint8_t *frame, uint32_t len)
{
	uint8_t head[HEAD_BYTES];

	w->count.verified++;
	put_data(&w->frames, s->id, flow, seq, head);
	/* MAC addresses may have been swapped. */
	if (!crc_is_right(frame, len) || memcmp(frame + 12, head + 12, HEAD_BYTES - 12) != 0 ||
	    memcmp(frame + HEAD_BYTES, w->frames.whole + HEAD_BYTES, len - HEAD_BYTES) != 0)
		w->count.bad_icrc++;
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
	if (unlikely(ahead != 0)) {
		if (ahead > PSN_MASK / 2) {
			w->count.out_repeats++;
			return;
		}
		/* What is missing won't come: nothing is lost here. */
		w->count.bad_order++;
		seq += ahead;
	}
	s->delivered[flow] = seq + 1;
	s->total++;
	w->count.out_data++;
	w->count.out_data_bytes += len;
	if (frame[AT_BTH + 8] & ASKS) {
		struct acks *acks = &s->acks;

		if (unlikely(acks->tail - acks->head > acks->mask)) {
			w->count.unexpected++;
			return;
		}
		acks->at[acks->tail++ & acks->mask] = (struct ack) {
			.due = s->total + w->in_flight, .tsc = now, .flow = flow, .seq = seq,
		};
	}
	if (unlikely(w->count.out_data % VERIFY_EVERY == 0))
		verify(w, s, flow, seq, frame, len);
}

static inline void take_ack(struct world *w, enum side side, const uint8_t *frame, uint32_t len)
{
	const struct stream *s = &w->streams[side == WAN ? INWARD : OUTWARD];
	const uint32_t qpn = qpn_of(frame), flow = qpn & (FLOWS_MOST - 1);

	if (unlikely(flow >= s->flows || qpn != requester_qpn(s->id, flow)))
		w->count.bad_flow++;
	else if (unlikely(len != ACK_BYTES))
		w->count.bad_length++;
	else if (unlikely(frame[AT_BODY] != 0x1f))
		w->count.naks++;
	else
		w->count.out_acks++;
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

static void take_other(struct world *w, enum side side, struct rte_mbuf *m, const uint8_t *frame)
{
	if (!is_ours(m, frame)) {
		w->count.foreign++;
	} else if (frame[AT_BTH] == UD_SEND_ONLY) {
		take_cm(w, side, frame, m->data_len);
	} else if (frame[AT_BTH] == CONTROL) {
		w->count.out_control++;
		peer_hear(w, side, frame, m->data_len);
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

static void take_burst(struct world *w, enum side side, struct rte_mbuf **frames, uint16_t n)
{
	const struct stream *s = &w->streams[side == WAN ? OUTWARD : INWARD];
	const uint64_t now = rte_rdtsc();

	if (s->flows > 4096)
		for (uint16_t i = 0; i < n; i++) {
			const uint8_t *frame = rte_pktmbuf_mtod(frames[i], const uint8_t *);

			expect_write(&s->delivered[qpn_of(frame) & (s->flows - 1)]);
		}
	for (uint16_t i = 0; i < n; i++) {
		const uint8_t *frame = rte_pktmbuf_mtod(frames[i], const uint8_t *);

		const uint8_t opcode = is_ours(frames[i], frame) ? frame[AT_BTH] : 0xff;

		if (likely(opcode <= SEND_ONLY))
			take_data(w, side, frame, frames[i]->data_len, now);
		else if (likely(opcode == ACKNOWLEDGE))
			take_ack(w, side, frame, frames[i]->data_len);
		else
			take_other(w, side, frames[i], frame);
	}
	free_all(frames, n);
}

void world_take(struct world *w, enum side side, struct rte_mbuf **frames, uint16_t n)
{
	for (uint16_t done = 0; done < n; done += BURST)
		take_burst(w, side, frames + done, RTE_MIN(n - done, BURST));
}
