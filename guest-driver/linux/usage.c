// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * /sys/kernel/debug/dri/N/belfry_usage: resources of the device and of the kernel that processes hold. When no process uses
 * the device, it says what it said before the first one did; anything else is a leak.
 */
#include <drm/drm_debugfs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "shim.h"

static const char *const names[] = {
	[BELFRY_SYSTEM_PAGES] = "system_pages",
	[BELFRY_PINNED_PAGES] = "pinned_pages",
	[BELFRY_MIRRORED_PAGES] = "mirrored_pages",
	[BELFRY_WATCHED_RANGES] = "watched_ranges",
	[BELFRY_VRAM_PAGES] = "vram_pages",
	[BELFRY_GEM_OBJECTS] = "gem_objects",
	[BELFRY_DEBUG_TARGETS] = "debug_targets",
};

static int usage_show(struct seq_file *m, void *unused)
{
	struct drm_debugfs_entry *entry = m->private;
	struct os_device *dev = to_os_device(entry->dev);
	char *text = kmalloc(PAGE_SIZE, GFP_KERNEL);
	ssize_t len;
	size_t i;
	int idx;

	if (!text)
		return -ENOMEM;
	if (!belfry_enter(dev, &idx)) {
		kfree(text);
		return -ENODEV;
	}
	len = belfry_usage(dev->gpu, text, PAGE_SIZE);
	belfry_leave(dev, idx);
	if (len > 0)
		seq_write(m, text, len);
	kfree(text);
	if (len < 0)
		return len;
	for (i = 0; i < BELFRY_COUNTS; i++)
		seq_printf(m, "%s %ld\n", names[i], atomic_long_read(&dev->counts[i]));
	return 0;
}

void belfry_usage_add(struct os_device *dev)
{
	drm_debugfs_add_file(&dev->drm, "belfry_usage", usage_show, NULL);
}
