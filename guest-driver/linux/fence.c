// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The end of work as fences of the kernel's, which syncobjs, sync files and other drivers take; and what work waits for. */
#include <drm/amdgpu_drm.h>
#include <drm/drm_file.h>
#include <drm/drm_syncobj.h>
#include <linux/dma-fence.h>
#include <linux/dma-fence-chain.h>
#include <linux/file.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/sync_file.h>

#include "drm_files.h"

struct os_fence {
	struct dma_fence base;
	spinlock_t lock;
};

static const char *driver_name(struct dma_fence *fence)
{
	return BELFRY_NAME;
}

static const char *timeline_name(struct dma_fence *fence)
{
	return "belfry";
}

/* The holder of a fence may outlive the device: the fence's functions stay until then. */
static void fence_release(struct dma_fence *fence)
{
	/* The module's text is freed after a grace period. */
	rcu_read_lock();
	dma_fence_free(fence);
	module_put(THIS_MODULE);
	rcu_read_unlock();
}

static const struct dma_fence_ops fence_ops = {
	.get_driver_name = driver_name,
	.get_timeline_name = timeline_name,
	.release = fence_release,
};

int os_fence_new(struct os_fence **out)
{
	struct os_fence *fence = kzalloc(sizeof(*fence), GFP_KERNEL);

	if (!fence)
		return -ENOMEM;
	/* dma_fence_free() frees from here. */
	BUILD_BUG_ON(offsetof(struct os_fence, base));
	__module_get(THIS_MODULE);
	spin_lock_init(&fence->lock);
	/* Work of a file runs on several rings: the order of fences says nothing, so each has a context of its own. */
	dma_fence_init(&fence->base, &fence_ops, &fence->lock, dma_fence_context_alloc(1), 1);
	*out = fence;
	return 0;
}

void os_fence_signal(struct os_fence *fence, int error)
{
	if (error)
		dma_fence_set_error(&fence->base, error);
	dma_fence_signal(&fence->base);
}

void os_fence_put(struct os_fence *fence)
{
	dma_fence_put(&fence->base);
}

struct os_await {
	struct dma_fence_cb callback;
	struct dma_fence *fence;
	struct belfry_kick *kick;
};

static void await_over(struct dma_fence *fence, struct dma_fence_cb *callback)
{
	belfry_kick(container_of(callback, struct os_await, callback)->kick);
}

int os_sync_await(struct os_render_file *file, u32 handle, u64 point, u32 flags, struct belfry_kick *kick,
		  struct os_await **out)
{
	struct os_await *await = kzalloc(sizeof(*await), GFP_KERNEL);
	int err = -ENOMEM;

	if (await)
		err = drm_syncobj_find_fence((struct drm_file *)file, handle, point, flags, &await->fence);
	if (err) {
		belfry_kick_drop(kick);
		kfree(await);
		return err;
	}
	await->kick = kick;
	/* An error says that it is over already, and then no callback is needed. */
	dma_fence_add_callback(await->fence, &await->callback, await_over);
	*out = await;
	return 0;
}

bool os_await_is_over(struct os_await *await)
{
	return dma_fence_is_signaled(await->fence);
}

void os_await_put(struct os_await *await)
{
	dma_fence_remove_callback(await->fence, &await->callback);
	dma_fence_put(await->fence);
	belfry_kick_drop(await->kick);
	kfree(await);
}

struct os_sync_target {
	struct drm_syncobj *syncobj;
	struct dma_fence_chain *chain; /* for the point, until it is there */
	u64 point;
};

int os_sync_target(struct os_render_file *file, u32 handle, u64 point, struct os_sync_target **out)
{
	struct os_sync_target *target = kzalloc(sizeof(*target), GFP_KERNEL);
	int err = -EINVAL;

	if (!target)
		return -ENOMEM;
	target->point = point;
	target->syncobj = drm_syncobj_find((struct drm_file *)file, handle);
	if (!target->syncobj)
		goto fail;
	if (point) {
		err = -ENOMEM;
		target->chain = dma_fence_chain_alloc();
		if (!target->chain)
			goto fail;
	}
	*out = target;
	return 0;

fail:
	os_sync_target_release(target);
	return err;
}

void os_sync_target_put(struct os_sync_target *target, struct os_fence *fence)
{
	if (!target->chain) {
		drm_syncobj_replace_fence(target->syncobj, &fence->base);
		return;
	}
	drm_syncobj_add_point(target->syncobj, target->chain, &fence->base, target->point);
	target->chain = NULL;
}

void os_sync_target_release(struct os_sync_target *target)
{
	if (target->syncobj)
		drm_syncobj_put(target->syncobj);
	dma_fence_chain_free(target->chain);
	kfree(target);
}

static int export_sync_file(struct dma_fence *fence, u32 *out)
{
	int fd = get_unused_fd_flags(O_CLOEXEC);
	struct sync_file *file;

	if (fd < 0)
		return fd;
	file = sync_file_create(fence);
	if (!file) {
		put_unused_fd(fd);
		return -ENOMEM;
	}
	fd_install(fd, file->file);
	*out = fd;
	return 0;
}

static int export_syncobj(struct drm_file *file, struct dma_fence *fence, bool descriptor, u32 *out)
{
	struct drm_syncobj *syncobj;
	int err = drm_syncobj_create(&syncobj, 0, fence);

	if (err)
		return err;
	err = descriptor ? drm_syncobj_get_fd(syncobj, (int *)out) : drm_syncobj_get_handle(file, syncobj, out);
	drm_syncobj_put(syncobj);
	return err;
}

int os_sync_export(struct os_render_file *file, struct os_fence *fence, u32 to, u32 *out)
{
	struct dma_fence *base = fence ? dma_fence_get(&fence->base) : dma_fence_get_stub();
	int err;

	if (to == AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD)
		err = export_sync_file(base, out);
	else
		err = export_syncobj((struct drm_file *)file, base, to == AMDGPU_FENCE_TO_HANDLE_GET_SYNCOBJ_FD, out);
	dma_fence_put(base);
	return err;
}

u64 os_caller(void)
{
	return (uintptr_t)current->mm;
}
