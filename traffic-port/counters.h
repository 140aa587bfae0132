/* The port's counters, and the page in which others read it. */
#ifndef COUNTERS_H
#define COUNTERS_H

#include <stdint.h>

/* name. Since the start, and as told by the port: what came in is what the
 * program under test received. */
#define COUNTERS(X) \
	/* Time stamp counter at the last update; of it, in the port's own code, by the
	 * queue of the thread that came: at most two may. */ \
	X(tsc) X(port_cycles) X(port_cycles_1) \
	/* Rotations that the port ran to measure the core's clock, one cycle each, and the
	 * ticks of the time stamp counter that they took. */ \
	X(clock_steps) X(clock_ticks) \
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
	/* Data packets that the long haul lost, and those of the other gateway that came
	 * in again; turns of flows that had too much outstanding; sources that went back
	 * as a NAK said; STATUS that the program was told, and that it told, with gaps. */ \
	X(lost) X(in_resent) X(stalled) X(rewinds) X(gaps_told) X(gaps_heard) \
	/* Where data comes now and then: how long packets took, from when they were to
	 * come in until they went out; how many took no longer than that. */ \
	X(waits) X(wait_ns) X(wait_most_ns) WAITS(X) \
	/* Errors, unless something was lost: packets that had gone out before; NAKs. */ \
	X(out_repeats) X(naks) \
	/* Errors: packets out of order, ACKs and NAKs that claim what was not delivered,
	 * queues that were full, buffers that were not there, and so on. */ \
	X(bad_order) X(bad_claim) X(bad_length) X(bad_flow) X(bad_icrc) X(bad_control) X(foreign) \
	X(unexpected) X(no_mbuf)

/* Microseconds. */
#define WAITS(X) X(wait_1us) X(wait_2us) X(wait_5us) X(wait_10us) X(wait_20us) X(wait_40us) X(wait_60us) \
	X(wait_80us) X(wait_100us) X(wait_150us) X(wait_200us) X(wait_500us) X(wait_1000us)

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
