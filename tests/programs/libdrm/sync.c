// Syncobjs, sync files, memory of programs and several rings at once, as Mesa's compute clients use them by libdrm_amdgpu.
#include "drm_cases.h"

#include <linux/sync_file.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

// Memory that work waits in front of until its first word is 1.
#define WAIT_REG_MEM 0x3c

struct gated {
    struct memory ib, gate, data;
    uint32_t dwords;
};

// Work that waits for the gate and then writes a value.
static struct gated gated_work(struct device* device, uint32_t value) {
    struct gated work = {
        .ib = allocate(device, 4096, AMDGPU_GEM_DOMAIN_GTT),
        .gate = allocate(device, 4096, AMDGPU_GEM_DOMAIN_GTT),
        .data = allocate(device, 4096, AMDGPU_GEM_DOMAIN_GTT),
    };
    const uint64_t gate = work.gate.va, data = work.data.va;
    const uint32_t packets[] = {
        PACKET3(WAIT_REG_MEM, 6), 3 | 1 << 4, LOW(gate), HIGH(gate), 1, ~0u, 4,
        PACKET3(WRITE_DATA, 4), 5 << 8 | 1 << 20, LOW(data), HIGH(data), value,
    };
    memset(work.gate.words, 0, 4096);
    memset(work.data.words, 0, 4096);
    memcpy(work.ib.words, packets, sizeof packets);
    work.dwords = sizeof packets / 4;
    return work;
}

static void end_work(struct gated* work) {
    give_back(&work->ib);
    give_back(&work->gate);
    give_back(&work->data);
}

static void open_gate(struct gated* work) {
    __atomic_store_n(work->gate.words, 1, __ATOMIC_RELEASE);
}

// An indirect buffer on a ring, as a chunk.
static struct drm_amdgpu_cs_chunk_ib buffer(struct memory* ib, uint32_t dwords, uint32_t engine, uint32_t ring) {
    return (struct drm_amdgpu_cs_chunk_ib){
        .va_start = ib->va, .ib_bytes = dwords * 4, .ip_type = engine, .ring = ring};
}

#define CHUNK(id, part) \
    { .chunk_id = (id), .length_dw = sizeof(part) / 4, .chunk_data = (uintptr_t)&(part) }

CASE(syncobj_orders_work_of_two_contexts) {
    struct device device = open_device();
    amdgpu_context_handle other = NULL;
    GOOD(amdgpu_cs_ctx_create(device.handle, &other));
    struct gated first = gated_work(&device, 1), second = gated_work(&device, 2);
    open_gate(&second);
    uint32_t syncobj = 0;
    GOOD(amdgpu_cs_create_syncobj(device.handle, &syncobj));
    struct drm_amdgpu_cs_chunk_sem sem = {.handle = syncobj};
    struct drm_amdgpu_cs_chunk_ib one = buffer(&first.ib, first.dwords, AMDGPU_HW_IP_COMPUTE, 0);
    struct drm_amdgpu_cs_chunk out[] = {CHUNK(AMDGPU_CHUNK_ID_IB, one), CHUNK(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, sem)};
    uint64_t number = 0;
    GOOD(amdgpu_cs_submit_raw2(device.handle, device.context, 0, 2, out, &number));
    struct drm_amdgpu_cs_chunk_ib two = buffer(&second.ib, second.dwords, AMDGPU_HW_IP_COMPUTE, 1);
    struct drm_amdgpu_cs_chunk in[] = {CHUNK(AMDGPU_CHUNK_ID_IB, two), CHUNK(AMDGPU_CHUNK_ID_SYNCOBJ_IN, sem)};
    GOOD(amdgpu_cs_submit_raw2(device.handle, other, 0, 2, in, &number));
    struct amdgpu_cs_fence fence = {
        .context = other, .ip_type = AMDGPU_HW_IP_COMPUTE, .ring = 1, .fence = number};
    uint32_t expired = 1;
    GOOD(amdgpu_cs_query_fence_status(&fence, 1000000, 0, &expired));
    EQUAL(expired, 0u);
    EQUAL(second.data.words[0], 0u);
    EQUAL(amdgpu_cs_syncobj_wait(device.handle, &syncobj, 1, 0, 0, NULL), -ETIME);
    open_gate(&first);
    GOOD(wait_for(&fence));
    EQUAL(first.data.words[0], 1u);
    EQUAL(second.data.words[0], 2u);
    uint32_t which = 7;
    GOOD(amdgpu_cs_syncobj_wait(device.handle, &syncobj, 1, INT64_MAX, DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL, &which));
    EQUAL(which, 0u);
    GOOD(amdgpu_cs_destroy_syncobj(device.handle, syncobj));
    GOOD(amdgpu_cs_ctx_free(other));
    end_work(&first);
    end_work(&second);
    close_device(&device);
}

