/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The whole contract between the driver core (Rust, links no kernel symbol) and Linux.
 *
 * os_*     : what the core asks of the kernel; one C file per concern, named in the section titles.
 * belfry_* : what the kernel side calls in the core.
 *
 * Everything may sleep unless it says otherwise; nothing is called from a hard interrupt. Functions that return int
 * return 0 or a negative errno. Declared a second time, by hand, in src/ffi.rs: change both.
 */
#ifndef BELFRY_OS_INTERFACE_H
#define BELFRY_OS_INTERFACE_H

#include <linux/types.h>

struct os_device;     /* one PCI function; reference counted by the kernel */
struct os_lock;       /* sleeping mutex */
struct os_wait_queue; /* wait queue with a generation counter */
struct os_pages;      /* run of kernel pages the device can reach */
struct os_pin;        /* pinned pages of a user address space */
struct os_mirror;     /* pages of a user address space that may be used until they change */
struct os_drm_file;   /* a process's open render node */
struct os_render_file; /* the open render node that an ioctl came by: a struct drm_file, valid during the ioctl */
struct os_gem;        /* mappable buffer object */
struct os_dmabuf;     /* memory that processes share */
struct os_smi;        /* descriptor that gives events */
struct os_target;     /* a process that a debugger has named */
struct os_event_file; /* a descriptor that a debugger is told of events by */
struct os_fence;      /* end of work of the core, a struct dma_fence */
struct os_await;      /* end of work that may be another driver's */
struct os_sync_target; /* a syncobj that gets work */
struct os_work;       /* something the core does later, on a worker thread */

struct belfry_gpu;        /* the core's device */
struct belfry_process;    /* the core's process, one reference per open file */
struct belfry_client;     /* what the core has of an open render node */
struct belfry_backing;    /* the core's pages behind a GEM object */
struct belfry_invalidate; /* the core's callback of a pin or a mirror */
struct belfry_smi;        /* the core's half of an os_smi */
struct belfry_kick;       /* the core's callback of an os_await */
struct belfry_work;       /* the core's half of an os_work */

/* ---- main.c: parameters ---- */

/* Whether devices reach the memory of others over the bus. */
bool os_has_peers(void);

/* ---- pci.c: the function ---- */

#define OS_PARTITIONS 8

struct os_device_info {
	u16 vendor_id;
	u16 device_id;
	u16 subsystem_vendor_id;
	u16 subsystem_id;
	u32 revision_id;
	u32 domain;
	u32 location_id;  /* bus << 8 | devfn */
	u32 render_minor; /* 0: none */
	u32 partition_minors[OS_PARTITIONS - 1]; /* of partitions after the first; 0: none */
};

void os_device_get(struct os_device *dev);
void os_device_put(struct os_device *dev);
void os_device_info(struct os_device *dev, struct os_device_info *info);
int os_reset_function(struct os_device *dev);
/* belfry_sysfs_list answers for other nodes now. Called from belfry_card_write, without a lock of the core. */
void os_topology_changed(struct os_device *dev);

/* ---- mmio.c: BAR5 registers, BAR2 doorbells, BAR0 VRAM. Offsets in bytes, bounds are checked. ---- */

u32 os_reg_read(struct os_device *dev, u32 offset);
void os_reg_write(struct os_device *dev, u32 offset, u32 value);
u64 os_doorbell_size(struct os_device *dev);
/* Where the device finds an offset of its own BAR2, or of BAR5, on the bus. */
u64 os_own_address(struct os_device *dev, u32 bar, u64 offset);
void os_doorbell_write(struct os_device *dev, u64 offset, u64 value);
u64 os_vram_size(struct os_device *dev);
void os_vram_read(struct os_device *dev, u64 offset, void *data, size_t len);
void os_vram_write(struct os_device *dev, u64 offset, const void *data, size_t len);
void os_vram_fill(struct os_device *dev, u64 offset, u64 len, u8 byte);
void os_write_barrier(void);

/* ---- pages.c: system memory of the driver ---- */

int os_pages_alloc(struct os_device *dev, size_t count, struct os_pages **pages);
void os_pages_free(struct os_pages *pages);
void *os_pages_cpu(struct os_pages *pages);
u64 os_pages_bus(struct os_pages *pages, size_t index);

/* ---- user_memory.c: memory of a process ---- */

/*
 * Pins count pages of the address space mm (a key of belfry_open) from va. Takes over `invalidate` in every case and
 * calls belfry_invalidate_drop on it in the end. os_unpin_user may wait for a running belfry_invalidated.
 */
