// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* What the core does later, on worker threads. */
#include <linux/kref.h>
#include <linux/slab.h>
#include <linux/workqueue.h>

#include "shim.h"

/* The core has one reference, and a run that is queued has one. */
struct os_work {
	struct work_struct work;
	struct kref references;
	struct os_device *dev;
	struct belfry_work *core;
};

static void work_free(struct kref *references)
{
	struct os_work *work = container_of(references, struct os_work, references);

	belfry_work_drop(work->core);
	os_device_put(work->dev);
	kfree(work);
}

static void work_run(struct work_struct *item)
{
	struct os_work *work = container_of(item, struct os_work, work);

	/* An unbind waits for what has begun: it may have pages mapped for the device. */
	int idx = srcu_read_lock(&belfry_works);

	belfry_work_run(work->core);
	srcu_read_unlock(&belfry_works, idx);
	kref_put(&work->references, work_free);
}

int os_work_new(struct os_device *dev, struct belfry_work *core, struct os_work **out)
{
	struct os_work *work = kzalloc(sizeof(*work), GFP_KERNEL);

	if (!work) {
		belfry_work_drop(core);
		return -ENOMEM;
	}
	INIT_WORK(&work->work, work_run);
	kref_init(&work->references);
	os_device_get(dev);
	work->dev = dev;
	work->core = core;
	*out = work;
	return 0;
}

void os_work_release(struct os_work *work)
{
	kref_put(&work->references, work_free);
}

void os_work_queue(struct os_work *work)
{
	kref_get(&work->references);
	if (!queue_work(belfry_wq, &work->work))
		kref_put(&work->references, work_free);
}
