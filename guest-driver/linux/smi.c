// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Descriptors that give events: anonymous files, of which the core has the contents. */
#include <linux/anon_inodes.h>
#include <linux/fs.h>
#include <linux/kref.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/wait.h>

#include "shim.h"

#define SMI_READ_SIZE 1024

/* One reference is the file's, one the core's. */
struct os_smi {
	struct kref ref;
	wait_queue_head_t wait;
	struct belfry_smi *client; /* as long as the file is open */
};

static void smi_free(struct kref *ref)
{
	kfree(container_of(ref, struct os_smi, ref));
}

static ssize_t smi_read(struct file *file, char __user *user, size_t size, loff_t *offset)
{
	struct os_smi *smi = file->private_data;
	size_t room = min_t(size_t, size, SMI_READ_SIZE);
	u8 *text = kzalloc(SMI_READ_SIZE, GFP_KERNEL);
	ssize_t len;

	if (!text)
		return -ENOMEM;
	len = belfry_smi_read(smi->client, text, room);
	if (len > 0 && copy_to_user(user, text, len))
		len = -EFAULT;
	kfree(text);
	return len;
}

static ssize_t smi_write(struct file *file, const char __user *user, size_t size, loff_t *offset)
{
	struct os_smi *smi = file->private_data;
	u8 mask[sizeof(u64)];
	size_t len = min_t(size_t, size, sizeof(mask));

	if (copy_from_user(mask, user, len))
		return -EFAULT;
	return belfry_smi_write(smi->client, mask, len);
}

static __poll_t smi_poll(struct file *file, struct poll_table_struct *wait)
{
	struct os_smi *smi = file->private_data;

	poll_wait(file, &smi->wait, wait);
	return belfry_smi_ready(smi->client) ? EPOLLIN | EPOLLRDNORM : 0;
}

static int smi_release(struct inode *inode, struct file *file)
{
	struct os_smi *smi = file->private_data;

	belfry_smi_drop(smi->client);
	kref_put(&smi->ref, smi_free);
	return 0;
}

static const struct file_operations smi_fops = {
	.owner = THIS_MODULE,
	.read = smi_read,
	.write = smi_write,
	.poll = smi_poll,
	.release = smi_release,
};

int os_smi_open(struct belfry_smi *client, struct os_smi **out, int *fd)
{
	struct os_smi *smi = kzalloc(sizeof(*smi), GFP_KERNEL);

	if (!smi) {
		belfry_smi_drop(client);
		return -ENOMEM;
	}
	kref_init(&smi->ref);
	init_waitqueue_head(&smi->wait);
	smi->client = client;
	kref_get(&smi->ref);
	*fd = anon_inode_getfd("kfd_smi_ev", &smi_fops, smi, O_RDWR);
	if (*fd < 0) {
		belfry_smi_drop(client);
		kfree(smi);
		return *fd;
	}
	*out = smi;
	return 0;
}

void os_smi_wake(struct os_smi *smi)
{
	wake_up_all(&smi->wait);
}

void os_smi_release(struct os_smi *smi)
{
	kref_put(&smi->ref, smi_free);
}

void os_task(u32 *id, char *name)
{
	*id = task_pid_nr(current);
	strscpy_pad(name, current->comm, OS_TASK_NAME_LEN);
}
