/* The frames that the port makes.
 *
 * A queue pair is a number below `flows`, and everything in its packets' headers
 * follows from that number and a packet's place in its sequence. So nothing is
 * kept per queue pair to make a frame. What can't be told from the number is
 * written from a template in one go: headers end within the first cache line.
 */
#ifndef FRAMES_H
#define FRAMES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <rte_byteorder.h>

#include "crc.h"

/* Directions of data. */
enum stream_id { OUTWARD /* from the LAN to the WAN */, INWARD, STREAMS };

enum {
	FLOWS_MOST = 1 << 20,
	PAIR_SHIFT = 6, /* 64 queue pairs between two hosts */
	HEAD_BYTES = 64,
	ACK_BYTES = AT_BODY + 4 + ICRC_BYTES,
	CM_BYTES = AT_BODY + 8 + 256 + ICRC_BYTES,
	PAYLOAD_LEAST = HEAD_BYTES - AT_BODY,
	PAYLOAD_MOST = 4096,
	PSN_MASK = 0xffffff,
	NOBODYS = 7, /* mark of queue pairs that send nothing */
};

/* BTH opcodes. */
enum {
	SEND_FIRST = 0x00, SEND_MIDDLE = 0x01, SEND_LAST = 0x02, SEND_ONLY = 0x04,
	PSN_ERROR = 0x60, /* the syndrome of a NAK */
	ACKNOWLEDGE = 0x11, UD_SEND_ONLY = 0x64, CONTROL = 0xe1,
};

/* Sorts of data packets, and the acknowledgement. */
enum kind { FIRST, MIDDLE, LAST, ONLY, ONLY_ASKING, ACK, KINDS };

struct frames {
	uint8_t head[STREAMS][KINDS][HEAD_BYTES];
	/* What a field adds to the four bytes that make the ICRC right: those
	 * behind the BTH in data, so that the end of the frame, and with it the
	 * cache line that it is in, stays as it is; the ICRC itself in an ACK. */
	uint32_t base[STREAMS][KINDS];
	uint32_t of_flow[2][3][256];
	uint32_t of_psn[2][3][256];
	uint32_t of_msn[3][256];
	/* A whole data frame, as buffers are filled before the start. */
	uint8_t whole[AT_BODY + PAYLOAD_MOST + ICRC_BYTES];
	uint16_t ip_sum[STREAMS][KINDS];
	uint8_t net; /* of the hosts behind the WAN: 10.net.0.0/16 */
	uint32_t data_bytes;
	uint32_t per_ack; /* packets of a message; a power of two */
	uint16_t pmtu;    /* 256 if the payload is no path MTU: then messages have one packet */
	bool segmented;
};

/* The hosts' addresses are such that a NIC with `queues` receive queues, a power of two, gives all frames to this one.
 * Buffers that are filled for one queue suit all. False if `payload` can't be. */
bool frames_init(struct frames *frames, uint32_t payload, uint32_t per_ack, uint32_t queue, uint32_t queues);

/* The first PSN of a queue pair. */
static inline uint32_t first_psn(uint32_t flow)
{
	return flow * 0x9e3779u & PSN_MASK;
}

/* QP numbers, with the stream's and the direction's mark in the top four bits. */
static inline uint32_t responder_qpn(enum stream_id stream, uint32_t flow)
{
	return (1u + 2 * stream) << 20 | flow;
}

static inline uint32_t requester_qpn(enum stream_id stream, uint32_t flow)
{
	return (2u + 2 * stream) << 20 | flow;
}

static inline void put24(uint8_t *at, uint32_t value)
{
	at[0] = (uint8_t)(value >> 16);
	at[1] = (uint8_t)(value >> 8);
	at[2] = (uint8_t)value;
}

static inline uint32_t get24(const uint8_t *at)
{
	return (uint32_t)at[0] << 16 | (uint32_t)at[1] << 8 | at[2];
}

/* The same where the byte before is known, or does not matter. */
static inline void put8_24(uint8_t *at, uint32_t first, uint32_t value)
{
	const uint32_t word = rte_cpu_to_be_32(first << 24 | value);

	memcpy(at, &word, sizeof(word));
}

static inline uint32_t get8_24(const uint8_t *at)
{
	uint32_t word;

	memcpy(&word, at, sizeof(word));
	return rte_be_to_cpu_32(word);
}

/* Of a packet. */
static inline uint32_t qpn_of(const uint8_t *frame)
{
	return get8_24(frame + AT_BTH + 4) & PSN_MASK;
}

static inline uint32_t psn_of(const uint8_t *frame)
{
	return get8_24(frame + AT_BTH + 8) & PSN_MASK;
}

static inline void put16(uint8_t *at, uint32_t value)
{
	uint16_t v = rte_cpu_to_be_16((uint16_t)value);

	memcpy(at, &v, sizeof(v));
}

static inline uint32_t sum_of(const uint32_t table[3][256], uint32_t value)
{
	return table[0][value & 0xff] ^ table[1][value >> 8 & 0xff] ^ table[2][value >> 16 & 0xff];
}

