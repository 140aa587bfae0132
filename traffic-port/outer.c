/* What stands in front of a shim over UDP, and what else goes out at such a port: ARP and ping. */
#include "traffic.h"

#include <rte_branch_prediction.h>

#include "bytes.h"

enum {
	IP_AT = 14, UDP_AT = 34, PROTOCOL_ICMP = 1, PROTOCOL_UDP = 17, FIRST_SOURCE = 49152, TUNNEL_PORT = 49791,
	ETHERTYPE_IP = 0x0800, ETHERTYPE_ARP = 0x0806, ARP_AT = 14, ARP_BYTES = 42, ICMP_AT = 34, ICMP_BYTES = 42,
};

static const uint8_t our_mac[6] = { 2, 0, 0, 0, 0, 0x0b };

/* The gateway has .1 of the link behind a port, we .2. */
static uint32_t address_of(uint32_t port, bool ours)
{
	return 192u << 24 | (2 + port) << 8 | (ours ? 2 : 1);
}

/* Of an IPv4 header: all ones if its checksum is right, or the sum to be turned into it. */
static uint16_t sum_of_header(const uint8_t *ip)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += get16(ip + i);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)((sum & 0xffff) + (sum >> 16));
}

uint16_t outer_source(uint32_t lane)
{
	return (uint16_t)(FIRST_SOURCE + lane);
}

void outer_write(const struct tunnel *t, uint32_t port, uint16_t source, uint8_t tos, uint32_t len, uint8_t *frame)
{
	uint8_t *ip = frame + IP_AT, *udp = frame + UDP_AT;

	memcpy(frame, t->their_mac, sizeof(t->their_mac));
	memcpy(frame + 6, our_mac, sizeof(our_mac));
	put16(frame + 12, ETHERTYPE_IP);
	put16(ip, 0x4500 | tos);
	put16(ip + 2, len - IP_AT);
	put32(ip + 4, 0x4000); /* don't fragment */
	put32(ip + 8, 64u << 24 | PROTOCOL_UDP << 16);
	put32(ip + 12, address_of(port, true));
	put32(ip + 16, address_of(port, false));
	put16(ip + 10, (uint16_t)~sum_of_header(ip));
	put16(udp, source);
	put16(udp + 2, TUNNEL_PORT);
	put32(udp + 4, (len - UDP_AT) << 16);
}

/* Who asks for our MAC address gets it. */
static bool answer_arp(struct path *path, uint32_t port, const uint8_t *frame, uint32_t len)
{
	const uint8_t *arp = frame + ARP_AT;
	uint8_t *answer = path->answer;

	if (len < ARP_BYTES || get16(arp + 6) != 1)
		return len >= ARP_BYTES;
	if (get32(arp + 24) != address_of(port, true))
		return true;
	memcpy(answer, frame + 6, 6);
	memcpy(answer + 6, our_mac, 6);
	memcpy(answer + 12, frame + 12, 2 + 6);
	put16(answer + ARP_AT + 6, 2);
	memcpy(answer + ARP_AT + 8, our_mac, 6);
	put32(answer + ARP_AT + 14, address_of(port, true));
	memcpy(answer + ARP_AT + 18, arp + 8, 10);
	path->answer_len = ARP_BYTES;
	return true;
}

static bool answer_ping(struct path *path, const uint8_t *frame, uint32_t len)
{
	uint8_t *answer = path->answer;
	uint32_t sum;

	if (len < ICMP_BYTES || len > sizeof(path->answer) || frame[ICMP_AT] != 8)
		return false;
	memcpy(answer, frame, len);
	memcpy(answer, frame + 6, 6);
	memcpy(answer + 6, our_mac, 6);
	memcpy(answer + IP_AT + 12, frame + IP_AT + 16, 4);
	memcpy(answer + IP_AT + 16, frame + IP_AT + 12, 4);
	answer[ICMP_AT] = 0;
	/* An echo request has 8 where the reply has 0. */
	sum = get16(frame + ICMP_AT + 2) + 0x0800;
	put16(answer + ICMP_AT + 2, (sum & 0xffff) + (sum >> 16));
	path->answer_len = (uint16_t)len;
	return true;
}

bool outer_open(struct world *w, uint32_t port, const uint8_t *frame, uint32_t len, uint16_t *source)
{
	struct tunnel *t = w->tunnel;
	const uint8_t *ip = frame + IP_AT, *udp = frame + UDP_AT;
	const uint32_t type = get16(frame + 12);

	if (unlikely(type != ETHERTYPE_IP || len < OUTER_MOST || ip[9] != PROTOCOL_UDP)) {
		const bool taken = type == ETHERTYPE_ARP ? answer_arp(&t->paths[port], port, frame, len) :
				   type == ETHERTYPE_IP && ip[9] == PROTOCOL_ICMP && answer_ping(&t->paths[port], frame, len);

		memcpy(t->their_mac, frame + 6, sizeof(t->their_mac));
		w->count.foreign += !taken;
		return false;
	}
	*source = (uint16_t)get16(udp);
	if (likely(get16(ip) >> 8 == 0x45 && get16(ip + 2) == len - IP_AT && get32(ip + 4) == 0x4000 &&
		   sum_of_header(ip) == 0xffff && get32(ip + 12) == address_of(port, false) &&
		   get32(ip + 16) == address_of(port, true) && get16(udp + 2) == TUNNEL_PORT &&
		   get32(udp + 4) == (len - UDP_AT) << 16))
		return true;
	w->count.bad_control++;
	return false;
}
