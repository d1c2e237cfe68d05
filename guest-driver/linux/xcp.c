// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * The render nodes of partitions after the first one. As amdgpu has it (amdgpu_xcp.c, amdgpu_xcp_drv.c), each is the DRM device of a
 * platform device, and its minors lead to the function's DRM device: all files are of that one, which knows them by their minor.
 */
#include <drm/drm_file.h>
#include <drm/drm_managed.h>
#include <linux/idr.h>
#include <linux/platform_device.h>
#include <linux/slab.h>

#include "shim.h"

struct belfry_xcp {
	struct platform_device *pdev;
	struct drm_device *drm;
	int number; /* of the platform device, among those of all functions */
	bool registered;
};

static DEFINE_IDA(xcp_numbers);

static void lead_to(struct drm_device *of, struct drm_device *drm)
{
	of->primary->dev = drm;
	of->render->dev = drm;
}

static int xcp_create(struct os_device *dev, struct belfry_xcp *xcp)
{
	char name[24];
	int number = ida_alloc(&xcp_numbers, GFP_KERNEL);
	int err;

	if (number < 0)
		return number;
	snprintf(name, sizeof(name), "amdgpu_xcp_%d", number);
	xcp->pdev = platform_device_register_simple(name, PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(xcp->pdev)) {
		err = PTR_ERR(xcp->pdev);
		goto err_number;
	}
	xcp->drm = drm_dev_alloc(&belfry_drm_driver, &xcp->pdev->dev);
	if (IS_ERR(xcp->drm)) {
		err = PTR_ERR(xcp->drm);
		goto err_platform;
	}
	lead_to(xcp->drm, &dev->drm);
	xcp->number = number;
	return 0;

err_platform:
	platform_device_unregister(xcp->pdev);
err_number:
	ida_free(&xcp_numbers, number);
	return err;
}

/* No process has a file any more, as each file holds the function's device. */
static void free_xcps(struct drm_device *drm, void *unused)
{
	struct os_device *dev = to_os_device(drm);
	u32 i;

	for (i = 0; i < dev->xcp_count; i++) {
		struct drm_device *of = dev->xcps[i].drm;

		lead_to(of, of);
		drm_dev_put(of);
	}
	kfree(dev->xcps);
}

int belfry_xcps_create(struct os_device *dev, u32 count)
{
	int err;

	if (!count)
		return 0;
	dev->xcps = kcalloc(count, sizeof(*dev->xcps), GFP_KERNEL);
	if (!dev->xcps)
		return -ENOMEM;
	err = drmm_add_action_or_reset(&dev->drm, free_xcps, NULL);
	while (!err && dev->xcp_count < count) {
		err = xcp_create(dev, &dev->xcps[dev->xcp_count]);
		if (!err)
			dev->xcp_count++;
	}
	return err;
}

int belfry_xcps_register(struct os_device *dev)
{
	u32 i;

	for (i = 0; i < dev->xcp_count; i++) {
		int err = drm_dev_register(dev->xcps[i].drm, 0);

		if (err)
			return err;
		dev->xcps[i].registered = true;
	}
	return 0;
}

/* What is open stays a file of the function's device. */
void belfry_xcps_remove(struct os_device *dev)
{
	u32 i;

	for (i = 0; i < dev->xcp_count; i++) {
		struct belfry_xcp *xcp = &dev->xcps[i];

		if (!xcp->pdev)
			continue;
		if (xcp->registered)
			drm_dev_unplug(xcp->drm);
		platform_device_unregister(xcp->pdev);
		ida_free(&xcp_numbers, xcp->number);
		xcp->pdev = NULL;
	}
}

u32 belfry_xcp_minor(struct os_device *dev, u32 partition)
{
	return partition <= dev->xcp_count ? dev->xcps[partition - 1].drm->render->index : 0;
}

u32 belfry_xcp_of(struct os_device *dev, const struct drm_minor *minor)
{
	u32 i;

	for (i = 0; i < dev->xcp_count; i++)
		if (minor == dev->xcps[i].drm->render || minor == dev->xcps[i].drm->primary)
			return i + 1;
	return 0;
}
