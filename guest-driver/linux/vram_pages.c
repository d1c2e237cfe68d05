// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * Pages of programs in VRAM: the kernel's view of VRAM as pages, and moving pages there and back (amdgpu's kfd_migrate.c).
 *
 * They are coherent device memory, which the processor reads and writes where it is: BAR0 is memory. By a parameter they are
 * private, where the kernel has CONFIG_DEVICE_PRIVATE: the processor has no access to them, and touching one moves it back.
 *
 * The core has all of VRAM. A frame that a page is in comes back to it by the bitmap below: pages are freed under spinlocks.
 */
#include <linux/bitmap.h>
#include <linux/delay.h>
#include <linux/hmm.h>
#include <linux/io.h>
#include <linux/ioport.h>
#include <linux/memremap.h>
#include <linux/migrate.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "shim.h"

#if IS_ENABLED(CONFIG_HMM_MIRROR) && IS_ENABLED(CONFIG_DEVICE_MIGRATION)

static bool private_pages;
module_param(private_pages, bool, 0444);
MODULE_PARM_DESC(private_pages, "Keep the processor out of pages of programs in VRAM (needs CONFIG_DEVICE_PRIVATE)");

/* Pages that move at once: those of a large page. */
#define CHUNK (SZ_2M >> PAGE_SHIFT)

struct belfry_frames {
	struct dev_pagemap pagemap;
	struct os_device *dev;
	struct resource *region; /* private pages: addresses of no other device; else NULL */
	unsigned long first;     /* page frame number */
	unsigned long count;
	atomic_long_t used;
	unsigned long *freed; /* frames that the core does not know to be free yet */
	struct work_struct work;
};

static bool is_private(const struct belfry_frames *frames)
{
	return frames->region;
}

static struct belfry_frames *frames_of(struct page *page)
{
	return container_of(belfry_page_pagemap(page), struct belfry_frames, pagemap);
}

static void __iomem *frame_memory(struct belfry_frames *frames, struct page *page)
{
	return frames->dev->vram + ((u64)(page_to_pfn(page) - frames->first) << PAGE_SHIFT);
}

/* Gives the core what is free, in runs. */
static void frames_drain(struct belfry_frames *frames)
{
	unsigned long start = 0, end;

	for (;;) {
		start = find_next_bit(frames->freed, frames->count, start);
		if (start >= frames->count)
			return;
		for (end = start; end < frames->count && test_and_clear_bit(end, frames->freed); end++)
			;
		if (end > start)
			belfry_frames_freed(frames->dev->gpu, (u64)start << PAGE_SHIFT,
					    (u64)(end - start) << PAGE_SHIFT);
		start = end + 1;
		cond_resched();
	}
}

static void frames_work(struct work_struct *work)
{
	frames_drain(container_of(work, struct belfry_frames, work));
}

/* The last reference is gone. May be called with spinlocks held. */
static void frame_freed(struct page *page)
{
	struct belfry_frames *frames = frames_of(page);

	set_bit(page_to_pfn(page) - frames->first, frames->freed);
	belfry_count(frames->dev, BELFRY_VRAM_PAGES, -1);
	queue_work(belfry_wq, &frames->work);
	atomic_long_dec(&frames->used);
}

#ifdef BELFRY_FREES_FOLIOS
static void frame_freed_folio(struct folio *folio)
{
	frame_freed(folio_page(folio, 0));
}
#endif

/* A frame as the place of a page: locked, with one reference. */
static struct page *frame_take(struct belfry_frames *frames, u64 offset)
{
	struct page *page = pfn_to_page(frames->first + (offset >> PAGE_SHIFT));

	atomic_long_inc(&frames->used);
	belfry_count(frames->dev, BELFRY_VRAM_PAGES, 1);
	belfry_device_page_init(page, &frames->pagemap);
	return page;
}

static void copy_from_frame(struct belfry_frames *frames, struct page *to, struct page *from)
{
	void *address = kmap_local_page(to);

	memcpy_fromio(address, frame_memory(frames, from), PAGE_SIZE);
	kunmap_local(address);
}

