/* The lanes of the tunnel in each direction: numbers, losses, what is said of them. */
#include "traffic.h"

#include <rte_branch_prediction.h>
#include <rte_mempool.h>

#include "bytes.h"

enum { FRAME = 0x20, RESENT = 0x21, CONTROL_FRAME = 0x23, ETHERTYPE = 0x88b5, NO_LANE = 0xff };
/* Flags of a shim, and its `clear` of an ACK whose bucket has had no other response. */
enum { NOT_KEPT = 1, RESERVED = 6, NONE_BEFORE = 31 << 3 };
/* Frames that take a lane before the next one does. */
enum { ON_A_LANE = 32 };
enum { REPORTS_MOST = 16, AT_ONCE_US = 20, REPORT_LEAST_US = 100, REPORT_MOST_US = 1000 };

uint64_t tunnel_clock(const struct world *w)
{
	const struct stream *s = &w->streams[w->streams[OUTWARD].flows != 0 ? OUTWARD : INWARD];

	/* Where frames are held, more are sent than delivered for a while. */
	return s->id == INWARD && s->loss != NULL ? s->sent : s->total;
}

/* When something that is sent now is there. At first nothing moves that time could be told by. */
static uint64_t due(const struct world *w)
{
	const uint64_t data = tunnel_clock(w);

	return data != 0 ? data + w->in_flight : 0;
}

static struct letter *letter_push(struct world *w, struct lane *lane)
{
	struct letters *l = &lane->letters;
	struct letter *letter;

	if (l->tail - l->head > l->mask) {
		w->count.unexpected++;
		return NULL;
	}
	letter = &l->at[l->tail++ & l->mask];
	letter->due = due(w);
	letter->n = 0;
	letter->frames = lane->arrived;
	letter->probed = lane->probed;
	letter->probed_at = lane->probed_at;
	return letter;
}

static struct transmission *transmission_push(struct world *w, struct transmissions *all)
{
	if (all->tail - all->head > all->mask) {
		w->count.unexpected++;
		return NULL;
	}
	return &all->at[all->tail++ & all->mask];
}

/* Frames that come in. */

/* Writes headers and shim in front: over Ethernet the addresses, which move there, and the EtherType. */
static void wrap(struct world *w, uint32_t port, struct rte_mbuf *m, const struct transmission *x, uint8_t flags)
{
	struct tunnel *t = w->tunnel;
	const bool resent = x->number != x->first || x->lane != x->first_lane;
	const uint16_t front = t->front + (resent ? SHIM_RESENT_BYTES - SHIM_BYTES : 0);
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *) - front, *shim = frame + t->shim_at;
	uint8_t macs[12];

	if (t->udp) {
		/* Data and ACKs know marks: ECT(0). */
		outer_write(t, port, outer_source(x->lane), 2, m->data_len + front, frame);
	} else {
		memcpy(macs, frame + front, sizeof(macs));
		memcpy(frame, macs, sizeof(macs));
		put16(frame + 12, ETHERTYPE);
	}
	put32(shim, (uint32_t)(resent ? RESENT : FRAME) << 24 | (uint32_t)x->lane << 16 |
		    (x->before != 0 ? x->before_lane : NO_LANE) << 8 | flags);
	put32(shim + 4, t->theirs);
	put32(shim + 8, x->number);
	put32(shim + 12, x->before);
	if (resent) {
		put32(shim + 16, (uint32_t)x->first_lane << 24);
		put32(shim + 20, x->first);
	}
	m->data_off -= front;
	m->data_len += front;
	m->pkt_len += front;
}

/* The newest frame of the bucket before this one. */
static void follow(struct tunnel *t, bool ack, struct transmission *x)
{
	const uint32_t bucket = x->flow & (TUNNEL_BUCKETS - 1);
	uint32_t *last = &t->last[ack][bucket];

	x->before = *last;
	*last = x->number;
	/* With one lane it is 0, and the table is left alone. */
	if (t->lane_count > 1) {
		x->before_lane = t->last_lane[ack][bucket];
		t->last_lane[ack][bucket] = x->lane;
	}
}

