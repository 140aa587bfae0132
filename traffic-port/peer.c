/* The other gateway, as far as it speaks while nothing is lost: docs/protocol.md.
 *
 * It is written from the document and shares nothing with the gateway, which
 * counts a message that it can't accept: so each run checks one against the other.
 */
#include "traffic.h"

#include "tag.h"

enum { SYNC = 1, STATUS = 2, FETCH = 3 };
enum { OPEN = 1, KEEPALIVE = 4, RELEASE = 5 };
enum { HAS_SRC_QPN = 1, HAS_NEXT_PSN = 2, HAS_ACKED = 4, HAS_ACK = 2 };
enum { PREFIX = 52, SYNC_BYTES = 32, STATUS_BYTES = 48, NODE = 0x54726166, SCOPE = 37 };

static const uint8_t magic[4] = { 0x4c, 0x52, 0x32, 0x93 };

static void put32(uint8_t *at, uint32_t value)
{
	value = rte_cpu_to_be_32(value);
	memcpy(at, &value, sizeof(value));
}

static void put64(uint8_t *at, uint64_t value)
{
	value = rte_cpu_to_be_64(value);
	memcpy(at, &value, sizeof(value));
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return rte_be_to_cpu_32(value);
}

static uint64_t get64(const uint8_t *at)
{
	uint64_t value;

	memcpy(&value, at, sizeof(value));
	return rte_be_to_cpu_64(value);
}

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

	if (len < AT_BODY + PREFIX + 8 + TAG_BYTES + ICRC_BYTES || len > AT_BODY + 372 + ICRC_BYTES ||
	    memcmp(body, magic, sizeof(magic)) != 0 || body[4] != 1)
		return 0;
	switch (body[5]) {
	case SYNC:
		return rest == PREFIX + SYNC_BYTES ? rest : 0;
	case STATUS:
		return rest >= PREFIX + STATUS_BYTES && rest == PREFIX + STATUS_BYTES + 8u * body[97] ? rest : 0;
	case FETCH:
		return rest == PREFIX + 8 + 8u * body[56] ? rest : 0;
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
	if ((job = job_push(&s->jobs)) == NULL) {
		w->count.unexpected++;
		return;
	}
	*job = (struct job) {
		.what = JOB_STATUS, .flow = flow, .due = s->total + w->in_flight,
		.seq = s->delivered[flow], .epoch = get32(body + 48), .echo = get64(body + 68),
	};
}

static void hear_status(struct world *w, struct stream *s, uint32_t flow, const uint8_t *body)
{
	w->count.answered += mark(s->met, flow);
	/* Nothing is lost here. */
	w->count.gaps_heard += body[97] != 0;
}

void peer_hear(struct world *w, enum side side, const uint8_t *frame, uint32_t len)
{
	const uint8_t *body = frame + AT_BODY;
	const uint32_t before_tag = body_bytes(frame, len);
	const uint32_t qpn = before_tag != 0 ? get32(body + 44) : 0, flow = qpn & (FLOWS_MOST - 1);
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
	w->peer.seen_seq = get64(body + 20);
	if (body[5] == SYNC)
		hear_sync(w, s, flow, body);
	else if (body[5] == STATUS)
		hear_status(w, s, flow, body);
	else
		w->count.unexpected++;
}

static void put_sync(const struct world *w, const struct stream *s, const struct job *job, uint8_t *at)
{
	const bool opens = job->seq == 0;
	const uint32_t psn = (first_psn(job->flow) + job->seq) & PSN_MASK;

	at[0] = opens ? OPEN : KEEPALIVE;
	put16(at + 2, w->frames.pmtu);
	put32(at + 4, psn);
	put32(at + 8, opens ? psn : 0);
	put32(at + 12, requester_qpn(s->id, job->flow));
	put64(at + 16, nanoseconds(w, rte_rdtsc()));
	put64(at + 24, opens ? 0 : nanoseconds(w, w->round_trip));
}

static bool put_status(const struct world *w, const struct stream *s, const struct job *job, uint8_t *at)
{
	const uint32_t expected = (first_psn(job->flow) + job->seq) & PSN_MASK;
	uint32_t acked = job->seq;

	for (int i = 0; i < 4; i++)
		put32(at + 4 * i, expected);
	/* The newest packet that asked for an ACK. */
	if (w->frames.per_ack > 1)
		acked -= (acked + job->flow) & (w->frames.per_ack - 1);
	const bool answered = acked != 0 && acked <= job->seq;

	if (answered) {
		put32(at + 16, (first_psn(job->flow) + acked - 1) & PSN_MASK);
		at[20] = 0x1f;
		put24(at + 21, messages_at(&w->frames, job->flow, acked - 1));
	}
	put32(at + 24, requester_qpn(s->id, job->flow));
	put64(at + 28, job->echo);
	return answered;
}

uint32_t peer_say(struct world *w, struct stream *s, const struct job *job, uint8_t *frame)
{
	const bool sync = job->what == JOB_SYNC;
	const uint32_t before_tag = PREFIX + (sync ? SYNC_BYTES : STATUS_BYTES);
	const uint32_t len = AT_BODY + before_tag + TAG_BYTES + ICRC_BYTES;
	const uint32_t qpn = (sync ? responder_qpn : requester_qpn)(s->id, job->flow);
	uint8_t *body = frame + AT_BODY;
	uint32_t flags = HAS_SRC_QPN;

	w->peer.seq++;
	put_headers(s->id, sync, job->flow, CONTROL, qpn, w->peer.seq & PSN_MASK, len, frame);
	memset(body, 0, before_tag);
	if (sync) {
		put_sync(w, s, job, body + PREFIX);
		flags |= HAS_NEXT_PSN | (job->seq == 0 ? HAS_ACKED : 0);
	} else if (put_status(w, s, job, body + PREFIX)) {
		flags |= HAS_ACK;
	}
	memcpy(body, magic, sizeof(magic));
	body[4] = 1;
	body[5] = sync ? SYNC : STATUS;
	put16(body + 6, flags);
	put32(body + 8, NODE);
	put64(body + 12, w->peer.boot);
	put64(body + 20, w->peer.seq);
	put64(body + 28, w->peer.seen_boot);
	put64(body + 36, w->peer.seen_seq);
	put32(body + 44, responder_qpn(s->id, job->flow));
	put32(body + 48, sync ? 1 : job->epoch);
	tag(frame, before_tag, body + before_tag);
	crc_close(frame, len);
	return len;
}
