/* Received frames: made here. */
#include "traffic.h"

#include <rte_branch_prediction.h>
#include <rte_mempool.h>

enum {
	BURST = 64, ASKED_PER_BURST = 8, ASK_AGAIN_HZ = 10, INSIDE_MOST = 192,
	KEEPALIVE_HZ = 20000, KEEPALIVE_DATA = 16,
};

/* Messages that may wait, those of the frames in flight included, before data slows down. */
#define JOBS_MOST (w->in_flight + s->flows + 256)

/* The order of the flows in a round: a bijection of the numbers below a power of
 * two, so that no prefetcher finds a pattern, and nothing is kept per flow. */
static inline uint32_t shuffle(uint32_t at, uint32_t scramble, uint32_t mask)
{
	const uint32_t x = ((at ^ scramble) * 0x9e3779b1u + (scramble >> 7)) & mask;

	/* Low bits of a product are mixed least. */
	return ((x ^ x >> 10 ^ x >> 5) * 0x85ebca6bu) & mask;
}

struct rte_mbuf *other_frame(struct world *w, enum side side, uint16_t len)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(w->others != NULL ? w->others : w->rx[side].pool);

	if (m == NULL) {
		w->count.no_mbuf++;
		return NULL;
	}
	set_mbuf(w, side, m, len);
	return m;
}

/* Requests for connections; from the start again for those that came to nothing:
 * a program may throw away what it finds in its queues before it begins. */
static uint16_t give_requests(struct world *w, struct stream *s, uint64_t now,
			      struct rte_mbuf **frames, uint16_t n)
{
	uint16_t given = 0;

	if (s->asked == 0)
		s->asked_at = now;
	else if (s->asked == s->flows && now - s->asked_at > rte_get_tsc_hz() / ASK_AGAIN_HZ)
		s->asked = 0;
	for (; given < n && given < ASKED_PER_BURST && s->asked < s->flows; s->asked++) {
		struct rte_mbuf *m;

		if (is_marked(s->joined, s->asked))
			continue;
		if ((m = other_frame(w, source_side(s->id), CM_BYTES)) == NULL)
			break;
		put_cm(&w->frames, s->id, false, s->asked, rte_pktmbuf_mtod(m, uint8_t *));
		frames[given++] = m;
	}
	w->count.in_cm += given;
	return given;
}

/* Whether there are ACKs that were due by then. */
static inline bool waits(const struct acks *acks, uint64_t due)
{
	return acks->head != acks->tail && acks->at[acks->head & acks->mask].due <= due;
}

/* Whether a message is. */
static inline bool is_due(const struct stream *s)
{
	return s->jobs.head != s->jobs.tail && s->jobs.at[s->jobs.head & s->jobs.mask].due <= s->total;
}

static uint16_t give_jobs(struct world *w, struct stream *s, enum side side, struct jobs *jobs,
			  struct rte_mbuf **frames, uint16_t n)
{
	uint16_t given = 0;

	while (given < n && jobs->head != jobs->tail) {
		const struct job *job = &jobs->at[jobs->head & jobs->mask];
		const bool cm = job->what == JOB_CM_REPLY;
		struct rte_mbuf *m;
		uint8_t *bytes;

		/* What a STATUS says of ACKs, it says behind them. */
		if (job->due > s->total || waits(&s->acks, job->due) ||
		    (m = other_frame(w, side, CM_BYTES)) == NULL)
			break;
		bytes = rte_pktmbuf_mtod(m, uint8_t *);
		if (cm)
			put_cm(&w->frames, s->id, true, job->flow, bytes);
		else
			m->pkt_len = m->data_len = (uint16_t)peer_say(w, s, job, bytes);
		w->count.in_cm += cm;
		w->count.in_control += !cm;
		jobs->head++;
		frames[given++] = m;
	}
	return given;
}

/* Whether the other gateway looks at a flow. */
static bool is_seen(const struct world *w, uint32_t flow)
{
	return w->repaired == 0 || flow >> PAIR_SHIFT < w->repaired;
}