CASE(timeline_has_points_of_work_and_of_the_processor) {
    struct device device = open_device();
    struct gated work = gated_work(&device, 5);
    uint32_t timeline = 0;
    GOOD(amdgpu_cs_create_syncobj(device.handle, &timeline));
    struct drm_amdgpu_cs_chunk_syncobj after = {.handle = timeline, .point = 1};
    struct drm_amdgpu_cs_chunk_syncobj point = {.handle = timeline, .point = 2};
    struct drm_amdgpu_cs_chunk_ib ib = buffer(&work.ib, work.dwords, AMDGPU_HW_IP_COMPUTE, 0);
    struct drm_amdgpu_cs_chunk chunks[] = {
        CHUNK(AMDGPU_CHUNK_ID_IB, ib),
        CHUNK(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, after),
        CHUNK(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, point),
    };
    uint64_t number = 0, value = 1;
    EQUAL(amdgpu_cs_submit_raw2(device.handle, device.context, 0, 3, chunks, &number), -EINVAL);
    GOOD(amdgpu_cs_syncobj_timeline_signal(device.handle, &timeline, &value, 1));
    GOOD(amdgpu_cs_submit_raw2(device.handle, device.context, 0, 3, chunks, &number));
    GOOD(amdgpu_cs_syncobj_query(device.handle, &timeline, &value, 1));
    EQUAL(value, (uint64_t)1);
    GOOD(amdgpu_cs_syncobj_query2(device.handle, &timeline, &value, 1, DRM_SYNCOBJ_QUERY_FLAGS_LAST_SUBMITTED));
    EQUAL(value, (uint64_t)2);
    EQUAL(amdgpu_cs_syncobj_timeline_wait(device.handle, &timeline, &value, 1, 0, 0, NULL), -ETIME);
    open_gate(&work);
    GOOD(amdgpu_cs_syncobj_timeline_wait(device.handle, &timeline, &value, 1, INT64_MAX, 0, NULL));
    EQUAL(work.data.words[0], 5u);
    uint32_t plain = 0;
    GOOD(amdgpu_cs_create_syncobj2(device.handle, 0, &plain));
    GOOD(amdgpu_cs_syncobj_transfer(device.handle, plain, 0, timeline, 2, 0));
    GOOD(amdgpu_cs_syncobj_wait(device.handle, &plain, 1, 0, 0, NULL));
    GOOD(amdgpu_cs_destroy_syncobj(device.handle, plain));
    GOOD(amdgpu_cs_destroy_syncobj(device.handle, timeline));
    end_work(&work);
    close_device(&device);
}

CASE(sync_file_of_work_polls_and_is_imported) {
    struct device device = open_device();
    struct gated work = gated_work(&device, 3);
    struct amdgpu_cs_fence fence;
    GOOD(submit(&device, AMDGPU_HW_IP_COMPUTE, &work.ib, work.dwords, &fence));
    uint32_t fd = 0, syncobj = 0, empty = 0;
    GOOD(amdgpu_cs_fence_to_handle(device.handle, &fence, AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD, &fd));
    struct pollfd poller = {.fd = (int)fd, .events = POLLIN};
    EQUAL(poll(&poller, 1, 0), 0);
    GOOD(amdgpu_cs_create_syncobj(device.handle, &syncobj));
    GOOD(amdgpu_cs_create_syncobj(device.handle, &empty));
    GOOD(amdgpu_cs_syncobj_import_sync_file(device.handle, syncobj, (int)fd));
    EQUAL(amdgpu_cs_syncobj_wait(device.handle, &syncobj, 1, 0, 0, NULL), -ETIME);
    int again = -1;
    GOOD(amdgpu_cs_syncobj_export_sync_file(device.handle, syncobj, &again));
    int none = -1;
    // The library passes the result of the system call on.
    EQUAL(amdgpu_cs_syncobj_export_sync_file(device.handle, empty, &none), -1);
    EQUAL(errno, EINVAL);
    int shared = -1;
    GOOD(amdgpu_cs_export_syncobj(device.handle, syncobj, &shared));
    uint32_t same = 0;
    GOOD(amdgpu_cs_import_syncobj(device.handle, shared, &same));
    open_gate(&work);
    EQUAL(poll(&poller, 1, 10000), 1);
    poller.fd = again;
    EQUAL(poll(&poller, 1, 10000), 1);
    GOOD(amdgpu_cs_syncobj_wait(device.handle, &same, 1, INT64_MAX, 0, NULL));
    EQUAL(work.data.words[0], 3u);
    close((int)fd);
    close(again);
    close(shared);
    GOOD(amdgpu_cs_destroy_syncobj(device.handle, same));
    GOOD(amdgpu_cs_destroy_syncobj(device.handle, syncobj));
    GOOD(amdgpu_cs_destroy_syncobj(device.handle, empty));
    end_work(&work);
    close_device(&device);
}

