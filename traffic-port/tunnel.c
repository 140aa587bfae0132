/* The session of the tunnel, and its control messages. */
#include "traffic.h"

#include <stdlib.h>

#include <rte_branch_prediction.h>

#include "bytes.h"
#include "tag.h"

enum { HELLO = 1, REPORT = 2, PROBE = 3, SKIP = 4, BYE = 5, HAS_FROM = 1, HAS_ECHO = 2 };
enum { CONTROL_BYTE = 0x23, PREFIX = 40, HELLO_BYTES = 16, REPORT_BYTES = 20, ECHO_BYTES = 16, PROBE_BYTES = 12, NODE = 0x54756e6e, ETHERTYPE = 0x88b5 };
/* What a tag covers before the message, all zero. */
enum { SCOPE = 37, MESSAGE_MOST = 9728, SAID_MOST = PREFIX + REPORTED_MOST * (REPORT_BYTES + ECHO_BYTES) + 8 * RANGES_MOST + TAG_BYTES };
enum { FRAME_MAX = 9600, HELLO_HZ = 10, MISSING_MOST = 1 << 16, LETTERS = 1 << 12, LETTERS_OF_MANY = 1 << 10, LOST_MOST = 1 << 18 };

_Static_assert(OUTER_MOST + SAID_MOST <= MESSAGE_BYTES, "a message fits into a buffer for other frames");

static bool lane_init(struct lane *l, bool lossy, uint32_t letters)
{
	const uint64_t places = lossy ? LOST_MOST : 1;

	l->letters = (struct letters) { .at = calloc(letters, sizeof(*l->letters.at)), .mask = letters - 1 };
	l->missing.most = lossy ? MISSING_MOST : 0;
	l->missing.at = calloc(lossy ? MISSING_MOST : 1, sizeof(*l->missing.at));
	l->lost = (struct transmissions) { .at = calloc(places, sizeof(*l->lost.at)), .mask = places - 1 };
	return l->letters.at != NULL && l->missing.at != NULL && l->lost.at != NULL;
}

struct tunnel *tunnel_new(uint64_t boot, const struct tunnel_options *o, uint32_t index)
{
	struct tunnel *t = calloc(1, sizeof(*t));
	const uint64_t places = o->lossy ? LOST_MOST : 1;
	const uint32_t tunnels = o->tunnels;
	bool good = true;

	if (t == NULL)
		return NULL;
	t->boot = boot;
	t->index = index;
	t->tunnels = tunnels;
	t->udp = o->udp;
	t->shim_at = o->udp ? OUTER_MOST : 14;
	/* Over Ethernet, all but the addresses is behind the shim. */
	t->front = o->udp ? OUTER_MOST + SHIM_BYTES : 14 - 12 + SHIM_BYTES;
	t->ports = o->ports;
	t->lane_count = o->ports * o->lanes;
	/* Random enough for one peer, and not zero. The low bits say which tunnel it is. */
	t->own = ((uint32_t)(boot * 0x9e3779b97f4a7c15u >> 32) | 1u << 31) & ~(tunnels - 1);
	t->own |= index;
	for (uint32_t i = 0; i < t->lane_count; i++) {
		good &= lane_init(&t->lanes[i], o->lossy, t->lane_count > 1 ? LETTERS_OF_MANY : LETTERS);
		t->lanes[i].next = t->lanes[i].told = t->own;
	}
	for (uint32_t i = 0; i < t->ports; i++)
		t->paths[i].lane = (uint8_t)i;
	for (int i = 0; i < 2; i++) {
		t->last[i] = calloc(TUNNEL_BUCKETS, sizeof(*t->last[i]));
		t->last_lane[i] = calloc(TUNNEL_BUCKETS, sizeof(*t->last_lane[i]));
		good &= t->last[i] != NULL && t->last_lane[i] != NULL;
	}
	t->resends = (struct transmissions) { .at = calloc(places, sizeof(*t->resends.at)), .mask = places - 1 };
	if (!good || t->resends.at == NULL) {
		tunnel_free(t);
		return NULL;
	}
	return t;
}

void tunnel_free(struct tunnel *t)
{
	if (t == NULL)
		return;
	for (uint32_t i = 0; i < t->lane_count; i++) {
		free(t->lanes[i].letters.at);
		free(t->lanes[i].missing.at);
		free(t->lanes[i].lost.at);
	}
	for (int i = 0; i < 2; i++) {
		free(t->last[i]);
		free(t->last_lane[i]);
	}
	free(t->resends.at);
	free(t);
}

