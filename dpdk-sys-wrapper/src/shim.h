/* What Rust cannot call directly: DPDK's inline functions, macros and
 * thread-locals, grouped so that the data path pays one call per burst. */
#ifndef LR2_SHIM_H
#define LR2_SHIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>
#include <rte_version.h>

/* Macros with casts, which bindgen leaves out. */
static const unsigned int LR2_LCORE_ID_ANY = LCORE_ID_ANY;
static const int LR2_SOCKET_ID_ANY = SOCKET_ID_ANY;
static const uint64_t LR2_RSS_IP = RTE_ETH_RSS_IP;
static const uint64_t LR2_RSS_UDP = RTE_ETH_RSS_UDP;

/* Received frames that did not come as one private, direct mbuf. */
struct lr2_rx_repairs {
	uint64_t flattened; /* made into one private mbuf */
	uint64_t too_long;  /* freed: longer than one mbuf holds */
	uint64_t no_mbuf;   /* freed: the pool was dry */
};

typedef void (*lr2_log_sink)(uint32_t level, const char *text, size_t len);

/* The calling thread's rte_errno. */
int lr2_errno(void);
/* Sends everything DPDK logs to `sink`. 0, or -1 if there is no memory. */
int lr2_log_redirect(lr2_log_sink sink);
/* The calling thread's lcore id, LR2_LCORE_ID_ANY if it has none. */
unsigned int lr2_lcore_id(void);
uint64_t lr2_tsc(void);
/* Entry i of the port's redirection table: queue i % buckets % queues.
 * 0, or the driver's refusal. */
int lr2_redirect(uint16_t port, uint16_t entries, uint16_t buckets, uint16_t queues);

/* Receives up to `n` frames; those kept are single, direct, unshared mbufs. */
uint16_t lr2_rx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **pkts, uint16_t n,
		      struct rte_mempool *pool, struct lr2_rx_repairs *repairs);
uint16_t lr2_tx_burst(uint16_t port, uint16_t queue, struct rte_mbuf **pkts, uint16_t n);

/* NULL if the pool is dry. */
struct rte_mbuf *lr2_alloc(struct rte_mempool *pool);
/* Free mbufs in the store that all threads share, those in caches not counted. */
/* The operations of the store that pools are made with: store.c. */
const char *lr2_store_name(void);
unsigned int lr2_in_store(const struct rte_mempool *pool);
void lr2_free(struct rte_mbuf *m);
/* Takes one reference from each. */
void lr2_free_bulk(struct rte_mbuf **pkts, unsigned int n);
/* The same of pointers some of which may be NULL. Leaves NULL in their place, and returns how
 * many there were. */
size_t lr2_free_some(struct rte_mbuf **pkts, size_t n);
/* One more owner. Ends the process rather than let the count wrap. */
void lr2_ref(struct rte_mbuf *m);
uint16_t lr2_refcnt(const struct rte_mbuf *m);
/* A private copy out of the pool that `m` came from; NULL if that is dry. */
struct rte_mbuf *lr2_copy(const struct rte_mbuf *m);

/* Bytes of memory that one element of this data room takes in a pool. */
size_t lr2_element_bytes(uint16_t data_room);

#endif
