// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* /dev/kfd: it appears with the first device. A process of the core lives from the first open to the last close, or to the
 * end of its address space, whichever comes first. */
#include <linux/cdev.h>
#include <linux/compat.h>
#include <linux/device.h>
#include <linux/fs.h>
#include <linux/iommu.h>
#include <linux/kfd_ioctl.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "shim.h"

/* As many GPUs as one process can have. */
#define KFD_DEVICES 16

struct kfd_file {
	struct list_head link; /* in kfd_files */
	struct os_device *devs[KFD_DEVICES]; /* those that the process has */
	u32 count;
	struct belfry_gpu *gpu; /* of the first one */
	struct belfry_process *process;
	struct belfry_proc *proc; /* its directory; NULL if there is none */
	struct mm_struct *mm; /* held by the notifier; its address is the key of the process */
	struct mmu_notifier notifier;
	struct work_struct exit_work;
	bool closing;
};

static int kfd_major;
static struct class *kfd_class;

/* Outside of kfd_lock: held while a device comes or goes, and while a process opens the node. */
static DEFINE_MUTEX(machine_lock);
/* One node for all devices that are bound. */
static DEFINE_MUTEX(kfd_lock);
static LIST_HEAD(kfd_devices); /* os_device.link */
static LIST_HEAD(kfd_files);
static struct device *kfd_node;
static struct belfry_topology *kfd_topology; /* NULL if it could not be made anew */

static u64 mm_key(struct mm_struct *mm)
{
	return (uintptr_t)mm;
}

/* An unbind waits for the end of what it does not do itself. */
static void kfd_hold(struct kfd_file *kfd, int *idx)
{
	u32 i;

	for (i = 0; i < kfd->count; i++)
		idx[i] = srcu_read_lock(&kfd->devs[i]->users);
}

static void kfd_leave(struct kfd_file *kfd, const int *idx)
{
	u32 i;

	for (i = 0; i < kfd->count; i++)
		belfry_leave(kfd->devs[i], idx[i]);
}

/* Enters the core for a process, which ends with the first of its devices that goes. */
static bool kfd_enter(struct kfd_file *kfd, int *idx)
{
	u32 i;

	for (i = 0; i < kfd->count; i++) {
		if (belfry_enter(kfd->devs[i], &idx[i]))
			continue;
		while (i--)
			belfry_leave(kfd->devs[i], idx[i]);
		return false;
	}
	return true;
}

