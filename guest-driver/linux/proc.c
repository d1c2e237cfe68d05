// SPDX-License-Identifier: MIT OR GPL-2.0-only
/*
 * /sys/class/kfd/kfd/proc: a directory for each process that has the KFD node open, and one in it for each of its queues, in
 * the core's words. Processes come and go with their files, queues by ioctls; both are looked after there.
 */
#include <linux/err.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "shim.h"

struct proc_queue {
	struct list_head link; /* in belfry_proc.queues */
	struct belfry_topology *files;
	u32 id;
	bool found; /* still there, while the queues are looked through */
};

struct belfry_proc {
	struct list_head link; /* in procs */
	struct list_head queues;
	struct belfry_gpu *gpu;
	struct belfry_topology *files; /* NULL once the device is gone */
	u32 id;
	unsigned int opens;
	pid_t pid;
};

/* Also keeps queues of a process from being looked through twice at a time. What reads the files does not take it. */
static DEFINE_MUTEX(proc_lock);
static LIST_HEAD(procs);
static struct kobject *proc_root;

int belfry_proc_init(struct kobject *node)
{
	struct kobject *root = kobject_create_and_add("proc", node);

	if (!root)
		return -ENOMEM;
	mutex_lock(&proc_lock);
	proc_root = root;
	mutex_unlock(&proc_lock);
	return 0;
}

static void queue_remove(struct proc_queue *queue)
{
	belfry_topology_remove(queue->files); /* waits for readers */
	list_del(&queue->link);
	kfree(queue);
}

static void proc_remove_files(struct belfry_proc *proc)
{
	struct proc_queue *queue, *next;

	list_for_each_entry_safe(queue, next, &proc->queues, link)
		queue_remove(queue);
	if (proc->files)
		belfry_topology_remove(proc->files);
	proc->files = NULL;
}

/* Directories go before the one that they are in, even if processes have files open. */
void belfry_proc_exit(void)
{
	struct belfry_proc *proc;

	mutex_lock(&proc_lock);
	list_for_each_entry(proc, &procs, link)
		proc_remove_files(proc);
	kobject_put(proc_root);
	proc_root = NULL;
	mutex_unlock(&proc_lock);
}

/* A process without a directory works all the same, as in amdkfd. */
static void proc_add_files(struct belfry_proc *proc)
{
	struct belfry_topology *files;
	char name[16], path[32];

	if (!proc_root)
		return;
	snprintf(name, sizeof(name), "%d", proc->pid);
	snprintf(path, sizeof(path), "proc/%u", proc->id);
	files = belfry_topology_create(proc->gpu, proc_root, name, path);
	if (IS_ERR(files))
		pr_warn("amdgpu: no directory of process %d in sysfs: error %ld\n", proc->pid, PTR_ERR(files));
	else
		proc->files = files;
}

struct belfry_proc *belfry_proc_open(struct belfry_gpu *gpu, u32 id)
{
	struct belfry_proc *proc;

	mutex_lock(&proc_lock);
	list_for_each_entry(proc, &procs, link) {
		if (proc->gpu == gpu && proc->id == id) {
			proc->opens++;
			goto out;
		}
	}
	proc = kzalloc(sizeof(*proc), GFP_KERNEL);
	if (!proc)
		goto out;
	INIT_LIST_HEAD(&proc->queues);
	proc->gpu = belfry_gpu_get(gpu);
	proc->id = id;
	proc->opens = 1;
	proc->pid = current->tgid;
	list_add_tail(&proc->link, &procs);
	proc_add_files(proc);
out:
	mutex_unlock(&proc_lock);
	return proc;
}

void belfry_proc_close(struct belfry_proc *proc)
{
	if (!proc)
		return;
	mutex_lock(&proc_lock);
	if (!--proc->opens) {
		proc_remove_files(proc);
		list_del(&proc->link);
		belfry_gpu_put(proc->gpu);
		kfree(proc);
	}
	mutex_unlock(&proc_lock);
}

/* A queue that is already listed is marked; another one is added. */
static void queue_found(struct belfry_proc *proc, u32 id, struct kobject *folder)
{
	struct proc_queue *queue;
	char name[16], path[48];

	list_for_each_entry(queue, &proc->queues, link) {
		if (queue->id == id) {
			queue->found = true;
			return;
		}
	}
	queue = kzalloc(sizeof(*queue), GFP_KERNEL);
	if (!queue)
		return;
	snprintf(name, sizeof(name), "%u", id);
	snprintf(path, sizeof(path), "proc/%u/queues/%u", proc->id, id);
	queue->files = belfry_topology_create(proc->gpu, folder, name, path);
	if (IS_ERR(queue->files)) {
		kfree(queue);
		return;
	}
	queue->id = id;
	queue->found = true;
	list_add_tail(&queue->link, &proc->queues);
}

void belfry_proc_update(struct belfry_proc *proc)
{
	struct proc_queue *queue, *next;
	char path[32], *text, *rest, *line;
	struct kobject *folder;
	ssize_t len;
	u32 id;

	if (!proc)
		return;
	text = kmalloc(PAGE_SIZE, GFP_KERNEL);
	if (!text)
		return;
	mutex_lock(&proc_lock);
	snprintf(path, sizeof(path), "proc/%u/queues", proc->id);
	folder = proc->files ? belfry_topology_dir(proc->files, path) : NULL;
	if (!folder)
		goto out;
	len = belfry_sysfs_read(proc->gpu, path, strlen(path), text, PAGE_SIZE - 1);
	if (len < 0)
		len = 0; /* the process is no more, and neither are its queues */
	text[len] = '\0';
	list_for_each_entry(queue, &proc->queues, link)
		queue->found = false;
	rest = text;
	while ((line = strsep(&rest, "\n"))) {
		if (!kstrtou32(line, 10, &id))
			queue_found(proc, id, folder);
	}
	list_for_each_entry_safe(queue, next, &proc->queues, link) {
		if (!queue->found)
			queue_remove(queue);
	}
out:
	mutex_unlock(&proc_lock);
	kfree(text);
}
