// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Heap, log and what is known about the processors. */
#include <linux/bug.h>
#include <linux/cpumask.h>
#include <linux/device.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <asm/tsc.h>

#include "shim.h"

void *os_alloc(size_t size, bool zeroed)
{
	return kvmalloc(size, GFP_KERNEL | (zeroed ? __GFP_ZERO : 0));
}

void os_free(void *memory)
{
	kvfree(memory);
}

void os_log(struct os_device *dev, u32 level, const char *line, size_t len)
{
	struct device *d = &dev->pdev->dev;
	int n = min_t(size_t, len, INT_MAX);

	switch (level) {
	case OS_LOG_ERROR:
		dev_err(d, "%.*s\n", n, line);
		break;
	case OS_LOG_WARN:
		dev_warn(d, "%.*s\n", n, line);
		break;
	case OS_LOG_INFO:
		dev_info(d, "%.*s\n", n, line);
		break;
	default:
		dev_dbg(d, "%.*s\n", n, line);
		break;
	}
}

void os_cpu_info(struct os_cpu_info *info)
{
	*info = (struct os_cpu_info){
		.cores = num_online_cpus(),
		.max_clock_mhz = cpu_khz / 1000,
		.memory_bytes = (u64)totalram_pages() << PAGE_SHIFT,
	};
}

void os_panic(const char *line, size_t len)
{
	pr_emerg(BELFRY_NAME ": %.*s\n", (int)min_t(size_t, len, INT_MAX), line);
	BUG();
}
