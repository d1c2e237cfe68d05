// What ROCr tells of the system, its agents and their pools; starting and ending it.
#include "hsa_cases.h"

static uint32_t number(hsa_agent_t agent, uint32_t attribute) {
    uint32_t value = 0;
    GOOD(hsa_agent_get_info(agent, (hsa_agent_info_t)attribute, &value));
    return value;
}

CASE(runtime_starts_and_ends) {
    hsa_agent_t none = {0};
    char name[64];
    GIVES(hsa_agent_get_info(none, HSA_AGENT_INFO_NAME, name), HSA_STATUS_ERROR_NOT_INITIALIZED);
    for (int round = 0; round < 3; round++) {
        start();
        GOOD(hsa_init());
        GOOD(hsa_shut_down());
        GOOD(hsa_shut_down());
    }
    GIVES(hsa_shut_down(), HSA_STATUS_ERROR_NOT_INITIALIZED);
}

CASE(system_has_a_clock_and_versions) {
    start();
    uint16_t major = 0, minor = 9;
    uint64_t before = 0, after = 0, frequency = 0;
    hsa_endianness_t order;
    hsa_machine_model_t model;
    GOOD(hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MAJOR, &major));
    GOOD(hsa_system_get_info(HSA_SYSTEM_INFO_VERSION_MINOR, &minor));
    GOOD(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP_FREQUENCY, &frequency));
    GOOD(hsa_system_get_info(HSA_SYSTEM_INFO_ENDIANNESS, &order));
    GOOD(hsa_system_get_info(HSA_SYSTEM_INFO_MACHINE_MODEL, &model));
    GOOD(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &before));
    usleep(10000);
    GOOD(hsa_system_get_info(HSA_SYSTEM_INFO_TIMESTAMP, &after));
    EQUAL(major, 1);
    EQUAL(order, HSA_ENDIANNESS_LITTLE);
    EQUAL(model, HSA_MACHINE_MODEL_LARGE);
    CHECK((double)(after - before) >= 0.0099 * (double)frequency, "%llu ticks", (unsigned long long)(after - before));
}

CASE(gpu_is_described) {
    start();
    char name[64] = "", product[64] = "", id[32] = "";
    uint16_t size[3];
    hsa_dim3_t grid;
    GOOD(hsa_agent_get_info(gpu, HSA_AGENT_INFO_NAME, name));
    GOOD(hsa_agent_get_info(gpu, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_PRODUCT_NAME, product));
    GOOD(hsa_agent_get_info(gpu, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_UUID, id));
    GOOD(hsa_agent_get_info(gpu, HSA_AGENT_INFO_WORKGROUP_MAX_DIM, size));
    GOOD(hsa_agent_get_info(gpu, HSA_AGENT_INFO_GRID_MAX_DIM, &grid));
    CHECK(strcmp(name, GPU_NAME) == 0, "it is %s", name);
    CHECK(strncmp(id, "GPU-", 4) == 0, "its number is %s", id);
    EQUAL(number(gpu, HSA_AGENT_INFO_WAVEFRONT_SIZE), GPU_WAVE);
    EQUAL(number(gpu, HSA_AGENT_INFO_WORKGROUP_MAX_SIZE), 1024);
    EQUAL(number(gpu, HSA_AGENT_INFO_FEATURE), HSA_AGENT_FEATURE_KERNEL_DISPATCH);
    EQUAL(size[0], 1024);
    // ROCr 7 says INT32_MAX.
    CHECK(grid.x >= INT32_MAX, "a grid of %u", grid.x);
    EQUAL(number(gpu, HSA_AMD_AGENT_INFO_CHIP_ID), GPU_DEVICE);
    CHECK(number(gpu, HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT) >= 2, "no compute units");
    EQUAL(number(gpu, HSA_AMD_AGENT_INFO_NUM_SIMDS_PER_CU), GPU_MAJOR == 9 ? 4 : 2);
    CHECK(number(gpu, HSA_AMD_AGENT_INFO_MAX_WAVES_PER_CU) >= 16, "no waves");
    CHECK(number(gpu, HSA_AMD_AGENT_INFO_MAX_CLOCK_FREQUENCY) > 0, "no clock");
    CHECK(number(gpu, HSA_AMD_AGENT_INFO_BDFID) != 0, "no place on a bus");
}

