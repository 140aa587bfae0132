/* The least that holding frames costs: swaps MAC addresses between two ports, and
 * keeps one more reference of each of the last N data frames that went from the
 * first to the second. What `cached` recovery is measured against.
 *
 * hold [EAL options] -- N
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <rte_branch_prediction.h>
#include <rte_eal.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

enum { BURST = 32, ROOM = 4096 + 256, DESCRIPTORS = 1024 };

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static void open_port(uint16_t port, struct rte_mempool *pool)
{
	struct rte_eth_conf conf = { .rxmode.mtu = ROOM - RTE_ETHER_HDR_LEN };

	if (rte_eth_dev_configure(port, 1, 1, &conf) != 0 ||
	    rte_eth_rx_queue_setup(port, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL, pool) != 0 ||
	    rte_eth_tx_queue_setup(port, 0, DESCRIPTORS, SOCKET_ID_ANY, NULL) != 0 ||
	    rte_eth_dev_start(port) != 0)
		rte_exit(2, "hold: port %u can't be opened\n", port);
}

static void swap_macs(struct rte_mbuf *m)
{
	struct rte_ether_hdr *ether = rte_pktmbuf_mtod(m, struct rte_ether_hdr *);
	struct rte_ether_addr source = ether->src_addr;

	ether->src_addr = ether->dst_addr;
	ether->dst_addr = source;
}

static void transmit(uint16_t port, struct rte_mbuf **frames, uint16_t n)
{
	uint16_t sent = 0;

	while (sent < n)
		sent += rte_eth_tx_burst(port, 0, frames + sent, n - sent);
}

/* Frames come and go in bursts, so places are counted, not compared one by one. */
static uint64_t hold(struct rte_mbuf **held, uint32_t places, uint64_t next, struct rte_mbuf **frames, uint16_t n)
{
	for (uint16_t i = 0; i < n; i++, next++) {
		struct rte_mbuf **place = &held[next % places];

		if (likely(*place != NULL))
			rte_pktmbuf_free_seg(*place);
		rte_mbuf_refcnt_update(frames[i], 1);
		*place = frames[i];
	}
	return next;
}

int main(int argc, char **argv)
{
	struct rte_mbuf *frames[BURST];
	struct rte_mempool *pool;
	struct rte_mbuf **held;
	unsigned long places;
	uint64_t next = 0;
	int used = rte_eal_init(argc, argv);

	if (used < 0 || argc - used != 2)
		rte_exit(2, "hold: give EAL options, --, and how many frames to hold\n");
	places = strtoul(argv[used + 1], NULL, 10);
	if (places > 1 << 20 || rte_eth_dev_count_avail() != 2)
		rte_exit(2, "hold: at most %d frames, and two ports\n", 1 << 20);
	held = calloc(places + 1, sizeof(*held));
	pool = rte_pktmbuf_pool_create("frames", (unsigned int)places + 16383, 256, 0,
				       RTE_PKTMBUF_HEADROOM + ROOM, SOCKET_ID_ANY);
	if (held == NULL || pool == NULL)
		rte_exit(2, "hold: no memory for %lu mbufs\n", places + 16383);
	signal(SIGTERM, stop);
	signal(SIGINT, stop);
	for (uint16_t port = 0; port < 2; port++)
		open_port(port, pool);
	while (!stopped) {
		for (uint16_t port = 0; port < 2; port++) {
			const uint16_t n = rte_eth_rx_burst(port, 0, frames, BURST);

			for (uint16_t i = 0; i < n; i++)
				swap_macs(frames[i]);
			if (places != 0 && port == 0)
				next = hold(held, (uint32_t)places, next, frames, n);
			transmit(!port, frames, n);
		}
	}
	for (unsigned long i = 0; i < places; i++)
		rte_pktmbuf_free(held[i]);
	for (uint16_t port = 0; port < 2; port++) {
		rte_eth_dev_stop(port);
		rte_eth_dev_close(port);
	}
	rte_eal_cleanup();
	return 0;
}
