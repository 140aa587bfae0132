/* What a driver has to know of DPDK 22.11, as far as this one uses it.
 *
 * Debian's libdpdk-dev has the libraries that drivers register with, and none of
 * the headers: those stay in DPDK's source tree (`enable_driver_sdk`). The
 * declarations here say what the binary interface of the 22.11 series is; the
 * part of a structure behind the last member that is used is left out. They are
 * checked where they can be: the release at compile time, below, and the places
 * of members against what the libraries say when the port is made (port.c).
 */
#ifndef ETHDEV_22_11_H
#define ETHDEV_22_11_H

#include <rte_config.h>
#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_version.h>

#if RTE_VER_YEAR != 22 || RTE_VER_MONTH != 11
#error "the traffic port knows the driver interface of DPDK 22.11 only"
#endif

struct rte_driver {
	struct { struct rte_driver *next, **prev; } next;
	const char *name;
	const char *alias;
};

struct rte_device {
	struct { struct rte_device *next, **prev; } next;
	const char *name;
	const char *bus_info;
	const struct rte_driver *driver;
	const struct rte_bus *bus;
	int numa_node;
	struct rte_devargs *devargs;
};

struct rte_vdev_device {
	struct { struct rte_vdev_device *next, **prev; } next;
	struct rte_device device;
};

struct rte_vdev_driver {
	struct { struct rte_vdev_driver *next, **prev; } next;
	struct rte_driver driver;
	int (*probe)(struct rte_vdev_device *dev);
	int (*remove)(struct rte_vdev_device *dev);
	void *dma_map;
	void *dma_unmap;
	uint32_t drv_flags;
};

struct rte_eth_dev_data {
	char name[RTE_ETH_NAME_MAX_LEN];
	void **rx_queues;
	void **tx_queues;
	uint16_t nb_rx_queues;
	uint16_t nb_tx_queues;
	struct { uint8_t active, queues_per_pool; uint16_t vmdq, queue; } sriov;
	void *dev_private;
	struct rte_eth_link dev_link;
	struct rte_eth_conf dev_conf;
	uint16_t mtu;
	uint32_t min_rx_buf_size;
	uint64_t rx_mbuf_alloc_failed;
	struct rte_ether_addr *mac_addrs;
	uint64_t mac_pool_sel[RTE_ETH_NUM_RECEIVE_MAC_ADDR];
	struct rte_ether_addr *hash_mac_addrs;
	uint16_t port_id;
};

struct rte_eth_dev {
	uint16_t (*rx_pkt_burst)(void *queue, struct rte_mbuf **frames, uint16_t n);
	uint16_t (*tx_pkt_burst)(void *queue, struct rte_mbuf **frames, uint16_t n);
	void *tx_pkt_prepare;
	void *rx_queue_count;
	void *rx_descriptor_status;
	void *tx_descriptor_status;
	struct rte_eth_dev_data *data;
	void *process_private;
	const struct eth_dev_ops *dev_ops;
	struct rte_device *device;
};

typedef int ethdev_op(struct rte_eth_dev *dev);

/* Operations in their order; those that are not here are null. There are more
 * behind the last one: the library finds null in their places too. */
struct eth_dev_ops {
	ethdev_op *dev_configure;
	ethdev_op *dev_start;
	ethdev_op *dev_stop;
	void *link_up_down[2];
	ethdev_op *dev_close;
	void *dev_reset;
	int (*link_update)(struct rte_eth_dev *dev, int wait);
	void *is_removed;
	ethdev_op *promiscuous[2];
	ethdev_op *allmulticast[2];
	void *mac_addr_remove_add[2];
	int (*mac_addr_set)(struct rte_eth_dev *dev, struct rte_ether_addr *mac);
	void *set_mc_addr_list;
	int (*mtu_set)(struct rte_eth_dev *dev, uint16_t mtu);
	int (*stats_get)(struct rte_eth_dev *dev, struct rte_eth_stats *stats);
	ethdev_op *stats_reset;
	void *xstats[4];
	int (*dev_infos_get)(struct rte_eth_dev *dev, struct rte_eth_dev_info *info);
	void *info_and_vlan[12];
	void *queue_start_stop[4];
	int (*rx_queue_setup)(struct rte_eth_dev *dev, uint16_t queue, uint16_t desc,
			      unsigned int socket, const struct rte_eth_rxconf *conf,
			      struct rte_mempool *pool);
	void *rx_queue_release;
	void *rx_interrupts[2];
	int (*tx_queue_setup)(struct rte_eth_dev *dev, uint16_t queue, uint16_t desc,
			      unsigned int socket, const struct rte_eth_txconf *conf);
	void *others[200];
};

void rte_vdev_register(struct rte_vdev_driver *driver);
struct rte_eth_dev *rte_eth_dev_allocate(const char *name);
struct rte_eth_dev *rte_eth_dev_allocated(const char *name);
void rte_eth_dev_probing_finish(struct rte_eth_dev *dev);
int rte_eth_dev_release_port(struct rte_eth_dev *dev);

#endif
