/* The lane of the tunnel in each direction: numbers, losses, what is said of them. */
#include "traffic.h"

#include <rte_branch_prediction.h>
#include <rte_mempool.h>

#include "bytes.h"

enum { FRAME = 0x10, RESENT = 0x11, CONTROL_FRAME = 0x13, ETHERTYPE = 0x88b5, NO_LANE = 0xff };
/* Flags of a shim, and its `clear` of an ACK whose bucket has had no other response. */
enum { NOT_KEPT = 1, RESERVED = 6, NONE_BEFORE = 31 << 3 };
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

static struct letter *letter_push(struct world *w)
{
	struct letters *l = &w->tunnel->letters;
	struct letter *letter;

	if (l->tail - l->head > l->mask) {
		w->count.unexpected++;
		return NULL;
	}
	letter = &l->at[l->tail++ & l->mask];
	letter->due = due(w);
	letter->n = 0;
	letter->frames = w->tunnel->arrived;
	letter->probed = w->tunnel->probed;
	letter->probed_at = w->tunnel->probed_at;
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

/* Moves the addresses to the front, and writes EtherType and shim behind them. */
static void wrap(struct world *w, struct rte_mbuf *m, const struct transmission *x, uint8_t flags)
{
	struct tunnel *t = w->tunnel;
	const bool resent = x->number != x->first;
	const uint16_t front = resent ? TUNNEL_RESENT_FRONT : TUNNEL_FRONT;
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *) - front, *shim = frame + SHIM_AT;
	uint8_t macs[12];

	memcpy(macs, frame + front, sizeof(macs));
	memcpy(frame, macs, sizeof(macs));
	put16(frame + 12, ETHERTYPE);
	put32(shim, (uint32_t)(resent ? RESENT : FRAME) << 24 | (x->before != 0 ? 0 : NO_LANE) << 8 | flags);
	put32(shim + 4, t->theirs);
	put32(shim + 8, x->number);
	put32(shim + 12, x->before);
	if (resent) {
		put32(shim + 16, 0);
		put32(shim + 20, x->first);
	}
	m->data_off -= front;
	m->data_len += front;
	m->pkt_len += front;
}

/* The newest frame of the bucket before this one. */
static uint32_t follow(struct tunnel *t, bool ack, uint32_t flow, uint32_t number)
{
	uint32_t *last = &t->last[ack][flow & (TUNNEL_BUCKETS - 1)], before = *last;

	*last = number;
	return before;
}

uint16_t tunnel_number(struct world *w, struct rte_mbuf **frames, uint16_t n)
{
	struct stream *in = &w->streams[INWARD];
	struct tunnel *t = w->tunnel;
	uint16_t kept = 0;

	for (uint16_t i = 0; i < n; i++)
		expect_write(rte_pktmbuf_mtod(frames[i], uint8_t *) - TUNNEL_FRONT);
	for (uint16_t i = 0; i < n; i++) {
		struct rte_mbuf *m = frames[i];
		const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
		const uint8_t opcode = frame[AT_BTH];
		const uint32_t flow = qpn_of(frame) & (FLOWS_MOST - 1);
		struct transmission x = { .number = t->sent, .first = t->sent, .flow = flow }, *lost;

		t->sent++;
		if (opcode <= SEND_ONLY) {
			x.before = follow(t, false, flow, x.number);
			if (in->loss != NULL && loss_strikes(in->loss) && (lost = transmission_push(w, &t->lost)) != NULL) {
				x.seq = seq_of(flow, psn_of(frame), in->delivered[flow]);
				*lost = x;
				w->count.lost++;
				w->count.in_data--;
				rte_mempool_put(m->pool, m);
				continue;
			}
			wrap(w, m, &x, 0);
		} else if (opcode == ACKNOWLEDGE) {
			x.before = follow(t, true, flow, x.number);
			wrap(w, m, &x, NONE_BEFORE);
		} else {
			/* A datagram needs no order. */
			wrap(w, m, &x, 0);
		}
		frames[kept++] = m;
	}
	return kept;
}

