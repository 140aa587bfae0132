/* The other end of a tunnel over Ethernet or UDP: docs/tunnel.md.
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
	SHIM_BYTES = 16,
	SHIM_RESENT_BYTES = 24,
	OUTER_MOST = 42, /* headers in front of a shim */
	LANES_MOST = 64, PORTS_MOST = 8,
	TUNNEL_BUCKETS = 1 << 16,
	RANGES_MOST = 64, /* of a message */
	REPORTED_MOST = 8, /* lanes in a message of REPORTs */
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
	uint8_t lane, first_lane, before_lane; /* of these */
};

/* First in, first out; `mask` + 1 places. */
struct letters { struct letter *at; uint64_t head, tail, mask; };
struct transmissions { struct transmission *at; uint64_t head, tail, mask; };

/* Of each direction one with the same number. */
struct lane {
	/* Numbers that went out at its WAN port. */
	uint32_t next, told, arrived;
	bool news;
	uint64_t probed, probed_at;
	uint64_t reported, all_reported;
	/* Those that are missing, in ascending order. */
	struct { uint32_t *at; uint32_t n, most; } missing;
	struct letters letters;
	uint16_t source; /* the UDP port that its datagrams come from; 0: none has */
	/* Numbers of frames that come in there. */
	uint32_t sent, covered;
	struct transmissions lost;
};

/* Behind a WAN port. */
struct path {
	uint16_t heard; /* the longest frame with a HELLO that names our session */
	bool named;     /* the newest HELLO did */
	uint64_t next_hello;
	/* The lane of frames that come in now, and how many more take it. */
	uint8_t lane, left;
	/* An answer to ARP or a ping, that is to come in. */
	uint8_t answer[128];
	uint16_t answer_len;
};

struct tunnel {
	/* The encapsulation: where a shim begins, and by how much a frame grows. */
	bool udp;
	uint16_t shim_at, front;
	uint32_t ports, lane_count;
	uint8_t their_mac[6];
	/* The session: ours and theirs, 0 while it is not known. */
	uint32_t own, theirs;
	/* Which tunnel it is, of how many between the two gateways: a power of two. */
	uint32_t index, tunnels;
	uint64_t boot, their_boot, seq, their_seq;
	uint32_t their_node;
	uint16_t frame_max; /* of both ends */
	bool ready;         /* they know what the path carries: data may begin */
	/* Of the frame that is being looked at: its lane and number, and those of its first transmission. */
	uint8_t lane, first_lane;
	uint32_t current, first;
	bool is_resent;
	/* By bucket: the newest data frame that came in, and ACK; 0: there is none. And their lanes. */
	uint32_t *last[2];
	uint8_t *last_lane[2];
	struct transmissions resends;
	struct path paths[PORTS_MOST];
	struct lane lanes[LANES_MOST];
};

struct tunnel_options {
	bool udp, lossy;
	uint32_t ports, lanes; /* of each port */
	uint32_t tunnels;      /* between the two gateways */
};

/* NULL if there is no memory. */
struct tunnel *tunnel_new(uint64_t boot, const struct tunnel_options *options, uint32_t index);
void tunnel_free(struct tunnel *tunnel);

/* Control messages and resent frames that come in at a WAN port, at most n. */
uint16_t tunnel_speak(struct world *world, uint32_t port, uint64_t now, struct rte_mbuf **frames, uint16_t n);

/* Numbers the frames that come in at a WAN port, and loses some. How many are left. */
uint16_t tunnel_number(struct world *world, uint32_t port, struct rte_mbuf **frames, uint16_t n);

/* A frame that went out at a WAN port: what is behind the shim, and its length. False if it
 * is a control message, which is taken, or wrong, which is counted. */
bool tunnel_open(struct world *world, uint32_t port, const struct rte_mbuf *m, const uint8_t **frame, uint32_t *len);

/* The long haul loses the frame that was opened last, or does not. */
void tunnel_lost(struct world *world);
void tunnel_arrived(struct world *world);

/* A control message that went out at a port, `len` bytes from its shim on, in a frame of `frame_len`.
 * False if it is not as it should be. */
bool tunnel_hear(struct world *world, uint32_t port, const uint8_t *body, uint32_t len, uint32_t frame_len);

/* Data frames so far: the time of what is on its way there and back. */
uint64_t tunnel_clock(const struct world *world);

/* Notes the REPORTs of a lane that are due, or `asked` for. */
void tunnel_report(struct world *world, struct lane *lane, uint64_t now, bool asked);

/* Frames whose turn it is to be resent, at a port. */
uint16_t tunnel_resend(struct world *world, uint32_t port, struct rte_mbuf **frames, uint16_t n);

/* A REPORT of a lane was heard, or a SKIP. */
void tunnel_take_report(struct world *world, struct lane *lane, const struct letter *report);
void tunnel_take_skip(struct lane *lane, const struct letter *skip);

/* outer.c */

/* Writes the headers in front of the shim of a datagram from `source`, `len` bytes in all. */
void outer_write(const struct tunnel *tunnel, uint32_t port, uint16_t source, uint8_t tos, uint32_t len, uint8_t *frame);

/* The UDP port that our datagrams on a lane come from. */
uint16_t outer_source(uint32_t lane);

/* Whether a frame that went out at a WAN port is a datagram of the tunnel, as it should be; its source port. What is not is
 * answered, or counted. */
bool outer_open(struct world *world, uint32_t port, const uint8_t *frame, uint32_t len, uint16_t *source);

#endif