/* From destinations: a NAK for each pair of hosts whose packets are to be repaired. */
static uint16_t give_naks(struct world *w, struct stream *s, enum side side, struct rte_mbuf **frames, uint16_t n)
{
	uint16_t given = 0;

	for (; given < n && w->naks < w->repaired && w->naks << PAIR_SHIFT < s->flows; w->naks++) {
		struct rte_mbuf *m = other_frame(w, side, ACK_BYTES);

		if (m == NULL)
			break;
		put_nak(&w->frames, s->id, w->naks << PAIR_SHIFT, rte_pktmbuf_mtod(m, uint8_t *));
		frames[given++] = m;
	}
	return given;
}

/* The other gateway announces a flow, or says that it is still there. */
static bool give_sync(struct world *w, struct stream *s, uint32_t flow, uint32_t seq,
		      struct rte_mbuf **frame)
{
	const struct job job = { .what = JOB_SYNC, .flow = flow, .seq = s->loss != NULL ? s->loss->sender[flow].next : seq };
	struct rte_mbuf *m = other_frame(w, source_side(s->id), PEER_BYTES);

	if (m == NULL)
		return false;
	m->pkt_len = m->data_len = (uint16_t)peer_say(w, s, &job, rte_pktmbuf_mtod(m, uint8_t *));
	w->count.in_control++;
	*frame = m;
	return true;
}

/* A flow that has data is heard of once in half a round trip, in turn; but no more often
 * than there is an allowance for, as protocol.md has it: about one in KEEPALIVE_DATA
 * packets, or KEEPALIVE_HZ. The message waits for the flow's turn, since it says how many
 * packets the flow has sent, and a Depot takes those beyond for missing or too early. */
static void plan_keepalive(struct world *w, struct stream *s, uint64_t now)
{
	const uint64_t interval = RTE_MAX(w->round_trip / 2, w->status_ticks);

	if (!w->peer.present || s->id != INWARD || w->pause != 0 || s->round < 2 || now < s->next_sync ||
	    s->sync_waits ||
	    (w->count.in_data - s->data_then < KEEPALIVE_DATA && now - s->sync_then < rte_get_tsc_hz() / KEEPALIVE_HZ))
		return;
	s->next_sync = RTE_MAX(s->next_sync, now - interval) + interval / s->flows;
	s->data_then = w->count.in_data;
	s->sync_then = now;
	s->sync_flow = (s->sync_flow + 1) & (s->flows - 1);
	s->sync_waits = is_seen(w, s->sync_flow);
}

static uint16_t give_acks(struct world *w, struct stream *s, enum side side, uint64_t now,
			  struct rte_mbuf **frames, uint16_t n)
{
	struct acks *acks = &s->acks;
	uint16_t ready = 0;

	while (ready < n && acks->head + ready != acks->tail &&
	       acks->at[(acks->head + ready) & acks->mask].due <= s->total)
		ready++;
	if (ready == 0)
		return 0;
	if (unlikely(rte_mempool_get_bulk(w->rx[side].pool, (void **)frames, ready) != 0)) {
		w->count.no_mbuf++;
		return 0;
	}
	for (uint16_t i = 0; i < ready; i++)
		expect_write((uint8_t *)frames[i]->buf_addr + RTE_PKTMBUF_HEADROOM);
	/* The newest of a burst stands for all. */
	w->round_trip += ((int64_t)(now - acks->at[acks->head & acks->mask].tsc) - (int64_t)w->round_trip) / 8;
	for (uint16_t i = 0; i < ready; i++) {
		const struct ack *ack = &acks->at[acks->head++ & acks->mask];

		put_ack(&w->frames, s->id, ack->flow, ack->seq,
			(uint8_t *)frames[i]->buf_addr + RTE_PKTMBUF_HEADROOM);
		set_mbuf(w, side, frames[i], ACK_BYTES);
	}
	w->count.in_acks += ready;
	return ready;
}

/* Whether a packet is to come in, where that is so now and then only. */
static bool is_time(struct world *w, uint64_t now)
{
	if (w->next_data == 0)
		w->next_data = now + w->pause;
	if (now < w->next_data)
		return false;
	w->came = w->next_data;
	/* A thread that could not poll for long does not find several. */
	w->next_data = RTE_MAX(w->came + w->pause, now);
	return true;
}