uint16_t tunnel_resend(struct world *w, struct rte_mbuf **frames, uint16_t n)
{
	struct stream *s = &w->streams[INWARD];
	struct transmissions *all = &w->tunnel->resends;
	const uint64_t data = tunnel_clock(w);
	uint16_t given = 0;

	for (; given < n && all->head != all->tail; all->head++) {
		struct transmission x = all->at[all->head & all->mask], *lost;
		struct rte_mbuf *m;

		if (x.due > data)
			break;
		x.number = w->tunnel->sent;
		if (loss_strikes(s->loss) && (lost = transmission_push(w, &w->tunnel->lost)) != NULL) {
			*lost = x;
			w->count.lost++;
			w->tunnel->sent++;
			continue;
		}
		if ((m = rte_pktmbuf_alloc(w->rx[WAN].pool)) == NULL) {
			w->count.no_mbuf++;
			break;
		}
		put_data(&w->frames, s->id, x.flow, x.seq, (uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM);
		set_mbuf(w, WAN, m, (uint16_t)w->frames.data_bytes);
		wrap(w, m, &x, 0);
		w->tunnel->sent++;
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
	if (lost->number == lost->first || (skip = letter_push(w)) == NULL)
		return;
	skip->what = LETTER_SKIP;
	skip->ranges[0] = (struct numbers) { .start = lost->number, .count = 1 };
	skip->n = 1;
}

/* The first REPORT that speaks of a number decides: those that it lists are lost, all others
 * have arrived. We know better, and check it. */
void tunnel_take_report(struct world *w, const struct letter *report)
{
	struct tunnel *t = w->tunnel;
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
static uint32_t place_of(const struct tunnel *t, uint32_t number)
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

static bool is_missing(const struct tunnel *t, uint32_t number)
{
	const uint32_t at = place_of(t, number);

	return at < t->missing.n && t->missing.at[at] == number;
}

/* It is not missing any more, if it was. */
static void found(struct tunnel *t, uint32_t number)
{
	const uint32_t at = place_of(t, number);

	if (at == t->missing.n || t->missing.at[at] != number)
		return;
	t->missing.n--;
	memmove(t->missing.at + at, t->missing.at + at + 1, (t->missing.n - at) * sizeof(*t->missing.at));
}

bool tunnel_open(struct world *w, const struct rte_mbuf *m, const uint8_t **frame, uint32_t *len)
{
	struct tunnel *t = w->tunnel;
	const uint8_t *bytes = *frame, *shim = bytes + SHIM_AT;
	const uint32_t frame_len = m->data_len;
	uint32_t front = TUNNEL_FRONT, before_lane, before;

	if (frame_len < SHIM_AT + SHIM_RESENT_BYTES || m->nb_segs != 1 || get16(bytes + 12) != ETHERTYPE) {
		w->count.foreign++;
		return false;
	}
	if (unlikely(shim[0] == CONTROL_FRAME)) {
		w->count.out_control++;
		w->count.bad_control += !tunnel_hear(w, shim, frame_len - SHIM_AT, frame_len);
		return false;
	}
	t->current = t->first = get32(shim + 8);
	t->is_resent = shim[0] == RESENT;
	before_lane = shim[2];
	before = get32(shim + 12);
	if (unlikely(t->is_resent)) {
		front = TUNNEL_RESENT_FRONT;
		t->first = get32(shim + 20);
	}
	if (unlikely((shim[0] != FRAME && !t->is_resent) || shim[1] != 0 || (shim[3] & (RESERVED | NOT_KEPT)) != 0 ||
		     get32(shim + 4) != t->own ||
		     (before_lane == 0 ? !is_before(before, t->first) : before_lane != NO_LANE || before != 0) ||
		     (t->is_resent && !is_before(t->first, t->current)))) {
		w->count.bad_control++;
		return false;
	}
	/* Those that left in order arrive in order. */
	if (unlikely(t->current != t->next)) {
		w->count.bad_order++;
		return false;
	}
	t->next++;
	t->arrived++;
	t->news = true;
	if (unlikely(t->is_resent && !is_missing(t, t->first))) {
		w->count.out_repeats++;
		return false;
	}
	*frame = bytes + front;
	*len = frame_len - front;
	return true;
}

void tunnel_lost(struct world *w)
{
	struct tunnel *t = w->tunnel;

	t->arrived--;
	/* The newest number is the highest. */
	if (t->missing.n < t->missing.most)
		t->missing.at[t->missing.n++] = t->current;
	else
		w->count.unexpected++;
}

void tunnel_arrived(struct world *w)
{
	if (w->tunnel->is_resent)
		found(w->tunnel, w->tunnel->first);
}

void tunnel_take_skip(struct world *w, const struct letter *skip)
{
	for (uint32_t i = 0; i < skip->n; i++) {
		const struct numbers *range = &skip->ranges[i];

		for (uint32_t n = 0; n < range->count && n < w->tunnel->missing.most; n++)
			found(w->tunnel, range->start + n);
	}
}

void tunnel_report(struct world *w, uint64_t now, bool asked)
{
	struct tunnel *t = w->tunnel;
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
		struct letter *letter = letter_push(w);

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
