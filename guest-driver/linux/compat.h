/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* What differs between the kernels this builds for; Debian 13's 6.12 is the reference. */
#ifndef BELFRY_COMPAT_H
#define BELFRY_COMPAT_H

#include <linux/version.h>

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 12, 0)
#error "the driver needs Linux 6.12 or later"
#endif

/* Name spaces of symbols are strings since 6.13. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 13, 0)
#define BELFRY_IMPORT_NS(space) MODULE_IMPORT_NS(space)
#else
#define BELFRY_IMPORT_NS(space) MODULE_IMPORT_NS(#space)
#endif

/* struct drm_driver lost its date in 6.14. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 14, 0)
#define BELFRY_DRM_DATE .date = "20260101",
#else
#define BELFRY_DRM_DATE
#endif

/* Device pages know their map by a function since 6.15, and are freed and made as folios since 6.19. */
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 15, 0)
#define belfry_page_pagemap(page) ((page)->pgmap)
#else
#define belfry_page_pagemap(page) page_pgmap(page)
#endif

#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 19, 0)
#define belfry_device_page_init(page, pagemap) zone_device_page_init(page)
#define BELFRY_PAGE_FREE(function) .page_free = function
#else
#define belfry_device_page_init(page, pagemap) zone_device_page_init(page, pagemap, 0)
#define BELFRY_PAGE_FREE(function) .folio_free = function##_folio
#define BELFRY_FREES_FOLIOS
#endif

#endif