int os_pin_user(struct os_device *dev, u64 mm, u64 va, size_t count, bool writable,
		struct belfry_invalidate *invalidate, struct os_pin **pin);
void os_unpin_user(struct os_pin *pin);
/* Only from belfry_invalidated: pins the range again; the watch over it goes from old to the new pin. */
int os_pin_renew(struct os_pin *old, struct os_pin **pin);
u64 os_pin_bus(struct os_pin *pin, size_t index);
/* Whether no change is on its way to belfry_invalidated. */
bool os_pin_is_current(struct os_pin *pin);
int os_copy_from_user(void *dst, u64 src, size_t len);
int os_copy_to_user(u64 dst, const void *src, size_t len);
bool os_user_range_ok(u64 va, u64 len);

/* ---- svm.c: memory of a process that the device reaches without pins ---- */

/* Whether this kernel has what the others need, which else return -EOPNOTSUPP. */
bool os_has_svm(void);
/* What lies at va of the address space mm (a key of belfry_open): 0, -EFAULT for nothing or no memory, -ESRCH. */
int os_user_area(u64 mm, u64 va, u64 *end, bool *writable, bool *file);
/*
 * Looks count pages up from va, which lie in one area. Takes over `invalidate` in every case and calls
 * belfry_invalidate_drop on it in the end. -EAGAIN when the area is another one, or changes all the time.
 */
int os_mirror_user(struct os_device *dev, u64 mm, u64 va, size_t count, bool writable,
		   struct belfry_invalidate *invalidate, struct os_mirror **mirror);
/* A mirror of no pages, which is told of changes to a range all the same. */
int os_watch_user(struct os_device *dev, u64 mm, u64 va, size_t count, struct belfry_invalidate *invalidate,
		  struct os_mirror **mirror);
/* Waits for a running belfry_changing, and is not called from there. */
void os_mirror_release(struct os_mirror *mirror);
/* Whether nothing has changed. Asked under the lock that belfry_changing takes. */
bool os_mirror_is_current(struct os_mirror *mirror);
/* Where a page is: the address on the bus, or the offset in VRAM. */
u64 os_mirror_page(struct os_mirror *mirror, size_t index, bool *vram);

/* ---- vram_pages.c: pages of a process in VRAM ---- */

#define BELFRY_FRAME_TAKEN (~0ull)

/* Whether there are such, else the others return -EOPNOTSUPP. */
bool os_has_vram_pages(struct os_device *dev);
/*
 * Moves count pages of the address space mm (a key of belfry_open) from va, which lie in one area, to VRAM: page i to offsets[i], in
 * whose place BELFRY_FRAME_TAKEN is put where it was used. Those come back by belfry_frames_freed. On failure nothing has moved.
 */
int os_move_to_vram(struct os_device *dev, u64 mm, u64 va, size_t count, u64 *offsets, size_t *moved);
/* Back to system memory. The core has the offsets when this returns. */
int os_move_to_system(struct os_device *dev, u64 mm, u64 va, size_t count, size_t *moved);

/* ---- drm.c, gem.c: the render node ---- */

int os_drm_acquire(struct os_device *dev, int fd, struct os_drm_file **file);
void os_drm_release(struct os_drm_file *file);
u64 os_drm_id(struct os_drm_file *file);
/* Takes over `backing` in every case. */
int os_gem_create(struct os_drm_file *file, struct belfry_backing *backing, u64 size, struct os_gem **gem);
void os_gem_release(struct os_gem *gem);
u64 os_gem_mmap_offset(struct os_gem *gem);
/* A handle of new memory. Takes over `backing` in every case. */
int os_handle_create(struct os_render_file *file, struct belfry_backing *backing, u64 size, u32 *handle);
/* The object of a handle, which os_handle_put gives back. */
int os_handle_lookup(struct os_render_file *file, u32 handle, struct os_gem **gem);
void os_handle_put(struct os_gem *gem);
/* What the object was made with; it lives as long. */
struct belfry_backing *os_gem_backing(struct os_gem *gem);

/* The key of the calling process's address space, as belfry_open gets it. */
u64 os_caller(void);

/* ---- fence.c: the end of work, and syncobjs ---- */

int os_fence_new(struct os_fence **fence);
/* Once. Takes locks of the kernel's that nothing sleeps with. error: 0 or -errno. */
void os_fence_signal(struct os_fence *fence, int error);
void os_fence_put(struct os_fence *fence);
/*
 * What is in a syncobj of the file. Takes over `kick` in every case, calls belfry_kick when it is over, and belfry_kick_drop
 * in the end. -ENOENT for a bad handle, -EINVAL when nothing is there; flags: DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT waits.
 */