/* Addresses, UDP source port and QP, over a template. */
static inline void put_flow(uint8_t *frame, uint16_t ip_sum, uint32_t flow, uint32_t qpn)
{
	const uint32_t pair = flow >> PAIR_SHIFT;
	/* Both addresses have it in their low half. */
	uint32_t sum = ip_sum + 2 * pair;

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	put16(frame + AT_IP + 10, ~sum);
	put16(frame + AT_IP + 14, pair);
	put16(frame + AT_IP + 18, pair);
	put16(frame + AT_UDP, 0xc000 | (flow & 0x3fff));
	put8_24(frame + AT_BTH + 4, 0, qpn);
}

/* The packet at this place of a flow's sequence. */
static inline enum kind kind_at(const struct frames *frames, uint32_t flow, uint32_t seq)
{
	/* Not all flows end a message at once. */
	const uint32_t place = (seq + flow) & (frames->per_ack - 1);
	const bool ends = place == frames->per_ack - 1;
	const bool begins = place == 0 || seq == 0;

	if (!frames->segmented || (begins && ends))
		return ends ? ONLY_ASKING : ONLY;
	return ends ? LAST : begins ? FIRST : MIDDLE;
}

/* Messages that are complete with the packet at this place, modulo 2^24. */
static inline uint32_t messages_at(const struct frames *frames, uint32_t flow, uint32_t seq)
{
	const uint32_t phase = flow & (frames->per_ack - 1);

	if (!frames->segmented)
		return (seq + 1) & PSN_MASK;
	return (uint32_t)(((uint64_t)seq + phase + 1) / frames->per_ack) & PSN_MASK;
}

/* The first HEAD_BYTES of a data frame; the rest is as in `whole`. */
static inline void put_data(const struct frames *frames, enum stream_id stream, uint32_t flow,
			    uint32_t seq, uint8_t *frame)
{
	const enum kind kind = kind_at(frames, flow, seq);
	const uint32_t psn = (first_psn(flow) + seq) & PSN_MASK;
	const uint32_t fill = frames->base[stream][kind] ^ sum_of(frames->of_flow[0], flow) ^
			      sum_of(frames->of_psn[0], psn);

	memcpy(frame, frames->head[stream][kind], HEAD_BYTES);
	put_flow(frame, frames->ip_sum[stream][kind], flow, responder_qpn(stream, flow));
	put8_24(frame + AT_BTH + 8, kind == LAST || kind == ONLY_ASKING ? 0x80 : 0, psn);
	memcpy(frame + AT_BODY, &fill, sizeof(fill));
}

/* The ACK that answers the packet at `seq`: ACK_BYTES, and some behind them as in
 * a data frame. */
static inline void put_ack(const struct frames *frames, enum stream_id stream, uint32_t flow,
			   uint32_t seq, uint8_t *frame)
{
	const uint32_t psn = (first_psn(flow) + seq) & PSN_MASK;
	const uint32_t msn = messages_at(frames, flow, seq);
	const uint32_t icrc = frames->base[stream][ACK] ^ sum_of(frames->of_flow[1], flow) ^
			      sum_of(frames->of_psn[1], psn) ^ sum_of(frames->of_msn, msn);

	memcpy(frame, frames->head[stream][ACK], HEAD_BYTES);
	put_flow(frame, frames->ip_sum[stream][ACK], flow, requester_qpn(stream, flow));
	put8_24(frame + AT_BTH + 8, 0, psn);
	put8_24(frame + AT_BODY, 0x1f, msn);
	memcpy(frame + AT_BODY + 4, &icrc, sizeof(icrc));
}

/* A NAK between the hosts of a flow, for a queue pair of theirs that sends nothing: ACK_BYTES. */
void put_nak(const struct frames *frames, enum stream_id stream, uint32_t flow, uint8_t *frame);

static inline bool is_nobodys(uint32_t qpn)
{
	return qpn >> 20 == NOBODYS;
}

/* Headers up to the end of the BTH of a frame of any other sort, `len` bytes
 * long, that goes with the stream's data or against it. */
void put_headers(const struct frames *frames, enum stream_id stream, bool with_data, uint32_t flow, uint8_t opcode,
		 uint32_t qpn, uint32_t psn, uint32_t len, uint8_t *frame);

/* A message of connection management, CM_BYTES: the request of the flow's source,
 * or the reply to it. */
void put_cm(const struct frames *frames, enum stream_id stream, bool reply, uint32_t flow,
	    uint8_t *frame);

enum { CM_REQUEST = 0x10, CM_REPLY = 0x13 };

/* Of a frame with the opcode of CM messages: its attribute, and the flow by its
 * name for the connection. */
static inline uint32_t cm_attribute(const uint8_t *frame)
{
	return get24(frame + AT_BODY + 8 + 15) & 0xffff;
}

static inline uint32_t cm_name(const uint8_t *frame, bool reply)
{
	/* The second word of a reply is the name that the request gave. */
	return get24(frame + AT_BODY + 8 + 24 + (reply ? 4 : 0) + 1);
}

#endif
