// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Debuggers: processes that they name, their descriptors, and the memory of a process from any thread. */
#include <linux/capability.h>
#include <linux/file.h>
#include <linux/fs.h>
#include <linux/highmem.h>
#include <linux/kref.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/pid.h>
#include <linux/poll.h>
#include <linux/ptrace.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "shim.h"

/* The core has one reference, and the work that tells it of the end of the address space has one while it is queued. */
struct os_target {
	struct kref ref;
	struct os_device *dev;
	struct mm_struct *mm; /* its address is the key of the process */
	bool traced;          /* by who asked */
	bool held;
	bool closing;
	struct belfry_gpu *gpu; /* while it is held */
	struct mmu_notifier notifier;
	struct work_struct exit_work;
};

static void target_free(struct kref *ref)
{
	struct os_target *target = container_of(ref, struct os_target, ref);

	belfry_count(target->dev, BELFRY_DEBUG_TARGETS, -1);
	mmdrop(target->mm);
	if (target->gpu)
		belfry_gpu_put(target->gpu);
	os_device_put(target->dev);
	kfree(target);
}

static void target_exit_work(struct work_struct *work)
{
	struct os_target *target = container_of(work, struct os_target, exit_work);
	int idx = srcu_read_lock(&target->dev->users);

	belfry_exit(target->gpu, (uintptr_t)target->mm);
	srcu_read_unlock(&target->dev->users, idx);
	kref_put(&target->ref, target_free);
}

/* Unregistering comes by here too, and a debugger that detaches does not end the process. */
static void target_mm_release(struct mmu_notifier *notifier, struct mm_struct *mm)
{
	struct os_target *target = container_of(notifier, struct os_target, notifier);

	if (READ_ONCE(target->closing))
		return;
	kref_get(&target->ref);
	if (!queue_work(belfry_wq, &target->exit_work))
		kref_put(&target->ref, target_free);
}

static const struct mmu_notifier_ops target_mm_ops = {
	.release = target_mm_release,
};

int os_target_get(struct os_device *dev, u32 number, struct os_target **out)
{
	struct os_target *target = kzalloc(sizeof(*target), GFP_KERNEL);
	struct task_struct *task = NULL;
	struct mm_struct *mm = NULL;
	struct pid *pid;

	if (!target)
		return -ENOMEM;
	pid = find_get_pid(number);
	if (pid)
		task = get_pid_task(pid, PIDTYPE_PID);
	put_pid(pid);
	if (task) {
		mm = get_task_mm(task);
		rcu_read_lock();
		target->traced = ptrace_parent(task) == current;
		rcu_read_unlock();
		put_task_struct(task);
	}
	if (!mm) {
		kfree(target);
		return -ESRCH;
	}
	/* The key stays unique as long as this does. */
	mmgrab(mm);
	mmput(mm);
	kref_init(&target->ref);
	os_device_get(dev);
	target->dev = dev;
	belfry_count(dev, BELFRY_DEBUG_TARGETS, 1);
	target->mm = mm;
	target->notifier.ops = &target_mm_ops;
	INIT_WORK(&target->exit_work, target_exit_work);
	*out = target;
	return 0;
}

u64 os_target_key(struct os_target *target)
{
	return (uintptr_t)target->mm;
}

bool os_target_is_traced(struct os_target *target)
{
	return target->traced;
}

int os_target_hold(struct os_target *target)
{
	int err;

	if (target->held)
		return 0;
	if (!mmget_not_zero(target->mm))
		return -ESRCH;
	target->gpu = belfry_gpu_get(target->dev->gpu);
	err = mmu_notifier_register(&target->notifier, target->mm);
	mmput(target->mm);
	target->held = !err;
	return err;
}

void os_target_put(struct os_target *target)
{
	WRITE_ONCE(target->closing, true);
	if (target->held)
		mmu_notifier_unregister(&target->notifier, target->mm);
	kref_put(&target->ref, target_free);
}

struct os_event_file *os_event_file_get(int fd)
{
	struct file *file = fget(fd);

	if (file && !(file->f_mode & FMODE_WRITE && file->f_mode & FMODE_CAN_WRITE)) {
		fput(file);
		file = NULL;
	}
	return (struct os_event_file *)file;
}

/* A byte for which there is no room is not waited for: the debugger has not read those before it. */
void os_event_file_notify(struct os_event_file *event)
{
	struct file *file = (struct file *)event;
	loff_t offset = 0;

	if (!file_can_poll(file) || vfs_poll(file, NULL) & EPOLLOUT)
		kernel_write(file, ".", 1, &offset);
}

void os_event_file_put(struct os_event_file *event)
{
	fput((struct file *)event);
}

static int access_page(struct mm_struct *mm, u64 va, u8 *data, size_t len, bool write)
{
	struct page *page;
	u8 *mapped;
	long got;

	mmap_read_lock(mm);
	got = get_user_pages_remote(mm, va & PAGE_MASK, 1, write ? FOLL_WRITE : 0, &page, NULL);
	mmap_read_unlock(mm);
	if (got != 1)
		return -EFAULT;
	mapped = kmap_local_page(page);
	if (write)
		memcpy(mapped + offset_in_page(va), data, len);
	else
		memcpy(data, mapped + offset_in_page(va), len);
	kunmap_local(mapped);
	if (write)
		set_page_dirty_lock(page);
	put_page(page);
	return 0;
}

int os_access_user(u64 key, u64 va, void *data, size_t len, bool write)
{
	/* The caller, which gives the key, holds the mm_struct, not its users. */
	struct mm_struct *mm = (struct mm_struct *)(uintptr_t)key;
	size_t done = 0;
	int err = 0;

	if (!os_user_range_ok(va, len))
		return -EFAULT;
	if (!mmget_not_zero(mm))
		return -ESRCH;
	while (done < len && !err) {
		size_t part = min_t(size_t, len - done, PAGE_SIZE - offset_in_page(va + done));

		err = access_page(mm, va + done, (u8 *)data + done, part, write);
		done += part;
	}
	mmput(mm);
	return err;
}

bool os_may_checkpoint(void)
{
	return capable(CAP_CHECKPOINT_RESTORE) || capable(CAP_SYS_ADMIN);
}