CASE(sync_files_are_merged_and_say_what_is_in_them) {
    struct device device = open_device();
    struct gated one = gated_work(&device, 1), two = gated_work(&device, 2);
    struct amdgpu_cs_fence first, second;
    GOOD(submit(&device, AMDGPU_HW_IP_COMPUTE, &one.ib, one.dwords, &first));
    GOOD(submit(&device, AMDGPU_HW_IP_COMPUTE, &two.ib, two.dwords, &second));
    uint32_t fds[2];
    GOOD(amdgpu_cs_fence_to_handle(device.handle, &first, AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD, &fds[0]));
    GOOD(amdgpu_cs_fence_to_handle(device.handle, &second, AMDGPU_FENCE_TO_HANDLE_GET_SYNC_FILE_FD, &fds[1]));
    struct sync_merge_data merge = {.name = "both", .fd2 = (int)fds[1]};
    GOOD(ioctl((int)fds[0], SYNC_IOC_MERGE, &merge));
    struct sync_file_info info = {0};
    GOOD(ioctl(merge.fence, SYNC_IOC_FILE_INFO, &info));
    CHECK(strcmp(info.name, "both") == 0, "its name is %s", info.name);
    EQUAL(info.status, 0);
    CHECK(info.num_fences == 1 || info.num_fences == 2, "%u fences", info.num_fences);
    struct sync_fence_info fences[2];
    info.sync_fence_info = (uintptr_t)fences;
    GOOD(ioctl(merge.fence, SYNC_IOC_FILE_INFO, &info));
    EQUAL(fences[0].status, 0);
    struct pollfd poller = {.fd = merge.fence, .events = POLLIN};
    EQUAL(poll(&poller, 1, 0), 0);
    struct sync_merge_data bad = {.fd2 = device.fd};
    EQUAL(ioctl((int)fds[0], SYNC_IOC_MERGE, &bad), -1);
    EQUAL(errno, ENOENT);
    bad = (struct sync_merge_data){.fd2 = (int)fds[1], .flags = 1};
    EQUAL(ioctl((int)fds[0], SYNC_IOC_MERGE, &bad), -1);
    EQUAL(errno, EINVAL);
    open_gate(&one);
    open_gate(&two);
    EQUAL(poll(&poller, 1, 10000), 1);
    info = (struct sync_file_info){.num_fences = 2, .sync_fence_info = (uintptr_t)fences};
    GOOD(ioctl(merge.fence, SYNC_IOC_FILE_INFO, &info));
    EQUAL(info.status, 1);
    EQUAL(fences[0].status, 1);
    CHECK(fences[0].timestamp_ns != 0, "no time");
    close(merge.fence);
    close((int)fds[0]);
    close((int)fds[1]);
    end_work(&one);
    end_work(&two);
    close_device(&device);
}

CASE(eventfd_hears_of_a_point) {
    struct device device = open_device();
    uint32_t timeline = 0;
    GOOD(amdgpu_cs_create_syncobj(device.handle, &timeline));
    const int event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    struct drm_syncobj_eventfd args = {.handle = timeline, .point = 3, .fd = event};
    GOOD(drmIoctl(device.fd, DRM_IOCTL_SYNCOBJ_EVENTFD, &args));
    uint64_t count = 0, point = 2;
    GOOD(amdgpu_cs_syncobj_timeline_signal(device.handle, &timeline, &point, 1));
    EQUAL(read(event, &count, sizeof count), (ssize_t)-1);
    point = 4;
    GOOD(amdgpu_cs_syncobj_timeline_signal(device.handle, &timeline, &point, 1));
    struct pollfd poller = {.fd = event, .events = POLLIN};
    EQUAL(poll(&poller, 1, 10000), 1);
    EQUAL(read(event, &count, sizeof count), (ssize_t)sizeof count);
    EQUAL(count, (uint64_t)1);
    args.fd = device.fd;
    EQUAL(drmIoctl(device.fd, DRM_IOCTL_SYNCOBJ_EVENTFD, &args), -1);
    EQUAL(errno, EINVAL);
    args = (struct drm_syncobj_eventfd){.handle = 99, .fd = event};
    EQUAL(drmIoctl(device.fd, DRM_IOCTL_SYNCOBJ_EVENTFD, &args), -1);
    EQUAL(errno, ENOENT);
    close(event);
    GOOD(amdgpu_cs_destroy_syncobj(device.handle, timeline));
    close_device(&device);
}

