/* The arguments of a port. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "traffic.h"

enum { COUNTERS_PATH = 256, QUEUES_MOST = 8 };

struct options {
	enum side side;
	bool has_world; /* anything but `side` is given */
	uint32_t payload, flows, in_flight, per_ack;
	bool outward, inward, peer, tunnel, udp, own_pool;
	uint32_t status_us;
	uint32_t pause_us, threads, queues;
	uint32_t repaired; /* pairs of hosts with a NAK */
	uint32_t port, ports, lanes; /* which of the WAN ports it is, how many there are, lanes of each */
	double loss;
	char counters[COUNTERS_PATH];
};

/* Reads "key=value,...". False, with a line in the log, if it can't be. */
bool options_read(const char *name, const char *args, struct options *options);

#endif
