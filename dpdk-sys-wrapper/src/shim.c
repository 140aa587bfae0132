#define _GNU_SOURCE
#include "shim.h"

#include <stdio.h>
#include <stdlib.h>

#include <rte_branch_prediction.h>
#include <rte_cycles.h>
#include <rte_log.h>
#include <rte_prefetch.h>

/* Far above what a gateway holds of one frame, far below the 16 bits of the
 * count even if many threads pass the check at once. */
#define MAX_OWNERS 0xc000

int lr2_errno(void)
{
	return rte_errno;
}

static lr2_log_sink log_sink;

static ssize_t log_write(void *cookie, const char *text, size_t len)
{
	(void)cookie;
	log_sink((uint32_t)rte_log_cur_msg_loglevel(), text, len);
	return (ssize_t)len;
}

int lr2_log_redirect(lr2_log_sink sink)
{
	cookie_io_functions_t io = { .write = log_write };
	FILE *stream;

	log_sink = sink;
	stream = fopencookie(NULL, "w", io);
	if (stream == NULL)
		return -1;
	return rte_openlog_stream(stream);
}

unsigned int lr2_lcore_id(void)
{
	return rte_lcore_id();
}

uint64_t lr2_tsc(void)
{
	return rte_rdtsc();
}

int lr2_redirect(uint16_t port, uint16_t entries, uint16_t buckets, uint16_t queues)
{
	struct rte_eth_rss_reta_entry64 groups[4096 / RTE_ETH_RETA_GROUP_SIZE];

	if (entries > 4096)
		return -ENOTSUP;
	memset(groups, 0, sizeof(groups));
	for (uint16_t i = 0; i < entries; i++) {
		struct rte_eth_rss_reta_entry64 *group = &groups[i / RTE_ETH_RETA_GROUP_SIZE];

		group->mask |= UINT64_C(1) << i % RTE_ETH_RETA_GROUP_SIZE;
		group->reta[i % RTE_ETH_RETA_GROUP_SIZE] = i % buckets % queues;
	}
	return rte_eth_dev_rss_reta_update(port, groups, entries);
}

static bool is_plain(const struct rte_mbuf *m)
{
	return m->nb_segs == 1 && RTE_MBUF_DIRECT(m) && rte_mbuf_refcnt_read(m) == 1;
}

/* Takes `m`; returns a plain mbuf with its bytes, or NULL. */
static struct rte_mbuf *flatten(struct rte_mbuf *m, struct rte_mempool *pool,
				struct lr2_rx_repairs *repairs)
{
	const uint32_t room = rte_pktmbuf_data_room_size(pool) - RTE_PKTMBUF_HEADROOM;
	struct rte_mbuf *copy;

	if (RTE_MBUF_DIRECT(m) && rte_mbuf_refcnt_read(m) == 1 && rte_pktmbuf_linearize(m) == 0) {
		repairs->flattened++;
		return m;
	}
	if (rte_pktmbuf_pkt_len(m) > room) {
		repairs->too_long++;
		rte_pktmbuf_free(m);
		return NULL;
	}
	copy = rte_pktmbuf_copy(m, pool, 0, UINT32_MAX);
	if (copy == NULL)
		repairs->no_mbuf++;
	else
		repairs->flattened++;
	rte_pktmbuf_free(m);
	return copy;
}

uint16_t lr2_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **pkts, uint16_t n,
		      struct rte_mempool *pool, struct lr2_rx_repairs *repairs)
{
	uint16_t got = rte_eth_rx_burst(port, queue, pkts, n);
	uint16_t kept = 0;

	for (uint16_t i = 0; i < got; i++) {
		struct rte_mbuf *m = pkts[i];

		if (unlikely(!is_plain(m))) {
			m = flatten(m, pool, repairs);
			if (m == NULL)
				continue;
		}
		rte_prefetch0(rte_pktmbuf_mtod(m, void *));
		pkts[kept++] = m;
	}
	return kept;
}

uint16_t lr2_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **pkts, uint16_t n)
{
	return rte_eth_tx_burst(port, queue, pkts, n);
}

struct rte_mbuf *lr2_alloc(struct rte_mempool *pool)
{
	return rte_pktmbuf_alloc(pool);
}

unsigned int lr2_in_store(const struct rte_mempool *pool)
{
	return rte_mempool_get_ops(pool->ops_index)->get_count(pool);
}

void lr2_free(struct rte_mbuf *m)
{
	rte_pktmbuf_free(m);
}

/* Frames that go back to their pool together. */
#define FREED_AT_ONCE 64
/* Frames that are fetched ahead of the one that is freed. */
#define AHEAD 16

/* Those that go back to one pool together. */
struct freed {
	struct rte_mempool *pool;
	unsigned int count;
	void *frames[FREED_AT_ONCE];
};

static void freed_flush(struct freed *freed)
{
	if (freed->count > 0)
		rte_mempool_put_bulk(freed->pool, freed->frames, freed->count);
	freed->count = 0;
}

/* As rte_pktmbuf_free_bulk, but it does not look into the second cache line of a
 * frame of one segment: DPDK keeps `next` NULL there, and so does flatten(). */
static inline void freed_add(struct freed *freed, struct rte_mbuf *m)
{
	if (unlikely(!is_plain(m))) {
		rte_pktmbuf_free(m);
		return;
	}
	if (unlikely(freed->count == FREED_AT_ONCE || m->pool != freed->pool)) {
		freed_flush(freed);
		freed->pool = m->pool;
	}
	freed->frames[freed->count++] = m;
}

void lr2_free_bulk(struct rte_mbuf **pkts, unsigned int n)
{
	struct freed freed;

	freed.pool = NULL;
	freed.count = 0;
	for (unsigned int i = 0; i < n; i++)
		freed_add(&freed, pkts[i]);
	freed_flush(&freed);
}

size_t lr2_free_some(struct rte_mbuf **pkts, size_t n)
{
	struct freed freed;
	size_t count = 0;

	freed.pool = NULL;
	freed.count = 0;
	for (size_t i = 0; i < n && i < AHEAD; i++)
		rte_prefetch0(pkts[i]);
	for (size_t i = 0; i < n; i++) {
		struct rte_mbuf *m = pkts[i];

		if (i + AHEAD < n)
			rte_prefetch0(pkts[i + AHEAD]);
		if (unlikely(m == NULL))
			continue;
		pkts[i] = NULL;
		count++;
		freed_add(&freed, m);
	}
	freed_flush(&freed);
	return count;
}

void lr2_ref(struct rte_mbuf *m)
{
	if (unlikely(rte_mbuf_refcnt_update(m, 1) > MAX_OWNERS)) {
		fputs("fatal: an mbuf has more owners than its count can hold\n", stderr);
		abort();
	}
}

uint16_t lr2_refcnt(const struct rte_mbuf *m)
{
	return rte_mbuf_refcnt_read(m);
}

struct rte_mbuf *lr2_copy(const struct rte_mbuf *m)
{
	return rte_pktmbuf_copy(m, m->pool, 0, UINT32_MAX);
}

size_t lr2_element_bytes(uint16_t data_room)
{
	struct rte_mempool_objsz size;

	return rte_mempool_calc_obj_size(
		(uint32_t)(sizeof(struct rte_mbuf) + RTE_PKTMBUF_HEADROOM + data_room), 0, &size);
}
