/* net_traffic: a pair of ports with RoCEv2 traffic behind them.
 *
 * What DPDK wants of a driver is here; what the ports are for, in traffic.h.
 */
#include "ethdev_22_11.h"

#include <errno.h>
#include <stdlib.h>

#include <rte_log.h>
#include <rte_malloc.h>

#include "world.h"

#define ERROR(...) rte_log(RTE_LOG_ERR, RTE_LOGTYPE_PMD, "net_traffic: " __VA_ARGS__)

enum { QUEUES = 16, PAGE_EVERY_US = 1000, SHORT_EVERY_US = 1000, CLOCK_STEPS = 2048 };

/* Of a port. There is a world behind each receive queue; those beyond only transmit, into the first one, and only
 * their threads' time is their own. */
struct queue {
	struct port *port;
	uint16_t index;
	uint64_t counted[4]; /* frames and bytes in and out, for DPDK's own statistics */
	uint64_t next_short; /* when a burst is one frame short */
} __rte_cache_aligned;

struct port {
	enum side side;
	uint32_t of_wan; /* which of the WAN ports it is */
	struct queue queues[QUEUES];
	struct rte_ether_addr mac;
	uint64_t forgotten[4];
};

/* One per process: the ports of a pair, or a LAN port and several WAN ports, find each other without names. */
static struct {
	struct options options;
	struct world *world[QUEUES_MOST];
	struct port *port[1 + PORTS_MOST]; /* the LAN's, the WAN's */
	uint32_t started; /* one bit each */
} pair;

static uint32_t place_of(enum side side, uint32_t of_wan)
{
	return side == LAN ? 0 : 1 + of_wan;
}

static inline bool are_started(void)
{
	return pair.started == (2u << pair.options.ports) - 1;
}

static uint64_t bytes_of(struct rte_mbuf **frames, uint16_t n)
{
	uint64_t sum = 0;

	for (uint16_t i = 0; i < n; i++)
		sum += frames[i]->data_len;
	return sum;
}

/* The world is for one thread. It may be another than at the start, where the
 * program's main thread empties the queues; changes are counted. */
static inline void note_thread(struct world *w)
{
	static __thread char here;

	if (unlikely(w->thread != &here)) {
		w->thread = &here;
		w->count.thread_changes++;
	}
}

/* Two threads come one at a time, and the wait is the port's. */
static inline void enter(struct world *w)
{
	if (unlikely(w->threads > 1))
		rte_spinlock_lock(&w->lock);
	else
		note_thread(w);
}

static inline void leave(struct world *w)
{
	if (unlikely(w->threads > 1))
		rte_spinlock_unlock(&w->lock);
}

/* Ticks of the time stamp counter for so many rotations, each of which takes a cycle and waits for the one before. */
static uint64_t ticks_of(unsigned int steps)
{
	uint64_t x = 1, start = rte_rdtsc_precise();

#pragma GCC unroll 16
	for (unsigned int i = 0; i < steps; i++) {
		x = x << 7 | x >> 57;
		__asm__ volatile("" : "+r"(x));
	}
	return rte_rdtsc_precise() - start;
}

/* How fast the core's clock is next to the time stamp counter's. The difference of two counts leaves out what reading the
 * counter takes. Of two threads it is not known whose time that is. */
static void note_clock(struct world *w)
{
	uint64_t few, many;

	if (unlikely(w->threads > 1))
		return;
	few = ticks_of(CLOCK_STEPS / 2);
	many = ticks_of(CLOCK_STEPS * 3 / 2);
	w->count.port_cycles += few + many;
	/* Otherwise the core was taken away meanwhile. */
	if (few < many && few + many < 8 * CLOCK_STEPS) {
		w->count.clock_steps += CLOCK_STEPS;
		w->count.clock_ticks += many - few;
	}
}

static void publish(struct world *w, uint64_t now)
{
	const struct stream *out = &w->streams[OUTWARD], *in = &w->streams[INWARD];

	note_clock(w);
	w->next_page = now + PAGE_EVERY_US * rte_get_tsc_hz() / 1000000;
	w->count.round_trip = w->round_trip;
	w->count.in_flight = (out->acks.tail - out->acks.head + in->acks.tail - in->acks.head) * w->frames.per_ack;
	counters_publish(w->page, &w->count);
}

/* With two threads, each polls a port, and the program tells time with nothing to do apart. So the time of a poll
 * counts if something came in. */
static void note_poll(struct world *w, enum side side, uint64_t cycles, uint16_t given)
{
	if (given != 0)
		*(side == LAN ? &w->count.port_cycles : &w->count.port_cycles_1) += cycles;
}

static inline struct world *world_behind(const struct queue *queue)
{
	return pair.world[queue->index & (pair.options.queues - 1)];
}