CASE(queues_of_the_gpu_have_limits) {
    start();
    hsa_queue_type32_t type = 77;
    uint32_t least = number(gpu, HSA_AGENT_INFO_QUEUE_MIN_SIZE), most = number(gpu, HSA_AGENT_INFO_QUEUE_MAX_SIZE);
    GOOD(hsa_agent_get_info(gpu, HSA_AGENT_INFO_QUEUE_TYPE, &type));
    EQUAL(type, HSA_QUEUE_TYPE_MULTI);
    CHECK(number(gpu, HSA_AGENT_INFO_QUEUES_MAX) >= 8, "few queues");
    CHECK(least >= 1 && most >= 4096, "%u to %u", least, most);
    hsa_queue_t* queue = make_queue(most);
    EQUAL(queue->size, most);
    GOOD(hsa_queue_destroy(queue));
    REFUSED(hsa_queue_create(gpu, most * 2, HSA_QUEUE_TYPE_MULTI, NULL, NULL, 0, 0, &queue));
}

CASE(processor_is_described) {
    start();
    char name[64] = "";
    GOOD(hsa_agent_get_info(cpu, HSA_AGENT_INFO_NAME, name));
    CHECK(name[0] != 0, "no name");
    CHECK(number(cpu, HSA_AMD_AGENT_INFO_COMPUTE_UNIT_COUNT) >= 1, "no cores");
    EQUAL(number(cpu, HSA_AGENT_INFO_QUEUES_MAX), 0);
    EQUAL(number(cpu, HSA_AGENT_INFO_NODE), 0);
    EQUAL(number(gpu, HSA_AGENT_INFO_NODE), 1);
}

/* The instruction set of the GPU, whose chip before gfx10 says whether its memory has ECC and its waves wait for pages. */
#if GPU_MAJOR == 9
#define GPU_ISA "amdgcn-amd-amdhsa--" GPU_NAME ":sramecc+:xnack-"
#else
#define GPU_ISA "amdgcn-amd-amdhsa--" GPU_NAME
#endif

static hsa_status_t count_handle(hsa_isa_t isa, void* count) {
    char name[64] = "";
    GOOD(hsa_isa_get_info_alt(isa, HSA_ISA_INFO_NAME, name));
    if (strcmp(name, GPU_ISA) == 0) ++*(unsigned*)count;
    return HSA_STATUS_SUCCESS;
}

CASE(instructions_are_named) {
    start();
    unsigned count = 0;
    hsa_isa_t isa;
    GOOD(hsa_agent_iterate_isas(gpu, count_handle, &count));
    EQUAL(count, 1);
    GOOD(hsa_isa_from_name(GPU_ISA, &isa));
    GIVES(hsa_isa_from_name("amdgcn-amd-amdhsa--nothing", &isa), HSA_STATUS_ERROR_INVALID_ISA_NAME);
}

static hsa_status_t count_cache(hsa_cache_t cache, void* levels) {
    uint8_t level = 0;
    uint32_t size = 0;
    GOOD(hsa_cache_get_info(cache, HSA_CACHE_INFO_LEVEL, &level));
    GOOD(hsa_cache_get_info(cache, HSA_CACHE_INFO_SIZE, &size));
    CHECK(size > 0, "a cache of nothing");
    ((unsigned*)levels)[level & 7]++;
    return HSA_STATUS_SUCCESS;
}

CASE(gpu_has_caches) {
    start();
    unsigned levels[8] = {0};
    GOOD(hsa_agent_iterate_caches(gpu, count_cache, levels));
    CHECK(levels[1] > 0 && levels[2] > 0, "%u and %u", levels[1], levels[2]);
}

CASE(pools_are_described) {
    start();
    const hsa_amd_memory_pool_t pools[] = {vram, fine, coarse, kernargs};
    for (unsigned i = 0; i < 4; i++) {
        size_t size = 0, granule = 0, alignment = 0;
        bool allowed = false;
        GOOD(hsa_amd_memory_pool_get_info(pools[i], HSA_AMD_MEMORY_POOL_INFO_SIZE, &size));
        GOOD(hsa_amd_memory_pool_get_info(pools[i], HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed));
        GOOD(hsa_amd_memory_pool_get_info(pools[i], HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_GRANULE, &granule));
        GOOD(hsa_amd_memory_pool_get_info(pools[i], HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALIGNMENT, &alignment));
        CHECK(size >= 64 << 20 && allowed, "pool %u has %zu bytes", i, size);
        CHECK(granule >= 4096 && alignment >= 4096, "granule %zu, alignment %zu", granule, alignment);
    }
}

