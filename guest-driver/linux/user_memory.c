// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Memory of a process: long-term pins that hear of changes, and plain copies. */
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "shim.h"

/* The watch over a range. It moves from pin to pin when the range is pinned anew, so that no change is missed. */
struct pin_watch {
	struct mmu_interval_notifier notifier;
	struct work_struct work; /* tells the core, outside of the address space's locks */
	struct belfry_invalidate *invalidate;
	u64 va;
	bool orphan; /* given up from within its own work: the work frees it */
	bool changed; /* since the pages were pinned last */
	struct rcu_head rcu; /* for os_pin_is_current() */
};

struct os_pin {
	struct os_device *dev;
	struct pin_watch *watch; /* NULL once another pin has it */
	struct page **pages;
	dma_addr_t *bus;
	size_t count;
	size_t pinned;
	size_t mapped;
	bool writable;
};

static void watch_free(struct pin_watch *watch)
{
	belfry_invalidate_drop(watch->invalidate);
	kfree_rcu(watch, rcu);
}

static void watch_work(struct work_struct *work)
{
	struct pin_watch *watch = container_of(work, struct pin_watch, work);

	belfry_invalidated(watch->invalidate);
	if (watch->orphan)
		watch_free(watch);
}

static bool watch_invalidate(struct mmu_interval_notifier *notifier, const struct mmu_notifier_range *range,
			     unsigned long sequence)
{
	struct pin_watch *watch = container_of(notifier, struct pin_watch, notifier);

	mmu_interval_set_seq(notifier, sequence);
	/*
	 * A fork write-protects pages and a soft-dirty scan marks them, but pinned pages stay where they are; and of the
	 * end of the whole address space the core hears through belfry_exit.
	 */
	switch (range->event) {
	case MMU_NOTIFY_PROTECTION_PAGE:
	case MMU_NOTIFY_SOFT_DIRTY:
	case MMU_NOTIFY_RELEASE:
		return true;
	default:
		WRITE_ONCE(watch->changed, true);
		queue_work(belfry_pin_wq, &watch->work);
		return true;
	}
}

static const struct mmu_interval_notifier_ops watch_ops = {
	.invalidate = watch_invalidate,
};

static void watch_stop(struct pin_watch *watch)
{
	mmu_interval_notifier_remove(&watch->notifier);
	if (current_work() == &watch->work) {
		/* The work cannot wait for itself when it cancels itself, and it is not queued again. */
		cancel_work(&watch->work);
		watch->orphan = true;
		return;
	}
	cancel_work_sync(&watch->work);
	watch_free(watch);
}

static struct os_pin *pin_new(struct os_device *dev, size_t count, bool writable)
{
	struct os_pin *pin = kzalloc(sizeof(*pin), GFP_KERNEL);

	if (!pin)
		return NULL;
	os_device_get(dev);
	pin->dev = dev;
	pin->count = count;
	pin->writable = writable;
	pin->pages = kvcalloc(count, sizeof(*pin->pages), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	pin->bus = kvcalloc(count, sizeof(*pin->bus), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!pin->pages || !pin->bus) {
		os_unpin_user(pin);
		return NULL;
	}
	return pin;
}

static enum dma_data_direction pin_direction(const struct os_pin *pin)
{
	return pin->writable ? DMA_BIDIRECTIONAL : DMA_TO_DEVICE;
}

/*
 * The same page may be pinned more than once, and the GPU reads and writes it while the CPU does: there is no moment to
 * copy bounce buffers at. DMA_ATTR_SKIP_CPU_SYNC says so, as amdgpu_ttm_tt_pin_userptr does.
 */
static int pin_pages(struct os_pin *pin, struct mm_struct *mm, u64 va)
{
	const unsigned int flags = FOLL_LONGTERM | (pin->writable ? FOLL_WRITE : 0);
	struct device *dma = &pin->dev->pdev->dev;
	int idx;

	while (pin->pinned < pin->count) {
		size_t batch = min_t(size_t, pin->count - pin->pinned, 512);
		long got;

		mmap_read_lock(mm);
		got = pin_user_pages_remote(mm, va + pin->pinned * PAGE_SIZE, batch, flags,
					    pin->pages + pin->pinned, NULL);
		mmap_read_unlock(mm);
		if (got <= 0)
			return got == -ENOMEM ? -ENOMEM : -EFAULT;
		pin->pinned += got;
		belfry_count(pin->dev, BELFRY_PINNED_PAGES, got);
		if (fatal_signal_pending(current))
			return -EINTR;
		cond_resched();
	}
	/* A renewal comes from a worker: the function may be unbound while it waited for the pages. */
	if (!belfry_enter(pin->dev, &idx))
		return -ENODEV;
	for (; pin->mapped < pin->count; pin->mapped++) {
		pin->bus[pin->mapped] = dma_map_page_attrs(dma, pin->pages[pin->mapped], 0, PAGE_SIZE,
							   pin_direction(pin), DMA_ATTR_SKIP_CPU_SYNC);
		if (dma_mapping_error(dma, pin->bus[pin->mapped]))
			break;
	}
	belfry_leave(pin->dev, idx);
	return pin->mapped < pin->count ? -ENOMEM : 0;
}

/* Gives the range a watch and pins it. On failure the watch is gone, and with it the callback. */
static int watch_and_pin(struct os_pin *pin, struct mm_struct *mm, u64 va, struct belfry_invalidate *invalidate)
{
	struct pin_watch *watch = kzalloc(sizeof(*watch), GFP_KERNEL);
	int err;

	if (!watch) {
		belfry_invalidate_drop(invalidate);
		return -ENOMEM;
	}
	INIT_WORK(&watch->work, watch_work);
	watch->invalidate = invalidate;
	watch->va = va;
	/* Listen before looking: a change in between is heard, at worst once too often. */
	err = mmu_interval_notifier_insert(&watch->notifier, mm, va, pin->count * PAGE_SIZE, &watch_ops);
	if (err) {
		watch_free(watch);
		return err;
	}
	belfry_count(pin->dev, BELFRY_WATCHED_RANGES, 1);
	pin->watch = watch;
	return pin_pages(pin, mm, va);
}

int os_pin_user(struct os_device *dev, u64 key, u64 va, size_t count, bool writable,
		struct belfry_invalidate *invalidate, struct os_pin **out)
{
	/* The file of the KFD node that key came from holds the mm_struct, not its users. */
	struct mm_struct *mm = (struct mm_struct *)(uintptr_t)key;
	struct os_pin *pin;
	int err;