CASE(rings_of_one_submission_wait_for_each_other) {
    struct device device = open_device();
    struct memory data = allocate(&device, 4096, AMDGPU_GEM_DOMAIN_GTT);
    struct memory ibs[3];
    memset(data.words, 0, 4096);
    struct drm_amdgpu_cs_chunk_ib parts[3];
    struct drm_amdgpu_cs_chunk chunks[3];
    for (uint32_t ring = 0; ring < 3; ring++) {
        ibs[ring] = allocate(&device, 4096, AMDGPU_GEM_DOMAIN_GTT);
        const uint64_t mine = data.va + ring * 4;
        const uint32_t said[] = {PACKET3(WRITE_DATA, 4), 5 << 8 | 1 << 20, LOW(mine), HIGH(mine), 1};
        memcpy(ibs[ring].words, said, sizeof said);
        for (uint32_t other = 0; other < 3; other++) {
            const uint64_t theirs = data.va + other * 4;
            const uint32_t heard[] = {PACKET3(WAIT_REG_MEM, 6), 3 | 1 << 4, LOW(theirs), HIGH(theirs), 1, ~0u, 4};
            memcpy(ibs[ring].words + 5 + 7 * other, heard, sizeof heard);
        }
        parts[ring] = buffer(&ibs[ring], 5 + 7 * 3, AMDGPU_HW_IP_COMPUTE, ring);
        chunks[ring] = (struct drm_amdgpu_cs_chunk)CHUNK(AMDGPU_CHUNK_ID_IB, parts[ring]);
    }
    uint64_t number = 0;
    GOOD(amdgpu_cs_submit_raw2(device.handle, device.context, 0, 3, chunks, &number));
    struct amdgpu_cs_fence fence = {
        .context = device.context, .ip_type = AMDGPU_HW_IP_COMPUTE, .ring = 2, .fence = number};
    GOOD(wait_for(&fence));
    for (uint32_t ring = 0; ring < 3; ring++)
        give_back(&ibs[ring]);
    give_back(&data);
    close_device(&device);
}

CASE(memory_of_the_program_is_the_gpus_too) {
    struct device device = open_device();
    struct memory ib = allocate(&device, 4096, AMDGPU_GEM_DOMAIN_GTT);
    enum { BYTES = 64 << 10 };
    uint32_t* own = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(own != MAP_FAILED, "no memory");
    for (uint32_t at = 0; at < BYTES / 8; at++)
        own[at] = at * 7;
    amdgpu_bo_handle bo = NULL;
    amdgpu_va_handle range = NULL;
    uint64_t va = 0;
    // The library asks for anonymous memory, checked now, with notice of its changes.
    GOOD(amdgpu_create_bo_from_user_mem(device.handle, own, BYTES, &bo));
    GOOD(amdgpu_va_range_alloc(device.handle, amdgpu_gpu_va_range_general, BYTES, 4096, 0, &va, &range, 0));
    GOOD(amdgpu_bo_va_op(bo, 0, BYTES, va, 0, AMDGPU_VA_OP_MAP));
    const uint64_t to = va + BYTES / 2;
    const uint32_t packets[] = {1, BYTES / 2 - 1, 0, LOW(va), HIGH(va), LOW(to), HIGH(to)};
    memcpy(ib.words, packets, sizeof packets);
    run(&device, AMDGPU_HW_IP_DMA, &ib, sizeof packets / 4);
    CHECK(memcmp(own, own + BYTES / 8, BYTES / 2) == 0, "the copy differs");
    void* mapped = NULL;
    EQUAL(amdgpu_bo_cpu_map(bo, &mapped), -EPERM);
    uint32_t fd = 0;
    EQUAL(amdgpu_bo_export(bo, amdgpu_bo_handle_type_dma_buf_fd, &fd), -EPERM);
    amdgpu_bo_handle none = NULL;
    EQUAL(amdgpu_create_bo_from_user_mem(device.handle, (void*)(1ull << 46), 4096, &none), -EFAULT);
    EQUAL(amdgpu_create_bo_from_user_mem(device.handle, own, 100, &none), -EINVAL);
    GOOD(amdgpu_bo_va_op(bo, 0, BYTES, va, 0, AMDGPU_VA_OP_UNMAP));
    GOOD(amdgpu_va_range_free(range));
    GOOD(amdgpu_bo_free(bo));
    munmap(own, BYTES);
    give_back(&ib);
    close_device(&device);
}
