// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * /sys/kernel/debug/dri/N/belfry_trace: the driver's own events. Writing a number makes a ring for so many of the last events, and 0
 * gives it back. Reading takes events out, in chunks as abi/src/driver_trace.rs has them: the first read of an open file gives one in
 * any case, and one that finds no event after that is at the end of the file.
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/kstrtox.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/uaccess.h>

#include "shim.h"

/* The most bytes of a chunk. */
#define TRACE_READ_SIZE (64 << 10)

static ssize_t trace_read(struct file *file, char __user *user, size_t size, loff_t *offset)
{
	struct os_device *dev = file->private_data;
	size_t room = min_t(size_t, size, TRACE_READ_SIZE);
	u8 *chunk = kvzalloc(TRACE_READ_SIZE, GFP_KERNEL);
	ssize_t len;
	int idx;

	if (!chunk)
		return -ENOMEM;
	if (!belfry_enter(dev, &idx)) {
		kvfree(chunk);
		return -ENODEV;
	}
	len = belfry_trace_read(dev->gpu, chunk, room, !*offset);
	belfry_leave(dev, idx);
	if (len > 0 && copy_to_user(user, chunk, len))
		len = -EFAULT;
	kvfree(chunk);
	if (len > 0)
		*offset += len;
	return len;
}

static ssize_t trace_write(struct file *file, const char __user *user, size_t size, loff_t *offset)
{
	struct os_device *dev = file->private_data;
	u32 room;
	int err, idx;

	err = kstrtou32_from_user(user, size, 0, &room);
	if (err)
		return err;
	if (!belfry_enter(dev, &idx))
		return -ENODEV;
	err = belfry_trace_records(dev->gpu, room);
	belfry_leave(dev, idx);
	return err ? err : size;
}

static const struct file_operations trace_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = trace_read,
	.write = trace_write,
};

void belfry_trace_add(struct os_device *dev)
{
	/* As usual with debugfs, nothing depends on whether it is there. */
	dev->trace = debugfs_create_file("belfry_trace", 0600, dev->drm.debugfs_root, dev, &trace_fops);
}

/* Waits for who reads or writes. */
void belfry_trace_remove(struct os_device *dev)
{
	debugfs_remove(dev->trace);
	dev->trace = NULL;
}
