// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Shared virtual memory: pages of a process that the device may reach until they change, without pins. The kernel tells
 * before it changes a page, and goes on when the core has taken the page from the GPU (Documentation/mm/hmm.rst).
 */
#include <linux/dma-mapping.h>
#include <linux/hmm.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>

#include "shim.h"

#if IS_ENABLED(CONFIG_HMM_MIRROR)

#define IN_VRAM 1ull /* pages are aligned */

struct os_mirror {
	struct mmu_interval_notifier notifier;
	struct os_device *dev;
	struct belfry_invalidate *invalidate;
	unsigned long *pfns;
	u64 *places; /* address on the bus, or offset in VRAM with IN_VRAM */
	size_t count;
	size_t mapped; /* pages that have a place */
	unsigned long sequence; /* of the notifier, when the pages were looked up */
	bool writable;
};

bool os_has_svm(void)
{
	return true;
}

/* What amdkfd takes for memory (svm_range_is_valid). */
bool belfry_area_is_memory(const struct vm_area_struct *vma)
{
	return vma && !(vma->vm_flags & (VM_IO | VM_PFNMAP | VM_MIXEDMAP));
}

int os_user_area(u64 key, u64 va, u64 *end, bool *writable, bool *file)
{
	struct mm_struct *mm = (struct mm_struct *)(uintptr_t)key;
	struct vm_area_struct *vma;
	int err = -EFAULT;

	if (!mmget_not_zero(mm))
		return -ESRCH;
	mmap_read_lock(mm);
	vma = vma_lookup(mm, va);
	if (belfry_area_is_memory(vma)) {
		*end = vma->vm_end;
		*writable = vma->vm_flags & VM_WRITE;
		*file = vma->vm_file;
		err = 0;
	}
	mmap_read_unlock(mm);
	mmput(mm);
	return err;
}

/*
 * Called with locks of the address space held, often mmap_lock. The core stops the queues of the process, waits for that, and
 * takes the pages from the page tables; it asks for no memory of the process. That may wait for the locks of the core, whose
 * holders neither fault nor reclaim (os_lock_acquire).
 */
static bool mirror_invalidate(struct mmu_interval_notifier *notifier, const struct mmu_notifier_range *range,
			      unsigned long sequence)
{
	struct os_mirror *mirror = container_of(notifier, struct os_mirror, notifier);

	if (!mmu_notifier_range_blockable(range))
		return false;
	/*
	 * Without a lock of the core's: it installs pages and asks os_mirror_is_current() under the lock that the call below
	 * takes. Either it sees this, or the call finds the pages installed.
	 */
	mmu_interval_set_seq(notifier, sequence);
	belfry_changing(mirror->invalidate, range->start, range->end, range->event == MMU_NOTIFY_UNMAP);
	return true;
}

static const struct mmu_interval_notifier_ops mirror_ops = {
	.invalidate = mirror_invalidate,
};

/* Brings the pages in and looks them up; they may change as soon as this returns. */
static int mirror_look_up(struct os_mirror *mirror, struct mm_struct *mm, u64 va)
{
	struct hmm_range range = {
		.notifier = &mirror->notifier,
		.start = va,
		.end = va + mirror->count * PAGE_SIZE,
		.hmm_pfns = mirror->pfns,
		.dev_private_owner = belfry_frames_owner(mirror->dev),
		.default_flags = HMM_PFN_REQ_FAULT | (mirror->writable ? HMM_PFN_REQ_WRITE : 0),
	};
	unsigned long timeout = jiffies + msecs_to_jiffies(HMM_RANGE_DEFAULT_TIMEOUT);
	struct vm_area_struct *vma;
	int err;

	do {
		if (fatal_signal_pending(current))
			return -EINTR;
		range.notifier_seq = mmu_interval_read_begin(&mirror->notifier);
		mmap_read_lock(mm);
		vma = vma_lookup(mm, va);
		if (!belfry_area_is_memory(vma) || vma->vm_end < range.end ||
		    !!(vma->vm_flags & VM_WRITE) != mirror->writable)
			err = -EAGAIN;
		else
			err = hmm_range_fault(&range);
		mmap_read_unlock(mm);
	} while (err == -EBUSY && time_before(jiffies, timeout));
	mirror->sequence = range.notifier_seq;
	return err == -EBUSY ? -EAGAIN : err;
}