/* The lane of the next frame that comes in at a port: those of the port have their turns. */
static uint8_t next_lane(struct tunnel *t, uint32_t port)
{
	struct path *path = &t->paths[port];

	if (path->left == 0) {
		path->left = ON_A_LANE;
		path->lane = (uint8_t)(path->lane + t->ports < t->lane_count ? path->lane + t->ports : port);
	}
	path->left--;
	return path->lane;
}

uint16_t tunnel_number(struct world *w, uint32_t port, struct rte_mbuf **frames, uint16_t n)
{
	struct stream *in = &w->streams[INWARD];
	struct tunnel *t = w->tunnel;
	uint16_t kept = 0;

	for (uint16_t i = 0; i < n; i++)
		expect_write(rte_pktmbuf_mtod(frames[i], uint8_t *) - t->front);
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = frames[i];
		const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
		const uint8_t opcode = frame[AT_BTH];
		const uint32_t flow = qpn_of(frame) & (FLOWS_MOST - 1);
		const uint8_t at = next_lane(t, port);
		struct lane *lane = &t->lanes[at];
		struct transmission x = { .number = lane->sent, .first = lane->sent, .flow = flow, .lane = at, .first_lane = at };
		struct transmission *lost;

		lane->sent++;
		if (opcode <= SEND_ONLY) {
			follow(t, false, &x);
			if (in->loss != NULL && loss_strikes(in->loss) && (lost = transmission_push(w, &lane->lost)) != NULL) {
				x.seq = seq_of(flow, psn_of(frame), in->delivered[flow]);
				*lost = x;
				w->count.lost++;
				w->count.in_data--;
				rte_mempool_put(m->pool, m);
				continue;
			}
			wrap(w, port, m, &x, 0);
		} else if (opcode == ACKNOWLEDGE) {
			follow(t, true, &x);
			wrap(w, port, m, &x, NONE_BEFORE);
		} else {
			/* A datagram needs no order. */
			wrap(w, port, m, &x, 0);
		}
		frames[kept++] = m;
	}
	return kept;
}