static void copy_to_frame(struct belfry_frames *frames, struct page *to, struct page *from)
{
	void *address;

	if (!from) { /* never touched */
		memset_io(frame_memory(frames, to), 0, PAGE_SIZE);
		return;
	}
	address = kmap_local_page(from);
	memcpy_toio(frame_memory(frames, to), address, PAGE_SIZE);
	kunmap_local(address);
}

/* Pages of system memory for those that are about to leave VRAM; there may be none for some, which stay. */
static void fill_system(struct belfry_frames *frames, const unsigned long *src, unsigned long *dst, size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		struct page *from = migrate_pfn_to_page(src[i]), *to;

		if (!(src[i] & MIGRATE_PFN_MIGRATE) || !from)
			continue;
		to = alloc_page(GFP_HIGHUSER_MOVABLE);
		if (!to)
			continue;
		lock_page(to);
		copy_from_frame(frames, to, from);
		dst[i] = migrate_pfn(page_to_pfn(to));
	}
	/* What a program reads there was written before the page table says so. */
	smp_wmb();
}

/* Frames for pages that are about to move to VRAM. */
static void fill_vram(struct belfry_frames *frames, const unsigned long *src, unsigned long *dst, u64 *offsets,
		      size_t count)
{
	size_t i;

	for (i = 0; i < count; i++) {
		struct page *page;

		if (!(src[i] & MIGRATE_PFN_MIGRATE) || offsets[i] >= (u64)frames->count << PAGE_SHIFT)
			continue;
		page = frame_take(frames, offsets[i]);
		offsets[i] = BELFRY_FRAME_TAKEN;
		copy_to_frame(frames, page, migrate_pfn_to_page(src[i]));
		dst[i] = migrate_pfn(page_to_pfn(page));
	}
	wmb(); /* the copies are in VRAM before a page table leads there */
}

static size_t count_moved(const unsigned long *src, const unsigned long *dst, size_t count)
{
	size_t i, moved = 0;

	for (i = 0; i < count; i++)
		moved += (src[i] & MIGRATE_PFN_MIGRATE) && dst[i];
	return moved;
}

/* Moves what args selects: to VRAM at the offsets, or to system memory without. With mmap_lock, in an area of memory. */
static int migrate_area(struct belfry_frames *frames, struct migrate_vma *args, u64 *offsets, size_t *moved)
{
	size_t count = (args->end - args->start) >> PAGE_SHIFT;
	int err;

	args->pgmap_owner = frames->pagemap.owner;
	args->src = kvcalloc(count, 2 * sizeof(*args->src), GFP_KERNEL);
	if (!args->src)
		return -ENOMEM;
	args->dst = args->src + count;
	err = migrate_vma_setup(args);
	if (!err) {
		if (offsets)
			fill_vram(frames, args->src, args->dst, offsets, count);
		else
			fill_system(frames, args->src, args->dst, count);
		migrate_vma_pages(args);
		*moved = count_moved(args->src, args->dst, count);
		migrate_vma_finalize(args);
	}
	kvfree(args->src);
	return err;
}

static int area_to_system(struct belfry_frames *frames, struct vm_area_struct *vma, unsigned long start,
			  unsigned long end, struct page *fault_page, size_t *moved)
{
	struct migrate_vma args = {
		.vma = vma,
		.start = start,
		.end = end,
		.flags = is_private(frames) ? MIGRATE_VMA_SELECT_DEVICE_PRIVATE : MIGRATE_VMA_SELECT_DEVICE_COHERENT,
		.fault_page = fault_page,
	};

	return migrate_area(frames, &args, NULL, moved);
}

static int area_to_vram(struct belfry_frames *frames, struct vm_area_struct *vma, unsigned long start,
			unsigned long end, u64 *offsets, size_t *moved)
{
	struct migrate_vma args = {
		.vma = vma,
		.start = start,
		.end = end,
		.flags = MIGRATE_VMA_SELECT_SYSTEM,
	};

	return migrate_area(frames, &args, offsets, moved);
}

