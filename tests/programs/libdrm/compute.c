// libdrm_amdgpu as programs use it that compute: the device, memory, submissions of PM4 and of the copy engines.
#include "drm_cases.h"

CASE(device_tells_what_it_is) {
    struct device device = open_device();
    struct amdgpu_gpu_info gpu = {0};
    GOOD(amdgpu_query_gpu_info(device.handle, &gpu));
    EQUAL(gpu.asic_id, GPU_DEVICE);
    EQUAL(gpu.family_id, 145u);
    struct drm_amdgpu_info_hw_ip compute = {0}, copies = {0}, graphics = {0};
    GOOD(amdgpu_query_hw_ip_info(device.handle, AMDGPU_HW_IP_COMPUTE, 0, &compute));
    GOOD(amdgpu_query_hw_ip_info(device.handle, AMDGPU_HW_IP_DMA, 0, &copies));
    GOOD(amdgpu_query_hw_ip_info(device.handle, AMDGPU_HW_IP_GFX, 0, &graphics));
    EQUAL(compute.hw_ip_version_major, 11u);
    EQUAL(compute.available_rings, 0xfu);
    EQUAL(copies.available_rings, 3u);
    EQUAL(graphics.available_rings, 0u);
    uint32_t count = 0;
    GOOD(amdgpu_query_hw_ip_count(device.handle, AMDGPU_HW_IP_COMPUTE, &count));
    EQUAL(count, 1u);
    struct amdgpu_heap_info heap = {0};
    GOOD(amdgpu_query_heap_info(device.handle, AMDGPU_GEM_DOMAIN_VRAM, 0, &heap));
    CHECK(heap.heap_size >= 64 << 20 && heap.heap_usage < heap.heap_size, "%llu of %llu bytes",
          (unsigned long long)heap.heap_usage, (unsigned long long)heap.heap_size);
    uint32_t version = 0, feature = 0, clock = 0;
    GOOD(amdgpu_query_firmware_version(device.handle, AMDGPU_INFO_FW_GFX_MEC, 0, 0, &version, &feature));
    CHECK(version != 0, "no firmware");
    GOOD(amdgpu_query_sensor_info(device.handle, AMDGPU_INFO_SENSOR_GFX_SCLK, sizeof clock, &clock));
    CHECK(clock > 0 && clock < 10000, "%u MHz", clock);
    CHECK(amdgpu_get_marketing_name(device.handle) == NULL || *amdgpu_get_marketing_name(device.handle), "no name");
    close_device(&device);
}

CASE(memory_has_metadata_and_is_shared_by_descriptors) {
    struct device device = open_device();
    struct memory memory = allocate(&device, 3 * 4096, AMDGPU_GEM_DOMAIN_VRAM);
    struct amdgpu_bo_metadata metadata = {.flags = 5, .size_metadata = 8, .umd_metadata = {11, 12}};
    GOOD(amdgpu_bo_set_metadata(memory.bo, &metadata));
    uint32_t fd = 0;
    GOOD(amdgpu_bo_export(memory.bo, amdgpu_bo_handle_type_dma_buf_fd, &fd));
    struct amdgpu_bo_import_result import = {0};
    GOOD(amdgpu_bo_import(device.handle, amdgpu_bo_handle_type_dma_buf_fd, fd, &import));
    close((int)fd);
    EQUAL(import.alloc_size, 3ull * 4096);
    struct amdgpu_bo_info info = {0};
    GOOD(amdgpu_bo_query_info(import.buf_handle, &info));
    EQUAL(info.preferred_heap, (uint32_t)AMDGPU_GEM_DOMAIN_VRAM);
    EQUAL(info.metadata.umd_metadata[1], 12u);
    memory.words[2000] = 77;
    uint32_t* again = NULL;
    GOOD(amdgpu_bo_cpu_map(import.buf_handle, (void**)&again));
    EQUAL(again[2000], 77u);
    GOOD(amdgpu_bo_cpu_unmap(import.buf_handle));
    GOOD(amdgpu_bo_free(import.buf_handle));
    bool busy = true;
    GOOD(amdgpu_bo_wait_for_idle(memory.bo, 0, &busy));
    CHECK(!busy, "memory that nothing uses is busy");
    give_back(&memory);
    close_device(&device);
}