static enum dma_data_direction mirror_direction(const struct os_mirror *mirror)
{
	return mirror->writable ? DMA_BIDIRECTIONAL : DMA_TO_DEVICE;
}

/* A page that has changed meanwhile gets an address, too, which is not used. Without bounce buffers, as pin_pages(). */
static int mirror_map(struct os_mirror *mirror)
{
	struct device *dma = &mirror->dev->pdev->dev;
	int idx;

	/* A worker may come here while the function is unbound. */
	if (!belfry_enter(mirror->dev, &idx))
		return -ENODEV;
	for (; mirror->mapped < mirror->count; mirror->mapped++) {
		struct page *page = hmm_pfn_to_page(mirror->pfns[mirror->mapped]);
		dma_addr_t bus;
		u64 offset;

		belfry_count(mirror->dev, BELFRY_MIRRORED_PAGES, 1);
		if (belfry_frame_offset(mirror->dev, page, &offset)) {
			mirror->places[mirror->mapped] = offset | IN_VRAM;
			continue;
		}
		bus = dma_map_page_attrs(dma, page, 0, PAGE_SIZE, mirror_direction(mirror), DMA_ATTR_SKIP_CPU_SYNC);
		if (dma_mapping_error(dma, bus)) {
			belfry_count(mirror->dev, BELFRY_MIRRORED_PAGES, -1);
			break;
		}
		mirror->places[mirror->mapped] = bus;
	}
	belfry_leave(mirror->dev, idx);
	return mirror->mapped < mirror->count ? -ENOMEM : 0;
}

static void mirror_free(struct os_mirror *mirror)
{
	size_t i;

	for (i = 0; i < mirror->mapped; i++)
		if (!(mirror->places[i] & IN_VRAM))
			dma_unmap_page_attrs(&mirror->dev->pdev->dev, mirror->places[i], PAGE_SIZE,
					     mirror_direction(mirror), DMA_ATTR_SKIP_CPU_SYNC);
	belfry_count(mirror->dev, BELFRY_MIRRORED_PAGES, -(long)mirror->mapped);
	belfry_count(mirror->dev, BELFRY_WATCHED_RANGES, -1);
	belfry_invalidate_drop(mirror->invalidate);
	kvfree(mirror->pfns);
	kvfree(mirror->places);
	os_device_put(mirror->dev);
	kfree(mirror);
	module_put(THIS_MODULE);
}

/* Makes a mirror that is told of changes to a range from here on. Takes over invalidate in every case. */
static int mirror_new(struct os_device *dev, struct mm_struct *mm, u64 va, size_t count,
		      struct belfry_invalidate *invalidate, struct os_mirror **out)
{
	struct os_mirror *mirror;
	int err;

	if (!count || !PAGE_ALIGNED(va) || count > TASK_SIZE_MAX / PAGE_SIZE ||
	    !os_user_range_ok(va, (u64)count * PAGE_SIZE)) {
		belfry_invalidate_drop(invalidate);
		return -EFAULT;
	}
	mirror = kzalloc(sizeof(*mirror), GFP_KERNEL_ACCOUNT);
	if (!mirror) {
		belfry_invalidate_drop(invalidate);
		return -ENOMEM;
	}
	/* A mirror that is left to a device that does not answer goes on hearing of changes. */
	__module_get(THIS_MODULE);
	os_device_get(dev);
	mirror->dev = dev;
	belfry_count(dev, BELFRY_WATCHED_RANGES, 1);
	mirror->invalidate = invalidate;
	err = mmu_interval_notifier_insert(&mirror->notifier, mm, va, count * PAGE_SIZE, &mirror_ops);
	if (err) {
		mirror_free(mirror);
		return err;
	}
	*out = mirror;
	return 0;
}