static void tag(const uint8_t *message, uint32_t len, uint8_t out[TAG_BYTES])
{
	static __thread uint8_t bytes[SCOPE + MESSAGE_MOST];

	memcpy(bytes + SCOPE, message, len);
	tag_of(bytes, SCOPE + len, out);
}

static bool are_zero(const uint8_t *bytes, uint32_t n)
{
	while (n > 0 && bytes[n - 1] == 0)
		n--;
	return n == 0;
}

/* How flows are divided among tunnels, by their addresses. */
static uint8_t division(const struct tunnel *t)
{
	return (uint8_t)__builtin_ctz(t->tunnels);
}

static bool hear_hello(struct world *w, uint32_t port, const uint8_t *m, uint32_t len, bool names_us, uint32_t frame_len)
{
	struct tunnel *t = w->tunnel;
	struct path *path = &t->paths[port];
	const uint8_t *fields = m + PREFIX;
	const uint32_t session = get32(fields), frame_max = get16(fields + 8);
	const uint64_t boot = get64(m + 16);

	if (len < PREFIX + HELLO_BYTES || session == 0 || (session & (t->tunnels - 1)) != t->index || fields[12] != t->lane_count ||
	    fields[13] != division(t) || !are_zero(fields + 14, len - PREFIX - 14))
		return false;
	if (t->theirs != 0 && (session != t->theirs || boot != t->their_boot)) {
		/* A gateway that is measured has one session. */
		w->count.bad_control++;
		t->ready = false;
	}
	if (session != t->theirs) {
		t->theirs = session;
		t->their_boot = boot;
		t->their_node = get32(m + 8);
		t->frame_max = RTE_MIN(frame_max, (uint32_t)FRAME_MAX);
		for (uint32_t i = 0; i < t->lane_count; i++)
			t->lanes[i].sent = t->lanes[i].covered = session;
		path->next_hello = 0;
	}
	if (names_us && (frame_len > path->heard || !path->named)) {
		path->heard = RTE_MAX(path->heard, (uint16_t)frame_len);
		path->next_hello = 0;
	}
	path->named |= names_us;
	return true;
}

/* Runs of numbers, which end with the message. */
static bool read_ranges(const uint8_t *at, uint32_t bytes, struct letter *out)
{
	out->n = bytes / 8;
	if (bytes % 8 != 0 || out->n > RANGES_MOST)
		return false;
	for (uint32_t i = 0; i < out->n; i++, at += 8)
		out->ranges[i] = (struct numbers) { .start = get32(at), .count = get32(at + 4) };
	return true;
}

/* REPORTs of one or several lanes. */
static bool hear_reports(struct world *w, const uint8_t *at, uint32_t len)
{
	struct tunnel *t = w->tunnel;

	if (len == 0)
		return false;
	while (len > 0) {
		struct letter letter = { 0 };
		uint32_t front, ranges;

		if (len < REPORT_BYTES || at[0] >= t->lane_count || (at[1] & ~(HAS_FROM | HAS_ECHO)) != 0 || at[3] != 0)
			return false;
		front = REPORT_BYTES + (at[1] & HAS_ECHO ? ECHO_BYTES : 0);
		ranges = 8 * (uint32_t)at[2];
		if (len < front + ranges || !read_ranges(at + front, ranges, &letter))
			return false;
		letter.has_from = at[1] & HAS_FROM;
		letter.from = get32(at + 4);
		letter.next = get32(at + 8);
		tunnel_take_report(w, &t->lanes[at[0]], &letter);
		at += front + ranges;
		len -= front + ranges;
	}
	return true;
}

