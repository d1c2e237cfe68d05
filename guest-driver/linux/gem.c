// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Buffer objects of the core as GEM objects, and the faults of their mappings. */
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_vma_manager.h>
#include <linux/dma-buf.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>

#include "drm_files.h"

/* Pages a fault maps at once: a fault costs far more than an entry of the page table. */
#define FAULT_AROUND 64

/* What the core holds is one reference to the object and the permission of the file it was made for. */
struct os_gem {
	struct drm_gem_object base;
	struct belfry_backing *backing;
	struct file *file;
	struct dma_buf *imported; /* of another device, which holds that device's object */
};

static struct os_gem *to_os_gem(struct drm_gem_object *obj)
{
	return container_of(obj, struct os_gem, base);
}

struct drm_gem_object *belfry_gem_object(struct os_gem *gem)
{
	return &gem->base;
}

struct belfry_backing *belfry_gem_backing(struct drm_gem_object *obj)
{
	return to_os_gem(obj)->backing;
}

/* The DMA-buf of another device that it is, or NULL. */
struct dma_buf *belfry_gem_imported(struct drm_gem_object *obj)
{
	return to_os_gem(obj)->imported;
}

static void gem_free(struct drm_gem_object *obj)
{
	struct os_gem *gem = to_os_gem(obj);

	belfry_count(to_os_device(obj->dev), BELFRY_GEM_OBJECTS, -1);
	drm_gem_object_release(obj);
	belfry_backing_drop(gem->backing);
	if (gem->imported)
		dma_buf_put(gem->imported);
	kfree(gem);
}

static bool page_to_pfn_of(struct os_device *dev, struct os_gem *gem, u64 index, unsigned long *pfn, bool *vram)
{
	struct belfry_page page;

	if (!belfry_backing_page(gem->backing, index, &page))
		return false;
	*vram = !page.cpu;
	if (!page.cpu) {
		if (page.vram >= dev->vram_size)
			return false;
		*pfn = (pci_resource_start(dev->pdev, BAR_VRAM) + page.vram) >> PAGE_SHIFT;
	} else if (is_vmalloc_addr(page.cpu)) {
		*pfn = vmalloc_to_pfn(page.cpu);
	} else {
		*pfn = virt_to_phys(page.cpu) >> PAGE_SHIFT;
	}
	return true;
}

static vm_fault_t gem_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct drm_gem_object *obj = vma->vm_private_data;
	struct os_device *dev = to_os_device(obj->dev);
	struct os_gem *gem = to_os_gem(obj);
	const u64 start = drm_vma_node_start(&obj->vma_node);
	unsigned long address = vmf->address & PAGE_MASK;
	u64 index = vmf->pgoff - start; /* vm_pgoff moves along when a mapping is split */
	vm_fault_t result = VM_FAULT_SIGBUS;
	int i, idx;

	if (!drm_dev_enter(obj->dev, &idx))
		return VM_FAULT_SIGBUS;
	for (i = 0; i < FAULT_AROUND && address < vma->vm_end; i++, index++, address += PAGE_SIZE) {
		unsigned long pfn;
		vm_fault_t inserted;
		pgprot_t prot = vm_get_page_prot(vma->vm_flags);
		bool vram;

		if (!page_to_pfn_of(dev, gem, index, &pfn, &vram))
			break;
		if (vram)
			prot = pgprot_writecombine(prot);
		inserted = vmf_insert_pfn_prot(vma, address, pfn, prot);
		/* Only the first page is owed. */
		if (i == 0)
			result = inserted;
		if (inserted != VM_FAULT_NOPAGE)
			break;
	}
	drm_dev_exit(idx);
	return result;
}

/* What ptrace and /proc/PID/mem use: frames have no struct page to reach them by. */
static int gem_access(struct vm_area_struct *vma, unsigned long address, void *data, int len, int write)
{
	struct drm_gem_object *obj = vma->vm_private_data;
	struct os_device *dev = to_os_device(obj->dev);
	const u64 start = drm_vma_node_start(&obj->vma_node);
	const size_t offset = offset_in_page(address);
	struct belfry_page page;
	int idx;

	if (!drm_dev_enter(obj->dev, &idx))
		return -EIO;
	len = min_t(int, len, PAGE_SIZE - offset);
	if (!belfry_backing_page(to_os_gem(obj)->backing,
				 vma->vm_pgoff - start + ((address - vma->vm_start) >> PAGE_SHIFT), &page))
		len = -EIO;
	else if (page.cpu && write)
		memcpy(page.cpu + offset, data, len);
	else if (page.cpu)
		memcpy(data, page.cpu + offset, len);
	else if (write)
		os_vram_write(dev, page.vram + offset, data, len);
	else
		os_vram_read(dev, page.vram + offset, data, len);
	drm_dev_exit(idx);
	return len;
}

static const struct vm_operations_struct gem_vm_ops = {
	.fault = gem_fault,
	.access = gem_access,
	.open = drm_gem_vm_open,
	.close = drm_gem_vm_close,
};

/* The mapping is one of the other device's object, whose frames it knows. */
static int mmap_imported(struct drm_gem_object *obj, struct vm_area_struct *vma)
{
	int err = dma_buf_mmap(to_os_gem(obj)->imported, vma, vma->vm_pgoff - drm_vma_node_start(&obj->vma_node));

	/* The DMA-buf's file has taken the place of this object's reference. */
	if (!err)
		drm_gem_object_put(obj);
	return err;
}

