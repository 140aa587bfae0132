/* Making and ending the world. */
#ifndef WORLD_H
#define WORLD_H

#include "options.h"
#include "traffic.h"

/* The world behind one queue of each port. NULL, with a line in the log, if it can't be had. */
struct world *world_new(const struct options *options, uint32_t queue);
void world_free(struct world *world);

/* The pool from which the frames of a port come, of the WAN of that one: all its buffers are filled with what
 * data frames have in common. Zero or a negative errno. */
int world_attach(struct world *world, enum side side, uint32_t of_wan, struct rte_mempool *pool, uint16_t port,
		 unsigned int socket);

#endif