int os_sync_await(struct os_render_file *file, u32 handle, u64 point, u32 flags, struct belfry_kick *kick,
		  struct os_await **await);
bool os_await_is_over(struct os_await *await);
void os_await_put(struct os_await *await);
/* A syncobj of the file; -EINVAL for a bad handle. A point of 0 replaces what is in it. */
int os_sync_target(struct os_render_file *file, u32 handle, u64 point, struct os_sync_target **target);
void os_sync_target_put(struct os_sync_target *target, struct os_fence *fence);
void os_sync_target_release(struct os_sync_target *target);
/* fence: NULL for what is over; to: an AMDGPU_FENCE_TO_HANDLE_GET_*. */
int os_sync_export(struct os_render_file *file, struct os_fence *fence, u32 to, u32 *out);

/* ---- dmabuf.c: memory that processes share ---- */

int os_dmabuf_export(struct os_gem *gem, struct os_dmabuf **dmabuf);
/* Returns a descriptor of the calling process, or -errno. */
int os_dmabuf_fd(struct os_dmabuf *dmabuf, u32 flags);
/* Of whichever device. */
int os_dmabuf_get(int fd, struct os_dmabuf **dmabuf);
void os_dmabuf_release(struct os_dmabuf *dmabuf);
/* What the GEM object was made with; it lives as long as the DMA-buf. */
struct belfry_backing *os_dmabuf_backing(struct os_dmabuf *dmabuf);

/* ---- debug.c: debuggers ---- */

int os_target_get(struct os_device *dev, u32 pid, struct os_target **target);
u64 os_target_key(struct os_target *target);
/* Whether the thread that called os_target_get traces it. */
bool os_target_is_traced(struct os_target *target);
/* From now on belfry_exit is called for it; at most one caller at a time, in an ioctl. */
int os_target_hold(struct os_target *target);
void os_target_put(struct os_target *target);
/* Whether the caller may checkpoint processes. */
bool os_may_checkpoint(void);
/* NULL: there is no such descriptor, or it cannot be written to. */
struct os_event_file *os_event_file_get(int fd);
void os_event_file_notify(struct os_event_file *event);
void os_event_file_put(struct os_event_file *event);
/* Reads or writes memory of the address space mm (a key of belfry_open); from any thread. */
int os_access_user(u64 mm, u64 va, void *data, size_t len, bool write);

/* ---- sync.c: locks, waiting, time ---- */

/* Which lock one is, outermost first, as LockRank of the core: each is a class of its own to lockdep. */
enum os_lock_rank {
	OS_LOCK_PROCESS,
	OS_LOCK_PROCESS_STATE,
	OS_LOCK_CLIENT,
	OS_LOCK_ADDRESS_SPACE,
	OS_LOCK_SCHEDULER,
	OS_LOCK_INTERRUPT_RING,
	OS_LOCK_PROCESSES,
	OS_LOCK_EVENTS,
	OS_LOCK_EXCEPTIONS,
	OS_LOCK_PENDING_FAULT,
	OS_LOCK_SMI_CLIENTS,
	OS_LOCK_SMI_FIFO,
	OS_LOCK_VRAM,
	OS_LOCK_GART,
	OS_LOCK_INVALIDATION,
	OS_LOCK_OBJECT,
	OS_LOCK_RATE_LIMIT,
	OS_LOCK_NODES,
	OS_LOCK_TRACE,
	OS_LOCK_RANKS,
};

int os_lock_new(struct os_lock **lock, u32 rank);
void os_lock_free(struct os_lock *lock);
void os_lock_acquire(struct os_lock *lock);
void os_lock_release(struct os_lock *lock);
int os_wait_queue_new(struct os_wait_queue **queue);
void os_wait_queue_free(struct os_wait_queue *queue);
u64 os_wait_queue_ticket(struct os_wait_queue *queue);
/* Returns 0 when woken, -ETIME, or -ERESTARTSYS on a signal. timeout_ns of U64_MAX waits for ever. */
int os_wait_queue_wait(struct os_wait_queue *queue, u64 ticket, u64 timeout_ns);
void os_wait_queue_wake_all(struct os_wait_queue *queue);
u64 os_clock_ns(void);
u64 os_clock_raw_ns(void);
u64 os_clock_boot_ns(void);
void os_sleep_us(u64 us);

/* ---- work.c: work for later ---- */