/* A program touches a page of VRAM that the processor does not reach: the piece around it moves back. With mmap_lock. */
static vm_fault_t migrate_to_ram(struct vm_fault *vmf)
{
	struct belfry_frames *frames = frames_of(vmf->page);
	struct vm_area_struct *vma = vmf->vma;
	u64 key = (u64)(uintptr_t)vma->vm_mm, start, end;
	struct os_device *dev = frames->dev;
	size_t moved = 0;
	bool known;
	int err, idx;

	if (!belfry_enter(dev, &idx)) {
		start = vmf->address & PAGE_MASK;
		err = area_to_system(frames, vma, start, start + PAGE_SIZE, vmf->page, &moved);
		return err ? VM_FAULT_SIGBUS : 0;
	}
	start = ALIGN_DOWN(vmf->address, SZ_2M);
	end = start + SZ_2M;
	known = belfry_touched(dev->gpu, key, vmf->address & PAGE_MASK, &start, &end);
	start = max_t(u64, start, vma->vm_start);
	end = min_t(u64, end, vma->vm_end);
	err = area_to_system(frames, vma, start, end, vmf->page, &moved);
	if (known)
		belfry_touched_end(dev->gpu, key, start, end);
	belfry_leave(dev, idx);
	return err ? VM_FAULT_SIGBUS : 0;
}

static const struct dev_pagemap_ops frames_ops = {
	BELFRY_PAGE_FREE(frame_freed),
	.migrate_to_ram = migrate_to_ram,
};

/* Gives VRAM pages, the first time that they are asked for: they cost memory (a struct page each). */
static struct belfry_frames *frames_new(struct os_device *dev)
{
	u64 size = ALIGN_DOWN(dev->vram_size, SZ_2M);
	struct belfry_frames *frames = kzalloc(sizeof(*frames), GFP_KERNEL);
	struct dev_pagemap *pagemap = &frames->pagemap;
	void *pages;

	if (!frames)
		return NULL;
	frames->dev = dev;
	frames->count = size >> PAGE_SHIFT;
	frames->freed = kvcalloc(BITS_TO_LONGS(frames->count), sizeof(long), GFP_KERNEL);
	if (!size || !frames->freed)
		goto err;
	INIT_WORK(&frames->work, frames_work);
	pagemap->ops = &frames_ops;
	pagemap->owner = frames;
	pagemap->nr_range = 1;
	if (IS_ENABLED(CONFIG_DEVICE_PRIVATE) && private_pages) {
		frames->region = request_free_mem_region(&iomem_resource, size, BELFRY_NAME);
		if (IS_ERR(frames->region)) {
			frames->region = NULL;
			goto err;
		}
		pagemap->type = MEMORY_DEVICE_PRIVATE;
		pagemap->range.start = frames->region->start;
	} else {
		pagemap->type = MEMORY_DEVICE_COHERENT;
		pagemap->range.start = pci_resource_start(dev->pdev, BAR_VRAM);
	}
	pagemap->range.end = pagemap->range.start + size - 1;
	frames->first = PHYS_PFN(pagemap->range.start);
	pages = memremap_pages(pagemap, dev_to_node(&dev->pdev->dev));
	if (!IS_ERR(pages))
		return frames;
	dev_warn(&dev->pdev->dev, "VRAM has no pages (%ld): memory of programs stays in system memory\n", PTR_ERR(pages));
	if (frames->region)
		release_mem_region(frames->region->start, size);
err:
	kvfree(frames->freed);
	kfree(frames);
	return NULL;
}

/* Called by a thread that is in the core. NULL if there are no pages. */
static struct belfry_frames *frames_get(struct os_device *dev)
{
	struct belfry_frames *frames = smp_load_acquire(&dev->frames);

	if (frames)
		return IS_ERR(frames) ? NULL : frames;
	mutex_lock(&dev->frames_lock);
	frames = dev->frames;
	if (!frames) {
		frames = frames_new(dev);
		smp_store_release(&dev->frames, frames ? frames : ERR_PTR(-EOPNOTSUPP));
	} else if (IS_ERR(frames)) {
		frames = NULL;
	}
	mutex_unlock(&dev->frames_lock);
	return frames;
}

bool os_has_vram_pages(struct os_device *dev)
{
	return frames_get(dev);
}

void *belfry_frames_owner(struct os_device *dev)
{
	struct belfry_frames *frames = smp_load_acquire(&dev->frames);

	return IS_ERR(frames) ? NULL : frames;
}