static int mirror_pages(struct os_mirror *mirror, struct mm_struct *mm, u64 va, size_t count, bool writable)
{
	int err;

	mirror->count = count;
	mirror->writable = writable;
	mirror->pfns = kvcalloc(count, sizeof(*mirror->pfns), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	mirror->places = kvcalloc(count, sizeof(*mirror->places), GFP_KERNEL_ACCOUNT | __GFP_NOWARN);
	if (!mirror->pfns || !mirror->places)
		return -ENOMEM;
	err = mirror_look_up(mirror, mm, va);
	if (!err)
		err = mirror_map(mirror);
	/* Only to look the pages up. */
	kvfree(mirror->pfns);
	mirror->pfns = NULL;
	return err;
}

int os_mirror_user(struct os_device *dev, u64 key, u64 va, size_t count, bool writable,
		   struct belfry_invalidate *invalidate, struct os_mirror **out)
{
	/* The file of the KFD node that key came from holds the mm_struct, not its users. */
	struct mm_struct *mm = (struct mm_struct *)(uintptr_t)key;
	struct os_mirror *mirror;
	int err;

	if (!mmget_not_zero(mm)) {
		belfry_invalidate_drop(invalidate);
		return -ESRCH;
	}
	/* Listens before it looks. */
	err = mirror_new(dev, mm, va, count, invalidate, &mirror);
	if (err) {
		mmput(mm);
		return err;
	}
	err = mirror_pages(mirror, mm, va, count, writable);
	/* This may end the address space, and the mirror then hears of it. */
	mmput(mm);
	if (err) {
		os_mirror_release(mirror);
		return err;
	}
	*out = mirror;
	return 0;
}

int os_watch_user(struct os_device *dev, u64 key, u64 va, size_t count, struct belfry_invalidate *invalidate,
		  struct os_mirror **out)
{
	struct mm_struct *mm = (struct mm_struct *)(uintptr_t)key;
	struct os_mirror *mirror;
	int err;

	if (!mmget_not_zero(mm)) {
		belfry_invalidate_drop(invalidate);
		return -ESRCH;
	}
	err = mirror_new(dev, mm, va, count, invalidate, &mirror);
	if (!err) {
		mirror->sequence = mmu_interval_read_begin(&mirror->notifier);
		*out = mirror;
	}
	mmput(mm);
	return err;
}

void os_mirror_release(struct os_mirror *mirror)
{
	mmu_interval_notifier_remove(&mirror->notifier);
	mirror_free(mirror);
}

bool os_mirror_is_current(struct os_mirror *mirror)
{
	return !mmu_interval_read_retry(&mirror->notifier, mirror->sequence);
}

u64 os_mirror_page(struct os_mirror *mirror, size_t index, bool *vram)
{
	u64 place = index < mirror->count ? mirror->places[index] : 0;

	*vram = place & IN_VRAM;
	return place & ~IN_VRAM;
}

#else /* no CONFIG_HMM_MIRROR: the ioctl answers EPERM, as amdkfd without CONFIG_HSA_AMD_SVM */

bool os_has_svm(void)
{
	return false;
}

int os_user_area(u64 key, u64 va, u64 *end, bool *writable, bool *file)
{
	return -EOPNOTSUPP;
}

int os_mirror_user(struct os_device *dev, u64 key, u64 va, size_t count, bool writable,
		   struct belfry_invalidate *invalidate, struct os_mirror **out)
{
	belfry_invalidate_drop(invalidate);
	return -EOPNOTSUPP;
}

int os_watch_user(struct os_device *dev, u64 key, u64 va, size_t count, struct belfry_invalidate *invalidate,
		  struct os_mirror **out)
{
	belfry_invalidate_drop(invalidate);
	return -EOPNOTSUPP;
}

void os_mirror_release(struct os_mirror *mirror)
{
}

bool os_mirror_is_current(struct os_mirror *mirror)
{
	return false;
}

u64 os_mirror_page(struct os_mirror *mirror, size_t index, bool *vram)
{
	*vram = false;
	return 0;
}

#endif
