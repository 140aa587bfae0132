/* The other gateway, as far as it speaks here: docs/protocol.md.
 *
 * It is written from the document and shares nothing with the gateway, which
 * counts a message that it can't accept: so each run checks one against the other.
 */
#include "traffic.h"

#include "bytes.h"
#include "tag.h"

enum { SYNC = 1, STATUS = 2, FETCH = 3 };
enum { OPEN = 1, RESENT = 3, KEEPALIVE = 4, RELEASE = 5 };
enum { HAS_SRC_QPN = 1, HAS_NEXT_PSN = 2, HAS_ACK = 2 };
enum { PREFIX = 44, SYNC_BYTES = 28, STATUS_BYTES = 44, NODE = 0x54726166, SCOPE = 37, TAG_MOST = 1024 };

enum { VERSION = 3 };
static const uint8_t magic[4] = { 0x4c, 0x52, 0x32, 0x93 };

static uint64_t nanoseconds(const struct world *w, uint64_t ticks)
{
	return (uint64_t)((unsigned __int128)ticks * w->peer.tick_ns_16 >> 16);
}

/* The tag of a message with this body, `len` bytes of it before the tag. */
static void tag(const uint8_t *frame, uint32_t len, uint8_t out[TAG_BYTES])
{
	uint8_t bytes[TAG_MOST] = { [10] = 0xff, 0xff, [26] = 0xff, 0xff };

	memcpy(bytes + 12, frame + AT_IP + 12, 4);
	memcpy(bytes + 28, frame + AT_IP + 16, 4);
	bytes[32] = frame[AT_BTH];
	bytes[33] = 0;
	memcpy(bytes + 34, frame + AT_BTH + 5, 3);
	memcpy(bytes + SCOPE, frame + AT_BODY, len);
	tag_of(bytes, SCOPE + len, out);
}

/* Length of the body before the tag, 0 if it makes no sense. */
static uint32_t body_bytes(const uint8_t *frame, uint32_t len)
{
	const uint8_t *body = frame + AT_BODY;
	const uint32_t rest = len - AT_BODY - ICRC_BYTES - TAG_BYTES;

	if (len < AT_BODY + PREFIX + 8 + TAG_BYTES + ICRC_BYTES || len > AT_BODY + 360 + ICRC_BYTES ||
	    memcmp(body, magic, sizeof(magic)) != 0 || body[4] != VERSION)
		return 0;
	switch (body[5]) {
	case SYNC:
		return rest == PREFIX + SYNC_BYTES ? rest : 0;
	case STATUS:
		return rest >= PREFIX + STATUS_BYTES && rest == PREFIX + STATUS_BYTES + 8u * body[84] ? rest : 0;
	case FETCH:
		return rest == PREFIX + 8 + 8u * body[48] ? rest : 0;
	default:
		return 0;
	}
}

static void hear_sync(struct world *w, struct stream *s, uint32_t flow, const uint8_t *body)
{
	struct job *job;

	w->count.announced += mark(s->met, flow);
	if (body[PREFIX] == RELEASE)
		return;
	if (s->loss != NULL) {
		struct depot *depot = &s->loss->depot[flow];

		depot->epoch = get32(body + 40);
		depot->echo = get64(body + 56);
		depot->heard = rte_rdtsc();
		if (get16(body + 6) & HAS_NEXT_PSN) {
			const uint32_t next = seq_of(flow, get32(body + 48), depot->high);

			if (is_before(s->loss->sender[flow].next, next))
				w->count.bad_claim++;
			else if (is_before(depot->high, next))
				depot->high = next;
		}
		peer_report(w, s, flow, true);
		return;
	}
	if ((job = job_push(&s->jobs)) == NULL) {
		w->count.unexpected++;
		return;
	}
	*job = (struct job) {
		.what = JOB_STATUS, .flow = flow, .due = s->total + w->in_flight,
		.seq = s->delivered[flow], .epoch = get32(body + 40), .echo = get64(body + 56),
		.seen_boot = w->peer.seen_boot,
	};
}

/* Notes the newest gaps between the two places, as many as a message can hold; where the
 * oldest of these begins, or `least` if there is none before it. */
