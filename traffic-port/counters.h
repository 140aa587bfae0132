/* What the port counts, and the page in which others read it. */
#ifndef COUNTERS_H
#define COUNTERS_H

#include <stdint.h>

/* name. Since the start, and as told by the port: what came in is what the
 * program under test received. */
#define COUNTERS(X) \
	/* Time stamp counter at the last update; of it, in the port's own code. */ \
	X(tsc) X(port_cycles) \
	/* Bursts that the program asked for, and those that were not empty. */ \
	X(rx_calls) X(rx_busy) \
	/* Times that another thread than before came. */ \
	X(thread_changes) \
	X(in_data) X(in_acks) X(in_control) X(in_cm) \
	X(out_data) X(out_data_bytes) X(out_acks) X(out_control) X(out_cm) \
	/* Queue pairs: connected, announced by a SYNC (out), answered with a STATUS (in). */ \
	X(connected) X(announced) X(answered) \
	/* Data frames that the far side has not acknowledged, and the way there and
	 * back in ticks of the time stamp counter. */ \
	X(in_flight) X(round_trip) \
	/* Frames that were looked at as a whole. */ \
	X(verified) \
	/* Errors, all of them: packets out of order or behind; NAKs and gaps told, though
	 * nothing was lost; queues that were full, buffers that were not there. */ \
	X(out_repeats) X(naks) X(gaps_heard) \
	X(bad_order) X(bad_length) X(bad_flow) X(bad_icrc) X(bad_control) X(foreign) \
	X(unexpected) X(no_mbuf)

struct counters {
#define X(name) uint64_t name;
	COUNTERS(X)
#undef X
};

#define COUNTER_NAME 24

/* The page: a reader takes it if `version` is even and the same before and
 * after. */
struct counter_page {
	char magic[8];
	uint64_t version;
	uint64_t count;
	uint64_t tsc_hz;
	struct { char name[COUNTER_NAME]; uint64_t value; } slots[];
};

/* Makes the file and maps it. NULL, with errno, if that fails. */
struct counter_page *counters_open(const char *path, uint64_t tsc_hz);
void counters_publish(struct counter_page *page, const struct counters *counters);
void counters_close(struct counter_page *page);

#endif
