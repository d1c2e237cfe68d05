// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Buffer objects as DMA-bufs: memory that processes share by descriptors. No other driver reaches it. */
#include <drm/drm_drv.h>
#include <drm/drm_gem.h>
#include <drm/drm_prime.h>
#include <linux/dma-buf.h>
#include <linux/fcntl.h>
#include <linux/module.h>

#include "drm_files.h"

BELFRY_IMPORT_NS(DMA_BUF);

/* Other devices would need bus addresses of the pages for themselves, which the core does not have. */
static int dmabuf_attach(struct dma_buf *buf, struct dma_buf_attachment *attachment)
{
	return -EOPNOTSUPP;
}

static struct sg_table *dmabuf_map(struct dma_buf_attachment *attachment, enum dma_data_direction direction)
{
	return ERR_PTR(-EOPNOTSUPP);
}

static void dmabuf_unmap(struct dma_buf_attachment *attachment, struct sg_table *table,
			 enum dma_data_direction direction)
{
}

static const struct dma_buf_ops dmabuf_ops = {
	.attach = dmabuf_attach,
	.map_dma_buf = dmabuf_map,
	.unmap_dma_buf = dmabuf_unmap,
	.release = drm_gem_dmabuf_release,
	.mmap = drm_gem_dmabuf_mmap,
};

static struct dma_buf *export(struct drm_gem_object *obj, int flags)
{
	DEFINE_DMA_BUF_EXPORT_INFO(info);

	info.ops = &dmabuf_ops;
	info.size = obj->size;
	info.flags = flags;
	info.priv = obj;
	info.resv = obj->resv;
	/* It holds the object and the device. Its mappings are those of the device: unbinding revokes them. */
	return drm_gem_dmabuf_export(obj->dev, &info);
}

struct dma_buf *belfry_prime_export(struct drm_gem_object *obj, int flags)
{
	struct dma_buf *imported = belfry_gem_imported(obj);

	if (imported) {
		get_dma_buf(imported);
		return imported;
	}
	if (belfry_backing_is_exclusive(belfry_gem_backing(obj)))
		return ERR_PTR(-EPERM);
	return export(obj, flags);
}

/*
 * Memory of another device is an object of this one. When that device goes, the core takes its memory out of the files' address spaces and
 * ends their work, as KFD ends its processes.
 */
struct drm_gem_object *belfry_prime_import(struct drm_device *drm, struct dma_buf *buf)
{
	struct drm_gem_object *obj = buf->priv;

	if (buf->ops != &dmabuf_ops)
		return ERR_PTR(-EINVAL);
	if (obj->dev != drm)
		return belfry_gem_import(drm, buf);
	drm_gem_object_get(obj);
	return obj;
}

static struct dma_buf *to_dma_buf(struct os_dmabuf *dmabuf)
{
	return (struct dma_buf *)dmabuf;
}

int os_dmabuf_export(struct os_gem *gem, struct os_dmabuf **out)
{
	struct dma_buf *buf = export(belfry_gem_object(gem), O_RDWR);

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	*out = (struct os_dmabuf *)buf;
	return 0;
}

int os_dmabuf_fd(struct os_dmabuf *dmabuf, u32 flags)
{
	struct dma_buf *buf = to_dma_buf(dmabuf);
	int fd;

	get_dma_buf(buf);
	fd = dma_buf_fd(buf, flags);
	if (fd < 0)
		dma_buf_put(buf);
	return fd;
}

/* Of any device that is bound: the core knows which ones a process has. */
int os_dmabuf_get(int fd, struct os_dmabuf **out)
{
	struct dma_buf *buf = dma_buf_get(fd);

	if (IS_ERR(buf))
		return PTR_ERR(buf);
	if (buf->ops != &dmabuf_ops) {
		dma_buf_put(buf);
		return -EINVAL;
	}
	*out = (struct os_dmabuf *)buf;
	return 0;
}

void os_dmabuf_release(struct os_dmabuf *dmabuf)
{
	dma_buf_put(to_dma_buf(dmabuf));
}

struct belfry_backing *os_dmabuf_backing(struct os_dmabuf *dmabuf)
{
	return belfry_gem_backing(to_dma_buf(dmabuf)->priv);
}