CASE(compute_buffer_writes_and_dispatches) {
    struct device device = open_device();
    struct memory ib = allocate(&device, 4096, AMDGPU_GEM_DOMAIN_GTT);
    struct memory code = allocate(&device, 4096, AMDGPU_GEM_DOMAIN_VRAM);
    struct memory data = allocate(&device, 4096, AMDGPU_GEM_DOMAIN_GTT);
    // v_lshlrev_b32 v1, 2, v0; v_mul_u32_u24 v2, v0, v0; global_store_b32 v1, v2, s[0:1]; s_endpgm
    static const uint32_t shader[] = {0x30020082, 0x16040100, 0xdc6a0000, 0x00000201, 0xbfb00000};
    memcpy(code.words, shader, sizeof shader);
    const uint32_t packets[] = {
        PACKET3(WRITE_DATA, 4), 5 << 8 | 1 << 20, LOW(data.va + 2048), HIGH(data.va + 2048), 0xc0ffee,
        // COMPUTE_PGM_LO, _HI; _RSRC1 (memory order, WGP mode), _RSRC2 (two user registers)
        PACKET3(SET_SH_REG, 3), 0x20c, LOW(code.va >> 8), HIGH(code.va >> 8),
        PACKET3(SET_SH_REG, 3), 0x212, 3u << 29 | 0xc0 << 12, 2 << 1,
        // COMPUTE_START_X to COMPUTE_NUM_THREAD_Z
        PACKET3(SET_SH_REG, 7), 0x204, 0, 0, 0, 32, 1, 1,
        PACKET3(SET_SH_REG, 3), 0x240, LOW(data.va), HIGH(data.va),
        PACKET3(DISPATCH_DIRECT, 4), 32, 1, 1, 0x8021,
    };
    memcpy(ib.words, packets, sizeof packets);
    for (int round = 0; round < 20; round++) {
        memset(data.words, 0, 4096);
        run(&device, AMDGPU_HW_IP_COMPUTE, &ib, sizeof packets / 4);
        for (uint32_t at = 0; at < 32; at++)
            EQUAL(data.words[at], at * at);
        EQUAL(data.words[512], 0xc0ffeeu);
    }
    give_back(&ib);
    give_back(&code);
    give_back(&data);
    close_device(&device);
}

CASE(copy_buffer_copies) {
    struct device device = open_device();
    enum { BYTES = 1 << 20 };
    struct memory ib = allocate(&device, 4096, AMDGPU_GEM_DOMAIN_GTT);
    struct memory from = allocate(&device, BYTES, AMDGPU_GEM_DOMAIN_GTT);
    struct memory to = allocate(&device, BYTES, AMDGPU_GEM_DOMAIN_VRAM);
    for (uint32_t at = 0; at < BYTES / 4; at++)
        from.words[at] = at * 2654435761u;
    const uint32_t packets[] = {1, BYTES - 1, 0, LOW(from.va), HIGH(from.va), LOW(to.va), HIGH(to.va)};
    memcpy(ib.words, packets, sizeof packets);
    run(&device, AMDGPU_HW_IP_DMA, &ib, sizeof packets / 4);
    CHECK(memcmp(from.words, to.words, BYTES) == 0, "the copy differs");
    give_back(&ib);
    give_back(&from);
    give_back(&to);
    close_device(&device);
}

CASE(work_that_faults_blames_its_context_alone) {
    struct device device = open_device();
    struct memory ib = allocate(&device, 4096, AMDGPU_GEM_DOMAIN_GTT);
    struct memory data = allocate(&device, 4096, AMDGPU_GEM_DOMAIN_GTT);
    amdgpu_context_handle other = NULL;
    GOOD(amdgpu_cs_ctx_create(device.handle, &other));
    const uint64_t nowhere = 0x700000000000;
    const uint32_t bad[] = {PACKET3(WRITE_DATA, 4), 5 << 8 | 1 << 20, LOW(nowhere), HIGH(nowhere), 1};
    memcpy(ib.words, bad, sizeof bad);
    struct amdgpu_cs_fence fence;
    GOOD(submit(&device, AMDGPU_HW_IP_COMPUTE, &ib, 5, &fence));
    EQUAL(wait_for(&fence), -ETIME);
    uint64_t flags = 0;
    GOOD(amdgpu_cs_query_reset_state2(device.context, &flags));
    EQUAL(flags, (uint64_t)(AMDGPU_CTX_QUERY2_FLAGS_RESET | AMDGPU_CTX_QUERY2_FLAGS_GUILTY));
    EQUAL(submit(&device, AMDGPU_HW_IP_COMPUTE, &ib, 5, &fence), -ECANCELED);
    GOOD(amdgpu_cs_ctx_free(device.context));
    device.context = other;
    const uint32_t good[] = {PACKET3(WRITE_DATA, 4), 5 << 8 | 1 << 20, LOW(data.va), HIGH(data.va), 9};
    memcpy(ib.words, good, sizeof good);
    run(&device, AMDGPU_HW_IP_COMPUTE, &ib, 5);
    EQUAL(data.words[0], 9u);
    give_back(&ib);
    give_back(&data);
    close_device(&device);
}
