/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What the C files of the shim share among themselves; the contract with the core is os_interface.h. */
#ifndef BELFRY_SHIM_H
#define BELFRY_SHIM_H

#include <drm/drm_device.h>
#include <drm/drm_drv.h>
#include <linux/pci.h>
#include <linux/srcu.h>
#include <linux/workqueue.h>

#include "compat.h"
#include "os_interface.h"

#define BELFRY_NAME "amdgpu" /* user space looks for this very name: module, DRM driver, interrupt */

enum { BAR_VRAM = 0, BAR_DOORBELLS = 2, BAR_REGISTERS = 5 };

/* What is counted until it is given back, for usage.c. */
enum belfry_count {
	BELFRY_SYSTEM_PAGES,   /* of the driver, with an address on the bus */
	BELFRY_PINNED_PAGES,   /* of processes; a page that is pinned twice counts twice */
	BELFRY_MIRRORED_PAGES, /* of processes, with an address on the bus and without a pin */
	BELFRY_WATCHED_RANGES, /* notifiers of pins and mirrors */
	BELFRY_VRAM_PAGES,     /* of processes */
	BELFRY_GEM_OBJECTS,
	BELFRY_DEBUG_TARGETS,
	BELFRY_COUNTS,
};

struct os_device {
	struct drm_device drm; /* carries the reference count */
	struct list_head link; /* in the devices of chardev.c, while it is there */
	struct belfry_xcp *xcps; /* of partitions after the first */
	u32 xcp_count;
	struct pci_dev *pdev;
	struct pci_saved_state *pci_state; /* as the function was enabled */
	struct belfry_gpu *gpu; /* set between probe and remove */
	u32 number;             /* the core's, of the device */
	struct srcu_struct users; /* held by threads that are in the core on behalf of a process */
	bool gone;                /* no thread may enter any more */
	void __iomem *vram;     /* BAR0, write-combined */
	void __iomem *doorbells;
	void __iomem *registers;
	u64 vram_size;
	u64 doorbell_size;
	u64 register_size;
	struct belfry_card *card; /* set between probe and remove */
	struct dentry *trace;     /* the file of trace.c; an error without debugfs */
	atomic_long_t counts[BELFRY_COUNTS];
	struct belfry_frames *frames; /* of processes in VRAM; NULL before the first use, an error if there are none */
	struct mutex frames_lock;
	struct list_head pages; /* system memory that is mapped for the device */
	struct mutex pages_lock;
	int irq;
	struct work_struct irq_work; /* goes on where the interrupt thread stopped */
};

static inline struct os_device *to_os_device(struct drm_device *drm)
{
	return container_of(drm, struct os_device, drm);
}

static inline void belfry_count(struct os_device *dev, enum belfry_count what, long more)
{
	atomic_long_add(more, &dev->counts[what]);
}

/*
 * Entering the core for a process, as drm_dev_enter() does for the BARs. It is a section of the device's own, because it
 * may last: an ioctl may wait for events, or for another thread to bring a page in. belfry_pci_remove() ends the waits
 * for events and then waits until all threads have left, so that none maps memory for a function that is unbound.
 */
static inline bool belfry_enter(struct os_device *dev, int *idx)
{
	*idx = srcu_read_lock(&dev->users);
	if (!READ_ONCE(dev->gone))
		return true;
	srcu_read_unlock(&dev->users, *idx);
	return false;
}

static inline void belfry_leave(struct os_device *dev, int idx)
{
	srcu_read_unlock(&dev->users, idx);
}

/*
 * main.c: run work that must not be done in an interrupt thread or a notifier. Pins have a queue of their own: they wait
 * for user pages to be brought in, and even if many wait, queues of dying or faulting processes are still stopped.
 * Work for a process may be about any of its devices: an unbind waits for all that has begun.
 */
extern struct srcu_struct belfry_works;
extern struct workqueue_struct *belfry_wq;
extern struct workqueue_struct *belfry_pin_wq;

/* pci.c */
extern struct pci_driver belfry_pci_driver;

/* pages.c */
void belfry_pages_unmap(struct os_device *dev);

/* irq.c */
int belfry_irq_alloc(struct os_device *dev);
int belfry_irq_request(struct os_device *dev);
void belfry_irq_free(struct os_device *dev);

/*
 * chardev.c: /dev/kfd exists while a device is bound, one for all of them. The lock keeps processes from opening it while the core and
 * the shim do not have the same devices.
 */
int belfry_chardev_init(void);
void belfry_chardev_exit(void);
void belfry_machine_lock(void);
void belfry_machine_unlock(void);
/* Brings the core's device up, beside the others. With the lock. */
int belfry_machine_probe(struct os_device *dev);
/* With the lock. */
int belfry_chardev_add(struct os_device *dev);
void belfry_chardev_remove(struct os_device *dev);
/* After drm_dev_unplug(): takes the pages of the BARs out of the mappings of /dev/kfd. */
void belfry_chardev_revoke(struct os_device *dev);

/* sysfs.c */
struct belfry_topology;
/* name: of the tree below parent; path: of it in the core's words. */
struct belfry_topology *belfry_topology_create(struct belfry_gpu *gpu, struct kobject *parent, const char *name,
					       const char *path);
void belfry_topology_remove(struct belfry_topology *topology);
/* The directory of that path in the core's words; NULL if there is none. It lives as long as the tree. */
struct kobject *belfry_topology_dir(struct belfry_topology *topology, const char *path);

/* proc.c: directories of processes below the KFD node's own. */
struct belfry_proc;
int belfry_proc_init(struct kobject *node);
void belfry_proc_exit(void);
/* The directory of the calling process, which the core knows by this id; NULL if there is no memory for it. */
struct belfry_proc *belfry_proc_open(struct belfry_gpu *gpu, u32 id);
void belfry_proc_close(struct belfry_proc *proc);
/* A queue was made, or is no more. */
void belfry_proc_update(struct belfry_proc *proc);

/* card.c */
int belfry_card_add(struct os_device *dev);
void belfry_card_remove(struct os_device *dev);

/* svm.c: whether an area is memory, as amdkfd takes it. */
bool belfry_area_is_memory(const struct vm_area_struct *vma);

/* vram_pages.c */
void belfry_frames_remove(struct os_device *dev);
/* Owner of the pages, for functions of the kernel that leave other owners' pages alone. */
void *belfry_frames_owner(struct os_device *dev);
/* Offset of a page in VRAM, if it is there. */
bool belfry_frame_offset(struct os_device *dev, struct page *page, u64 *offset);

/* usage.c */
void belfry_usage_add(struct os_device *dev);

/* trace.c */
void belfry_trace_add(struct os_device *dev);
void belfry_trace_remove(struct os_device *dev);

/* xcp.c: the render nodes of partitions after the first; they are there before the core is, and seen when it is. */
struct drm_minor;
int belfry_xcps_create(struct os_device *dev, u32 count);
int belfry_xcps_register(struct os_device *dev);
void belfry_xcps_remove(struct os_device *dev);
/* The minor number of a partition's render node, from 1 on; 0 if it has none. */
u32 belfry_xcp_minor(struct os_device *dev, u32 partition);
/* The partition that a file was opened for; 0 for the first one. */
u32 belfry_xcp_of(struct os_device *dev, const struct drm_minor *minor);

/* drm.c */
extern const struct drm_driver belfry_drm_driver;

/* gem.c */
extern const struct drm_gem_object_funcs belfry_gem_funcs;

#endif