/* Takes over `core` in every case and calls belfry_work_drop on it in the end. */
int os_work_new(struct os_device *dev, struct belfry_work *core, struct os_work **work);
/* A run that is queued or running still finishes. */
void os_work_release(struct os_work *work);
/* Never waits. The work runs at least once after this. */
void os_work_queue(struct os_work *work);

/* ---- smi.c: descriptors that give events ---- */

#define OS_TASK_NAME_LEN 16

/* Takes over `client` in every case and calls belfry_smi_drop on it when the descriptor is closed. */
int os_smi_open(struct belfry_smi *client, struct os_smi **smi, int *fd);
void os_smi_wake(struct os_smi *smi);
void os_smi_release(struct os_smi *smi);
/* The calling thread; name has room for OS_TASK_NAME_LEN bytes. */
void os_task(u32 *id, char *name);

/* ---- lib.c: heap, log, processors ---- */

struct os_cpu_info {
	u32 cores;
	u32 max_clock_mhz;
	u64 memory_bytes;
};

enum os_log_level { OS_LOG_ERROR, OS_LOG_WARN, OS_LOG_INFO, OS_LOG_DEBUG };

void *os_alloc(size_t size, bool zeroed); /* aligned to 8; to size when that is a power of two up to a page */
void os_free(void *memory);
void os_log(struct os_device *dev, u32 level, const char *line, size_t len);
void os_cpu_info(struct os_cpu_info *info);
void os_panic(const char *line, size_t len) __attribute__((noreturn));

/* ---- the core's side ---- */

enum belfry_mapping_kind { BELFRY_MAP_DOORBELLS, BELFRY_MAP_REGISTERS };

struct belfry_mapping {
	u32 kind;
	u32 device; /* belfry_gpu_number of its device */
	u64 offset; /* in BAR2 or BAR5 of that */
	u64 len;
};

struct belfry_page {
	u64 vram; /* offset in BAR0, when cpu is NULL */
	void *cpu;
};

/*
 * Brings the device up; takes a reference to dev for as long as the result lives. peer: any device that is bound, or NULL. They have
 * their processes in common: belfry_open and what follows it do the same for each of them.
 */
int belfry_probe(struct os_device *dev, struct belfry_gpu *peer, struct belfry_gpu **gpu);
u32 belfry_gpu_number(struct belfry_gpu *gpu);
/* Stops the device, and ends the processes that have it. Later calls fail with ENODEV. */
void belfry_remove(struct belfry_gpu *gpu);
/*
 * Takes all queues off the device, and starts it anew with them. In between nothing reaches the device, which may lose its registers
 * and keeps VRAM. Programs are frozen; who needs the device all the same waits.
 */
int belfry_suspend(struct belfry_gpu *gpu);
int belfry_resume(struct belfry_gpu *gpu);
struct belfry_gpu *belfry_gpu_get(struct belfry_gpu *gpu);
void belfry_gpu_put(struct belfry_gpu *gpu);
/* For a thread that may sleep. Returns whether it wants to be called again, after others had their turn. */
bool belfry_interrupt(struct belfry_gpu *gpu);

/* The process of an address space, which has the devices that there were at its first open. */
int belfry_open(struct belfry_gpu *gpu, u64 mm, struct belfry_process **process);
bool belfry_process_has(struct belfry_process *process, struct belfry_gpu *gpu);
void belfry_close(struct belfry_gpu *gpu, struct belfry_process *process);
/* The address space is going away. Unknown ones are ignored. */
void belfry_exit(struct belfry_gpu *gpu, u64 mm);
long belfry_ioctl(struct belfry_gpu *gpu, struct belfry_process *process, u64 mm, u32 command, u64 arg);
int belfry_mmap(struct belfry_gpu *gpu, struct belfry_process *process, u64 mm, u64 offset, u64 len,
		struct belfry_mapping *mapping);
/* id: what os_drm_id says of the file. -ENOENT for a partition that there is not now. */
int belfry_drm_open(struct belfry_gpu *gpu, u64 id, u32 partition, struct belfry_client **client);
void belfry_drm_close(struct belfry_gpu *gpu, struct belfry_client *client);
/* data: the arguments, len bytes, which get the answer; number: that of the command, DRM_COMMAND_BASE included. */
int belfry_drm_ioctl(struct belfry_gpu *gpu, struct belfry_client *client, struct os_render_file *file, u32 number,
		     void *data, size_t len);