static uint16_t rx_burst(void *from, struct rte_mbuf **frames, uint16_t n)
{
	const uint64_t start = rte_rdtsc();
	struct queue *queue = from;
	const struct port *port = queue->port;
	struct world *w = world_behind(queue);
	uint16_t given;

	if (unlikely(!are_started()))
		return 0;
	/* As from a queue that is emptied now and then. If each burst were full, the program would take itself for
	 * overloaded. */
	if (unlikely(start >= queue->next_short && n > 1)) {
		queue->next_short = start + SHORT_EVERY_US * rte_get_tsc_hz() / 1000000;
		n--;
	}
	enter(w);
	given = world_give(w, port->side, port->of_wan, frames, n);
	for (uint16_t i = 0; unlikely(w->ports > 1) && port->side == WAN && i < given; i++)
		frames[i]->port = w->wan_port[port->of_wan];
	queue->counted[0] += given;
	queue->counted[1] += bytes_of(frames, given);
	w->count.rx_calls++;
	w->count.rx_busy += given != 0;
	w->count.tsc = rte_rdtsc();
	if (likely(w->threads == 1))
		w->count.port_cycles += w->count.tsc - start;
	else
		note_poll(w, port->side, w->count.tsc - start, given);
	if (unlikely(start >= w->next_page) && w->page != NULL)
		publish(w, start);
	leave(w);
	return given;
}

static uint16_t tx_burst(void *to, struct rte_mbuf **frames, uint16_t n)
{
	const uint64_t start = rte_rdtsc();
	struct queue *queue = to;
	const struct port *port = queue->port;
	struct world *w = world_behind(queue);

	enter(w);
	queue->counted[2] += n;
	queue->counted[3] += bytes_of(frames, n);
	world_take(w, port->side, port->of_wan, frames, n);
	if (likely(queue->index == 0 || w->threads == 1))
		w->count.port_cycles += rte_rdtsc() - start;
	else
		w->count.port_cycles_1 += rte_rdtsc() - start;
	leave(w);
	return n;
}

static int nothing(struct rte_eth_dev *dev)
{
	(void)dev;
	return 0;
}

static int start(struct rte_eth_dev *dev)
{
	struct port *port = dev->data->dev_private;

	for (uint32_t q = 0; q < pair.options.queues; q++)
		if (pair.world[q] == NULL || pair.world[q]->rx[port->side].pool == NULL)
			return -EINVAL;
	dev->data->dev_link.link_status = RTE_ETH_LINK_UP;
	pair.started |= 1u << place_of(port->side, port->of_wan);
	return 0;
}

static int stop(struct rte_eth_dev *dev)
{
	struct port *port = dev->data->dev_private;

	dev->data->dev_link.link_status = RTE_ETH_LINK_DOWN;
	pair.started &= ~(1u << place_of(port->side, port->of_wan));
	return 0;
}

static int close_port(struct rte_eth_dev *dev)
{
	struct port *port = dev->data->dev_private;

	bool last = true;

	pair.port[place_of(port->side, port->of_wan)] = NULL;
	for (uint32_t i = 0; i < RTE_DIM(pair.port); i++)
		last &= pair.port[i] == NULL;
	for (uint32_t q = 0; last && q < QUEUES_MOST; q++) {
		if (pair.world[q] != NULL)
			world_free(pair.world[q]);
		pair.world[q] = NULL;
	}
	/* Part of dev_private, which the library frees. */
	dev->data->mac_addrs = NULL;
	return 0;
}

static int link_update(struct rte_eth_dev *dev, int wait)
{
	(void)dev;
	(void)wait;
	return 0;
}

static int set_mac(struct rte_eth_dev *dev, struct rte_ether_addr *mac)
{
	(void)dev;
	(void)mac;
	return 0;
}

static int set_mtu(struct rte_eth_dev *dev, uint16_t mtu)
{
	(void)dev;
	(void)mtu;
	return 0;
}

static void sum(const struct port *port, uint64_t counted[4])
{
	memset(counted, 0, 4 * sizeof(*counted));
	for (int q = 0; q < QUEUES; q++)
		for (int i = 0; i < 4; i++)
			counted[i] += port->queues[q].counted[i];
}

static int get_stats(struct rte_eth_dev *dev, struct rte_eth_stats *stats)
{
	const struct port *p = dev->data->dev_private;
	uint64_t counted[4];

	sum(p, counted);
	stats->ipackets = counted[0] - p->forgotten[0];
	stats->ibytes = counted[1] - p->forgotten[1];
	stats->opackets = counted[2] - p->forgotten[2];
	stats->obytes = counted[3] - p->forgotten[3];
	return 0;
}

static int reset_stats(struct rte_eth_dev *dev)
{
	struct port *p = dev->data->dev_private;

	sum(p, p->forgotten);
	return 0;
}

