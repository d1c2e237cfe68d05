// SPDX-License-Identifier: MIT OR GPL-2.0-only
/* Trees of files in the core's words: the topology below /sys/devices/virtual/kfd/kfd, and ip_discovery. */
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>

#include "shim.h"

struct topology_file {
	struct attribute attr;
	struct list_head link;
};

struct topology_dir {
	struct kobject kobj;
	struct list_head link; /* in belfry_topology.dirs, parents first */
	struct list_head files;
	struct belfry_gpu *gpu;
	char path[]; /* as the core names it, without a trailing slash */
};

struct belfry_topology {
	struct list_head dirs;
};

static struct topology_dir *to_dir(struct kobject *kobj)
{
	return container_of(kobj, struct topology_dir, kobj);
}

/* The path of what a directory has under a name; the caller frees it. */
static char *path_below(const struct topology_dir *dir, const char *name)
{
	return kasprintf(GFP_KERNEL, "%s%s%s", dir->path, *dir->path ? "/" : "", name);
}

static ssize_t dir_show(struct kobject *kobj, struct attribute *attr, char *text)
{
	struct topology_dir *dir = to_dir(kobj);
	char *path = path_below(dir, attr->name);
	ssize_t len;

	if (!path)
		return -ENOMEM;
	len = belfry_sysfs_read(dir->gpu, path, strlen(path), text, PAGE_SIZE);
	kfree(path);
	return len;
}

static ssize_t dir_store(struct kobject *kobj, struct attribute *attr, const char *text, size_t len)
{
	struct topology_dir *dir = to_dir(kobj);
	char *path = path_below(dir, attr->name);
	int err;

	if (!path)
		return -ENOMEM;
	err = belfry_card_write(dir->gpu, path, strlen(path), text, len);
	kfree(path);
	return err ? err : len;
}

static const struct sysfs_ops dir_sysfs_ops = {
	.show = dir_show,
	.store = dir_store,
};

static void dir_release(struct kobject *kobj)
{
	struct topology_dir *dir = to_dir(kobj);
	struct topology_file *file, *next;

	list_for_each_entry_safe(file, next, &dir->files, link) {
		kfree(file->attr.name);
		kfree(file);
	}
	belfry_gpu_put(dir->gpu);
	kfree(dir);
}

static const struct kobj_type dir_ktype = {
	.sysfs_ops = &dir_sysfs_ops,
	.release = dir_release,
};

/* writable: for belfry_card_write. */
static int add_file(struct topology_dir *dir, const char *name, bool writable)
{
	struct topology_file *file = kzalloc(sizeof(*file), GFP_KERNEL);
	int err;

	if (!file)
		return -ENOMEM;
	sysfs_attr_init(&file->attr);
	file->attr.mode = writable ? 0644 : 0444;
	file->attr.name = kstrdup(name, GFP_KERNEL);
	if (!file->attr.name) {
		kfree(file);
		return -ENOMEM;
	}
	list_add_tail(&file->link, &dir->files);
	err = sysfs_create_file(&dir->kobj, &file->attr);
	return err;
}

static int add_dir(struct belfry_topology *topology, struct belfry_gpu *gpu, struct kobject *parent, const char *name,
		   const char *path)
{
	size_t path_size = strlen(path) + 1;
	struct topology_dir *dir = kzalloc(struct_size(dir, path, path_size), GFP_KERNEL);
	int err;

	if (!dir)
		return -ENOMEM;
	INIT_LIST_HEAD(&dir->files);
	memcpy(dir->path, path, path_size);
	dir->gpu = belfry_gpu_get(gpu);
	list_add_tail(&dir->link, &topology->dirs);
	err = kobject_init_and_add(&dir->kobj, &dir_ktype, parent, "%s", name);
	return err;
}

/* A link to a directory beside it, which was added before. */
static int add_link(struct belfry_topology *topology, struct topology_dir *dir, const char *name, const char *target)
{
	char *path = path_below(dir, target);
	struct topology_dir *other;
	int err = -ENOENT;

	if (!path)
		return -ENOMEM;
	list_for_each_entry(other, &topology->dirs, link) {
		if (!strcmp(other->path, path)) {
			err = sysfs_create_link(&dir->kobj, &other->kobj, name);
			break;
		}
	}
	kfree(path);
	return err;
}

/* Adds what the core lists in dir; the directories among it go to the end of the list, to be filled in their turn. */
static int fill_dir(struct belfry_topology *topology, struct topology_dir *dir, char *text)
{
	ssize_t len = belfry_sysfs_list(dir->gpu, dir->path, strlen(dir->path), text, PAGE_SIZE - 1);
	char *rest = text, *name;
	int err = 0;

	if (len < 0)
		return len;
	text[len] = '\0';
	while (!err && (name = strsep(&rest, "\n"))) {
		size_t n = strlen(name);
		char *path, *target;

		if (!n)
			continue;
		target = strchr(name, '>');
		if (target) {
			*target = '\0';
			err = add_link(topology, dir, name, target + 1);
			continue;
		}
		if (name[n - 1] != '/') {
			bool writable = name[n - 1] == '=';

			if (writable)
				name[n - 1] = '\0';
			err = add_file(dir, name, writable);
			continue;
		}
		name[n - 1] = '\0';
		path = path_below(dir, name);
		err = path ? add_dir(topology, dir->gpu, &dir->kobj, name, path) : -ENOMEM;
		kfree(path);
	}
	return err;
}

struct belfry_topology *belfry_topology_create(struct belfry_gpu *gpu, struct kobject *parent, const char *name,
					       const char *path)
{
	struct belfry_topology *topology = kzalloc(sizeof(*topology), GFP_KERNEL);
	char *text = kmalloc(PAGE_SIZE, GFP_KERNEL);
	struct topology_dir *dir;
	int err;

	if (!topology || !text) {
		kfree(topology);
		kfree(text);
		return ERR_PTR(-ENOMEM);
	}
	INIT_LIST_HEAD(&topology->dirs);
	err = add_dir(topology, gpu, parent, name, path);
	if (!err) {
		list_for_each_entry(dir, &topology->dirs, link) {
			err = fill_dir(topology, dir, text);
			if (err)
				break;
		}
	}
	kfree(text);
	if (err) {
		belfry_topology_remove(topology);
		return ERR_PTR(err);
	}
	return topology;
}

struct kobject *belfry_topology_dir(struct belfry_topology *topology, const char *path)
{
	struct topology_dir *dir;

	list_for_each_entry(dir, &topology->dirs, link) {
		if (!strcmp(dir->path, path))
			return &dir->kobj;
	}
	return NULL;
}

void belfry_topology_remove(struct belfry_topology *topology)
{
	struct topology_dir *dir, *next;

	list_for_each_entry_safe_reverse(dir, next, &topology->dirs, link) {
		list_del(&dir->link);
		kobject_del(&dir->kobj); /* waits for readers */
		kobject_put(&dir->kobj);
	}
	kfree(topology);
}
