// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* /dev/kfd: it appears with the device. A process of the core lives from the first open to the last close, or to the
 * end of its address space, whichever comes first. */
#include <linux/cdev.h>
#include <linux/compat.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/kfd_ioctl.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "shim.h"

struct kfd_file {
	struct os_device *dev;
	struct belfry_gpu *gpu;
	struct belfry_process *process;
	struct belfry_proc *proc; /* its directory; NULL if there is none */
	struct mm_struct *mm; /* held by the notifier; its address is the key of the process */
	struct mmu_notifier notifier;
	struct work_struct exit_work;
	bool closing;
};

static int kfd_major;
static struct class *kfd_class;

/* One node for the one device that is bound. */
static DEFINE_MUTEX(kfd_lock);
static struct os_device *kfd_device;
static struct device *kfd_node;
static struct belfry_topology *kfd_topology; /* NULL if it could not be made anew */

static u64 mm_key(struct mm_struct *mm)
{
	return (uintptr_t)mm;
}

static void kfd_exit_work(struct work_struct *work)
{
	struct kfd_file *kfd = container_of(work, struct kfd_file, exit_work);
	/* An unbind waits for the end of what it does not do itself. */
	int idx = srcu_read_lock(&kfd->dev->users);

	belfry_exit(kfd->gpu, mm_key(kfd->mm));
	srcu_read_unlock(&kfd->dev->users, idx);
}

/* The last user of the address space is gone. Stopping queues takes time that a notifier must not take. */
static void kfd_mm_release(struct mmu_notifier *notifier, struct mm_struct *mm)
{
	struct kfd_file *kfd = container_of(notifier, struct kfd_file, notifier);

	/* Unregistering comes by here too, and closing one file does not end the process. */
	if (!READ_ONCE(kfd->closing))
		queue_work(belfry_wq, &kfd->exit_work);
}

static const struct mmu_notifier_ops kfd_mm_ops = {
	.release = kfd_mm_release,
};

static int kfd_open(struct inode *inode, struct file *file)
{
	struct kfd_file *kfd;
	int err = -ENODEV, idx;

	if (in_compat_syscall())
		return -EPERM;
	kfd = kzalloc(sizeof(*kfd), GFP_KERNEL);
	if (!kfd)
		return -ENOMEM;
	INIT_WORK(&kfd->exit_work, kfd_exit_work);
	kfd->notifier.ops = &kfd_mm_ops;
	kfd->mm = current->mm;

	mutex_lock(&kfd_lock);
	if (kfd_device) {
		kfd->dev = kfd_device;
		os_device_get(kfd->dev);
		kfd->gpu = belfry_gpu_get(kfd->dev->gpu);
		err = 0;
	}
	mutex_unlock(&kfd_lock);
	if (err)
		goto err_free;

	err = mmu_notifier_register(&kfd->notifier, kfd->mm);
	if (err)
		goto err_put;
	err = -ENODEV;
	if (belfry_enter(kfd->dev, &idx)) {
		err = belfry_open(kfd->gpu, mm_key(kfd->mm), &kfd->process);
		belfry_leave(kfd->dev, idx);
	}
	if (err)
		goto err_notifier;
	kfd->proc = belfry_proc_open(kfd->gpu, belfry_process_id(kfd->process));
	file->private_data = kfd;
	/* One address_space for the mappings of both nodes: drm_dev_unplug() revokes them all. */
	file->f_mapping = kfd->dev->drm.anon_inode->i_mapping;
	return nonseekable_open(inode, file);

err_notifier:
	kfd->closing = true;
	mmu_notifier_unregister(&kfd->notifier, kfd->mm);
err_put:
	belfry_gpu_put(kfd->gpu);
	os_device_put(kfd->dev);
err_free:
	kfree(kfd);
	return err;
}

static int kfd_release(struct inode *inode, struct file *file)
{
	struct kfd_file *kfd = file->private_data;
	int idx;

	/* mmgrab: the key stays unique until the core has forgotten the process. */
	mmgrab(kfd->mm);
	WRITE_ONCE(kfd->closing, true);
	mmu_notifier_unregister(&kfd->notifier, kfd->mm);
	flush_work(&kfd->exit_work);
	idx = srcu_read_lock(&kfd->dev->users);
	belfry_close(kfd->gpu, kfd->process);
	srcu_read_unlock(&kfd->dev->users, idx);
	belfry_proc_close(kfd->proc);
	mmdrop(kfd->mm);
	belfry_gpu_put(kfd->gpu);
	os_device_put(kfd->dev);
	kfree(kfd);
	return 0;
}

static long kfd_ioctl(struct file *file, unsigned int command, unsigned long arg)
{
	struct kfd_file *kfd = file->private_data;
	long result;
	int idx;

	if (!belfry_enter(kfd->dev, &idx))
		return -ENODEV;
	result = belfry_ioctl(kfd->gpu, kfd->process, mm_key(current->mm), command, arg);
	switch (_IOC_NR(command)) {
	case _IOC_NR(AMDKFD_IOC_CREATE_QUEUE):
	case _IOC_NR(AMDKFD_IOC_DESTROY_QUEUE):
		belfry_proc_update(kfd->proc);
	}
	belfry_leave(kfd->dev, idx);
	return result;
}

/*
 * Pages are mapped one by one, while the function is there. Were they mapped by kfd_mmap(), an unbind that revokes all
 * mappings would miss the one that is not linked to its file yet, and the process would keep a hold of the BAR.
 */