bool tunnel_hear(struct world *w, uint32_t port, const uint8_t *m, uint32_t len, uint32_t frame_len)
{
	struct tunnel *t = w->tunnel;
	const uint32_t before_tag = len >= PREFIX + TAG_BYTES ? get16(m + 12) : 0;
	uint8_t expected[TAG_BYTES];
	struct letter letter = { 0 };
	struct lane *lane;
	bool names_us;

	if (before_tag < PREFIX || before_tag + TAG_BYTES > len || before_tag > MESSAGE_MOST || m[0] != CONTROL_BYTE ||
	    m[1] >= t->lane_count || get16(m + 14) != t->index << 8 || m[3] != 0)
		return false;
	lane = &t->lanes[m[1]];
	tag(m, before_tag, expected);
	if (memcmp(expected, m + before_tag, TAG_BYTES) != 0)
		return false;
	/* Nothing overtakes on the way here, but for two classes. */
	if (t->theirs != 0 && get32(m + 8) != t->their_node)
		return false;
	names_us = get32(m + 4) == t->own && get64(m + 32) == t->boot;
	if (m[2] == HELLO)
		return hear_hello(w, port, m, before_tag, names_us, frame_len);
	if (!names_us || get64(m + 16) != t->their_boot)
		return false;
	switch (m[2]) {
	case REPORT:
		return hear_reports(w, m + PREFIX, before_tag - PREFIX);
	case PROBE:
		if (before_tag != PREFIX + PROBE_BYTES)
			return false;
		lane->probed = get64(m + PREFIX + 4);
		lane->probed_at = rte_rdtsc() * 1000 / (rte_get_tsc_hz() / 1000000);
		/* All before it was here already: frames keep their order. */
		w->count.bad_claim += get32(m + PREFIX) != lane->next || m[1] % t->ports != port;
		tunnel_report(w, lane, rte_rdtsc(), true);
		return true;
	case SKIP:
		if (!read_ranges(m + PREFIX, before_tag - PREFIX, &letter))
			return false;
		tunnel_take_skip(lane, &letter);
		return true;
	case BYE:
		t->ready = false;
		return before_tag == PREFIX;
	default:
		return false;
	}
}

/* The fields that all messages have, and the tag; `len` bytes before the tag. */
static uint16_t seal(struct tunnel *t, uint32_t port, uint8_t lane, uint8_t kind, uint32_t len, uint8_t *frame)
{
	static const uint8_t macs[12] = { 3, 'L', 'R', '2', 0, 1, 2, 0, 0, 0, 0, 0x0b };
	uint8_t *m = frame + t->shim_at;

	if (t->udp) {
		outer_write(t, port, outer_source(lane), 0, t->shim_at + len + TAG_BYTES, frame);
	} else {
		memcpy(frame, macs, sizeof(macs));
		put16(frame + 12, ETHERTYPE);
	}
	memset(m, 0, PREFIX);
	m[0] = CONTROL_BYTE;
	m[1] = kind == REPORT ? 0 : lane;
	m[2] = kind;
	put32(m + 4, t->theirs);
	put32(m + 8, NODE);
	put16(m + 12, len);
	put16(m + 14, t->index << 8);
	put64(m + 16, t->boot);
	put64(m + 24, ++t->seq);
	put64(m + 32, t->their_boot);
	tag(m, len, m + len);
	return (uint16_t)(t->shim_at + len + TAG_BYTES);
}

static uint16_t say_hello(struct tunnel *t, uint32_t port, uint8_t *frame)
{
	uint8_t *fields = frame + t->shim_at + PREFIX;

	memset(fields, 0, HELLO_BYTES);
	put32(fields, t->own);
	put16(fields + 8, FRAME_MAX);
	put16(fields + 10, t->paths[port].heard);
	fields[12] = (uint8_t)t->lane_count;
	fields[13] = division(t);
	return seal(t, port, (uint8_t)0, HELLO, PREFIX + HELLO_BYTES, frame);
}

static uint8_t *put_ranges(const struct letter *letter, uint8_t *at)
{
	for (uint32_t i = 0; i < letter->n; i++, at += 8) {
		put32(at, letter->ranges[i].start);
		put32(at + 4, letter->ranges[i].count);
	}
	return at;
}

static uint8_t *put_report(uint8_t lane, const struct letter *report, uint8_t *at)
{
	at[0] = lane;
	at[1] = (uint8_t)((report->has_from ? HAS_FROM : 0) | (report->probed != 0 ? HAS_ECHO : 0));
	at[2] = (uint8_t)report->n;
	at[3] = 0;
	put32(at + 4, report->has_from ? report->from : 0);
	put32(at + 8, report->next);
	put32(at + 12, report->frames);
	/* No path here marks frames. */
	put32(at + 16, 0);
	at += REPORT_BYTES;
	if (report->probed != 0) {
		put64(at, report->probed);
		put64(at + 8, report->probed_at);
		at += ECHO_BYTES;
	}
	return put_ranges(report, at);
}

static bool is_report_due(const struct letters *l, uint64_t data)
{
	return l->head != l->tail && l->at[l->head & l->mask].due <= data && l->at[l->head & l->mask].what == LETTER_REPORT;
}

