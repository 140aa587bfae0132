/* The arguments of a port. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "traffic.h"

struct options {
	enum side side;
	bool has_world; /* anything but `side` is given */
	uint32_t payload, flows, in_flight, per_ack;
	bool outward, inward, peer, tunnel, own_pool;
	uint32_t status_us;
	uint32_t pause_us, threads;
	double loss;
	char counters[256];
};

/* Reads "key=value,...". False, with a line in the log, if it can't be. */
bool options_read(const char *name, const char *args, struct options *options);

#endif