static int gem_mmap(struct drm_gem_object *obj, struct vm_area_struct *vma)
{
	if (to_os_gem(obj)->imported)
		return mmap_imported(obj, vma);
	/* The program has it mapped already (amdgpu_gem_object_mmap). */
	if (belfry_backing_is_user(to_os_gem(obj)->backing))
		return -EPERM;
	/*
	 * A private copy of memory that the device writes would be of no use, and a frame map cannot have one. But
	 * libhsakmt keeps the addresses of VRAM it does not touch with private mappings without access.
	 */
	if ((vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) == VM_MAYWRITE) {
		if (vma->vm_flags & VM_ACCESS_FLAGS)
			return -EINVAL;
		vm_flags_clear(vma, VM_MAYWRITE);
	}
	vm_flags_set(vma, VM_PFNMAP | VM_IO | VM_DONTEXPAND | VM_DONTDUMP);
	return 0;
}

static int gem_open(struct drm_gem_object *obj, struct drm_file *file)
{
	belfry_drm_handle_opened(belfry_client_of(file), to_os_gem(obj)->backing);
	return 0;
}

/* What the file has mapped of it goes, too; an unbind has stopped the device already. */
static void gem_close(struct drm_gem_object *obj, struct drm_file *file)
{
	struct os_device *dev = to_os_device(obj->dev);
	int idx = srcu_read_lock(&dev->users);

	belfry_drm_handle_closed(belfry_client_of(file), to_os_gem(obj)->backing);
	srcu_read_unlock(&dev->users, idx);
}

const struct drm_gem_object_funcs belfry_gem_funcs = {
	.free = gem_free,
	.open = gem_open,
	.close = gem_close,
	.export = belfry_prime_export,
	.mmap = gem_mmap,
	.vm_ops = &gem_vm_ops,
};

int os_handle_create(struct os_render_file *file, struct belfry_backing *backing, u64 size, u32 *handle)
{
	struct drm_file *drm_file = (struct drm_file *)file;
	struct os_gem *gem = kzalloc(sizeof(*gem), GFP_KERNEL);
	int err;

	if (!gem) {
		belfry_backing_drop(backing);
		return -ENOMEM;
	}
	gem->backing = backing;
	gem->base.funcs = &belfry_gem_funcs;
	drm_gem_private_object_init(drm_file->minor->dev, &gem->base, PAGE_ALIGN(size));
	belfry_count(to_os_device(drm_file->minor->dev), BELFRY_GEM_OBJECTS, 1);
	err = drm_gem_create_mmap_offset(&gem->base);
	if (!err)
		err = drm_gem_handle_create(drm_file, &gem->base, handle);
	/* From here on it is the handle that holds it. */
	drm_gem_object_put(&gem->base);
	return err;
}

/* Memory of another device, as an object of this one. */
struct drm_gem_object *belfry_gem_import(struct drm_device *drm, struct dma_buf *buf)
{
	struct os_device *dev = to_os_device(drm);
	struct drm_gem_object *theirs = buf->priv;
	struct os_gem *gem = kzalloc(sizeof(*gem), GFP_KERNEL);
	int err = -ENODEV, idx;

	if (!gem)
		return ERR_PTR(-ENOMEM);
	if (belfry_enter(dev, &idx)) {
		gem->backing = belfry_backing_import(dev->gpu, belfry_gem_backing(theirs));
		err = -EINVAL;
		belfry_leave(dev, idx);
	}
	if (!gem->backing) {
		kfree(gem);
		return ERR_PTR(err);
	}
	get_dma_buf(buf);
	gem->imported = buf;
	gem->base.funcs = &belfry_gem_funcs;
	drm_gem_private_object_init(drm, &gem->base, theirs->size);
	belfry_count(dev, BELFRY_GEM_OBJECTS, 1);
	err = drm_gem_create_mmap_offset(&gem->base);
	if (err) {
		drm_gem_object_put(&gem->base);
		return ERR_PTR(err);
	}
	return &gem->base;
}

int os_handle_lookup(struct os_render_file *file, u32 handle, struct os_gem **out)
{
	struct drm_gem_object *obj = drm_gem_object_lookup((struct drm_file *)file, handle);

	if (!obj)
		return -ENOENT;
	*out = to_os_gem(obj);
	return 0;
}

void os_handle_put(struct os_gem *gem)
{
	drm_gem_object_put(&gem->base);
}

struct belfry_backing *os_gem_backing(struct os_gem *gem)
{
	return gem->backing;
}

int os_gem_create(struct os_drm_file *acquired, struct belfry_backing *backing, u64 size, struct os_gem **out)
{
	struct drm_file *drm_file = acquired->file->private_data;
	struct drm_device *drm = drm_file->minor->dev;
	struct os_gem *gem = kzalloc(sizeof(*gem), GFP_KERNEL);
	int err;

	if (!gem) {
		belfry_backing_drop(backing);
		return -ENOMEM;
	}
	gem->backing = backing;
	gem->base.funcs = &belfry_gem_funcs;
	drm_gem_private_object_init(drm, &gem->base, PAGE_ALIGN(size));
	belfry_count(to_os_device(drm), BELFRY_GEM_OBJECTS, 1);
	err = drm_gem_create_mmap_offset(&gem->base);
	if (!err)
		err = drm_vma_node_allow(&gem->base.vma_node, drm_file);
	if (err) {
		drm_gem_object_put(&gem->base);
		return err;
	}
	gem->file = get_file(acquired->file);
	*out = gem;
	return 0;
}

void os_gem_release(struct os_gem *gem)
{
	struct file *file = gem->file;

	drm_vma_node_revoke(&gem->base.vma_node, file->private_data);
	drm_gem_object_put(&gem->base);
	fput(file);
}

u64 os_gem_mmap_offset(struct os_gem *gem)
{
	return drm_vma_node_offset_addr(&gem->base.vma_node);
}