static void kfd_exit_work(struct work_struct *work)
{
	struct kfd_file *kfd = container_of(work, struct kfd_file, exit_work);
	int idx[KFD_DEVICES];

	kfd_hold(kfd, idx);
	belfry_exit(kfd->gpu, mm_key(kfd->mm));
	kfd_leave(kfd, idx);
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

/* References to all devices that are bound. */
static void kfd_take_devices(struct kfd_file *kfd)
{
	struct os_device *dev;

	mutex_lock(&kfd_lock);
	list_for_each_entry(dev, &kfd_devices, link) {
		os_device_get(dev);
		kfd->devs[kfd->count++] = dev;
	}
	mutex_unlock(&kfd_lock);
}

/* Gives those back that the process does not have: they have come after its first open. It has the first one. */
static void kfd_keep_devices(struct kfd_file *kfd)
{
	u32 i, kept = 0;

	for (i = 0; i < kfd->count; i++) {
		if (belfry_process_has(kfd->process, kfd->devs[i]->gpu))
			kfd->devs[kept++] = kfd->devs[i];
		else
			os_device_put(kfd->devs[i]);
	}
	kfd->count = kept;
}

static void kfd_put_devices(struct kfd_file *kfd)
{
	while (kfd->count)
		os_device_put(kfd->devs[--kfd->count]);
}

static int kfd_open(struct inode *inode, struct file *file)
{
	struct kfd_file *kfd;
	int err = -ENODEV;
	int idx[KFD_DEVICES];

	if (in_compat_syscall())
		return -EPERM;
	kfd = kzalloc(sizeof(*kfd), GFP_KERNEL);
	if (!kfd)
		return -ENOMEM;
	INIT_WORK(&kfd->exit_work, kfd_exit_work);
	kfd->notifier.ops = &kfd_mm_ops;
	kfd->mm = current->mm;

	mutex_lock(&machine_lock);
	kfd_take_devices(kfd);
	if (!kfd->count)
		goto err_free;
	kfd->gpu = belfry_gpu_get(kfd->devs[0]->gpu);

	err = mmu_notifier_register(&kfd->notifier, kfd->mm);
	if (err)
		goto err_put;
	err = -ENODEV;
	if (kfd_enter(kfd, idx)) {
		err = belfry_open(kfd->gpu, mm_key(kfd->mm), &kfd->process);
		kfd_leave(kfd, idx);
	}
	if (err)
		goto err_notifier;
	kfd_keep_devices(kfd);
	mutex_lock(&kfd_lock);
	list_add_tail(&kfd->link, &kfd_files);
	mutex_unlock(&kfd_lock);
	mutex_unlock(&machine_lock);
	kfd->proc = belfry_proc_open(kfd->gpu, belfry_process_id(kfd->process));
	file->private_data = kfd;
	/*
	 * One address_space for the mappings of both nodes: drm_dev_unplug() of the first device revokes them all,
	 * belfry_chardev_revoke() does for the others.
	 */
	file->f_mapping = kfd->devs[0]->drm.anon_inode->i_mapping;
	return nonseekable_open(inode, file);

err_notifier:
	kfd->closing = true;
	mmu_notifier_unregister(&kfd->notifier, kfd->mm);
err_put:
	belfry_gpu_put(kfd->gpu);
err_free:
	mutex_unlock(&machine_lock);
	kfd_put_devices(kfd);
	kfree(kfd);
	return err;
}

static int kfd_release(struct inode *inode, struct file *file)
{
	struct kfd_file *kfd = file->private_data;
	int idx[KFD_DEVICES];

	mutex_lock(&kfd_lock);
	list_del(&kfd->link);
	mutex_unlock(&kfd_lock);
	/* mmgrab: the key stays unique until the core has forgotten the process. */
	mmgrab(kfd->mm);
	WRITE_ONCE(kfd->closing, true);
	mmu_notifier_unregister(&kfd->notifier, kfd->mm);
	flush_work(&kfd->exit_work);
	kfd_hold(kfd, idx);
	belfry_close(kfd->gpu, kfd->process);
	kfd_leave(kfd, idx);
	belfry_proc_close(kfd->proc);
	mmdrop(kfd->mm);
	belfry_gpu_put(kfd->gpu);
	kfd_put_devices(kfd);
	kfree(kfd);
	return 0;
}

static long kfd_ioctl(struct file *file, unsigned int command, unsigned long arg)
{
	struct kfd_file *kfd = file->private_data;
	int idx[KFD_DEVICES];
	long result;

	if (!kfd_enter(kfd, idx))
		return -ENODEV;
	result = belfry_ioctl(kfd->gpu, kfd->process, mm_key(current->mm), command, arg);
	switch (_IOC_NR(command)) {
	case _IOC_NR(AMDKFD_IOC_CREATE_QUEUE):
	case _IOC_NR(AMDKFD_IOC_DESTROY_QUEUE):
		belfry_proc_update(kfd->proc);
	}
	kfd_leave(kfd, idx);
	return result;
}

/* The device with a frame in one of its BARs; none once one of the devices is gone, and its addresses may be another one's. */
static struct os_device *kfd_owner(struct kfd_file *kfd, unsigned long pfn)
{
	static const int bars[] = { BAR_DOORBELLS, BAR_REGISTERS };
	struct os_device *owner = NULL;
	u32 i, j;

	for (i = 0; i < kfd->count; i++) {
		struct pci_dev *pdev = kfd->devs[i]->pdev;

		if (READ_ONCE(kfd->devs[i]->gone))
			return NULL;
		for (j = 0; j < ARRAY_SIZE(bars); j++) {
			resource_size_t start = pci_resource_start(pdev, bars[j]);

			if (PFN_PHYS(pfn) >= start && PFN_PHYS(pfn) - start < pci_resource_len(pdev, bars[j]))
				owner = kfd->devs[i];
		}
	}
	return owner;
}

/*
 * Pages are mapped one by one, while the function is there. Were they mapped by kfd_mmap(), an unbind that revokes all
 * mappings would miss the one that is not linked to its file yet, and the process would keep a hold of the BAR.
 */
static vm_fault_t kfd_fault(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	unsigned long pfn = (unsigned long)vma->vm_private_data + vmf->pgoff;
	struct os_device *dev = kfd_owner(vma->vm_file->private_data, pfn);
	vm_fault_t result;
	int idx;

	if (!dev || !drm_dev_enter(&dev->drm, &idx))
		return VM_FAULT_SIGBUS;
	result = vmf_insert_pfn(vma, vmf->address, pfn);
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
	struct os_device *dev = NULL;
	struct belfry_mapping mapping;
	unsigned long pfn;
	u64 bar_size;
	int bar, err;
	u32 i;

	/* A private copy of a register would be of no use. */
	if ((vma->vm_flags & (VM_SHARED | VM_MAYWRITE)) == VM_MAYWRITE)
		return -EINVAL;
	err = belfry_mmap(kfd->gpu, kfd->process, mm_key(current->mm), (u64)vma->vm_pgoff << PAGE_SHIFT, len,
			  &mapping);
	if (err)
		return err;
	for (i = 0; i < kfd->count; i++)
		if (kfd->devs[i]->number == mapping.device)
			dev = kfd->devs[i];
	if (!dev)
		return -EINVAL;
	bar = mapping.kind == BELFRY_MAP_DOORBELLS ? BAR_DOORBELLS : BAR_REGISTERS;
	bar_size = bar == BAR_DOORBELLS ? dev->doorbell_size : dev->register_size;
	if (mapping.len < len || mapping.offset > bar_size || len > bar_size - mapping.offset ||
	    !PAGE_ALIGNED(mapping.offset))
		return -EINVAL;

	/* Distance from file offset to frame, both in pages: it stays true when the mapping is split. */
	pfn = (pci_resource_start(dev->pdev, bar) + mapping.offset) >> PAGE_SHIFT;
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

void belfry_machine_lock(void)
{
	mutex_lock(&machine_lock);
}

void belfry_machine_unlock(void)
{
	mutex_unlock(&machine_lock);
}

/* Whether addresses of the device on the bus are others than those of another device: the core has one for each page. */
static bool is_translated(struct os_device *dev)
{
	struct iommu_domain *domain = iommu_get_domain_for_dev(&dev->pdev->dev);

	return domain && domain->type != IOMMU_DOMAIN_IDENTITY;
}

int belfry_machine_probe(struct os_device *dev)
{
	struct os_device *peer;
	u32 count = 0;
	int err;

	mutex_lock(&kfd_lock);
	list_for_each_entry(peer, &kfd_devices, link) {
		count++;
		if (is_translated(peer) || is_translated(dev))
			count = KFD_DEVICES;
	}
	peer = list_first_entry_or_null(&kfd_devices, struct os_device, link);
	mutex_unlock(&kfd_lock);
	if (count >= KFD_DEVICES) {
		dev_err(&dev->pdev->dev, "at most %d devices are supported, and one only behind an IOMMU that translates\n",
			KFD_DEVICES);
		return -EBUSY;
	}
	err = belfry_probe(dev, peer ? peer->gpu : NULL, &dev->gpu);
	if (!err)
		dev->number = belfry_gpu_number(dev->gpu);
	return err;
}

/* Shows the topology as it is now. With kfd_lock. */
static void show_topology(struct os_device *dev)
{
	if (kfd_topology)
		belfry_topology_remove(kfd_topology);
	kfd_topology = belfry_topology_create(dev->gpu, &kfd_node->kobj, "topology", "");
	if (IS_ERR(kfd_topology)) {
		dev_err(&dev->pdev->dev, "the topology cannot be shown: %ld\n", PTR_ERR(kfd_topology));
		kfd_topology = NULL;
	}
}

static void remove_node(void)
{
	belfry_proc_exit();
	if (kfd_topology)
		belfry_topology_remove(kfd_topology);
	device_destroy(kfd_class, MKDEV(kfd_major, 0));
	kfd_topology = NULL;
	kfd_node = NULL;
}

int belfry_chardev_add(struct os_device *dev)
{
	int err = 0;

	mutex_lock(&kfd_lock);
	if (!kfd_node) {
		/* No parent: user space looks for it in /sys/devices/virtual/kfd/kfd. */
		kfd_node = device_create(kfd_class, NULL, MKDEV(kfd_major, 0), NULL, "kfd");
		if (IS_ERR(kfd_node)) {
			err = PTR_ERR(kfd_node);
			kfd_node = NULL;
			goto out;
		}
		err = belfry_proc_init(&kfd_node->kobj);
		if (err) {
			device_destroy(kfd_class, MKDEV(kfd_major, 0));
			kfd_node = NULL;
			goto out;
		}
	}
	show_topology(dev);
	if (!kfd_topology && list_empty(&kfd_devices)) {
		remove_node();
		err = -ENOMEM;
		goto out;
	}
	list_add_tail(&dev->link, &kfd_devices);
out:
	mutex_unlock(&kfd_lock);
	return err;
}

void os_topology_changed(struct os_device *dev)
{
	mutex_lock(&kfd_lock);
	if (!list_empty(&dev->link))
		show_topology(dev);
	mutex_unlock(&kfd_lock);
}

/* The core still shows the device: its nodes go from the topology when it is made anew, by belfry_chardev_revoke(). */
void belfry_chardev_remove(struct os_device *dev)
{
	mutex_lock(&kfd_lock);
	if (!list_empty(&dev->link)) {
		list_del_init(&dev->link);
		if (list_empty(&kfd_devices))
			remove_node();
	}
	mutex_unlock(&kfd_lock);
}

void belfry_chardev_revoke(struct os_device *dev)
{
	struct os_device *other;
	struct kfd_file *kfd;
	u32 i;

	mutex_lock(&kfd_lock);
	other = list_first_entry_or_null(&kfd_devices, struct os_device, link);
	if (other)
		show_topology(other);
	list_for_each_entry(kfd, &kfd_files, link)
		for (i = 1; i < kfd->count; i++)
			if (kfd->devs[i] == dev)
				unmap_mapping_range(kfd->devs[0]->drm.anon_inode->i_mapping, 0, 0, 1);
	mutex_unlock(&kfd_lock);
}
