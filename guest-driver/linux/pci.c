// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The PCI function: probe and remove, BAR maps, reset, suspend and resume. */
#include <drm/drm_file.h>
#include <drm/drm_managed.h>
#include <linux/dma-mapping.h>
#include <linux/module.h>

#include "shim.h"

static int map_bars(struct os_device *dev)
{
	struct pci_dev *pdev = dev->pdev;

	dev->vram_size = pci_resource_len(pdev, BAR_VRAM);
	dev->doorbell_size = pci_resource_len(pdev, BAR_DOORBELLS);
	dev->register_size = pci_resource_len(pdev, BAR_REGISTERS);
	if (!dev->vram_size || !dev->doorbell_size || !dev->register_size) {
		dev_err(&pdev->dev, "a BAR was not assigned: vram %llu, doorbells %llu, registers %llu bytes\n",
			dev->vram_size, dev->doorbell_size, dev->register_size);
		return -ENODEV;
	}

	dev->registers = pci_iomap(pdev, BAR_REGISTERS, 0);
	dev->doorbells = pci_iomap(pdev, BAR_DOORBELLS, 0);
	dev->vram = pci_iomap_wc(pdev, BAR_VRAM, 0);
	if (!dev->registers || !dev->doorbells || !dev->vram) {
		dev_err(&pdev->dev, "cannot map the BARs\n");
		return -ENOMEM;
	}
	return 0;
}

static void unmap_bars(struct os_device *dev)
{
	if (dev->vram)
		pci_iounmap(dev->pdev, dev->vram);
	if (dev->doorbells)
		pci_iounmap(dev->pdev, dev->doorbells);
	if (dev->registers)
		pci_iounmap(dev->pdev, dev->registers);
	dev->vram = dev->doorbells = dev->registers = NULL;
}

static void cleanup_users(struct drm_device *drm, void *users)
{
	cleanup_srcu_struct(users);
}

/* Stops the core and returns when no thread is in it any more. */
static void remove_core(struct os_device *dev)
{
	WRITE_ONCE(dev->gone, true);
	belfry_remove(dev->gpu); /* wakes threads that wait for events */
	synchronize_srcu(&dev->users);
	synchronize_srcu(&belfry_works);
}

/* Keeps the configuration space for resets: a reset that the driver did not ask for may have cleared it by then. */
static int save_state(struct os_device *dev)
{
	int err = pci_save_state(dev->pdev);

	if (err)
		return err;
	dev->pci_state = pci_store_saved_state(dev->pdev);
	return dev->pci_state ? 0 : -ENOMEM;
}

static int belfry_pci_probe(struct pci_dev *pdev, const struct pci_device_id *id)
{
	struct os_device *dev;
	int err;

	dev = devm_drm_dev_alloc(&pdev->dev, &belfry_drm_driver, struct os_device, drm);
	if (IS_ERR(dev))
		return PTR_ERR(dev);
	dev->pdev = pdev;
	pci_set_drvdata(pdev, dev);
	INIT_LIST_HEAD(&dev->link);
	mutex_init(&dev->frames_lock);
	mutex_init(&dev->pages_lock);
	INIT_LIST_HEAD(&dev->pages);
	err = init_srcu_struct(&dev->users);
	if (err)
		return err;
	err = drmm_add_action_or_reset(&dev->drm, cleanup_users, &dev->users);
	if (err)
		return err;

	err = pci_enable_device(pdev);
	if (err)
		return err;
	err = pci_request_regions(pdev, BELFRY_NAME);
	if (err)
		goto err_disable;
	err = dma_set_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(44));
	if (err)
		goto err_regions;
	pci_set_master(pdev);
	err = map_bars(dev);
	if (err)
		goto err_bars;
	err = belfry_irq_alloc(dev);
	if (err)
		goto err_bars;

	err = belfry_xcps_create(dev, id->driver_data);
	if (err)
		goto err_xcps;
	err = save_state(dev);
	if (err)
		goto err_xcps;
	belfry_machine_lock();
	err = belfry_machine_probe(dev);
	if (err)
		goto err_machine;
	err = belfry_irq_request(dev);
	if (err)
		goto err_core;
	belfry_usage_add(dev);
	err = drm_dev_register(&dev->drm, 0);
	if (err)
		goto err_irq_handler;
	err = belfry_xcps_register(dev);
	if (err)
		goto err_drm;
	err = belfry_card_add(dev);
	if (err)
		goto err_drm;
	err = belfry_chardev_add(dev);
	if (err)
		goto err_card;
	belfry_machine_unlock();
	belfry_trace_add(dev);
	return 0;

err_card:
	belfry_card_remove(dev);
err_drm:
	belfry_irq_free(dev);
	remove_core(dev);
	belfry_frames_remove(dev);
	drm_dev_unplug(&dev->drm);
	goto err_gpu;
err_irq_handler:
	belfry_irq_free(dev);
err_core:
	remove_core(dev);
err_gpu:
	belfry_gpu_put(dev->gpu);
	dev->gpu = NULL;
err_machine:
	belfry_machine_unlock();
err_xcps:
	kfree(dev->pci_state);
	belfry_xcps_remove(dev);
	pci_free_irq_vectors(pdev);
