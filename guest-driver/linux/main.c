// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The module: parameters, start and end. */
#include <linux/mmu_notifier.h>
#include <linux/module.h>

#include "shim.h"

DEFINE_SRCU(belfry_works);
struct workqueue_struct *belfry_wq;
struct workqueue_struct *belfry_pin_wq;

/* Both are read by user space below /sys/module/amdgpu/parameters. */
static int emu_mode;
module_param(emu_mode, int, 0444);
MODULE_PARM_DESC(emu_mode, "Emulation mode (accepted for compatibility: it is always on)");

static int cwsr_enable = 1;
module_param(cwsr_enable, int, 0444);
MODULE_PARM_DESC(cwsr_enable, "Compute wave save and restore (accepted for compatibility, no effect)");

/* As of amdgpu. The core decides between which devices; none of them is behind an IOMMU that translates, if there are several. */
static bool pcie_p2p = true;
module_param(pcie_p2p, bool, 0444);
MODULE_PARM_DESC(pcie_p2p, "Devices reach the memory of others over the bus (N = off, Y = on (default))");

bool os_has_peers(void)
{
	return pcie_p2p;
}

static int __init belfry_init(void)
{
	int err;

	belfry_wq = alloc_workqueue("amdgpu-kfd", WQ_UNBOUND, 0);
	if (!belfry_wq)
		return -ENOMEM;

	err = -ENOMEM;
	belfry_pin_wq = alloc_workqueue("amdgpu-kfd-pins", WQ_UNBOUND, 0);
	if (!belfry_pin_wq)
		goto err_wq;

	err = belfry_chardev_init();
	if (err)
		goto err_pin_wq;

	err = pci_register_driver(&belfry_pci_driver);
	if (err)
		goto err_chardev;
	return 0;

err_chardev:
	belfry_chardev_exit();
err_pin_wq:
	destroy_workqueue(belfry_pin_wq);
err_wq:
	destroy_workqueue(belfry_wq);
	return err;
}
module_init(belfry_init);

static void __exit belfry_fini(void)
{
	pci_unregister_driver(&belfry_pci_driver);
	belfry_chardev_exit();
	destroy_workqueue(belfry_pin_wq);
	destroy_workqueue(belfry_wq);
	mmu_notifier_synchronize();
}
module_exit(belfry_fini);

MODULE_DESCRIPTION("KFD compute driver of the Belfry GPU");
MODULE_AUTHOR("The Belfry authors");
MODULE_LICENSE("Dual MIT/GPL");