static vm_fault_t kfd_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct kfd_file *kfd = vma->vm_file->private_data;
	vm_fault_t result;
	int idx;

	if (!drm_dev_enter(&kfd->dev->drm, &idx))
		return VM_FAULT_SIGBUS;
	result = vmf_insert_pfn(vma, vmf->address, (unsigned long)vma->vm_private_data + vmf->pgoff);
	drm_dev_exit(idx);
	return result;
}

static const struct vm_operations_struct kfd_vm_ops = {
	.fault = kfd_fault,
};

static int kfd_mmap(struct file *file, struct vm_area_struct *vma)
{
	struct kfd_file *kfd = file->private_data;
	u64 len = vma->vm_end - vma->vm_start;
	struct belfry_mapping mapping;
	unsigned long pfn;
	u64 bar_size;
	int bar, err;

	/* A private copy of a register would be of no use. */
	if ((vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) == VM_MAYWRITE)
		return -EINVAL;
	err = belfry_mmap(kfd->gpu, kfd->process, mm_key(current->mm), (u64)vma->vm_pgoff << PAGE_SHIFT, len,
			  &mapping);
	if (err)
		return err;
	bar = mapping.kind == BELFRY_MAP_DOORBELLS ? BAR_DOORBELLS : BAR_REGISTERS;
	bar_size = bar == BAR_DOORBELLS ? kfd->dev->doorbell_size : kfd->dev->register_size;
	if (mapping.len < len || mapping.offset > bar_size || len > bar_size - mapping.offset ||
	    !PAGE_ALIGNED(mapping.offset))
		return -EINVAL;

	/* Distance from file offset to frame, both in pages: it stays true when the mapping is split. */
	pfn = (pci_resource_start(kfd->dev->pdev, bar) + mapping.offset) >> PAGE_SHIFT;
	vma->vm_private_data = (void *)(pfn - vma->vm_pgoff);
	vma->vm_ops = &kfd_vm_ops;
	vm_flags_set(vma, VM_IO | VM_DONTCOPY | VM_DONTEXPAND | VM_NORESERVE | VM_DONTDUMP | VM_PFNMAP);
	vma->vm_page_prot = pgprot_noncached(vma->vm_page_prot);
	return 0;
}

static const struct file_operations kfd_fops = {
	.owner = THIS_MODULE,
	.open = kfd_open,
	.release = kfd_release,
	.unlocked_ioctl = kfd_ioctl,
	.mmap = kfd_mmap,
};

static char *kfd_devnode(const struct device *device, umode_t *mode)
{
	if (mode)
		*mode = 0666;
	return NULL;
}

int belfry_chardev_init(void)
{
	kfd_major = register_chrdev(0, "kfd", &kfd_fops);
	if (kfd_major < 0)
		return kfd_major;
	kfd_class = class_create("kfd");
	if (IS_ERR(kfd_class)) {
		unregister_chrdev(kfd_major, "kfd");
		return PTR_ERR(kfd_class);
	}
	/* Any user may compute; the pages a process reaches are its own. */
	kfd_class->devnode = kfd_devnode;
	return 0;
}

void belfry_chardev_exit(void)
{
	class_destroy(kfd_class);
	unregister_chrdev(kfd_major, "kfd");
}

int belfry_chardev_add(struct os_device *dev)
{
	struct belfry_topology *topology;
	struct device *node;
	int err = 0;

	mutex_lock(&kfd_lock);
	if (kfd_device) {
		dev_err(&dev->pdev->dev, "only one device is supported, and another one is bound\n");
		err = -EBUSY;
		goto out;
	}
	/* No parent: user space looks for it in /sys/devices/virtual/kfd/kfd. */
	node = device_create(kfd_class, NULL, MKDEV(kfd_major, 0), NULL, "kfd");
	if (IS_ERR(node)) {
		err = PTR_ERR(node);
		goto out;
	}
	topology = belfry_topology_create(dev->gpu, &node->kobj, "topology", "");
	if (IS_ERR(topology)) {
		device_destroy(kfd_class, MKDEV(kfd_major, 0));
		err = PTR_ERR(topology);
		goto out;
	}
	err = belfry_proc_init(&node->kobj);
	if (err) {
		belfry_topology_remove(topology);
		device_destroy(kfd_class, MKDEV(kfd_major, 0));
		goto out;
	}
	kfd_topology = topology;
	kfd_node = node;
	kfd_device = dev;
out:
	mutex_unlock(&kfd_lock);
	return err;
}

void os_topology_changed(struct os_device *dev)
{
	mutex_lock(&kfd_lock);
	if (kfd_device == dev) {
		if (kfd_topology)
			belfry_topology_remove(kfd_topology);
		kfd_topology = belfry_topology_create(dev->gpu, &kfd_node->kobj, "topology", "");
		if (IS_ERR(kfd_topology)) {
			dev_err(&dev->pdev->dev, "the topology cannot be shown: %ld\n", PTR_ERR(kfd_topology));
			kfd_topology = NULL;
		}
	}
	mutex_unlock(&kfd_lock);
}

void belfry_chardev_remove(struct os_device *dev)
{
	mutex_lock(&kfd_lock);
	if (kfd_device == dev) {
		belfry_proc_exit();
		if (kfd_topology)
			belfry_topology_remove(kfd_topology);
		device_destroy(kfd_class, MKDEV(kfd_major, 0));
		kfd_topology = NULL;
		kfd_node = NULL;
		kfd_device = NULL;
	}
	mutex_unlock(&kfd_lock);
}
