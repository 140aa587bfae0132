#include "counters.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define COUNT (sizeof(struct counters) / sizeof(uint64_t))
#define PAGE_BYTES (sizeof(struct counter_page) + COUNT * (COUNTER_NAME + sizeof(uint64_t)))

struct counter_page *counters_open(const char *path, uint64_t tsc_hz)
{
	static const char *const names[] = {
#define X(name) #name,
		COUNTERS(X)
#undef X
	};
	struct counter_page *page;
	int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0)
		return NULL;
	if (ftruncate(fd, PAGE_BYTES) != 0) {
		close(fd);
		return NULL;
	}
	page = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (page == MAP_FAILED)
		return NULL;
	for (size_t i = 0; i < COUNT; i++)
		snprintf(page->slots[i].name, COUNTER_NAME, "%s", names[i]);
	page->count = COUNT;
	page->tsc_hz = tsc_hz;
	memcpy(page->magic, "LR2TRAF1", sizeof(page->magic));
	return page;
}

void counters_publish(struct counter_page *page, const struct counters *counters)
{
	const uint64_t *values = (const uint64_t *)counters;

	__atomic_store_n(&page->version, page->version + 1, __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	for (size_t i = 0; i < COUNT; i++)
		__atomic_store_n(&page->slots[i].value, values[i], __ATOMIC_RELAXED);
	__atomic_store_n(&page->version, page->version + 1, __ATOMIC_RELEASE);
}

void counters_close(struct counter_page *page)
{
	munmap(page, PAGE_BYTES);
}