CASE(pools_are_near_or_far) {
    start();
    hsa_amd_memory_pool_access_t access;
    uint32_t hops = 0;
    GOOD(hsa_amd_agent_memory_pool_get_info(gpu, vram, HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access));
    EQUAL(access, HSA_AMD_MEMORY_POOL_ACCESS_ALLOWED_BY_DEFAULT);
    GOOD(hsa_amd_agent_memory_pool_get_info(gpu, fine, HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS, &hops));
    EQUAL(hops, 1);
    hsa_amd_memory_pool_link_info_t link = {0};
    GOOD(hsa_amd_agent_memory_pool_get_info(gpu, fine, HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO, &link));
    EQUAL(link.link_type, HSA_AMD_LINK_INFO_TYPE_PCIE);
    CHECK(link.atomic_support_32bit && link.atomic_support_64bit, "no atomics");
    GOOD(hsa_amd_agent_memory_pool_get_info(gpu, vram, HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS, &hops));
    EQUAL(hops, 0);
}

static hsa_status_t count_region(hsa_region_t region, void* count) {
    hsa_region_segment_t segment;
    GOOD(hsa_region_get_info(region, HSA_REGION_INFO_SEGMENT, &segment));
    if (segment == HSA_REGION_SEGMENT_GLOBAL) ++*(unsigned*)count;
    return HSA_STATUS_SUCCESS;
}

CASE(agents_have_regions) {
    start();
    unsigned of_cpu = 0, of_gpu = 0;
    GOOD(hsa_agent_iterate_regions(cpu, count_region, &of_cpu));
    GOOD(hsa_agent_iterate_regions(gpu, count_region, &of_gpu));
    CHECK(of_cpu >= 2 && of_gpu >= 1, "%u and %u", of_cpu, of_gpu);
}

static hsa_status_t stop_at_once(hsa_agent_t agent, void* count) {
    (void)agent;
    ++*(unsigned*)count;
    return HSA_STATUS_INFO_BREAK;
}

CASE(refused_questions) {
    start();
    hsa_agent_t none = {0};
    uint64_t value = 0;
    unsigned count = 0;
    GIVES(hsa_iterate_agents(stop_at_once, &count), HSA_STATUS_INFO_BREAK);
    EQUAL(count, 1);
    GIVES(hsa_iterate_agents(NULL, NULL), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_agent_get_info(none, HSA_AGENT_INFO_NAME, &value), HSA_STATUS_ERROR_INVALID_AGENT);
    GIVES(hsa_agent_get_info(gpu, HSA_AGENT_INFO_NAME, NULL), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_agent_get_info(gpu, (hsa_agent_info_t)0x7fff, &value), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_system_get_info((hsa_system_info_t)0x7fff, &value), HSA_STATUS_ERROR_INVALID_ARGUMENT);
}

static volatile uint64_t fault_address;
static volatile uint32_t fault_reason;
static hsa_status_t note_fault(const hsa_amd_event_t* event, void* data) {
    CHECK(data == &fault_reason && event->event_type == HSA_AMD_GPU_MEMORY_FAULT_EVENT, "event %d", event->event_type);
    EQUAL(event->memory_fault.agent.handle, gpu.handle);
    fault_reason = event->memory_fault.fault_reason_mask;
    __atomic_store_n(&fault_address, event->memory_fault.virtual_address, __ATOMIC_RELEASE);
    return HSA_STATUS_SUCCESS;
}

// Lets a kernel reach for an address, and waits for the fault.
static void fault_at(const char* kernel, uint64_t first, uint64_t second, uint64_t address, uint32_t reason) {
    hsa_executable_t executable = load();
    GOOD(hsa_amd_register_system_event_handler(note_fault, (void*)&fault_reason));
    uint64_t values[2] = {first, second};
    dispatch(make_queue(64), find(executable, kernel), arguments_of(values, sizeof values), 1, 64, make_signal(1));
    while (!__atomic_load_n(&fault_address, __ATOMIC_ACQUIRE))
        usleep(100);
    CHECK(fault_address == (address & ~4095ull), "at %#llx, not %#llx", (unsigned long long)fault_address,
          (unsigned long long)address);
    CHECK(fault_reason & reason, "reason %#x", fault_reason);
}

CASE(program_is_told_where_a_kernel_stored) {
    start();
    fault_at("store_at", 0x600000123004, 5, 0x600000123004, HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT);
}

CASE(program_is_told_where_a_kernel_loaded) {
    start();
    uint64_t out = (uint64_t)(uintptr_t)allocate(fine, PAGE);
    fault_at("copy_at", out, 0x600000456008, 0x600000456008, HSA_AMD_MEMORY_FAULT_PAGE_NOT_PRESENT);
}