err_bars:
	unmap_bars(dev);
	pci_clear_master(pdev);
err_regions:
	pci_release_regions(pdev);
err_disable:
	pci_disable_device(pdev);
	return err;
}

/*
 * Open files of the KFD node and of the render node keep the module, but not the function: they find a core that
 * answers ENODEV, and mappings that raise SIGBUS.
 */
static void belfry_pci_remove(struct pci_dev *pdev)
{
	struct os_device *dev = pci_get_drvdata(pdev);

	belfry_trace_remove(dev);
	belfry_machine_lock();
	belfry_chardev_remove(dev);
	belfry_card_remove(dev);
	belfry_irq_free(dev); /* the core polls from here on */
	remove_core(dev);
	belfry_machine_unlock();
	belfry_frames_remove(dev);
	belfry_xcps_remove(dev);
	drm_dev_unplug(&dev->drm); /* from here on nothing touches a BAR, and no fault maps one */
	belfry_chardev_revoke(dev);
	belfry_gpu_put(dev->gpu);
	dev->gpu = NULL;
	belfry_pages_unmap(dev);
	kfree(dev->pci_state);
	pci_free_irq_vectors(pdev);
	unmap_bars(dev);
	pci_clear_master(pdev);
	pci_release_regions(pdev);
	pci_disable_device(pdev);
}

/*
 * Programs are frozen. The function keeps VRAM, in D3hot and when the system idles or sleeps; its other state is saved by the PCI core
 * or made anew.
 */
static int belfry_pci_suspend(struct device *device)
{
	struct os_device *dev = dev_get_drvdata(device);
	int err = belfry_suspend(dev->gpu);

	/* One that is beyond repair does not keep the system awake. */
	return err == -EIO ? 0 : err;
}

static int belfry_pci_resume(struct device *device)
{
	struct os_device *dev = dev_get_drvdata(device);
	int err = belfry_resume(dev->gpu);

	return err == -EINVAL ? 0 : err; /* it was not suspended */
}

/* Hibernation takes VRAM away, which is not saved: the system stays awake. */
static int belfry_pci_freeze(struct device *device)
{
	dev_err(device, "cannot hibernate: VRAM is not saved\n");
	return -EOPNOTSUPP;
}

static const struct dev_pm_ops belfry_pm_ops = {
	.suspend = belfry_pci_suspend,
	.resume = belfry_pci_resume,
	.freeze = belfry_pci_freeze,
};

/* The data are the render nodes of partitions after the first. */
static const struct pci_device_id belfry_pci_ids[] = {
	{ PCI_DEVICE(PCI_VENDOR_ID_ATI, 0x744c) }, /* Navi 31 */
	{ PCI_DEVICE(PCI_VENDOR_ID_ATI, 0x74a1), .driver_data = OS_PARTITIONS - 1 }, /* MI300X */
	{ PCI_DEVICE(PCI_VENDOR_ID_ATI, 0x7550) }, /* Navi 48 */
	{ PCI_DEVICE(PCI_VENDOR_ID_ATI, 0x1586) }, /* Strix Halo */
	{ PCI_DEVICE(PCI_VENDOR_ID_ATI, 0x75a0), .driver_data = OS_PARTITIONS - 1 }, /* MI350X */
	{ },
};
MODULE_DEVICE_TABLE(pci, belfry_pci_ids);

struct pci_driver belfry_pci_driver = {
	.name = BELFRY_NAME,
	.id_table = belfry_pci_ids,
	.probe = belfry_pci_probe,
	.remove = belfry_pci_remove,
	.driver.pm = &belfry_pm_ops,
};

void os_device_get(struct os_device *dev)
{
	drm_dev_get(&dev->drm);
}

void os_device_put(struct os_device *dev)
{
	drm_dev_put(&dev->drm);
}

void os_device_info(struct os_device *dev, struct os_device_info *info)
{
	struct pci_dev *pdev = dev->pdev;
	u32 i;

	*info = (struct os_device_info){
		.vendor_id = pdev->vendor,
		.device_id = pdev->device,
		.subsystem_vendor_id = pdev->subsystem_vendor,
		.subsystem_id = pdev->subsystem_device,
		.revision_id = pdev->revision,
		.domain = pci_domain_nr(pdev->bus),
		.location_id = pci_dev_id(pdev),
		.render_minor = dev->drm.render ? dev->drm.render->index : 0,
	};
	for (i = 0; i < ARRAY_SIZE(info->partition_minors); i++)
		info->partition_minors[i] = belfry_xcp_minor(dev, i + 1);
}

int os_reset_function(struct os_device *dev)
{
	int err, idx;

	if (!drm_dev_enter(&dev->drm, &idx))
		return -ENODEV;
	/* The reset would wait a minute for a function that is off the bus. */
	err = pci_device_is_present(dev->pdev) ? 0 : -ENODEV;
	if (!err)
		err = pcie_reset_flr(dev->pdev, PCI_RESET_DO_RESET);
	if (!err)
		err = pci_load_saved_state(dev->pdev, dev->pci_state);
	if (!err)
		pci_restore_state(dev->pdev);
	else
		pci_clear_master(dev->pdev); /* pages of svm.c are not held for who does not let go of them */
	drm_dev_exit(idx);
	return err;
}
