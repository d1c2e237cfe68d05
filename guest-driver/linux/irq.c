// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The interrupt: one MSI-X or MSI message, handled on a thread, and on a worker when it does not end. */
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

/*
 * The interrupt thread is a real-time one, and free_irq() waits for it: a device that raises interrupts faster than they
 * are handled gets a worker instead, which gives way to others and can be cancelled although it queues itself.
 */
static void belfry_irq_handle(struct os_device *dev)
{
	if (belfry_interrupt(dev->gpu))
		queue_work(belfry_wq, &dev->irq_work);
}

static void belfry_irq_work(struct work_struct *work)
{
	belfry_irq_handle(container_of(work, struct os_device, irq_work));
}

static irqreturn_t belfry_irq_thread(int irq, void *data)
{
	belfry_irq_handle(data);
	return IRQ_HANDLED;
}

int belfry_irq_request(struct os_device *dev)
{
	int err;

	INIT_WORK(&dev->irq_work, belfry_irq_work);
	err = request_threaded_irq(dev->irq, NULL, belfry_irq_thread, IRQF_ONESHOT, BELFRY_NAME, dev);
	if (err)
		return err;
	/* An interrupt that arrived before this has left its entry in the ring but no message. */
	belfry_irq_handle(dev);
	return 0;
}

void belfry_irq_free(struct os_device *dev)
{
	free_irq(dev->irq, dev);
	cancel_work_sync(&dev->irq_work);
}