bool belfry_frame_offset(struct os_device *dev, struct page *page, u64 *offset)
{
	struct belfry_frames *frames = belfry_frames_owner(dev);
	unsigned long pfn = page_to_pfn(page);

	if (!frames || pfn < frames->first || pfn - frames->first >= frames->count)
		return false;
	*offset = (u64)(pfn - frames->first) << PAGE_SHIFT;
	return true;
}

/* offsets: where to move pages to; NULL: to system memory. */
static int move_area(struct os_device *dev, u64 key, u64 va, size_t count, u64 *offsets, size_t *moved)
{
	struct mm_struct *mm = (struct mm_struct *)(uintptr_t)key;
	struct belfry_frames *frames = frames_get(dev);
	struct vm_area_struct *vma;
	int err = -EFAULT;

	*moved = 0;
	if (!frames)
		return -EOPNOTSUPP;
	if (!count || !PAGE_ALIGNED(va) || count > TASK_SIZE_MAX / PAGE_SIZE || !os_user_range_ok(va, count * PAGE_SIZE))
		return -EFAULT;
	if (!mmget_not_zero(mm))
		return -ESRCH;
	mmap_read_lock(mm);
	vma = vma_lookup(mm, va);
	if (belfry_area_is_memory(vma) && va + count * PAGE_SIZE <= vma->vm_end)
		err = offsets ? area_to_vram(frames, vma, va, va + count * PAGE_SIZE, offsets, moved) :
				area_to_system(frames, vma, va, va + count * PAGE_SIZE, NULL, moved);
	mmap_read_unlock(mm);
	mmput(mm);
	if (!offsets)
		frames_drain(frames);
	return err;
}

int os_move_to_vram(struct os_device *dev, u64 mm, u64 va, size_t count, u64 *offsets, size_t *moved)
{
	return move_area(dev, mm, va, count, offsets, moved);
}

int os_move_to_system(struct os_device *dev, u64 mm, u64 va, size_t count, size_t *moved)
{
	return move_area(dev, mm, va, count, NULL, moved);
}

/* Moves all pages in VRAM to system memory, those of any process. */
static void frames_empty(struct belfry_frames *frames, unsigned long *src)
{
	unsigned long *dst = src + CHUNK;
	unsigned long at, count;

	for (at = 0; at < frames->count; at += count) {
		count = min_t(unsigned long, CHUNK, frames->count - at);
		memset(dst, 0, CHUNK * sizeof(*dst));
		migrate_device_range(src, frames->first + at, count);
		fill_system(frames, src, dst, count);
		migrate_device_pages(src, dst, count);
		migrate_device_finalize(src, dst, count);
		cond_resched();
	}
}

/* The function goes. No thread is in the core any more; BAR0 is still there. */
void belfry_frames_remove(struct os_device *dev)
{
	struct belfry_frames *frames = belfry_frames_owner(dev);
	unsigned long *src;

	if (!frames)
		return;
	src = kvcalloc(CHUNK, 2 * sizeof(*src), GFP_KERNEL | __GFP_NOFAIL);
	while (atomic_long_read(&frames->used)) {
		frames_empty(frames, src);
		/* Another part of the kernel may hold a page for a moment. */
		if (atomic_long_read(&frames->used))
			msleep(1);
	}
	kvfree(src);
	memunmap_pages(&frames->pagemap);
	flush_work(&frames->work);
	if (frames->region)
		release_mem_region(frames->region->start, (u64)frames->count << PAGE_SHIFT);
	dev->frames = ERR_PTR(-ENODEV);
	kvfree(frames->freed);
	kfree(frames);
}

#else /* pages of programs stay in system memory */

bool os_has_vram_pages(struct os_device *dev)
{
	return false;
}

void *belfry_frames_owner(struct os_device *dev)
{
	return NULL;
}

bool belfry_frame_offset(struct os_device *dev, struct page *page, u64 *offset)
{
	return false;
}

int os_move_to_vram(struct os_device *dev, u64 mm, u64 va, size_t count, u64 *offsets, size_t *moved)
{
	*moved = 0;
	return -EOPNOTSUPP;
}

int os_move_to_system(struct os_device *dev, u64 mm, u64 va, size_t count, size_t *moved)
{
	*moved = 0;
	return -EOPNOTSUPP;
}

void belfry_frames_remove(struct os_device *dev)
{
}

#endif
