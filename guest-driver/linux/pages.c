// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* System memory of the driver: single pages, mapped contiguously for the CPU and one by one for the device. */
#include <linux/dma-mapping.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "shim.h"

struct os_pages {
	struct os_device *dev;
	struct page **pages;
	dma_addr_t *bus;
	void *cpu;
	size_t count;
	size_t allocated; /* pages that there are */
	size_t mapped;    /* pages that have a bus address */
	struct list_head list; /* in dev->pages, with its lock, while they may have one */
};

static void unmap_for_device(struct os_pages *p)
{
	size_t i;

	for (i = 0; i < p->mapped; i++)
		dma_unmap_page_attrs(&p->dev->pdev->dev, p->bus[i], PAGE_SIZE, DMA_BIDIRECTIONAL,
				     DMA_ATTR_SKIP_CPU_SYNC);
	p->mapped = 0;
}

/*
 * The function goes. Programs may keep their mappings of the pages, but no device reaches them any more; no thread is in
 * the core, so that no pages are added.
 */
void belfry_pages_unmap(struct os_device *dev)
{
	struct os_pages *p, *next;

	mutex_lock(&dev->pages_lock);
	list_for_each_entry_safe(p, next, &dev->pages, list) {
		list_del_init(&p->list);
		unmap_for_device(p);
	}
	mutex_unlock(&dev->pages_lock);
}

void os_pages_free(struct os_pages *p)
{
	size_t i;

	if (p->cpu && p->count > 1)
		vunmap(p->cpu);
	mutex_lock(&p->dev->pages_lock);
	list_del_init(&p->list);
	unmap_for_device(p); /* with the lock: the function does not go meanwhile */
	mutex_unlock(&p->dev->pages_lock);
	for (i = 0; i < p->allocated; i++) {
		__free_page(p->pages[i]);
		cond_resched();
	}
	belfry_count(p->dev, BELFRY_SYSTEM_PAGES, -(long)p->allocated);
	kvfree(p->bus);
	kvfree(p->pages);
	os_device_put(p->dev);
	kfree(p);
}

int os_pages_alloc(struct os_device *dev, size_t count, struct os_pages **out)
{
	/*
	 * While the core holds a lock, the kernel does not reclaim memory (os_lock_acquire). The few pages of a queue may then
	 * come from the kernel's reserves; memory whose size a program chooses may not.
	 */
	const gfp_t gfp = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN | (count > 4 ? __GFP_NOMEMALLOC : 0);
	struct os_pages *p;
	int err = -ENOMEM;

	/* The reclaimer would rather kill processes than fail a single page. */
	if (!count || count > totalram_pages() / 2 || (long)count > si_mem_available())
		return -ENOMEM;
	p = kzalloc(sizeof(*p), GFP_KERNEL);
	if (!p)
		return -ENOMEM;
	os_device_get(dev);
	p->dev = dev;
	INIT_LIST_HEAD(&p->list);
	p->pages = kvcalloc(count, sizeof(*p->pages), GFP_KERNEL);
	p->bus = kvcalloc(count, sizeof(*p->bus), GFP_KERNEL);
	if (!p->pages || !p->bus)
		goto fail;
	p->count = count;

	for (; p->mapped < count; p->mapped++) {
		struct page *page = alloc_page(gfp);

		if (!page)
			goto fail;
		p->pages[p->allocated++] = page;
		belfry_count(dev, BELFRY_SYSTEM_PAGES, 1);
		p->bus[p->mapped] = dma_map_page_attrs(&dev->pdev->dev, page, 0, PAGE_SIZE, DMA_BIDIRECTIONAL,
						       DMA_ATTR_SKIP_CPU_SYNC);
		if (dma_mapping_error(&dev->pdev->dev, p->bus[p->mapped]))
			goto fail;
		if (fatal_signal_pending(current)) {
			p->mapped++;
			err = -EINTR;
			goto fail;
		}
		cond_resched();
	}
	p->cpu = count == 1 ? page_address(p->pages[0]) : vmap(p->pages, count, VM_MAP, PAGE_KERNEL);
	if (!p->cpu)
		goto fail;
	mutex_lock(&dev->pages_lock);
	list_add(&p->list, &dev->pages);
	mutex_unlock(&dev->pages_lock);
	*out = p;
	return 0;

fail:
	os_pages_free(p);
	return err;
}

void *os_pages_cpu(struct os_pages *p)
{
	return p->cpu;
}

u64 os_pages_bus(struct os_pages *p, size_t index)
{
	return index < p->count ? p->bus[index] : 0;
}
