/* The store of a mempool: its free mbufs, but for those in the caches of threads.
 *
 * There are several stacks. A thread frees into one and takes from it first, so that it gets again what it freed last,
 * whose lines are in its core's cache, and shares no line with other threads. Where its stack is full or empty, it goes
 * to another one. Nobody waits for a lock: who finds a stack locked goes to the next one, so that a thread which is
 * descheduled meanwhile holds up nobody.
 */
#include "shim.h"

#include <string.h>

#include <rte_lcore.h>
#include <rte_malloc.h>
#include <rte_spinlock.h>

/* How often a thread that finds too few goes round again while some stack is locked: some microseconds, in which the one who
 * has the lock copies a burst of pointers. */
#define ROUNDS 32

/* More than one thread may have the same one. */
#define STACKS 8

struct stack {
	rte_spinlock_t lock;
	unsigned int count;
	void **objects;
} __rte_cache_aligned;

struct store {
	/* Of each stack; all together have room for more than there are. */
	unsigned int room;
	struct stack stacks[STACKS];
};

/* Of this thread: the stack that it turns to after `turn` others. */
static struct stack *stack_at(struct store *store, unsigned int turn)
{
	/* Far from those that neighbours turn to. */
	static const unsigned int order[STACKS] = { 0, 4, 2, 6, 1, 5, 3, 7 };

	return &store->stacks[(rte_lcore_id() % STACKS) ^ order[turn % STACKS]];
}

static int store_enqueue(struct rte_mempool *pool, void *const *objects, unsigned int n)
{
	struct store *store = pool->pool_data;

	for (unsigned int turn = 0; n > 0; turn++) {
		struct stack *stack = stack_at(store, turn);
		unsigned int part;

		if (!rte_spinlock_trylock(&stack->lock))
			continue;
		part = RTE_MIN(n, store->room - stack->count);
		memcpy(stack->objects + stack->count, objects, part * sizeof(*objects));
		__atomic_store_n(&stack->count, stack->count + part, __ATOMIC_RELAXED);
		rte_spinlock_unlock(&stack->lock);
		objects += part;
		n -= part;
	}
	return 0;
}

static int store_dequeue(struct rte_mempool *pool, void **objects, unsigned int n)
{
	struct store *store = pool->pool_data;
	unsigned int got = 0;
	bool was_locked = false;

	for (unsigned int turn = 0; got < n && turn < ROUNDS * STACKS; turn++) {
		struct stack *stack = stack_at(store, turn);
		unsigned int part;

		if (turn % STACKS == 0) {
			if (turn > 0 && !was_locked)
				break;
			was_locked = false;
		}
		if (__atomic_load_n(&stack->count, __ATOMIC_RELAXED) == 0)
			continue;
		if (!rte_spinlock_trylock(&stack->lock)) {
			was_locked = true;
			rte_pause();
			continue;
		}
		part = RTE_MIN(n - got, stack->count);
		__atomic_store_n(&stack->count, stack->count - part, __ATOMIC_RELAXED);
		memcpy(objects + got, stack->objects + stack->count, part * sizeof(*objects));
		rte_spinlock_unlock(&stack->lock);
		got += part;
	}
	if (got == n)
		return 0;
	store_enqueue(pool, objects, got);
	return -ENOBUFS;
}

static unsigned int store_count(const struct rte_mempool *pool)
{
	const struct store *store = pool->pool_data;
	unsigned int sum = 0;

	for (int i = 0; i < STACKS; i++)
		sum += __atomic_load_n(&store->stacks[i].count, __ATOMIC_RELAXED);
	return sum;
}

static void store_free(struct rte_mempool *pool)
{
	struct store *store = pool->pool_data;

	for (int i = 0; store != NULL && i < STACKS; i++)
		rte_free(store->stacks[i].objects);
	rte_free(store);
	pool->pool_data = NULL;
}

static int store_alloc(struct rte_mempool *pool)
{
	struct store *store = rte_zmalloc_socket("lr2_store", sizeof(*store), RTE_CACHE_LINE_SIZE, pool->socket_id);

	pool->pool_data = store;
	if (store == NULL)
		return -ENOMEM;
	store->room = pool->size / (STACKS / 2) + 1;
	for (int i = 0; i < STACKS; i++) {
		struct stack *stack = &store->stacks[i];

		rte_spinlock_init(&stack->lock);
		stack->objects = rte_malloc_socket("lr2_store", store->room * sizeof(void *), RTE_CACHE_LINE_SIZE, pool->socket_id);
		if (stack->objects == NULL) {
			store_free(pool);
			return -ENOMEM;
		}
	}
	return 0;
}

static const struct rte_mempool_ops lr2_store = {
	.name = "lr2_stacks",
	.alloc = store_alloc,
	.free = store_free,
	.enqueue = store_enqueue,
	.dequeue = store_dequeue,
	.get_count = store_count,
};

RTE_MEMPOOL_REGISTER_OPS(lr2_store)

const char *lr2_store_name(void)
{
	return lr2_store.name;
}
