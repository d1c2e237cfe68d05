// Memory of every kind as the thunk allocates, registers and maps it; the GPU reads and writes each.
#include "thunk_cases.h"

// Has both engines write to memory and read it.
static void use_on_gpu(void* memory, uint64_t size) {
    struct queue compute = make_queue(HSA_QUEUE_COMPUTE), copies = make_queue(HSA_QUEUE_SDMA);
    uint32_t* seen = (uint32_t*)in_system(PAGE);
    char* last = (char*)memory + size - 64;
    put_write(&compute, memory, 0x1234567);
    put_write(&compute, last, 0x89abcde);
    finish(&compute);
    put_copy(&copies, seen, memory, 64);
    put_copy(&copies, seen + 16, last, 64);
    finish(&copies);
    EQUAL(seen[0], 0x1234567);
    EQUAL(seen[16], 0x89abcde);
    put_copy(&copies, last, seen, 64);
    put_copy(&copies, seen + 32, last, 64);
    finish(&copies);
    EQUAL(seen[32], 0x1234567);
    give_back(seen, PAGE);
    end_queue(&compute);
    end_queue(&copies);
}

static void try_kind(HSAuint32 node, uint64_t size, HsaMemFlags flags) {
    void* memory = allocate(node, size, flags);
    use_on_gpu(memory, size);
    give_back(memory, size);
}

CASE(vram_is_used_by_both_sides) {
    open_thunk();
    uint32_t* memory = (uint32_t*)in_vram(1 << 20);
    use_on_gpu(memory, 1 << 20);
    EQUAL(memory[0], 0x1234567);
    memory[7] = 99;
    EQUAL(memory[7], 99);
    give_back(memory, 1 << 20);
    close_thunk();
}

CASE(vram_without_host_access) {
    open_thunk();
    HsaMemFlags flags = vram_flags();
    flags.ui32.HostAccess = 0;
    try_kind(gpu_node, 1 << 20, flags);
}

CASE(vram_fine_grained) {
    open_thunk();
    HsaMemFlags flags = vram_flags();
    flags.ui32.CoarseGrain = 0;
    try_kind(gpu_node, 2 << 20, flags);
}

CASE(vram_uncached) {
    open_thunk();
    HsaMemFlags flags = vram_flags();
    flags.ui32.CoarseGrain = 0;
    flags.ui32.Uncached = 1;
    try_kind(gpu_node, PAGE, flags);
}

CASE(system_memory_paged) {
    open_thunk();
    try_kind(0, 1 << 20, system_flags());
}

CASE(system_memory_coarse_grained) {
    open_thunk();
    HsaMemFlags flags = system_flags();
    flags.ui32.CoarseGrain = 1;
    try_kind(0, 3 * PAGE, flags);
}

CASE(system_memory_not_paged) {
    open_thunk();
    HsaMemFlags flags = system_flags();
    flags.ui32.NonPaged = 1;
    try_kind(0, 1 << 20, flags);
}

CASE(system_memory_of_the_gpus_node) {
    open_thunk();
    try_kind(gpu_node, 1 << 16, system_flags());
}

CASE(memory_for_the_scheduler) {
    open_thunk();
    HsaMemFlags flags = system_flags();
    flags.ui32.GTTAccess = 1;
    flags.ui32.NonPaged = 1;
    try_kind(gpu_node, PAGE, flags);
}

CASE(vram_of_large_pages_is_aligned) {
    open_thunk();
    void* memory = NULL;
    HSAuint64 alternate = 0;
    GOOD(hsaKmtAllocMemoryAlign(gpu_node, 4 << 20, 16 << 20, vram_flags(), &memory));
    EQUAL((uintptr_t)memory % (16 << 20), 0);
    GOOD(hsaKmtMapMemoryToGPU(memory, 4 << 20, &alternate));
    use_on_gpu(memory, 4 << 20);
    give_back(memory, 4 << 20);
}

CASE(memory_at_a_fixed_address) {
    open_thunk();
    HsaMemFlags flags = vram_flags();
    flags.ui32.FixedAddress = 1;
    void* found = NULL;
    GOOD(hsaKmtAllocMemory(gpu_node, PAGE, vram_flags(), &found));
    GOOD(hsaKmtFreeMemory(found, PAGE));
    void* memory = found;
    HSAuint64 alternate = 0;
    GOOD(hsaKmtAllocMemory(gpu_node, PAGE, flags, &memory));
    CHECK(memory == found, "it is at %p, not at %p", memory, found);
    GOOD(hsaKmtMapMemoryToGPU(memory, PAGE, &alternate));
    use_on_gpu(memory, PAGE);
    give_back(memory, PAGE);
}