uint16_t tunnel_resend(struct world *w, uint32_t port, struct rte_mbuf **frames, uint16_t n)
{
	struct stream *s = &w->streams[INWARD];
	struct lane *lane = &w->tunnel->lanes[port];
	struct transmissions *all = &w->tunnel->resends;
	const uint64_t data = tunnel_clock(w);
	uint16_t given = 0;

	for (; given < n && all->head != all->tail; all->head++) {
		struct transmission x = all->at[all->head & all->mask], *lost;
		struct rte_mbuf *m;

		if (x.due > data)
			break;
		x.number = lane->sent;
		x.lane = (uint8_t)port;
		if (loss_strikes(s->loss) && (lost = transmission_push(w, &lane->lost)) != NULL) {
			*lost = x;
			w->count.lost++;
			lane->sent++;
			continue;
		}
		if ((m = rte_pktmbuf_alloc(w->rx[WAN].pool)) == NULL) {
			w->count.no_mbuf++;
			break;
		}
		put_data(&w->frames, s->id, x.flow, x.seq, (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM);
		set_mbuf(w, WAN, m, (uint16_t)w->frames.data_bytes);
		wrap(w, port, m, &x, 0);
		lane->sent++;
		w->count.in_data++;
		w->count.in_resent++;
		frames[given++] = m;
	}
	return given;
}

/* A transmission is missing. If it was a resend already, its number is skipped. */
static void repair(struct world *w, const struct transmission *lost)
{
	struct transmission *again = transmission_push(w, &w->tunnel->resends);
	struct letter *skip;

	if (again == NULL)
		return;
	*again = *lost;
	again->due = due(w);
	if ((lost->number == lost->first && lost->lane == lost->first_lane) ||
	    (skip = letter_push(w, &w->tunnel->lanes[lost->lane])) == NULL)
		return;
	skip->what = LETTER_SKIP;
	skip->ranges[0] = (struct numbers) { .start = lost->number, .count = 1 };
	skip->n = 1;
}

/* The first REPORT that speaks of a number decides: those that it lists are lost, all others
 * have arrived. We know better, and check it. */
void tunnel_take_report(struct world *w, struct lane *t, const struct letter *report)
{
	struct transmissions *lost = &t->lost;

	if (is_before(t->sent, report->next) || (report->has_from && is_before(t->covered, report->from))) {
		w->count.bad_claim++;
		return;
	}
	w->count.gaps_heard += report->n != 0;
	for (uint32_t i = 0; i < report->n; i++) {
		const uint32_t end = report->ranges[i].start + report->ranges[i].count;
		uint32_t number = report->ranges[i].start;

		if (is_before(report->next, end))
			w->count.bad_claim++;
		for (number = is_before(number, t->covered) ? t->covered : number; is_before(number, end); number++) {
			const struct transmission *first = &lost->at[lost->head & lost->mask];

			/* None that was lost is left out, and no other is listed. */
			if (lost->head == lost->tail || first->number != number) {
				w->count.bad_claim++;
				return;
			}
			lost->head++;
			repair(w, first);
		}
	}
	if (lost->head != lost->tail && is_before(lost->at[lost->head & lost->mask].number, report->next))
		w->count.bad_claim++;
	if (is_before(t->covered, report->next))
		t->covered = report->next;
}

/* Frames that go out. */

/* Where a missing number is, or would be. */
static uint32_t place_of(const struct lane *t, uint32_t number)
{
	uint32_t low = 0, high = t->missing.n;

	while (low < high) {
		const uint32_t middle = (low + high) / 2;

		if (is_before(t->missing.at[middle], number))
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool is_missing(const struct lane *t, uint32_t number)
{
	const uint32_t at = place_of(t, number);

	return at < t->missing.n && t->missing.at[at] == number;
}

/* It is not missing any more, if it was. */
static void found(struct lane *t, uint32_t number)
{
	const uint32_t at = place_of(t, number);

	if (at == t->missing.n || t->missing.at[at] != number)
		return;
	t->missing.n--;
	memmove(t->missing.at + at, t->missing.at + at + 1, (t->missing.n - at) * sizeof(*t->missing.at));
}

bool tunnel_open(struct world *w, uint32_t port, const struct rte_mbuf *m, const uint8_t **frame, uint32_t *len)
{
	struct tunnel *t = w->tunnel;
	const uint8_t *bytes = *frame, *shim = bytes + t->shim_at;
	const uint32_t frame_len = m->data_len;
	uint32_t front = t->front, before_lane, before;
	uint16_t source = 0;
	struct lane *lane;

	if (t->udp ? !outer_open(w, port, bytes, frame_len, &source) : get16(bytes + 12) != ETHERTYPE) {
		w->count.foreign += !t->udp;
		return false;
	}
	if (frame_len < (uint32_t)t->shim_at + SHIM_RESENT_BYTES || m->nb_segs != 1) {
		w->count.foreign++;
		return false;
	}
	/* Each lane leaves at its port, and from a UDP port of its own. */
	lane = &t->lanes[shim[1]];
	if (unlikely(shim[1] >= t->lane_count || (shim[0] != CONTROL_FRAME && shim[1] % t->ports != port))) {
		w->count.bad_control++;
		return false;
	}
	if (unlikely(shim[0] == CONTROL_FRAME)) {
		w->count.out_control++;
		w->count.bad_control += !tunnel_hear(w, port, shim, frame_len - t->shim_at, frame_len);
		return false;
	}
	if (unlikely(lane->source != source)) {
		w->count.bad_control += lane->source != 0;
		lane->source = source;
	}
	t->lane = t->first_lane = shim[1];
	t->current = t->first = get32(shim + 8);
	t->is_resent = shim[0] == RESENT;
	before_lane = shim[2];
	before = get32(shim + 12);
	if (unlikely(t->is_resent)) {
		front += SHIM_RESENT_BYTES - SHIM_BYTES;
		t->first_lane = shim[16];
		t->first = get32(shim + 20);
	}
	if (unlikely((shim[0] != FRAME && !t->is_resent) || t->first_lane >= t->lane_count || (shim[3] & (RESERVED | NOT_KEPT)) != 0 ||
		     get32(shim + 4) != t->own ||
		     (before_lane == NO_LANE ? before != 0 : before_lane >= t->lane_count) ||
		     (before_lane == t->first_lane && !is_before(before, t->first)) ||
		     (t->is_resent && t->first_lane == t->lane && !is_before(t->first, t->current)))) {
		w->count.bad_control++;
		return false;
	}
	/* Those that left in order arrive in order. */
	if (unlikely(t->current != lane->next)) {
		w->count.bad_order++;
		return false;
	}
	lane->next++;
	lane->arrived++;
	lane->news = true;
	if (unlikely(t->is_resent && !is_missing(&t->lanes[t->first_lane], t->first))) {
		w->count.out_repeats++;
		return false;
	}
	*frame = bytes + front;
	*len = frame_len - front;
	return true;
}

void tunnel_lost(struct world *w)
{
	const struct tunnel *t = w->tunnel;
	struct lane *lane = &w->tunnel->lanes[t->lane];

	lane->arrived--;
	/* The newest number is the highest. */
	if (lane->missing.n < lane->missing.most)
		lane->missing.at[lane->missing.n++] = t->current;
	else
		w->count.unexpected++;
}

void tunnel_arrived(struct world *w)
{
	if (w->tunnel->is_resent)
		found(&w->tunnel->lanes[w->tunnel->first_lane], w->tunnel->first);
}

void tunnel_take_skip(struct lane *lane, const struct letter *skip)
{
	for (uint32_t i = 0; i < skip->n; i++) {
		const struct numbers *range = &skip->ranges[i];

		for (uint32_t n = 0; n < range->count && n < lane->missing.most; n++)
			found(lane, range->start + n);
	}
}

void tunnel_report(struct world *w, struct lane *t, uint64_t now, bool asked)
{
	const uint64_t us = rte_get_tsc_hz() / 1000000;
	const uint64_t part = RTE_MAX(w->round_trip / 16, REPORT_LEAST_US * us);
	const uint64_t interval = RTE_MIN(part, REPORT_MOST_US * us);
	const bool all = asked || ((t->news || t->missing.n != 0) && now - t->all_reported >= interval);
	const bool urgent = t->missing.n != 0 && !is_before(t->missing.at[t->missing.n - 1], t->told) &&
			    now - t->reported >= AT_ONCE_US * us;
	uint32_t at = all ? 0 : place_of(t, t->told), from = t->told;
	bool has_from = !all;

	if (!all && !urgent)
		return;
	for (int i = 0; i < REPORTS_MOST; i++, has_from = true) {
		struct letter *letter = letter_push(w, t);

		if (letter == NULL)
			return;
		letter->what = LETTER_REPORT;
		letter->has_from = has_from;
		letter->from = from;
		while (at < t->missing.n && letter->n < RANGES_MOST) {
			struct numbers *range = &letter->ranges[letter->n++];

			*range = (struct numbers) { .start = t->missing.at[at++], .count = 1 };
			for (; at < t->missing.n && t->missing.at[at] == range->start + range->count; at++)
				range->count++;
		}
		from = letter->next = at < t->missing.n ? t->missing.at[at] : t->next;
		if (at == t->missing.n)
			break;
	}
	t->told = from;
	t->reported = now;
	if (all) {
		t->all_reported = now;
		t->news = false;
	}
}
