// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The render node: driver, ioctls, and the open files the core holds on to. */
#include <drm/amdgpu_drm.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_print.h>
#include <linux/err.h>
#include <linux/file.h>
#include <linux/module.h>

#include "drm_files.h"

/* What the core has of an open file. */
struct client {
	struct belfry_gpu *gpu;
	struct belfry_client *core;
};

static int client_open(struct drm_device *drm, struct drm_file *file)
{
	struct os_device *dev = to_os_device(drm);
	struct client *client = kzalloc(sizeof(*client), GFP_KERNEL);
	int err = -ENODEV, idx;

	if (!client)
		return -ENOMEM;
	if (belfry_enter(dev, &idx)) {
		client->gpu = belfry_gpu_get(dev->gpu);
		err = belfry_drm_open(client->gpu, (uintptr_t)file, belfry_xcp_of(dev, file->minor), &client->core);
		if (err)
			belfry_gpu_put(client->gpu);
		belfry_leave(dev, idx);
	}
	if (err) {
		kfree(client);
		return err;
	}
	file->driver_priv = client;
	return 0;
}

/* Handles are gone already, and so is the process that has acquired the address space: it holds the file. */
static void client_close(struct drm_device *drm, struct drm_file *file)
{
	struct client *client = file->driver_priv;
	struct os_device *dev = to_os_device(drm);
	/* An unbind waits for the end of what it does not do itself. */
	int idx = srcu_read_lock(&dev->users);

	belfry_drm_close(client->gpu, client->core);
	srcu_read_unlock(&dev->users, idx);
	belfry_gpu_put(client->gpu);
	kfree(client);
}

struct belfry_client *belfry_client_of(struct drm_file *file)
{
	struct client *client = file->driver_priv;

	return client->core;
}

/* data is as long as the driver's structure at least, which the core checks once more. */
static int call(struct drm_device *drm, u32 number, void *data, size_t len, struct drm_file *file)
{
	struct client *client = file->driver_priv;
	struct os_device *dev = to_os_device(drm);
	int err, idx;

	if (!belfry_enter(dev, &idx))
		return -ENODEV;
	err = belfry_drm_ioctl(client->gpu, client->core, (struct os_render_file *)file, number, data, len);
	belfry_leave(dev, idx);
	return err;
}