/* Ends the work of a file, which takes no more. */
void belfry_drm_stop(struct belfry_client *client);
/* A handle of this memory is made, or given back. */
void belfry_drm_handle_opened(struct belfry_client *client, struct belfry_backing *backing);
void belfry_drm_handle_closed(struct belfry_client *client, struct belfry_backing *backing);

/*
 * Topology texts by path below /sys/devices/virtual/kfd/kfd/topology, and those of ip_discovery by path below the PCI
 * device's directory; both return the length written or -errno.
 */
ssize_t belfry_sysfs_read(struct belfry_gpu *gpu, const char *path, size_t path_len, char *text, size_t text_len);
/*
 * One entry per line, directories with a trailing slash, links as NAME>TARGET behind their targets, files that belfry_card_write
 * writes to with a trailing =.
 */
ssize_t belfry_sysfs_list(struct belfry_gpu *gpu, const char *path, size_t path_len, char *text, size_t text_len);

struct belfry_client_memory {
	u32 pasid;
	u32 reserved;
	u64 vram; /* bytes behind the buffer objects of a process */
	u64 gtt;
};

/* What the process that acquired its address space with this os_drm_id holds. Returns false when there is none. */
bool belfry_client_memory(struct belfry_gpu *gpu, u64 drm_id, struct belfry_client_memory *memory);

/* The card's files by path below the PCI device's directory; `hwmon/` is the hardware monitor's. */
ssize_t belfry_card_read(struct belfry_gpu *gpu, const char *path, size_t path_len, char *text, size_t text_len);
int belfry_card_write(struct belfry_gpu *gpu, const char *path, size_t path_len, const char *text, size_t text_len);
/* Those that this card has, one per line: its mode in octal, a space, its path. */
ssize_t belfry_card_list(struct belfry_gpu *gpu, char *text, size_t text_len);

/* The id that the core knows a process by, for its paths below proc/. */
u32 belfry_process_id(struct belfry_process *process);

/* What processes hold of the device: a name and a number in each line. Returns the length written or -errno. */
ssize_t belfry_usage(struct belfry_gpu *gpu, char *text, size_t text_len);

/* Records the driver's events from now on, with room for so many; 0 ends that and gives the memory back. */
int belfry_trace_records(struct belfry_gpu *gpu, u32 room);
/*
 * The oldest events, as a struct Chunk and records (abi/src/driver_trace.rs). Returns the length written or -errno: 0 when nothing is
 * recorded, and where there is no event, unless a chunk is wanted always.
 */
ssize_t belfry_trace_read(struct belfry_gpu *gpu, void *chunk, size_t len, bool always);

/* Returns false past the end or when the device is gone. Called from the page fault handler. */
bool belfry_backing_page(struct belfry_backing *backing, u64 index, struct belfry_page *page);
void belfry_backing_drop(struct belfry_backing *backing);
bool belfry_backing_is_exclusive(struct belfry_backing *backing);
bool belfry_backing_is_user(struct belfry_backing *backing);
/* Another reference, for a file of this device; NULL for memory that none of its files may have. */
struct belfry_backing *belfry_backing_import(struct belfry_gpu *gpu, struct belfry_backing *backing);
/* Called with any lock, and with interrupts off. */
void belfry_kick(struct belfry_kick *kick);
void belfry_kick_drop(struct belfry_kick *kick);
void belfry_invalidated(struct belfry_invalidate *invalidate);
/* start to end is about to change, all of it unmapped or not, and changes when this returns. May be called with mmap_lock. */
void belfry_changing(struct belfry_invalidate *invalidate, u64 start, u64 end, bool unmapped);
void belfry_invalidate_drop(struct belfry_invalidate *invalidate);
/* No process has a page in this part of VRAM any more. */
void belfry_frames_freed(struct belfry_gpu *gpu, u64 offset, u64 len);
/*
 * The processor touches a page in VRAM that it has no access to: what moves back, if the core knows of the page. Then
 * belfry_touched_end is called when it has moved. Called with mmap_lock.
 */
bool belfry_touched(struct belfry_gpu *gpu, u64 mm, u64 va, u64 *start, u64 *end);
void belfry_touched_end(struct belfry_gpu *gpu, u64 mm, u64 start, u64 end);
ssize_t belfry_smi_write(struct belfry_smi *client, const u8 *bytes, size_t len);
ssize_t belfry_smi_read(struct belfry_smi *client, u8 *bytes, size_t len);
bool belfry_smi_ready(struct belfry_smi *client);
void belfry_smi_drop(struct belfry_smi *client);
void belfry_work_run(struct belfry_work *work);
void belfry_work_drop(struct belfry_work *work);

#endif