static inline uint32_t next_flow(struct stream *s)
{
	const uint32_t flow = shuffle(s->turn, s->scramble, s->flows - 1);

	if (++s->turn == s->flows) {
		s->turn = 0;
		s->round++;
		s->scramble = s->scramble * 1664525u + 1013904223u;
	}
	return flow;
}

/* The place of the packet that the flow sends in its turn, where packets are lost; false
 * if it has too much outstanding, or if the packet is lost at once. */
static bool next_with_loss(struct world *w, struct stream *s, uint32_t flow, uint32_t *seq)
{
	struct loss *l = s->loss;
	struct sender *sender = &l->sender[flow];

	s->sent++;
	if (sender->cursor == sender->next && sender->next - s->delivered[flow] >= l->window) {
		/* Answers go on to come in. */
		s->total++;
		w->count.stalled++;
		return false;
	}
	*seq = sender->cursor++;
	if (sender->cursor - 1 == sender->next)
		sender->next++;
	/* In a tunnel, frames are lost that have their number. Before a flow is synced, hosts would have to repair it. */
	if (s->id == INWARD && w->tunnel == NULL && loss_strikes(l) && is_marked(s->met, flow)) {
		loss_set(l, flow, *seq);
		w->count.lost++;
		return false;
	}
	return true;
}

/* What was asked for again. It may be lost again. */
static uint16_t give_resends(struct world *w, struct stream *s, enum side side,
			     struct rte_mbuf **frames, uint16_t n)
{
	struct jobs *jobs = &s->resends;
	uint16_t given = 0;

	for (; given < n && jobs->head != jobs->tail; jobs->head++) {
		const struct job *job = &jobs->at[jobs->head & jobs->mask];
		struct rte_mbuf *m;

		if (job->due > s->sent)
			break;
		if (job->what == JOB_SYNC_RESENT) {
			if ((m = other_frame(w, side, PEER_BYTES)) == NULL)
				break;
			m->pkt_len = m->data_len = (uint16_t)peer_say(w, s, job, rte_pktmbuf_mtod(m, uint8_t *));
			w->count.in_control++;
			frames[given++] = m;
			continue;
		}
		if (loss_strikes(s->loss)) {
			loss_set(s->loss, job->flow, job->seq);
			w->count.lost++;
			continue;
		}
		if ((m = rte_pktmbuf_alloc(w->rx[side].pool)) == NULL) {
			w->count.no_mbuf++;
			break;
		}
		put_data(&w->frames, s->id, job->flow, job->seq, (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM);
		set_mbuf(w, side, m, (uint16_t)w->frames.data_bytes);
		w->count.in_data++;
		w->count.in_resent++;
		frames[given++] = m;
	}
	return given;
}

/* A gateway that repairs LANs beside a tunnel makes messages in buffers of the pool, and keeps them there: one that comes back
 * shows that behind the first cache line. */
static inline void renew(const struct world *w, uint8_t *frame)
{
	if (memcmp(frame + HEAD_BYTES, w->frames.whole + HEAD_BYTES, 8) != 0)
		memcpy(frame + HEAD_BYTES, w->frames.whole + HEAD_BYTES, w->frames.data_bytes - HEAD_BYTES);
}

static uint16_t give_data(struct world *w, struct stream *s, enum side side, uint64_t now,
			  struct rte_mbuf **frames, uint16_t n)
{
	struct rte_mbuf *fresh[BURST];
	/* Ahead of the first two packets of each flow: the first announcements carry no boot id, as the gateway was not heard yet. */
	const bool announce = w->peer.present && s->id == INWARD && s->round < 2;
	bool keepalive = true;
	uint16_t given = 0, used = 0;

