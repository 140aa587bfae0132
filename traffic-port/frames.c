#include "frames.h"

enum { UDP_ROCE = 4791, PROTOCOL_UDP = 17, FIRST_NET = 128 };

static const uint8_t opcode_of[KINDS] = {
	[FIRST] = SEND_FIRST, [MIDDLE] = SEND_MIDDLE, [LAST] = SEND_LAST,
	[ONLY] = SEND_ONLY, [ONLY_ASKING] = SEND_ONLY, [ACK] = ACKNOWLEDGE,
};

static void put32(uint8_t *at, uint32_t value)
{
	put16(at, value >> 16);
	put16(at + 2, value);
}

/* The bucket of two hosts, as a NIC with the gateway's key hashes them (common/src/wire/spread.rs). */
static uint32_t bucket_of(uint32_t a, uint32_t b)
{
	uint32_t hash = 0, key = 0xd6ed5abd;

	for (uint32_t bits = a ^ b, i = 0; i < 32; i++, bits <<= 1) {
		hash ^= bits >> 31 ? key : 0;
		key = key << 1 | key >> 31;
	}
	return hash & 63;
}

/* Both hosts of a pair have the same low half of the address, so only the high ones count. */
static uint8_t net_of(uint32_t queue, uint32_t queues)
{
	uint32_t net = FIRST_NET;

	while (bucket_of(10u << 24, 10u << 24 | net << 16) % queues != queue)
		net++;
	return (uint8_t)net;
}

/* Headers of flow 0, with PSN 0 and without the IP checksum, of which the sum of
 * the other words is returned. */
