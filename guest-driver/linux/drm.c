// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The render node: driver, ioctls, and the open files the core holds on to. */
#include <drm/amdgpu_drm.h>
#include <drm/drm_file.h>
#include <drm/drm_gem.h>
#include <drm/drm_ioctl.h>
#include <drm/drm_print.h>
#include <linux/file.h>
#include <linux/module.h>

#include "drm_files.h"

static int amdgpu_info_ioctl(struct drm_device *drm, void *data, struct drm_file *file)
{
	struct os_device *dev = to_os_device(drm);
	int err, idx;

	BUILD_BUG_ON(sizeof(struct drm_amdgpu_info) != 32);
	if (!belfry_enter(dev, &idx))
		return -ENODEV;
	err = belfry_amdgpu_info(dev->gpu, data);
	belfry_leave(dev, idx);
	return err;
}

static const struct drm_ioctl_desc ioctls[] = {
	DRM_IOCTL_DEF_DRV(AMDGPU_INFO, amdgpu_info_ioctl, DRM_AUTH | DRM_RENDER_ALLOW),
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

static const struct file_operations render_fops = {
	.owner = THIS_MODULE,
	DRM_GEM_FOPS,
	.show_fdinfo = drm_show_fdinfo,
};

const struct drm_driver belfry_drm_driver = {
	.driver_features = DRIVER_GEM | DRIVER_RENDER,
	.ioctls = ioctls,
	.num_ioctls = ARRAY_SIZE(ioctls),
	.fops = &render_fops,
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
