/* Making and ending the world. */
#include "world.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <rte_log.h>
#include <rte_mempool.h>

#define ERROR(...) rte_log(RTE_LOG_ERR, RTE_LOGTYPE_PMD, "net_traffic: " __VA_ARGS__)

static uint64_t power_above(uint64_t n)
{
	uint64_t power = 1;

	while (power < n)
		power *= 2;
	return power;
}

static bool stream_init(struct stream *s, enum stream_id id, uint32_t flows, const struct options *o)
{
	const uint32_t in_flight = o->in_flight;
	/* A burst more than may wait. */
	const uint64_t acks = power_above((uint64_t)in_flight + flows + 4096);
	const uint64_t jobs = power_above(8ull * flows + 65536);

	*s = (struct stream) { .id = id, .flows = flows, .scramble = 0x2545f491u + id };
	if (flows == 0)
		return true;
	s->delivered = calloc(flows, sizeof(*s->delivered));
	s->met = calloc((flows + 63) / 64, sizeof(*s->met));
	s->joined = calloc((flows + 63) / 64, sizeof(*s->joined));
	s->acks = (struct acks) { .at = calloc(acks, sizeof(struct ack)), .mask = acks - 1 };
	s->jobs = (struct jobs) { .at = calloc(jobs, sizeof(struct job)), .mask = jobs - 1 };
	/* What goes out at several ports arrives in any order, which the memory of losses puts right. */
	if (o->loss > 0 || (o->ports > 1 && id == OUTWARD)) {
		s->loss = loss_new(o->loss, flows, in_flight, o->per_ack, id == OUTWARD);
		s->resends = (struct jobs) { .at = calloc(jobs, sizeof(struct job)), .mask = jobs - 1 };
		if (s->loss == NULL || s->resends.at == NULL)
			return false;
	}
	return s->delivered != NULL && s->met != NULL && s->joined != NULL &&
	       s->acks.at != NULL && s->jobs.at != NULL;
}

/* The same of the other gateway for all queues. */
static uint64_t boot_id(void)
{
	static uint64_t id;
	struct timespec wall;

	if (id == 0) {
		clock_gettime(CLOCK_REALTIME, &wall);
		id = (uint64_t)wall.tv_sec * 1000000000u + (uint64_t)wall.tv_nsec;
	}
	return id;
}

/* The first queue's counters have the name that was given, others a number behind it. */
static struct counter_page *open_page(const char *path, uint32_t queue, uint64_t hz)
{
	char name[COUNTERS_PATH + 16];

	snprintf(name, sizeof(name), queue == 0 ? "%s" : "%s.%u", path, queue);
	return counters_open(name, hz);
}

struct world *world_new(const struct options *o, uint32_t queue)
{
	const uint64_t hz = rte_get_tsc_hz();
	struct world *w = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN(sizeof(*w), RTE_CACHE_LINE_SIZE));
	const struct tunnel_options tunnel = {
		.udp = o->udp, .lossy = o->loss > 0, .ports = o->ports, .lanes = o->lanes, .tunnels = o->queues,
	};
	uint32_t flows = o->outward && o->inward ? RTE_MAX(o->flows / 2, 1u) : o->flows;

	if (w == NULL)
		return NULL;
	memset(w, 0, sizeof(*w));
	crc_init();
	w->queue = queue;
	w->ports = o->ports;
	w->in_flight = o->in_flight;
	w->repaired = o->repaired;
	w->status_ticks = o->status_us * hz / 1000000;
	w->pause = o->pause_us * hz / 1000000;
	w->threads = o->threads;
	rte_spinlock_init(&w->lock);
	w->own_pool = o->own_pool;
	w->peer.present = o->peer;
	w->peer.boot = boot_id();
	w->peer.tick_ns_16 = (1000000000ull << 16) / hz;
	if (!frames_init(&w->frames, o->payload, o->per_ack, queue, o->queues) ||
	    !stream_init(&w->streams[OUTWARD], OUTWARD, o->outward ? flows : 0, o) ||
	    !stream_init(&w->streams[INWARD], INWARD, o->inward ? flows : 0, o) ||
	    (o->tunnel && (w->tunnel = tunnel_new(w->peer.boot, &tunnel, queue)) == NULL)) {
		ERROR("no memory for %u flows with %u frames in flight\n", o->flows, o->in_flight);
		world_free(w);
		return NULL;
	}
	if (o->counters[0] != '\0' && (w->page = open_page(o->counters, queue, hz)) == NULL) {
		ERROR("counters=%s: %s\n", o->counters, strerror(errno));
		world_free(w);
		return NULL;
	}
	return w;
}

void world_free(struct world *w)
{
	for (enum stream_id s = 0; s < STREAMS; s++) {
		free(w->streams[s].delivered);
		free(w->streams[s].met);
		free(w->streams[s].joined);
		free(w->streams[s].acks.at);
		free(w->streams[s].jobs.at);
		free(w->streams[s].resends.at);
		loss_free(w->streams[s].loss);
	}
	if (w->page != NULL) {
		counters_publish(w->page, &w->count);
		counters_close(w->page);
	}
	tunnel_free(w->tunnel);
	rte_mempool_free(w->others);
	free(w);
}

static void fill(struct rte_mempool *pool, void *frames, void *object, unsigned int index)
{
	const struct frames *f = frames;
	struct rte_mbuf *m = object;

	(void)pool;
	(void)index;
	memcpy((uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM, f->whole, f->data_bytes);
}

int world_attach(struct world *w, enum side side, uint32_t of_wan, struct rte_mempool *pool, uint16_t port,
		 unsigned int socket)
{
	char name[RTE_MEMPOOL_NAMESIZE];
	const uint32_t room = rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;

	if (room < RTE_MAX(w->frames.data_bytes, (uint32_t)CM_BYTES)) {
		ERROR("frames have %u bytes, the buffers %u\n", w->frames.data_bytes, room);
		return -EINVAL;
	}
	snprintf(name, sizeof(name), "net_traffic_others%u", w->queue);
	if (w->own_pool && w->others == NULL)
		w->others = rte_pktmbuf_pool_create(name, 16383, 256, 0,
						    RTE_PKTMBUF_HEADROOM + MESSAGE_BYTES, (int)socket);
	if (w->own_pool && w->others == NULL) {
		ERROR("no memory for 16383 mbufs of its own\n");
		return -ENOMEM;
	}
	if (w->rx[!side].pool != pool)
		rte_mempool_obj_iter(pool, fill, &w->frames);
	w->rx[side].pool = pool;
	w->rx[side].port = port;
	if (side == WAN)
		w->wan_port[of_wan] = port;
	return 0;
}
