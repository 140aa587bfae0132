#include "options.h"

#include <errno.h>
#include <stdlib.h>

#include <rte_kvargs.h>
#include <rte_log.h>

#define ERROR(...) rte_log(RTE_LOG_ERR, RTE_LOGTYPE_PMD, "net_traffic: " __VA_ARGS__)

struct number {
	const char *key;
	uint32_t least, most;
	bool power; /* of two */
	size_t at;
};

/* Beyond it, more is lost than a flow may have outstanding for. */
#define LOSS_MOST 0.2

#define AT(field) offsetof(struct options, field)

static const struct number numbers[] = {
	{ "payload", PAYLOAD_LEAST, PAYLOAD_MOST, false, AT(payload) },
	{ "flows", 1, FLOWS_MOST, true, AT(flows) },
	{ "in_flight", 1, 1 << 20, false, AT(in_flight) },
	{ "per_ack", 1, 1 << 10, true, AT(per_ack) },
	{ "status_us", 1, 10000000, false, AT(status_us) },
	{ "pause_us", 0, 100000000, false, AT(pause_us) },
	{ "threads", 1, 2, false, AT(threads) },
	{ "port", 0, PORTS_MOST - 1, false, AT(port) },
	{ "ports", 1, PORTS_MOST, false, AT(ports) },
	{ "lanes", 1, LANES_MOST, false, AT(lanes) },
	{ "queues", 1, QUEUES_MOST, true, AT(queues) },
	{ "repaired", 0, FLOWS_MOST >> PAIR_SHIFT, false, AT(repaired) },
};

static int read_number(const char *key, const char *text, void *options)
{
	for (size_t i = 0; i < RTE_DIM(numbers); i++) {
		const struct number *n = &numbers[i];
		unsigned long value;
		char *end;

		if (strcmp(n->key, key) != 0)
			continue;
		errno = 0;
		value = strtoul(text, &end, 10);
		if (errno != 0 || end == text || *end != '\0' || value < n->least || value > n->most ||
		    (n->power && (value & (value - 1)) != 0)) {
			ERROR("%s=%s: %s%u to %u is allowed\n", key, text, n->power ? "a power of two from " : "",
			      n->least, n->most);
			return -EINVAL;
		}
		*(uint32_t *)((char *)options + n->at) = (uint32_t)value;
		return 0;
	}
	return -EINVAL;
}

static int read_loss(const char *key, const char *text, void *options)
{
	struct options *o = options;
	char *end;

	o->loss = strtod(text, &end);
	/* Not a number is not between either. */
	if (end != text && *end == '\0' && o->loss >= 0 && o->loss <= LOSS_MOST)
		return 0;
	ERROR("%s=%s: a probability from 0 to %g is allowed\n", key, text, LOSS_MOST);
	return -EINVAL;
}

static int read_word(const char *key, const char *text, void *out)
{
	struct options *o = out;
	bool good = true;

	if (strcmp(key, "side") == 0) {
		o->side = strcmp(text, "wan") == 0 ? WAN : LAN;
		good = o->side == WAN || strcmp(text, "lan") == 0;
	} else if (strcmp(key, "data") == 0) {
		o->outward = strcmp(text, "in") != 0;
		o->inward = strcmp(text, "out") != 0;
		good = !(o->outward && o->inward) || strcmp(text, "both") == 0;
	} else if (strcmp(key, "peer") == 0) {
		o->peer = strcmp(text, "yes") == 0;
		good = o->peer || strcmp(text, "no") == 0;
	} else if (strcmp(key, "tunnel") == 0) {
		o->udp = strcmp(text, "udp") == 0;
		o->tunnel = o->udp || strcmp(text, "ethernet") == 0;
		good = o->tunnel || strcmp(text, "no") == 0;
	} else if (strcmp(key, "pool") == 0) {
		o->own_pool = strcmp(text, "own") == 0;
		good = o->own_pool || strcmp(text, "program") == 0;
	} else {
		good = strlen(text) < sizeof(o->counters);
		if (good)
			strcpy(o->counters, text);
	}
	if (!good)
		ERROR("%s=%s: allowed are side=lan|wan, data=out|in|both, peer=yes|no, tunnel=no|ethernet|udp, "
		      "pool=own|program, counters=FILE\n", key, text);
	return good ? 0 : -EINVAL;
}

bool options_read(const char *name, const char *args, struct options *o)
{
	static const char *const keys[] = { "side", "data", "peer", "tunnel", "pool", "counters", "payload", "flows",
					    "in_flight", "per_ack", "status_us", "pause_us", "threads", "queues", "port", "ports",
					    "lanes", "loss", "repaired", NULL };
	static const char *const words[] = { "side", "data", "peer", "tunnel", "pool", "counters", NULL };
	struct rte_kvargs *list = rte_kvargs_parse(args, keys);
	bool good = list != NULL && rte_kvargs_count(list, "side") == 1;

	*o = (struct options) {
		.payload = 1024, .flows = 64, .in_flight = 64, .per_ack = 1, .outward = true, .own_pool = true,
		.status_us = 500, .threads = 1, .queues = 1, .ports = 1, .lanes = 1,
	};
	for (size_t i = 0; good && words[i] != NULL; i++)
		good = rte_kvargs_process(list, words[i], read_word, o) == 0;
	for (size_t i = 0; good && i < RTE_DIM(numbers); i++)
		good = rte_kvargs_process(list, numbers[i].key, read_number, o) == 0;
	good = good && rte_kvargs_process(list, "loss", read_loss, o) == 0;
	if (good && o->loss > 0 && o->threads > 1) {
		ERROR("loss=%g: for threads=1 only\n", o->loss);
		good = false;
	}
	if (good && o->loss > 0 && !o->peer && !o->tunnel) {
		ERROR("loss=%g: needs peer=yes or a tunnel, since nobody else makes good for it\n", o->loss);
		good = false;
	}
	if (good && o->tunnel && (!o->own_pool || o->threads > 1)) {
		ERROR("tunnel: for pool=own and threads=1 only\n");
		good = false;
	}
	if (good && o->tunnel && o->peer && (o->loss > 0 || o->ports * o->lanes > 1)) {
		ERROR("peer=yes and a tunnel: for one lane and without loss only\n");
		good = false;
	}
	if (good && o->repaired > 0 && (!o->tunnel || !o->peer)) {
		ERROR("repaired=%u: for peer=yes and a tunnel only\n", o->repaired);
		good = false;
	}
	if (good && o->queues > 1 && (o->peer || o->threads > 1)) {
		ERROR("queues=%u: for peer=no and threads=1 only\n", o->queues);
		good = false;
	}
	if (good && (o->port >= o->ports || o->ports * o->lanes > LANES_MOST || (!o->tunnel && o->ports * o->lanes > 1))) {
		ERROR("port=%u, ports=%u, lanes=%u: at most %u lanes in all, of a tunnel, and a port below their number\n",
		      o->port, o->ports, o->lanes, (uint32_t)LANES_MOST);
		good = false;
	}
	if (good && (o->payload % 4 != 0)) {
		ERROR("payload=%u: a multiple of 4 is allowed\n", o->payload);
		good = false;
	}
	if (good)
		o->has_world = list->count > 1;
	else
		ERROR("%s: give side=lan or side=wan, and of one port: payload, flows, in_flight, per_ack, "
		      "data, peer, tunnel, pool, status_us, loss, pause_us, threads, queues, port, ports, lanes, repaired, counters\n", name);
	rte_kvargs_free(list);
	return good;
}