CASE(scratch_is_allocated_and_mapped) {
    open_thunk();
    HsaMemFlags flags = {.Value = 0};
    flags.ui32.Scratch = 1;
    flags.ui32.HostAccess = 1;
    void* scratch = NULL;
    HSAuint64 alternate = 0;
    GOOD(hsaKmtAllocMemory(gpu_node, 1 << 20, flags, &scratch));
    EQUAL((uintptr_t)scratch % 65536, 0);
    GOOD(hsaKmtMapMemoryToGPU(scratch, 1 << 20, &alternate));
    use_on_gpu(scratch, 1 << 20);
    GOOD(hsaKmtUnmapMemoryToGPU(scratch));
    GOOD(hsaKmtMapMemoryToGPU((char*)scratch + 65536, 65536, &alternate));
    use_on_gpu((char*)scratch + 65536, 65536);
    GOOD(hsaKmtUnmapMemoryToGPU((char*)scratch + 65536));
    GOOD(hsaKmtFreeMemory(scratch, 1 << 20));
}

CASE(address_without_memory_is_reserved) {
    open_thunk();
    HsaMemFlags flags = vram_flags();
    flags.ui32.OnlyAddress = 1;
    void* address = NULL;
    GOOD(hsaKmtAllocMemory(gpu_node, 2 << 20, flags, &address));
    HsaPointerInfo info = {0};
    GOOD(hsaKmtQueryPointerInfo(address, &info));
    EQUAL(info.Type, HSA_POINTER_RESERVED_ADDR);
    EQUAL(info.SizeInBytes, 2 << 20);
    GOOD(hsaKmtFreeMemory(address, 2 << 20));
}

CASE(memory_without_address_is_a_handle) {
    open_thunk();
    HsaMemFlags flags = vram_flags();
    flags.ui32.NoAddress = 1;
    HSAuint64 before = 0, during = 0;
    void* handle = NULL;
    GOOD(hsaKmtAvailableMemory(gpu_node, &before));
    GOOD(hsaKmtAllocMemory(gpu_node, 8 << 20, flags, &handle));
    GOOD(hsaKmtAvailableMemory(gpu_node, &during));
    CHECK(before - during >= 8 << 20, "%llu of %llu", (unsigned long long)during, (unsigned long long)before);
    GOOD(hsaKmtFreeMemory(handle, 8 << 20));
}

CASE(memory_is_mapped_again_and_keeps_what_it_has) {
    open_thunk();
    uint32_t* memory = (uint32_t*)in_vram(PAGE);
    HSAuint64 alternate = 0;
    for (uint32_t round = 0; round < 20; round++) {
        use_on_gpu(memory, PAGE);
        memory[9] = round;
        GOOD(hsaKmtUnmapMemoryToGPU(memory));
        EQUAL(memory[9], round);
        GOOD(hsaKmtMapMemoryToGPU(memory, PAGE, &alternate));
    }
    give_back(memory, PAGE);
}

CASE(memory_is_mapped_to_named_nodes) {
    open_thunk();
    void* memory = NULL;
    HSAuint64 alternate = 0;
    HsaMemMapFlags map = {.Value = 0};
    HSAuint32 nodes[1] = {gpu_node};
    GOOD(hsaKmtAllocMemory(gpu_node, PAGE, vram_flags(), &memory));
    GOOD(hsaKmtMapMemoryToGPUNodes(memory, PAGE, &alternate, map, 1, nodes));
    HsaPointerInfo info = {0};
    GOOD(hsaKmtQueryPointerInfo(memory, &info));
    EQUAL(info.NMappedNodes, 1);
    EQUAL(info.MappedNodes[0], gpu_node);
    use_on_gpu(memory, PAGE);
    give_back(memory, PAGE);
}