	if (!count || !PAGE_ALIGNED(va) || count > TASK_SIZE_MAX / PAGE_SIZE ||
	    !os_user_range_ok(va, (u64)count * PAGE_SIZE)) {
		belfry_invalidate_drop(invalidate);
		return -EFAULT;
	}
	pin = pin_new(dev, count, writable);
	if (!pin || !mmget_not_zero(mm)) {
		belfry_invalidate_drop(invalidate);
		if (!pin)
			return -ENOMEM;
		os_unpin_user(pin);
		return -ESRCH;
	}
	err = watch_and_pin(pin, mm, va, invalidate);
	mmput(mm);
	if (err) {
		os_unpin_user(pin);
		return err;
	}
	*out = pin;
	return 0;
}

int os_pin_renew(struct os_pin *old, struct os_pin **out)
{
	struct pin_watch *watch = old->watch;
	struct mm_struct *mm;
	struct os_pin *pin;
	int err;

	if (!watch)
		return -EINVAL;
	mm = watch->notifier.mm;
	pin = pin_new(old->dev, old->count, old->writable);
	if (!pin)
		return -ENOMEM;
	/* A change from here on is heard of again. */
	WRITE_ONCE(watch->changed, false);
	err = -ESRCH;
	if (mmget_not_zero(mm)) {
		err = pin_pages(pin, mm, watch->va);
		mmput(mm);
	}
	if (err) {
		os_unpin_user(pin);
		return err;
	}
	pin->watch = watch;
	WRITE_ONCE(old->watch, NULL);
	*out = pin;
	return 0;
}

void os_unpin_user(struct os_pin *pin)
{
	size_t i;

	if (pin->watch) {
		watch_stop(pin->watch);
		belfry_count(pin->dev, BELFRY_WATCHED_RANGES, -1);
	}
	for (i = 0; i < pin->mapped; i++)
		dma_unmap_page_attrs(&pin->dev->pdev->dev, pin->bus[i], PAGE_SIZE, pin_direction(pin),
				     DMA_ATTR_SKIP_CPU_SYNC);
	if (pin->pinned)
		unpin_user_pages_dirty_lock(pin->pages, pin->pinned, pin->writable);
	belfry_count(pin->dev, BELFRY_PINNED_PAGES, -(long)pin->pinned);
	kvfree(pin->bus);
	kvfree(pin->pages);
	os_device_put(pin->dev);
	kfree(pin);
}

bool os_pin_is_current(struct os_pin *pin)
{
	struct pin_watch *watch;
	bool current_pin;

	/* The watch may go to another pin meanwhile, and away with that. */
	rcu_read_lock();
	watch = READ_ONCE(pin->watch);
	current_pin = watch && !READ_ONCE(watch->changed);
	rcu_read_unlock();
	return current_pin;
}

u64 os_pin_bus(struct os_pin *pin, size_t index)
{
	return index < pin->count ? pin->bus[index] : 0;
}

int os_copy_from_user(void *dst, u64 src, size_t len)
{
	return copy_from_user(dst, u64_to_user_ptr(src), len) ? -EFAULT : 0;
}

int os_copy_to_user(u64 dst, const void *src, size_t len)
{
	return copy_to_user(u64_to_user_ptr(dst), src, len) ? -EFAULT : 0;
}

bool os_user_range_ok(u64 va, u64 len)
{
	return access_ok(u64_to_user_ptr(va), len);
}
