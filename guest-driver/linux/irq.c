// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The interrupt: one MSI-X or MSI message, handled on a thread. */
#include <linux/interrupt.h>

#include "shim.h"

int belfry_irq_alloc(struct os_device *dev)
{
	int count = pci_alloc_irq_vectors(dev->pdev, 1, 1, PCI_IRQ_MSIX | PCI_IRQ_MSI);

	if (count < 0) {
		dev_err(&dev->pdev->dev, "no MSI-X or MSI vector: %d\n", count);
		return count;
	}
	dev->irq = pci_irq_vector(dev->pdev, 0);
	return 0;
}

static irqreturn_t belfry_irq_thread(int irq, void *data)
{
	struct os_device *dev = data;

	belfry_interrupt(dev->gpu);
	return IRQ_HANDLED;
}

int belfry_irq_request(struct os_device *dev)
{
	int err = request_threaded_irq(dev->irq, NULL, belfry_irq_thread, IRQF_ONESHOT, BELFRY_NAME, dev);

	if (err)
		return err;
	/* What arrived while nobody listened left its entry in the ring but no message. */
	belfry_interrupt(dev->gpu);
	return 0;
}

void belfry_irq_free(struct os_device *dev)
{
	free_irq(dev->irq, dev);
}