static uint16_t headers_of_0(uint8_t net, bool from_lan, uint8_t opcode, uint32_t len, uint8_t *frame)
{
	static const uint8_t lan_mac[6] = { 2, 0, 0, 0, 0, 0x0a }, wan_mac[6] = { 2, 0, 0, 0, 0, 0x0b };
	uint32_t sum = 0;

	memset(frame, 0, AT_BODY);
	memcpy(frame, from_lan ? wan_mac : lan_mac, 6);
	memcpy(frame + 6, from_lan ? lan_mac : wan_mac, 6);
	put16(frame + 12, 0x0800);
	frame[AT_IP] = 0x45;
	frame[AT_IP + 1] = 0x02; /* ECT(0) */
	put16(frame + AT_IP + 2, len - AT_IP);
	put16(frame + AT_IP + 6, 0x4000); /* don't fragment */
	frame[AT_IP + 8] = 64;
	frame[AT_IP + 9] = PROTOCOL_UDP;
	put32(frame + AT_IP + 12, 10u << 24 | (from_lan ? 0 : net) << 16);
	put32(frame + AT_IP + 16, 10u << 24 | (from_lan ? net : 0) << 16);
	for (int i = AT_IP; i < AT_UDP; i += 2)
		sum += (uint32_t)frame[i] << 8 | frame[i + 1];
	put16(frame + AT_UDP, 0xc000);
	put16(frame + AT_UDP + 2, UDP_ROCE);
	put16(frame + AT_UDP + 4, len - AT_UDP);
	frame[AT_BTH] = opcode;
	frame[AT_BTH + 1] = 0x40; /* migrated, as RNICs have it */
	put16(frame + AT_BTH + 2, 0xffff);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

/* What each value of a field of 24 bits adds to the ICRC: `put` writes it. */
static void tabulate(uint8_t *frame, uint32_t len, void (*put)(uint8_t *, uint32_t), uint32_t bits,
		     const uint32_t *turn, uint32_t table[3][256])
{
	uint32_t of_bit[24] = { 0 }, zero;

	put(frame, 0);
	zero = crc_of_frame(frame, len);
	for (uint32_t bit = 0; bit < bits; bit++) {
		put(frame, 1u << bit);
		of_bit[bit] = crc_of_frame(frame, len) ^ zero;
		if (turn != NULL)
			of_bit[bit] = crc_apply(turn, of_bit[bit]);
	}
	put(frame, 0);
	for (uint32_t byte = 0; byte < 3; byte++) {
		for (uint32_t value = 0; value < 256; value++) {
			uint32_t sum = 0;

			for (uint32_t bit = 0; bit < 8; bit++)
				if (value >> bit & 1)
					sum ^= of_bit[8 * byte + bit];
			table[byte][value] = sum;
		}
	}
}

static void put_flow_only(uint8_t *frame, uint32_t flow)
{
	/* The mark of the QP number stays as the template has it. */
	put_flow(frame, 0, flow, ((uint32_t)frame[AT_BTH + 5] & 0xf0) << 16 | flow);
}

static void put_psn_only(uint8_t *frame, uint32_t psn)
{
	put24(frame + AT_BTH + 9, psn);
}

static void put_msn_only(uint8_t *frame, uint32_t msn)
{
	put24(frame + AT_BODY + 1, msn);
}

/* The words behind the BTH that would add single bits to the ICRC. */
static bool fill_turn(uint8_t *frame, uint32_t len, uint32_t turn[32])
{
	uint32_t of_bit[32], zero;

	memset(frame + AT_BODY, 0, 4);
	zero = crc_of_frame(frame, len);
	for (uint32_t bit = 0; bit < 32; bit++) {
		uint32_t word = 1u << bit;

		memcpy(frame + AT_BODY, &word, 4);
		of_bit[bit] = crc_of_frame(frame, len) ^ zero;
	}
	memset(frame + AT_BODY, 0, 4);
	return crc_invert(of_bit, turn);
}

bool frames_init(struct frames *f, uint32_t payload, uint32_t per_ack, uint32_t queue, uint32_t queues)
{
	uint8_t ack[HEAD_BYTES] = { 0 };
	uint32_t turn[32], icrc;

	if (payload < PAYLOAD_LEAST || payload > PAYLOAD_MOST || payload % 4 != 0)
		return false;
	f->segmented = payload >= 256 && (payload & (payload - 1)) == 0;
	f->pmtu = f->segmented ? (uint16_t)payload : 256;
	f->per_ack = per_ack;
	f->net = net_of(queue, queues);
	f->data_bytes = AT_BODY + payload + ICRC_BYTES;

	/* Every data frame ends with the ICRC of this one, those of other queues too. */
	for (uint32_t i = AT_BODY; i < f->data_bytes; i++)
		f->whole[i] = (uint8_t)(i * 37 + 11);
	headers_of_0(FIRST_NET, true, SEND_MIDDLE, f->data_bytes, f->whole);
	put24(f->whole + AT_BTH + 5, responder_qpn(OUTWARD, 0));
	if (!fill_turn(f->whole, f->data_bytes, turn))
		return false;
	crc_close(f->whole, f->data_bytes);
	memcpy(&icrc, f->whole + f->data_bytes - ICRC_BYTES, sizeof(icrc));
	tabulate(f->whole, f->data_bytes, put_flow_only, 20, turn, f->of_flow[0]);
	tabulate(f->whole, f->data_bytes, put_psn_only, 24, turn, f->of_psn[0]);

	for (enum stream_id s = 0; s < STREAMS; s++) {
		for (enum kind k = 0; k < ACK; k++) {
			f->ip_sum[s][k] = headers_of_0(f->net, s == OUTWARD, opcode_of[k], f->data_bytes, f->whole);
			put24(f->whole + AT_BTH + 5, responder_qpn(s, 0));
			f->whole[AT_BTH + 8] = k == LAST || k == ONLY_ASKING ? 0x80 : 0;
			f->base[s][k] = crc_apply(turn, crc_of_frame(f->whole, f->data_bytes) ^ icrc);
			memcpy(f->head[s][k], f->whole, HEAD_BYTES);
		}
		memcpy(ack, f->whole, sizeof(ack));
		f->ip_sum[s][ACK] = headers_of_0(f->net, s == INWARD, ACKNOWLEDGE, ACK_BYTES, ack);
		put24(ack + AT_BTH + 5, requester_qpn(s, 0));
		memset(ack + AT_BODY, 0, 4);
		ack[AT_BODY] = 0x1f; /* no limit of credits */
		f->base[s][ACK] = crc_of_frame(ack, ACK_BYTES);
		memcpy(f->head[s][ACK], ack, HEAD_BYTES);
	}
	tabulate(ack, ACK_BYTES, put_flow_only, 20, NULL, f->of_flow[1]);
	tabulate(ack, ACK_BYTES, put_psn_only, 24, NULL, f->of_psn[1]);
	tabulate(ack, ACK_BYTES, put_msn_only, 24, NULL, f->of_msn);
	return true;
}

void put_headers(const struct frames *f, enum stream_id stream, bool with_data, uint32_t flow, uint8_t opcode,
		 uint32_t qpn, uint32_t psn, uint32_t len, uint8_t *frame)
{
	const bool from_lan = with_data == (stream == OUTWARD);
	const uint16_t sum = headers_of_0(f->net, from_lan, opcode, len, frame);

	put_flow(frame, sum, flow, qpn);
	put24(frame + AT_BTH + 9, psn);
}

void put_nak(const struct frames *f, enum stream_id stream, uint32_t flow, uint8_t *frame)
{
	put_headers(f, stream, false, flow, ACKNOWLEDGE, (uint32_t)NOBODYS << 20 | flow, 0, ACK_BYTES, frame);
	put32(frame + AT_BODY, (uint32_t)PSN_ERROR << 24);
	crc_close(frame, ACK_BYTES);
}

/* IPv4 address in an IPv6 one, from the IP header. */
static void put_gid(uint8_t *at, const uint8_t *ip)
{
	memset(at, 0, 10);
	memset(at + 10, 0xff, 2);
	memcpy(at + 12, ip, 4);
}

void put_cm(const struct frames *f, enum stream_id stream, bool reply, uint32_t flow, uint8_t *frame)
{
	uint8_t *deth = frame + AT_BODY, *mad = deth + 8, *body = mad + 24;

	put_headers(f, stream, !reply, flow, UD_SEND_ONLY, 1, flow, CM_BYTES, frame);
	memset(deth, 0, 8 + 256);
	put32(deth, 0x80010000); /* the queue key of QP 1 */
	put24(deth + 5, 1);
	mad[0] = 1;
	mad[1] = 7; /* class: communication management */
	mad[2] = 2;
	mad[3] = 3; /* send */
	put32(mad + 12, flow);
	put16(mad + 16, reply ? CM_REPLY : CM_REQUEST);
	put32(body, flow);
	if (reply) {
		put32(body + 4, flow);
		put24(body + 12, responder_qpn(stream, flow));
		put24(body + 20, first_psn(flow));
	} else {
		/* The source would receive from this PSN on; it receives no data. */
		put24(body + 32, requester_qpn(stream, flow));
		put24(body + 44, first_psn(flow));
		body[50] = (uint8_t)((__builtin_ctz(f->pmtu) - 7) << 4);
		put_gid(body + 56, frame + AT_IP + 12);
		put_gid(body + 72, frame + AT_IP + 16);
	}
	crc_close(frame, CM_BYTES);
}
