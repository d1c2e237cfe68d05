// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* The card's files in the PCI device's directory and of its hardware monitor, in the core's words. */
#include <linux/device.h>
#include <linux/hwmon.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "shim.h"

#define CARD_DIRS 8

struct card_file {
	struct device_attribute attr;
	struct os_device *dev;
	char path[];
};

/* The files of one directory below the device's; the empty name is the device's own. */
struct card_dir {
	struct attribute_group group;
	char *name;
	size_t count;
	bool added;
};

struct belfry_card {
	struct os_device *dev;
	struct device *hwmon;
	const struct attribute_group *hwmon_groups[2];
	struct belfry_topology *blocks; /* what the discovery table says */
	struct belfry_topology *partitions; /* what each way to share the cores out gives; NULL on other chips */
	struct card_dir dirs[CARD_DIRS];
};

static struct card_file *to_file(struct attribute *attr)
{
	return container_of(attr, struct card_file, attr.attr);
}

static ssize_t card_show(struct device *device, struct device_attribute *attr, char *text)
{
	struct card_file *file = container_of(attr, struct card_file, attr);
	ssize_t len;
	int idx;

	if (!belfry_enter(file->dev, &idx))
		return -ENODEV;
	len = belfry_card_read(file->dev->gpu, file->path, strlen(file->path), text, PAGE_SIZE);
	belfry_leave(file->dev, idx);
	return len;
}

static ssize_t card_store(struct device *device, struct device_attribute *attr, const char *text, size_t len)
{
	struct card_file *file = container_of(attr, struct card_file, attr);
	int err, idx;

	if (!belfry_enter(file->dev, &idx))
		return -ENODEV;
	err = belfry_card_write(file->dev->gpu, file->path, strlen(file->path), text, len);
	belfry_leave(file->dev, idx);
	return err ? err : len;
}

/* The directory of that name, a new one if there is none; room is for the files of all directories. */
static struct card_dir *dir_named(struct belfry_card *card, const char *name, size_t len, size_t room)
{
	size_t i;

	for (i = 0; i < CARD_DIRS; i++) {
		struct card_dir *dir = &card->dirs[i];

		if (!dir->name) {
			dir->name = kstrndup(name, len, GFP_KERNEL);
			dir->group.attrs = kcalloc(room + 1, sizeof(*dir->group.attrs), GFP_KERNEL);
			return dir->name && dir->group.attrs ? dir : NULL;
		}
		if (strlen(dir->name) == len && !strncmp(dir->name, name, len))
			return dir;
	}
	return NULL;
}

/* line: the mode in octal, a space, the path. */
static int add_file(struct belfry_card *card, const char *line, size_t room)
{
	const char *path = strchr(line, ' '), *name;
	struct card_file *file;
	struct card_dir *dir;
	unsigned int mode;

	if (!path || sscanf(line, "%o", &mode) != 1)
		return -EINVAL;
	path++;
	name = strrchr(path, '/');
	dir = dir_named(card, path, name ? name - path : 0, room);
	if (!dir || dir->count >= room)
		return -ENOMEM;
	file = kzalloc(struct_size(file, path, strlen(path) + 1), GFP_KERNEL);
	if (!file)
		return -ENOMEM;
	strcpy(file->path, path);
	file->dev = card->dev;
	sysfs_attr_init(&file->attr.attr);
	file->attr.attr.name = name ? file->path + (name + 1 - path) : file->path;
	file->attr.attr.mode = mode & 0644;
	file->attr.show = card_show;
	file->attr.store = mode & 0200 ? card_store : NULL;
	dir->group.attrs[dir->count++] = &file->attr.attr;
	return 0;
}

static int add_files(struct belfry_card *card)
{
	char *text = kmalloc(PAGE_SIZE, GFP_KERNEL), *rest = text, *line;
	ssize_t len = text ? belfry_card_list(card->dev->gpu, text, PAGE_SIZE - 1) : -ENOMEM;
	size_t room = 1, i;
	int err = 0;

	if (len < 0) {
		kfree(text);
		return len;
	}
	text[len] = '\0';
	for (i = 0; i < len; i++)
		room += text[i] == '\n';
	while (!err && (line = strsep(&rest, "\n")))
		if (*line)
			err = add_file(card, line, room);
	kfree(text);
	return err;
}

/* The monitor is a device of its own, which has its name from its class. */
static int add_monitor(struct belfry_card *card, struct card_dir *dir)
{
	struct device *hwmon;

	card->hwmon_groups[0] = &dir->group;
	hwmon = hwmon_device_register_with_groups(&card->dev->pdev->dev, BELFRY_NAME, card, card->hwmon_groups);
	if (IS_ERR(hwmon))
		return PTR_ERR(hwmon);
	card->hwmon = hwmon;
	return 0;
}

int belfry_card_add(struct os_device *dev)
{
	struct belfry_card *card = kzalloc(sizeof(*card), GFP_KERNEL);
	struct card_dir *dir;
	int err;

	if (!card)
		return -ENOMEM;
	card->dev = dev;
	dev->card = card;
	err = add_files(card);
	for (dir = card->dirs; !err && dir < card->dirs + CARD_DIRS && dir->name; dir++) {
		if (!strcmp(dir->name, "hwmon")) {
			err = add_monitor(card, dir);
			continue;
		}
		if (*dir->name)
			dir->group.name = dir->name;
		err = sysfs_create_group(&dev->pdev->dev.kobj, &dir->group);
		dir->added = !err;
	}
	if (!err) {
		struct kobject *parent = &dev->pdev->dev.kobj;

		card->blocks = belfry_topology_create(dev->gpu, parent, "ip_discovery", "ip_discovery");
		if (IS_ERR(card->blocks)) {
			err = PTR_ERR(card->blocks);
			card->blocks = NULL;
		}
	}
	if (!err) {
		struct kobject *parent = &dev->pdev->dev.kobj;

		card->partitions = belfry_topology_create(dev->gpu, parent, "compute_partition_config",
							  "compute_partition_config");
		if (IS_ERR(card->partitions)) {
			err = PTR_ERR(card->partitions);
			card->partitions = NULL;
			if (err == -ENOENT) /* cores that are not shared out */
				err = 0;
		}
	}
	if (err)
		belfry_card_remove(dev);
	return err;
}

/* Waits for readers. */
void belfry_card_remove(struct os_device *dev)
{
	struct belfry_card *card = dev->card;
	struct card_dir *dir;
	size_t i;

	dev->card = NULL;
	if (card->partitions)
		belfry_topology_remove(card->partitions);
	if (card->blocks)
		belfry_topology_remove(card->blocks);
	if (card->hwmon)
		hwmon_device_unregister(card->hwmon);
	for (dir = card->dirs; dir < card->dirs + CARD_DIRS; dir++) {
		if (dir->added)
			sysfs_remove_group(&dev->pdev->dev.kobj, &dir->group);
		for (i = 0; i < dir->count; i++)
			kfree(to_file(dir->group.attrs[i]));
		kfree(dir->group.attrs);
		kfree(dir->name);
	}
	kfree(card);
}
