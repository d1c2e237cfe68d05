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

struct drm_gem_object *belfry_gem_object(struct os_gem *gem);
struct belfry_backing *belfry_gem_backing(struct drm_gem_object *obj);

#endif
