/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What drm.c and gem.c share. */
#ifndef BELFRY_DRM_FILES_H
#define BELFRY_DRM_FILES_H

#include <linux/fs.h>
#include <linux/slab.h>

#include "shim.h"

struct os_drm_file {
	struct file *file; /* referenced; private_data is the struct drm_file */
};

#endif
