// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The BARs as the core sees them. An absent device reads as all ones and swallows writes. */
#include <linux/io.h>
#include <linux/pci.h>

#include "shim.h"

static bool inside(u64 offset, u64 len, u64 size)
{
	return len <= size && offset <= size - len;
}

u32 os_reg_read(struct os_device *dev, u32 offset)
{
	u32 value = ~0u;
	int idx;

	if (!inside(offset, sizeof(value), dev->register_size) || !drm_dev_enter(&dev->drm, &idx))
		return value;
	value = readl(dev->registers + offset);
	drm_dev_exit(idx);
	return value;
}

void os_reg_write(struct os_device *dev, u32 offset, u32 value)
{
	int idx;

	if (!inside(offset, sizeof(value), dev->register_size) || !drm_dev_enter(&dev->drm, &idx))
		return;
	writel(value, dev->registers + offset);
	drm_dev_exit(idx);
}

u64 os_doorbell_size(struct os_device *dev)
{
	return dev->doorbell_size;
}

u64 os_own_address(struct os_device *dev, u32 bar, u64 offset)
{
	return pci_bus_address(dev->pdev, bar) + offset;
}

void os_doorbell_write(struct os_device *dev, u64 offset, u64 value)
{
	int idx;

	if (!inside(offset, sizeof(value), dev->doorbell_size) || !drm_dev_enter(&dev->drm, &idx))
		return;
	wmb(); /* the ring, and VRAM through its write-combining buffers, before the doorbell */
	writeq(value, dev->doorbells + offset);
	drm_dev_exit(idx);
}

u64 os_vram_size(struct os_device *dev)
{
	return dev->vram_size;
}

void os_vram_read(struct os_device *dev, u64 offset, void *data, size_t len)
{
	int idx;

	memset(data, 0xff, len);
	if (!inside(offset, len, dev->vram_size) || !drm_dev_enter(&dev->drm, &idx))
		return;
	memcpy_fromio(data, dev->vram + offset, len);
	drm_dev_exit(idx);
}

void os_vram_write(struct os_device *dev, u64 offset, const void *data, size_t len)
{
	u8 __iomem *dst;
	const u8 *src = data;
	int idx;

	if (!inside(offset, len, dev->vram_size) || !drm_dev_enter(&dev->drm, &idx))
		return;
	/* A page-table entry must never be seen half written: whole words where the destination is aligned. */
	dst = dev->vram + offset;
	for (; len && ((uintptr_t)dst & 7); dst++, src++, len--)
		writeb_relaxed(*src, dst);
	for (; len >= 8; dst += 8, src += 8, len -= 8) {
		u64 word;

		memcpy(&word, src, sizeof(word));
		writeq_relaxed(word, dst);
	}
	for (; len; dst++, src++, len--)
		writeb_relaxed(*src, dst);
	drm_dev_exit(idx);
}

void os_vram_fill(struct os_device *dev, u64 offset, u64 len, u8 byte)
{
	int idx;

	if (!inside(offset, len, dev->vram_size) || !drm_dev_enter(&dev->drm, &idx))
		return;
	while (len) {
		size_t step = min_t(u64, len, SZ_1M);

		memset_io(dev->vram + offset, byte, step);
		offset += step;
		len -= step;
		cond_resched();
	}
	drm_dev_exit(idx);
}

void os_write_barrier(void)
{
	wmb();
}