#define COMMAND(name, NAME, type)                                                                  \
	static int name##_ioctl(struct drm_device *drm, void *data, struct drm_file *file)         \
	{                                                                                          \
		return call(drm, DRM_COMMAND_BASE + DRM_AMDGPU_##NAME, data, sizeof(type), file);  \
	}

COMMAND(gem_create, GEM_CREATE, union drm_amdgpu_gem_create)
COMMAND(gem_mmap, GEM_MMAP, union drm_amdgpu_gem_mmap)
COMMAND(ctx, CTX, union drm_amdgpu_ctx)
COMMAND(bo_list, BO_LIST, union drm_amdgpu_bo_list)
COMMAND(cs, CS, union drm_amdgpu_cs)
COMMAND(info, INFO, struct drm_amdgpu_info)
COMMAND(gem_metadata, GEM_METADATA, struct drm_amdgpu_gem_metadata)
COMMAND(gem_wait_idle, GEM_WAIT_IDLE, union drm_amdgpu_gem_wait_idle)
COMMAND(gem_va, GEM_VA, struct drm_amdgpu_gem_va)
COMMAND(wait_cs, WAIT_CS, union drm_amdgpu_wait_cs)
COMMAND(gem_op, GEM_OP, struct drm_amdgpu_gem_op)
COMMAND(gem_userptr, GEM_USERPTR, struct drm_amdgpu_gem_userptr)
COMMAND(wait_fences, WAIT_FENCES, union drm_amdgpu_wait_fences)
COMMAND(vm, VM, union drm_amdgpu_vm)
COMMAND(fence_to_handle, FENCE_TO_HANDLE, union drm_amdgpu_fence_to_handle)
COMMAND(sched, SCHED, union drm_amdgpu_sched)

#define ENTRY(NAME, name) DRM_IOCTL_DEF_DRV(AMDGPU_##NAME, name##_ioctl, DRM_AUTH | DRM_RENDER_ALLOW)

static const struct drm_ioctl_desc ioctls[] = {
	ENTRY(GEM_CREATE, gem_create),
	ENTRY(GEM_MMAP, gem_mmap),
	ENTRY(CTX, ctx),
	ENTRY(BO_LIST, bo_list),
	ENTRY(CS, cs),
	ENTRY(INFO, info),
	ENTRY(GEM_METADATA, gem_metadata),
	ENTRY(GEM_WAIT_IDLE, gem_wait_idle),
	ENTRY(GEM_VA, gem_va),
	ENTRY(WAIT_CS, wait_cs),
	ENTRY(GEM_OP, gem_op),
	ENTRY(GEM_USERPTR, gem_userptr),
	ENTRY(WAIT_FENCES, wait_fences),
	ENTRY(VM, vm),
	ENTRY(FENCE_TO_HANDLE, fence_to_handle),
	/* For the master of a display: DRM refuses it at a render node. */
	DRM_IOCTL_DEF_DRV(AMDGPU_SCHED, sched_ioctl, DRM_MASTER),
};

/* What /proc/PID/fdinfo says of a render node, behind DRM's own lines. */
static void show_fdinfo(struct drm_printer *p, struct drm_file *file)
{
	struct os_device *dev = to_os_device(file->minor->dev);
	struct belfry_client_memory memory = {};
	int idx;

	if (!belfry_enter(dev, &idx))
		return;
	if (belfry_client_memory(dev->gpu, (uintptr_t)file, &memory))
		drm_printf(p, "pasid:\t%u\n", memory.pasid);
	drm_printf(p, "drm-memory-vram:\t%llu KiB\n", memory.vram / 1024);
	drm_printf(p, "drm-memory-gtt:\t%llu KiB\n", memory.gtt / 1024);
	belfry_leave(dev, idx);
}

/* Handles are closed before client_close(), and wait for work that may never end: it ends here. */
static int render_release(struct inode *inode, struct file *file)
{
	struct drm_file *drm_file = file->private_data;
	struct os_device *dev = to_os_device(drm_file->minor->dev);
	int idx = srcu_read_lock(&dev->users);

	belfry_drm_stop(belfry_client_of(drm_file));
	srcu_read_unlock(&dev->users, idx);
	return drm_release(inode, file);
}

static const struct file_operations render_fops = {
	.owner = THIS_MODULE,
	DRM_GEM_FOPS,
	.release = render_release,
	.show_fdinfo = drm_show_fdinfo,
};

const struct drm_driver belfry_drm_driver = {
	.driver_features = DRIVER_GEM | DRIVER_RENDER | DRIVER_SYNCOBJ | DRIVER_SYNCOBJ_TIMELINE,
	.ioctls = ioctls,
	.num_ioctls = ARRAY_SIZE(ioctls),
	.fops = &render_fops,
	.open = client_open,
	.postclose = client_close,
	.gem_prime_import = belfry_prime_import,
	.show_fdinfo = show_fdinfo,
	.name = BELFRY_NAME, /* libdrm_amdgpu asks for this name and this major number */
	.desc = "Belfry GPU",
	BELFRY_DRM_DATE
	.major = 3,
	.minor = 59,
	.patchlevel = 0,
};

int os_drm_acquire(struct os_device *dev, int fd, struct os_drm_file **out)
{
	struct os_drm_file *acquired;
	struct drm_file *drm_file;
	struct file *file = fget(fd);

	if (!file)
		return -EINVAL;
	if (file->f_op != &render_fops)
		goto fail;
	drm_file = file->private_data;
	if (drm_file->minor->dev != &dev->drm)
		goto fail;
	acquired = kmalloc(sizeof(*acquired), GFP_KERNEL);
	if (!acquired) {
		fput(file);
		return -ENOMEM;
	}
	acquired->file = file;
	*out = acquired;
	return 0;

fail:
	fput(file);
	return -EINVAL;
}

void os_drm_release(struct os_drm_file *acquired)
{
	fput(acquired->file);
	kfree(acquired);
}

u64 os_drm_id(struct os_drm_file *acquired)
{
	return (uintptr_t)acquired->file->private_data;
}
