/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What drm.c, gem.c and dmabuf.c share. */
#ifndef BELFRY_DRM_FILES_H
#define BELFRY_DRM_FILES_H

#include <linux/fs.h>
#include <linux/slab.h>

#include "shim.h"

struct os_drm_file {
	struct file *file; /* referenced; private_data is the struct drm_file */
};

struct drm_gem_object;

struct dma_buf;
struct drm_device;
struct drm_file;

/* drm.c */
struct belfry_client *belfry_client_of(struct drm_file *file);

/* dmabuf.c */
struct dma_buf *belfry_prime_export(struct drm_gem_object *obj, int flags);
struct drm_gem_object *belfry_prime_import(struct drm_device *drm, struct dma_buf *buf);

/* gem.c */
struct drm_gem_object *belfry_gem_object(struct os_gem *gem);
struct belfry_backing *belfry_gem_backing(struct drm_gem_object *obj);
struct dma_buf *belfry_gem_imported(struct drm_gem_object *obj);
struct drm_gem_object *belfry_gem_import(struct drm_device *drm, struct dma_buf *buf);

#endif
