// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Locks, waiting and time. */
#include <linux/delay.h>
#include <linux/mutex.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/timekeeping.h>
#include <linux/wait.h>

#include "shim.h"

struct os_lock {
	struct mutex mutex;
	unsigned int saved; /* flags of who holds it */
};

/* A process's lock is held while the scheduler's is taken: as one class, that would look like recursion. */
static struct lock_class_key lock_keys[OS_LOCK_RANKS];

static const char *const lock_names[OS_LOCK_RANKS] = {
	[OS_LOCK_PROCESS] = "kfd process",
	[OS_LOCK_PROCESS_STATE] = "kfd process state",
	[OS_LOCK_CLIENT] = "kfd render node client",
	[OS_LOCK_ADDRESS_SPACE] = "kfd address space",
	[OS_LOCK_SCHEDULER] = "kfd scheduler",
	[OS_LOCK_INTERRUPT_RING] = "kfd interrupt ring",
	[OS_LOCK_PROCESSES] = "kfd processes",
	[OS_LOCK_EVENTS] = "kfd events",
	[OS_LOCK_EXCEPTIONS] = "kfd exceptions",
	[OS_LOCK_PENDING_FAULT] = "kfd pending fault",
	[OS_LOCK_SMI_CLIENTS] = "kfd smi clients",
	[OS_LOCK_SMI_FIFO] = "kfd smi fifo",
	[OS_LOCK_VRAM] = "kfd vram",
	[OS_LOCK_GART] = "kfd gart",
	[OS_LOCK_INVALIDATION] = "kfd invalidation",
	[OS_LOCK_OBJECT] = "kfd object",
	[OS_LOCK_RATE_LIMIT] = "kfd rate limit",
	[OS_LOCK_NODES] = "kfd nodes",
	[OS_LOCK_TRACE] = "kfd trace",
};

int os_lock_new(struct os_lock **out, u32 rank)
{
	struct os_lock *lock;

	if (rank >= OS_LOCK_RANKS)
		return -EINVAL;
	lock = kzalloc(sizeof(*lock), GFP_KERNEL);
	if (!lock)
		return -ENOMEM;
	__mutex_init(&lock->mutex, lock_names[rank], &lock_keys[rank]);
	*out = lock;
	return 0;
}

void os_lock_free(struct os_lock *lock)
{
	mutex_destroy(&lock->mutex);
	kfree(lock);
}

/*
 * A notifier of svm.c takes locks of the core, and the kernel may call it to get memory back. So who holds one asks for memory
 * in a way that gets none back, as amdkfd does with its own (dqm_lock, svm_range_lock).
 */
void os_lock_acquire(struct os_lock *lock)
{
	mutex_lock(&lock->mutex);
	lock->saved = memalloc_noreclaim_save();
}

void os_lock_release(struct os_lock *lock)
{
	/* Locks are given back in the reverse order. */
	WARN_ON_ONCE(!(current->flags & PF_MEMALLOC));
	memalloc_noreclaim_restore(lock->saved);
	mutex_unlock(&lock->mutex);
}

struct os_wait_queue {
	wait_queue_head_t head;
	atomic64_t generation;
};

int os_wait_queue_new(struct os_wait_queue **out)
{
	struct os_wait_queue *queue = kzalloc(sizeof(*queue), GFP_KERNEL);

	if (!queue)
		return -ENOMEM;
	init_waitqueue_head(&queue->head);
	*out = queue;
	return 0;
}

void os_wait_queue_free(struct os_wait_queue *queue)
{
	kfree(queue);
}

u64 os_wait_queue_ticket(struct os_wait_queue *queue)
{
	return atomic64_read_acquire(&queue->generation);
}

int os_wait_queue_wait(struct os_wait_queue *queue, u64 ticket, u64 timeout_ns)
{
	if (timeout_ns >= KTIME_MAX)
		return wait_event_interruptible(queue->head, os_wait_queue_ticket(queue) != ticket);
	return wait_event_interruptible_hrtimeout(queue->head, os_wait_queue_ticket(queue) != ticket,
						  ns_to_ktime(timeout_ns));
}

void os_wait_queue_wake_all(struct os_wait_queue *queue)
{
	atomic64_inc_return_release(&queue->generation);
	wake_up_all(&queue->head);
}

u64 os_clock_ns(void)
{
	return ktime_get_ns();
}

u64 os_clock_raw_ns(void)
{
	return ktime_get_raw_ns();
}

u64 os_clock_boot_ns(void)
{
	return ktime_get_boottime_ns();
}

void os_sleep_us(u64 us)
{
	fsleep(min_t(u64, us, ULONG_MAX / 2));
}