static uint32_t note_gaps(struct loss *l, uint32_t flow, uint32_t least, uint32_t to)
{
	struct run *about = &l->runs.at[l->runs.tail++ & l->runs.mask];
	struct run *more = &l->runs.at[l->runs.tail++ & l->runs.mask];
	uint32_t at = to, n = 0;

	while (n < GAPS_MOST && at != least) {
		const uint32_t end = loss_run_before(l, flow, least, at, true);
		const uint32_t from = loss_run_before(l, flow, least, end, false);

		if (end != from) {
			l->runs.at[l->runs.tail++ & l->runs.mask] = (struct run) { .from = from, .to = end };
			n++;
		}
		at = from;
	}
	*about = (struct run) { .from = at, .to = to };
	*more = (struct run) { .to = n };
	return at;
}

void peer_report(struct world *w, struct stream *s, uint32_t flow, bool all)
{
	struct loss *l = s->loss;
	const struct depot *depot = &l->depot[flow];
	const uint32_t expected = s->delivered[flow];
	uint32_t to = depot->high;

	do {
		struct job *job = l->runs.tail - l->runs.head + GAPS_MOST + 2 <= l->runs.mask ? job_push(&s->jobs) : NULL;

		if (job == NULL) {
			w->count.unexpected++;
			return;
		}
		*job = (struct job) {
			.what = JOB_STATUS, .flow = flow, .due = s->total + w->in_flight, .seq = expected,
			.epoch = depot->epoch, .echo = depot->echo, .hold = rte_rdtsc() - depot->heard,
			.seen_boot = w->peer.seen_boot, .gaps = to != expected,
		};
		if (job->gaps) {
			w->count.gaps_told++;
			to = note_gaps(l, flow, expected, to);
		}
	} while (all && to != expected);
}

/* What was lost and is asked for comes in again after a round trip, with a SYNC behind it. */
static void resend(struct world *w, struct stream *s, uint32_t flow, const uint8_t *ranges, uint32_t n)
{
	const uint64_t due = s->sent + w->in_flight;
	const uint32_t near = s->delivered[flow];
	struct job *job = NULL;

	for (; n > 0; n--, ranges += 8) {
		uint32_t seq = seq_of(flow, get32(ranges), near);
		const uint32_t end = seq + get32(ranges + 4);

		/* Who misses what was never sent is wrong. */
		if (is_before(s->loss->sender[flow].next, end)) {
			w->count.bad_claim++;
			continue;
		}
		/* What came and went on while the message waited is before `near`. */
		for (seq = is_before(seq, near) ? near : seq; is_before(seq, end); seq++) {
			/* Else it is on its way. */
			if (!loss_clear(s->loss, flow, seq))
				continue;
			if ((job = job_push(&s->resends)) == NULL) {
				w->count.unexpected++;
				return;
			}
			*job = (struct job) { .what = JOB_RESEND, .flow = flow, .due = due, .seq = seq };
		}
	}
	if (job != NULL && (job = job_push(&s->resends)) != NULL)
		*job = (struct job) { .what = JOB_SYNC_RESENT, .flow = flow, .due = due };
}

static void hear_status(struct world *w, struct stream *s, uint32_t flow, const uint8_t *body)
{
	w->count.answered += mark(s->met, flow);
	if (body[84] == 0)
		return;
	w->count.gaps_heard++;
	/* An error where nothing is lost. */
	if (s->loss != NULL)
		resend(w, s, flow, body + 88, body[84]);
}

void peer_hear(struct world *w, enum side side, const uint8_t *frame, uint32_t len)
{
	const uint8_t *body = frame + AT_BODY;
	const uint32_t before_tag = body_bytes(frame, len);
	const uint32_t qpn = before_tag != 0 ? get32(body + 36) : 0, flow = qpn & (FLOWS_MOST - 1);
	/* A SYNC goes with the data, a STATUS against it. */
	struct stream *s = &w->streams[(side == WAN) == (body[5] != STATUS) ? OUTWARD : INWARD];
	uint8_t expected[TAG_BYTES];

	if (before_tag == 0 || !w->peer.present || side != WAN || flow >= s->flows ||
	    qpn != responder_qpn(s->id, flow)) {
		w->count.bad_control++;
		return;
	}
	tag(frame, before_tag, expected);
	if (memcmp(expected, body + before_tag, TAG_BYTES) != 0 || !crc_is_right(frame, len)) {
		w->count.bad_control++;
		return;
	}
	w->peer.seen_boot = get64(body + 12);
	if (body[5] == SYNC)
		hear_sync(w, s, flow, body);
	else if (body[5] == STATUS)
		hear_status(w, s, flow, body);
	else
		w->count.unexpected++;
}