/* The REPORTs of this lane and of those behind it at its port that are due, as many as a message takes. */
static uint16_t say_reports(struct tunnel *t, uint32_t lane, uint64_t data, uint8_t *frame)
{
	uint8_t *at = frame + t->shim_at + PREFIX;
	const uint32_t first = lane;
	uint32_t reported = 0, ranges = 0;

	for (; lane < t->lane_count; lane += t->ports) {
		struct letters *l = &t->lanes[lane].letters;

		for (; is_report_due(l, data); l->head++) {
			const struct letter *report = &l->at[l->head & l->mask];

			ranges += report->n;
			if (reported++ == REPORTED_MOST || ranges > RANGES_MOST)
				goto full;
			at = put_report((uint8_t)lane, report, at);
		}
	}
full:
	return seal(t, first % t->ports, (uint8_t)first, REPORT, (uint32_t)(at - frame) - t->shim_at, frame);
}

static uint16_t say_skip(struct tunnel *t, uint8_t lane, const struct letter *skip, uint8_t *frame)
{
	const uint8_t *end = put_ranges(skip, frame + t->shim_at + PREFIX);

	return seal(t, lane % t->ports, lane, SKIP, (uint32_t)(end - frame) - t->shim_at, frame);
}

/* The next letter of a lane, with others if it is a REPORT. */
static struct rte_mbuf *say_next(struct world *w, uint32_t lane, uint64_t data)
{
	struct tunnel *t = w->tunnel;
	struct letters *l = &t->lanes[lane].letters;
	struct rte_mbuf *m = other_frame(w, WAN, MESSAGE_BYTES);
	uint8_t *frame;

	if (m == NULL)
		return NULL;
	frame = rte_pktmbuf_mtod(m, uint8_t *);
	if (is_report_due(l, data))
		m->pkt_len = m->data_len = say_reports(t, lane, data, frame);
	else
		m->pkt_len = m->data_len = say_skip(t, (uint8_t)lane, &l->at[l->head++ & l->mask], frame);
	w->count.in_control++;
	return m;
}

static struct rte_mbuf *hello(struct world *w, uint32_t port)
{
	struct rte_mbuf *m = other_frame(w, WAN, MESSAGE_BYTES);

	if (m == NULL)
		return NULL;
	m->pkt_len = m->data_len = say_hello(w->tunnel, port, rte_pktmbuf_mtod(m, uint8_t *));
	w->count.in_control++;
	return m;
}

/* Every path carries the longest frame, and they know it. */
static bool are_measured(const struct tunnel *t)
{
	for (uint32_t i = 0; i < t->ports; i++)
		if (!t->paths[i].named || t->paths[i].heard < t->frame_max)
			return false;
	return t->theirs != 0;
}

/* The answer to ARP or a ping, if there is one. */
static uint16_t give_answer(struct world *w, struct path *path, struct rte_mbuf **frame)
{
	struct rte_mbuf *m = path->answer_len != 0 ? other_frame(w, WAN, path->answer_len) : NULL;

	if (m == NULL)
		return 0;
	memcpy(rte_pktmbuf_mtod(m, uint8_t *), path->answer, path->answer_len);
	path->answer_len = 0;
	*frame = m;
	return 1;
}

uint16_t tunnel_speak(struct world *w, uint32_t port, uint64_t now, struct rte_mbuf **frames, uint16_t n)
{
	struct tunnel *t = w->tunnel;
	struct path *path = &t->paths[port];
	const uint64_t data = tunnel_clock(w);
	struct rte_mbuf *m;
	uint16_t given = 0;

	if (unlikely(path->answer_len != 0) && n > 0)
		given += give_answer(w, path, frames);
	if (now >= path->next_hello && given < n && (m = hello(w, port)) != NULL) {
		frames[given++] = m;
		path->next_hello = now + rte_get_tsc_hz() / HELLO_HZ;
		/* What follows finds a gateway that knows its path. */
		t->ready |= are_measured(t);
	}
	if (!t->ready)
		return given;
	for (uint32_t lane = port; lane < t->lane_count; lane += t->ports) {
		tunnel_report(w, &t->lanes[lane], now, false);
	}
	for (uint32_t lane = port; lane < t->lane_count; lane += t->ports) {
		const struct letters *l = &t->lanes[lane].letters;

		while (given < n && l->head != l->tail && l->at[l->head & l->mask].due <= data) {
			if ((m = say_next(w, lane, data)) == NULL)
				break;
			frames[given++] = m;
		}
	}
	return given + tunnel_resend(w, port, frames + given, n - given);
}
