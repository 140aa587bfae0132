/* The other end of a tunnel over Ethernet: docs/tunnel.md.
 *
 * It is written from the document and shares nothing with the gateway: each run
 * checks one against the other. Frames that come in at the WAN port are numbered
 * here, those that go out there are checked and freed of their shims. Nobody waits
 * for a predecessor here: the sink puts the packets of a flow into order.
 */
#ifndef TUNNEL_H
#define TUNNEL_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

struct world;

enum {
	SHIM_AT = 14, /* behind the EtherType */
	SHIM_BYTES = 16,
	SHIM_RESENT_BYTES = 24,
	TUNNEL_FRONT = SHIM_AT - 12 + SHIM_BYTES, /* by which a frame grows */
	TUNNEL_RESENT_FRONT = TUNNEL_FRONT + SHIM_RESENT_BYTES - SHIM_BYTES,
	TUNNEL_BUCKETS = 1 << 16,
	RANGES_MOST = 64, /* of a REPORT or SKIP */
};

/* A run of numbers, from here on so many. */
struct numbers { uint32_t start, count; };

/* A REPORT or a SKIP on its way. */
struct letter {
	uint64_t due; /* in data frames */
	enum { LETTER_REPORT, LETTER_SKIP } what;
	bool has_from;
	uint32_t from, next;
	uint32_t frames; /* that have arrived */
	uint64_t probed, probed_at; /* the newest PROBE: when it was sent, by its sender's clock, and when it arrived, by ours */
	uint32_t n;
	struct numbers ranges[RANGES_MOST];
};

/* A transmission that was lost on its way in, or one that follows it. */
struct transmission {
	uint64_t due;
	uint32_t number, first; /* its own, and that of the frame's first transmission */
	uint32_t before;        /* the frame's predecessor, as it is transmitted; 0: none */
	uint32_t flow, seq;
};

/* First in, first out; `mask` + 1 places. */
struct letters { struct letter *at; uint64_t head, tail, mask; };
struct transmissions { struct transmission *at; uint64_t head, tail, mask; };

struct tunnel {
	/* The session: ours and theirs, 0 while it is not known. */
	uint32_t own, theirs;
	/* Which tunnel it is, of how many between the two gateways: a power of two. */
	uint32_t index, tunnels;
	uint64_t boot, their_boot, seq, their_seq;
	uint32_t their_node;
	uint16_t frame_max; /* of both ends */
	uint16_t heard;     /* the longest frame with a HELLO that names our session */
	bool named;         /* the newest HELLO did */
	bool ready;         /* they know what the path carries: data may begin */
	uint64_t next_hello;
	/* Numbers that went out at the WAN port. */
	uint32_t next, told;
	uint32_t current, first; /* of the frame that is being looked at: its number, and that of its first transmission */
	bool news, is_resent;
	uint32_t arrived;
	uint64_t probed, probed_at;
	uint64_t reported, all_reported;
	/* Those that are missing, in ascending order. */
	struct { uint32_t *at; uint32_t n, most; } missing;
	struct letters letters;
	/* Numbers of frames that come in there. */
	uint32_t sent, covered;
	uint32_t *last[2]; /* by bucket: the newest data frame, and ACK; 0: there is none */
	struct transmissions lost, resends;
};

/* NULL if there is no memory. */
struct tunnel *tunnel_new(uint64_t boot, bool lossy, uint32_t index, uint32_t tunnels);
void tunnel_free(struct tunnel *tunnel);

/* Control messages and resent frames that come in at the WAN port, at most n. */
uint16_t tunnel_speak(struct world *world, uint64_t now, struct rte_mbuf **frames, uint16_t n);

/* Numbers the frames that come in at the WAN port, and loses some. How many are left. */
uint16_t tunnel_number(struct world *world, struct rte_mbuf **frames, uint16_t n);

/* A frame that went out at the WAN port: what is behind the shim, and its length. False if it
 * is a control message, which is taken, or wrong, which is counted. */
bool tunnel_open(struct world *world, const struct rte_mbuf *m, const uint8_t **frame, uint32_t *len);

/* The long haul loses the frame that was opened last, or does not. */
void tunnel_lost(struct world *world);
void tunnel_arrived(struct world *world);

/* A control message that went out, `len` bytes from its shim on, in a frame of `frame_len`.
 * False if it is not as it should be. */
bool tunnel_hear(struct world *world, const uint8_t *body, uint32_t len, uint32_t frame_len);

/* Data frames so far: the time of what is on its way there and back. */
uint64_t tunnel_clock(const struct world *world);

/* Notes the REPORTs that are due, or `asked` for. */
void tunnel_report(struct world *world, uint64_t now, bool asked);

/* Frames whose turn it is to be resent. */
uint16_t tunnel_resend(struct world *world, struct rte_mbuf **frames, uint16_t n);

/* A REPORT was heard, or a SKIP. */
void tunnel_take_report(struct world *world, const struct letter *report);
void tunnel_take_skip(struct world *world, const struct letter *skip);

#endif