static uint32_t put_sync(const struct world *w, const struct stream *s, const struct job *job, uint8_t *at)
{
	const bool resent = job->what == JOB_SYNC_RESENT, opens = !resent && job->seq == 0;
	const uint32_t psn = (first_psn(job->flow) + job->seq) & PSN_MASK;

	at[0] = resent ? RESENT : opens ? OPEN : KEEPALIVE;
	put16(at + 2, w->frames.pmtu);
	/* It travels with what was resent, and says nothing of what else there is. */
	put32(at + 4, resent ? 0 : psn);
	put32(at + 8, requester_qpn(s->id, job->flow));
	put64(at + 12, nanoseconds(w, rte_rdtsc()));
	put64(at + 20, opens ? 0 : nanoseconds(w, w->round_trip));
	return HAS_SRC_QPN | (resent ? 0 : HAS_NEXT_PSN);
}

/* The runs that were noted for a job, from the newest to the oldest; how many gaps. */
static uint32_t put_gaps(struct loss *l, uint32_t flow, uint8_t *at)
{
	const struct run *about = &l->runs.at[l->runs.head++ & l->runs.mask];
	const struct run *more = &l->runs.at[l->runs.head++ & l->runs.mask];
	const uint32_t n = more->to, first = first_psn(flow);

	put32(at + 4, (first + about->from) & PSN_MASK);
	put32(at + 8, (first + about->to) & PSN_MASK);
	at[40] = (uint8_t)n;
	for (uint32_t i = n; i-- > 0;) {
		const struct run *gap = &l->runs.at[l->runs.head++ & l->runs.mask];

		put32(at + STATUS_BYTES + 8 * i, (first + gap->from) & PSN_MASK);
		put32(at + STATUS_BYTES + 8 * i + 4, gap->to - gap->from);
	}
	return n;
}

static uint32_t put_status(const struct world *w, struct stream *s, const struct job *job, uint8_t *at)
{
	const uint32_t expected = (first_psn(job->flow) + job->seq) & PSN_MASK;
	uint32_t acked = job->seq;

	for (int i = 0; i < 3; i++)
		put32(at + 4 * i, expected);
	/* The newest packet that asked for an ACK. */
	if (w->frames.per_ack > 1)
		acked -= (acked + job->flow) & (w->frames.per_ack - 1);
	const bool answered = acked != 0 && acked <= job->seq;

	if (answered) {
		put32(at + 12, (first_psn(job->flow) + acked - 1) & PSN_MASK);
		at[16] = 0x1f;
		put24(at + 17, messages_at(&w->frames, job->flow, acked - 1));
	}
	put32(at + 20, requester_qpn(s->id, job->flow));
	put64(at + 24, job->echo);
	put64(at + 32, job->echo != 0 ? nanoseconds(w, job->hold) : 0);
	return HAS_SRC_QPN | (answered ? HAS_ACK : 0);
}

uint32_t peer_say(struct world *w, struct stream *s, const struct job *job, uint8_t *frame)
{
	const bool sync = job->what != JOB_STATUS;
	const uint32_t qpn = (sync ? responder_qpn : requester_qpn)(s->id, job->flow);
	uint8_t *body = frame + AT_BODY;
	uint32_t flags, before_tag = PREFIX + (sync ? SYNC_BYTES : STATUS_BYTES), len;

	memset(body, 0, before_tag);
	flags = sync ? put_sync(w, s, job, body + PREFIX) : put_status(w, s, job, body + PREFIX);
	if (job->gaps)
		before_tag += 8 * put_gaps(s->loss, job->flow, body + PREFIX);
	len = AT_BODY + before_tag + TAG_BYTES + ICRC_BYTES;
	w->peer.seq++;
	put_headers(&w->frames, s->id, sync, job->flow, CONTROL, qpn, w->peer.seq & PSN_MASK, len, frame);
	memcpy(body, magic, sizeof(magic));
	body[4] = VERSION;
	body[5] = sync ? SYNC : STATUS;
	put16(body + 6, flags);
	put32(body + 8, NODE);
	put64(body + 12, w->peer.boot);
	put64(body + 20, w->peer.seq);
	put64(body + 28, sync ? w->peer.seen_boot : job->seen_boot);
	put32(body + 36, responder_qpn(s->id, job->flow));
	put32(body + 40, sync ? 1 : job->epoch);
	tag(frame, before_tag, body + before_tag);
	crc_close(frame, len);
	return len;
}