	n = RTE_MIN(n, BURST);
	/* Data asks for answers no faster than bursts of them come. */
	if (s->total > BURST && (waits(&s->acks, s->total - BURST) || s->jobs.tail - s->jobs.head > JOBS_MOST))
		n /= 4;
	if (unlikely(announce))
		n /= 2; /* room for an announcement each */
	if (s->sync_waits && n > 1)
		n--; /* room for a keepalive */
	else
		keepalive = false;
	if (unlikely(w->pause != 0))
		n = is_time(w, now) ? RTE_MIN(n, 1) : 0;
	if (unlikely(rte_mempool_get_bulk(w->rx[side].pool, (void **)fresh, n) != 0)) {
		w->count.no_mbuf++;
		return 0;
	}
	for (uint16_t i = 0; i < n; i++)
		expect_write((uint8_t *)fresh[i]->buf_addr + RTE_PKTMBUF_HEADROOM);
	for (uint16_t i = 0; i < n; i++) {
		uint32_t seq = (uint32_t)s->round;
		const uint32_t flow = next_flow(s);
		struct rte_mbuf *m;

		if (unlikely(announce && is_seen(w, flow))) {
			given += give_sync(w, s, flow, seq, &frames[given]);
		} else if (keepalive && flow == s->sync_flow) {
			given += give_sync(w, s, flow, seq, &frames[given]);
			keepalive = s->sync_waits = false;
		}
		if (s->loss != NULL && !next_with_loss(w, s, flow, &seq))
			continue;
		m = fresh[used++];
		put_data(&w->frames, s->id, flow, seq, (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM);
		if (w->peer.present && w->tunnel != NULL)
			renew(w, (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM);
		set_mbuf(w, side, m, (uint16_t)w->frames.data_bytes);
		frames[given++] = m;
	}
	if (unlikely(used < n))
		rte_mempool_put_bulk(w->rx[side].pool, (void **)(fresh + used), n - used);
	w->count.in_data += used;
	return given;
}

/* Data and ACKs that the program has taken and not given. */
static inline uint64_t inside(const struct counters *c)
{
	return c->in_data + c->in_acks - c->out_data - c->out_acks;
}

static uint16_t give_all(struct world *w, enum side side, uint64_t now, struct rte_mbuf **frames, uint16_t n)
{
	struct stream *source = &w->streams[side == LAN ? OUTWARD : INWARD];
	struct stream *sink = &w->streams[side == LAN ? INWARD : OUTWARD];
	uint16_t given = 0;

	/* A ring between two threads that is full would drop; and a burst shall be one. */
	if (w->threads > 1) {
		w->full = inside(&w->count) > (w->full ? INSIDE_MOST / 4 : INSIDE_MOST);
		if (w->full)
			return 0;
	}
	/* From the hosts that receive, and the gateway before them: */
	if (sink->flows != 0) {
		/* Half, if data comes in here as well; half of that, if messages do. */
		const uint16_t room = source->flows != 0 ? n / 2 : n;

		if (unlikely(w->naks < w->repaired))
			given += give_naks(w, sink, side, frames, room / 2);
		given += give_acks(w, sink, side, now, frames + given, is_due(sink) ? (room - given) / 2 : room - given);
		given += give_jobs(w, sink, side, &sink->jobs, frames + given, room - given);
	}
	/* From those that send: */
	if (source->flows != 0) {
		if (unlikely(source->connected < source->flows))
			given += give_requests(w, source, now, frames + given, n - given);
		else if (given + 1 < n) {
			plan_keepalive(w, source, now);
			if (source->loss != NULL && w->tunnel == NULL)
				given += give_resends(w, source, side, frames + given, n - given);
			given += give_data(w, source, side, now, frames + given, n - given);
		}
	}
	return given;
}

uint16_t world_give(struct world *w, enum side side, uint32_t port, struct rte_mbuf **frames, uint16_t n)
{
	const uint64_t now = rte_rdtsc();
	uint16_t given = 0;

	if (w->tunnel == NULL)
		return give_all(w, side, now, frames, n);
	if (side == WAN)
		given = tunnel_speak(w, port, now, frames, n / 2);
	if (!w->tunnel->ready)
		return given;
	if (side == LAN)
		return give_all(w, side, now, frames, n);
	return given + tunnel_number(w, port, frames + given, give_all(w, side, now, frames + given, n - given));
}