static int get_info(struct rte_eth_dev *dev, struct rte_eth_dev_info *info)
{
	(void)dev;
	info->max_mac_addrs = 1;
	info->max_rx_pktlen = 9618;
	info->max_mtu = 9600;
	info->max_rx_queues = (uint16_t)pair.options.queues;
	/* Open vSwitch wants one per thread. */
	info->max_tx_queues = QUEUES;
	return 0;
}

static int set_up_rx(struct rte_eth_dev *dev, uint16_t queue, uint16_t desc, unsigned int socket,
		     const struct rte_eth_rxconf *conf, struct rte_mempool *pool)
{
	struct port *port = dev->data->dev_private;

	(void)desc;
	(void)conf;
	if (pair.world[queue] == NULL && (pair.world[queue] = world_new(&pair.options, queue)) == NULL)
		return -ENOMEM;
	dev->data->rx_queues[queue] = &port->queues[queue];
	return world_attach(pair.world[queue], port->side, port->of_wan, pool, dev->data->port_id, socket);
}

static int set_up_tx(struct rte_eth_dev *dev, uint16_t queue, uint16_t desc, unsigned int socket,
		     const struct rte_eth_txconf *conf)
{
	struct port *port = dev->data->dev_private;

	(void)desc;
	(void)socket;
	(void)conf;
	dev->data->tx_queues[queue] = &port->queues[queue];
	return 0;
}

static const struct eth_dev_ops ops = {
	.dev_configure = nothing,
	.dev_start = start,
	.dev_stop = stop,
	.dev_close = close_port,
	.link_update = link_update,
	.promiscuous = { nothing, nothing },
	.allmulticast = { nothing, nothing },
	.mac_addr_set = set_mac,
	.mtu_set = set_mtu,
	.stats_get = get_stats,
	.stats_reset = reset_stats,
	.dev_infos_get = get_info,
	.rx_queue_setup = set_up_rx,
	.tx_queue_setup = set_up_tx,
};

/* Whether members are where this driver takes them to be, as far as it shows. */
static bool is_as_declared(const struct rte_eth_dev *dev, const char *name)
{
	return strcmp(dev->data->name, name) == 0 && rte_eth_dev_allocated(name) == dev &&
	       dev->data->port_id < RTE_MAX_ETHPORTS && dev->data->mtu == RTE_ETHER_MTU &&
	       dev->data->dev_private == NULL;
}

static int probe(struct rte_vdev_device *vdev)
{
	const char *name = vdev->device.name;
	struct options options;
	struct rte_eth_dev *dev;
	struct port *port;

	if (!options_read(name, vdev->device.devargs != NULL ? vdev->device.devargs->args : "", &options))
		return -EINVAL;
	if (pair.port[place_of(options.side, options.port)] != NULL) {
		ERROR("%s: there is such a port already, and one of each is all there can be\n", name);
		return -EEXIST;
	}
	dev = rte_eth_dev_allocate(name);
	if (dev == NULL)
		return -ENOMEM;
	if (!is_as_declared(dev, name)) {
		ERROR("this DPDK (%s) is not laid out as the driver takes 22.11 to be\n", rte_version());
		rte_eth_dev_release_port(dev);
		return -ENOTSUP;
	}
	port = rte_zmalloc(name, sizeof(*port), RTE_CACHE_LINE_SIZE);
	if (port == NULL) {
		rte_eth_dev_release_port(dev);
		return -ENOMEM;
	}
	port->side = options.side;
	port->of_wan = options.side == WAN ? options.port : 0;
	for (uint16_t i = 0; i < QUEUES; i++)
		port->queues[i] = (struct queue) { .port = port, .index = i };
	port->mac = (struct rte_ether_addr) { { 2, 0, 0, 0, 1, (uint8_t)place_of(options.side, port->of_wan) } };
	pair.port[place_of(options.side, port->of_wan)] = port;
	if (options.has_world)
		pair.options = options;
	else if (pair.options.payload == 0)
		pair.options = options;
	dev->device = &vdev->device;
	dev->data->dev_private = port;
	dev->data->mac_addrs = &port->mac;
	dev->data->dev_link = (struct rte_eth_link) {
		.link_speed = RTE_ETH_SPEED_NUM_100G, .link_duplex = RTE_ETH_LINK_FULL_DUPLEX,
	};
	dev->dev_ops = &ops;
	dev->rx_pkt_burst = rx_burst;
	dev->tx_pkt_burst = tx_burst;
	rte_eth_dev_probing_finish(dev);
	return 0;
}

static int remove_port(struct rte_vdev_device *vdev)
{
	struct rte_eth_dev *dev = rte_eth_dev_allocated(vdev->device.name);

	/* Closed ports are gone already. */
	if (dev == NULL)
		return 0;
	close_port(dev);
	return rte_eth_dev_release_port(dev);
}

static struct rte_vdev_driver driver = {
	.driver = { .name = "net_traffic" },
	.probe = probe,
	.remove = remove_port,
};

RTE_INIT(net_traffic_register)
{
	rte_vdev_register(&driver);
}