CASE(memory_of_the_program_is_registered) {
    open_thunk();
    char* memory = (char*)mmap(NULL, 8 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HSAuint64 alternate = 0;
    GOOD(hsaKmtRegisterMemory(memory, 8 * PAGE));
    GOOD(hsaKmtMapMemoryToGPU(memory, 8 * PAGE, &alternate));
    use_on_gpu(alternate ? (void*)(uintptr_t)alternate : memory, 8 * PAGE);
    EQUAL(*(uint32_t*)memory, 0x1234567);
    GOOD(hsaKmtUnmapMemoryToGPU(memory));
    GOOD(hsaKmtDeregisterMemory(memory));
    munmap(memory, 8 * PAGE);
}

CASE(memory_within_pages_is_registered) {
    open_thunk();
    uint32_t* memory = (uint32_t*)calloc(1, 100000);
    HSAuint64 alternate = 0;
    GOOD(hsaKmtRegisterMemory(memory, 100000));
    GOOD(hsaKmtMapMemoryToGPU(memory, 100000, &alternate));
    use_on_gpu(alternate ? (void*)(uintptr_t)alternate : memory, 100000 & ~63);
    EQUAL(memory[0], 0x1234567);
    GOOD(hsaKmtUnmapMemoryToGPU(memory));
    GOOD(hsaKmtDeregisterMemory(memory));
    free(memory);
}

CASE(memory_is_registered_with_flags_and_for_nodes) {
    open_thunk();
    char* memory = (char*)mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    HSAuint64 alternate = 0;
    HsaMemFlags flags = {.Value = 0};
    flags.ui32.HostAccess = 1;
    flags.ui32.CoarseGrain = 1;
    GOOD(hsaKmtRegisterMemoryWithFlags(memory, PAGE, flags));
    GOOD(hsaKmtMapMemoryToGPU(memory, PAGE, &alternate));
    use_on_gpu(memory, PAGE);
    GOOD(hsaKmtUnmapMemoryToGPU(memory));
    GOOD(hsaKmtDeregisterMemory(memory));
    HSAuint32 nodes[1] = {gpu_node};
    GOOD(hsaKmtRegisterMemoryToNodes(memory + PAGE, PAGE, 1, nodes));
    GOOD(hsaKmtMapMemoryToGPU(memory + PAGE, PAGE, &alternate));
    use_on_gpu(memory + PAGE, PAGE);
    GOOD(hsaKmtUnmapMemoryToGPU(memory + PAGE));
    GOOD(hsaKmtDeregisterMemory(memory + PAGE));
}

CASE(shared_mapping_is_registered) {
    open_thunk();
    uint32_t* memory = (uint32_t*)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    HSAuint64 alternate = 0;
    GOOD(hsaKmtRegisterMemory(memory, PAGE));
    GOOD(hsaKmtMapMemoryToGPU(memory, PAGE, &alternate));
    use_on_gpu(memory, PAGE);
    EQUAL(memory[0], 0x1234567);
    GOOD(hsaKmtUnmapMemoryToGPU(memory));
    GOOD(hsaKmtDeregisterMemory(memory));
}

CASE(pointer_tells_what_it_points_to) {
    open_thunk();
    char* memory = (char*)in_vram(4 * PAGE);
    HsaPointerInfo info = {0};
    GOOD(hsaKmtQueryPointerInfo(memory + 5000, &info));
    EQUAL(info.Type, HSA_POINTER_ALLOCATED);
    EQUAL(info.Node, gpu_node);
    EQUAL(info.SizeInBytes, 4 * PAGE);
    EQUAL(info.GPUAddress, (uintptr_t)memory);
    EQUAL(info.MemFlags.ui32.CoarseGrain, 1);
    EQUAL(info.NMappedNodes, 1);
    GOOD(hsaKmtUnmapMemoryToGPU(memory));
    GOOD(hsaKmtQueryPointerInfo(memory, &info));
    EQUAL(info.NMappedNodes, 0);
    GOOD(hsaKmtFreeMemory(memory, 4 * PAGE));
    GIVES(hsaKmtQueryPointerInfo(memory, &info), HSAKMT_STATUS_ERROR);
    EQUAL(info.Type, HSA_POINTER_UNKNOWN);
}

CASE(pointer_keeps_the_programs_data) {
    open_thunk();
    int mine = 0;
    char* memory = (char*)in_vram(PAGE);
    HsaPointerInfo info = {0};
    GOOD(hsaKmtSetMemoryUserData(memory, &mine));
    GOOD(hsaKmtQueryPointerInfo(memory + 100, &info));
    CHECK(info.UserData == &mine, "it is %p", info.UserData);
    GOOD(hsaKmtSetMemoryUserData(memory, NULL));
    GOOD(hsaKmtQueryPointerInfo(memory, &info));
    CHECK(info.UserData == NULL, "it is %p", info.UserData);
    GIVES(hsaKmtSetMemoryUserData(&mine, &mine), HSAKMT_STATUS_ERROR);
    give_back(memory, PAGE);
}

CASE(available_memory_follows_allocations) {
    open_thunk();
    HSAuint64 before = 0, during = 0, after = 0;
    GOOD(hsaKmtAvailableMemory(gpu_node, &before));
    void* memory = in_vram(64 << 20);
    GOOD(hsaKmtAvailableMemory(gpu_node, &during));
    give_back(memory, 64 << 20);
    GOOD(hsaKmtAvailableMemory(gpu_node, &after));
    CHECK(before - during >= 64 << 20 && before - during < 72 << 20, "%llu then %llu", (unsigned long long)before,
          (unsigned long long)during);
    EQUAL(after, before);
}

CASE(vram_can_be_filled_and_no_more) {
    open_thunk();
    void* parts[256];
    unsigned count = 0;
    HSAuint64 available = 0, left = 0;
    GOOD(hsaKmtAvailableMemory(gpu_node, &available));
    while (count < 256 && hsaKmtAllocMemory(gpu_node, 32 << 20, vram_flags(), &parts[count]) == HSAKMT_STATUS_SUCCESS)
        count++;
    CHECK(count >= available / (32 << 20) - 1 && count <= available / (32 << 20) + 1, "%u parts of %llu bytes", count,
          (unsigned long long)available);
    for (unsigned i = 0; i < count; i++)
        GOOD(hsaKmtFreeMemory(parts[i], 32 << 20));
    GOOD(hsaKmtAvailableMemory(gpu_node, &left));
    EQUAL(left, available);
}

CASE(allocations_come_and_go) {
    open_thunk();
    HSAuint64 before = 0, after = 0;
    void* memory[200];
    GOOD(hsaKmtAvailableMemory(gpu_node, &before));
    for (int round = 0; round < 5; round++) {
        for (int i = 0; i < 200; i++)
            memory[i] = i % 2 ? in_vram((uint64_t)(1 + i % 7) * PAGE) : in_system((uint64_t)(1 + i % 5) * PAGE);
        for (int i = 199; i >= 0; i--)
            give_back(memory[i], (uint64_t)(i % 2 ? 1 + i % 7 : 1 + i % 5) * PAGE);
    }
    GOOD(hsaKmtAvailableMemory(gpu_node, &after));
    EQUAL(after, before);
}

CASE(refused_allocations) {
    open_thunk();
    void* memory = NULL;
    HsaMemFlags flags = vram_flags();
    GIVES(hsaKmtAllocMemory(99, PAGE, flags, &memory), HSAKMT_STATUS_INVALID_NODE_UNIT);
    GIVES(hsaKmtAllocMemory(gpu_node, 0, flags, &memory), HSAKMT_STATUS_INVALID_PARAMETER);
    GIVES(hsaKmtAllocMemory(gpu_node, 100, flags, &memory), HSAKMT_STATUS_INVALID_PARAMETER);
    GIVES(hsaKmtAllocMemory(gpu_node, PAGE, flags, NULL), HSAKMT_STATUS_INVALID_PARAMETER);
    GIVES(hsaKmtAllocMemory(gpu_node, 1ull << 40, flags, &memory), HSAKMT_STATUS_NO_MEMORY);
    GIVES(hsaKmtAllocMemoryAlign(gpu_node, PAGE, 100, flags, &memory), HSAKMT_STATUS_INVALID_PARAMETER);
    GIVES(hsaKmtAllocMemoryAlign(gpu_node, PAGE, 3 * PAGE, flags, &memory), HSAKMT_STATUS_INVALID_PARAMETER);
    flags.ui32.Uncached = 1;
    GIVES(hsaKmtAllocMemory(gpu_node, PAGE, flags, &memory), HSAKMT_STATUS_INVALID_PARAMETER);
    GIVES(hsaKmtFreeMemory(NULL, PAGE), HSAKMT_STATUS_ERROR);
}

CASE(refused_mappings_and_registrations) {
    open_thunk();
    HSAuint64 alternate = 0;
    HsaMemFlags flags = {.Value = 0};
    HSAuint32 nodes[1] = {99};
    static char mine[2 * PAGE];
    GIVES(hsaKmtMapMemoryToGPU(NULL, PAGE, &alternate), HSAKMT_STATUS_ERROR);
    GIVES(hsaKmtRegisterMemoryWithFlags(mine, PAGE, flags), HSAKMT_STATUS_NOT_SUPPORTED);
    GIVES(hsaKmtRegisterMemoryToNodes(mine, PAGE, 1, nodes), HSAKMT_STATUS_INVALID_NODE_UNIT);
    GIVES(hsaKmtAvailableMemory(99, &alternate), HSAKMT_STATUS_INVALID_NODE_UNIT);
    GIVES(hsaKmtSetMemoryPolicy(gpu_node, HSA_CACHING_CACHED, HSA_CACHING_CACHED, NULL, 0), HSAKMT_STATUS_NOT_IMPLEMENTED);
}
