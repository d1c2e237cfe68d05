// GPUS 2
// Two GPUs over ROCr's own interface: access, copies by engines, locked memory, signals, and faults of one of them.
#include "hsa_cases.h"

enum { WORDS = 1 << 14, BYTES = WORDS * 4 };

static hsa_agent_t gpus[2];
static hsa_amd_memory_pool_t pools[2];
static unsigned gpu_count;

static hsa_status_t take_gpu(hsa_agent_t agent, void* unused) {
    (void)unused;
    hsa_device_type_t type;
    GOOD(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
    if (type != HSA_DEVICE_TYPE_GPU) return HSA_STATUS_SUCCESS;
    if (gpu_count < 2) gpus[gpu_count] = agent;
    gpu_count++;
    return HSA_STATUS_SUCCESS;
}

// Starts the runtime and finds the first two GPUs with their memory.
static void start_both(void) {
    start();
    GOOD(hsa_iterate_agents(take_gpu, NULL));
    CHECK(gpu_count >= 2, "%u GPUs", gpu_count);
    for (unsigned i = 0; i < 2; i++) {
        gpu = gpus[i];
        GOOD(hsa_amd_agent_iterate_memory_pools(gpu, take_pool, &gpu));
        pools[i] = vram;
    }
}

// Memory of a pool that the given agents reach.
static uint32_t* memory_for(hsa_amd_memory_pool_t pool, const hsa_agent_t* agents, unsigned count) {
    void* memory = NULL;
    GOOD(hsa_amd_memory_pool_allocate(pool, BYTES, 0, &memory));
    GOOD(hsa_amd_agents_allow_access(count, agents, NULL, memory));
    return (uint32_t*)memory;
}
// Memory that all agents reach.
static uint32_t* memory_for_all(hsa_amd_memory_pool_t pool) {
    hsa_agent_t all[3] = {cpu, gpus[0], gpus[1]};
    return memory_for(pool, all, 3);
}

struct side {
    hsa_executable_t executable;
    hsa_queue_t* queue;
};

// A queue and the kernels on one GPU.
static struct side side_of(unsigned i) {
    gpu = gpus[i];
    struct side side = {load(), make_queue(64)};
    return side;
}

static struct kernel kernel_of(struct side side, unsigned i, const char* name) {
    gpu = gpus[i];
    return find(side.executable, name);
}

// Arguments that both GPUs reach.
static void* arguments_for_both(const void* values, size_t size) {
    void* memory = memory_for_all(kernargs);
    memcpy(memory, values, size);
    return memory;
}

static void store(struct side side, unsigned i, uint32_t* place, uint32_t value) {
    struct {
        uint64_t address;
        uint32_t value;
    } values = {(uint64_t)(uintptr_t)place, value};
    run(side.queue, kernel_of(side, i, "store_at"), arguments_for_both(&values, sizeof values), 1, 64);
}

static void copy(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent, size_t bytes) {
    hsa_signal_t signal = make_signal(1);
    GOOD(hsa_amd_memory_async_copy(to, to_agent, from, from_agent, bytes, 0, NULL, signal));
    wait_for(signal, 0);
    GOOD(hsa_signal_destroy(signal));
}

CASE(peers_pools_can_be_reached_when_allowed) {
    start_both();
    for (unsigned i = 0; i < 2; i++) {
        hsa_amd_memory_pool_access_t access = HSA_AMD_MEMORY_POOL_ACCESS_NEVER_ALLOWED;
        GOOD(hsa_amd_agent_memory_pool_get_info(gpus[1 - i], pools[i], HSA_AMD_AGENT_MEMORY_POOL_INFO_ACCESS, &access));
        EQUAL(access, HSA_AMD_MEMORY_POOL_ACCESS_DISALLOWED_BY_DEFAULT);
        uint32_t hops = 0;
        GOOD(hsa_amd_agent_memory_pool_get_info(gpus[1 - i], pools[i], HSA_AMD_AGENT_MEMORY_POOL_INFO_NUM_LINK_HOPS, &hops));
        EQUAL(hops, 1);
        hsa_amd_memory_pool_link_info_t link = {0};
        GOOD(hsa_amd_agent_memory_pool_get_info(gpus[1 - i], pools[i], HSA_AMD_AGENT_MEMORY_POOL_INFO_LINK_INFO, &link));
        EQUAL(link.link_type, GPU_MAJOR == 9 ? HSA_AMD_LINK_INFO_TYPE_XGMI : HSA_AMD_LINK_INFO_TYPE_PCIE);
        EQUAL(link.atomic_support_64bit, true);
    }
}

CASE(peers_access_by_kernels) {
    start_both();
    struct side sides[2] = {side_of(0), side_of(1)};
    for (unsigned owner = 0; owner < 2; owner++) {
        uint32_t* memory = memory_for_all(pools[owner]);
        for (unsigned i = 0; i < 2; i++)
            store(sides[i], i, memory + 100 + i, 1000 * (owner + 1) + i);
        EQUAL(memory[100], 1000 * (owner + 1));
        EQUAL(memory[101], 1000 * (owner + 1) + 1);
        give_back(memory);
    }
}

CASE(peers_access_is_told_by_pointers) {
    start_both();
    for (unsigned owner = 0; owner < 2; owner++) {
        uint32_t* memory = memory_for_all(pools[owner]);
        hsa_amd_pointer_info_t info = {.size = sizeof info};
        hsa_agent_t* accessible = NULL;
        uint32_t count = 0, found = 0;
        GOOD(hsa_amd_pointer_info(memory + 77, &info, malloc, &count, &accessible));
        EQUAL(info.agentOwner.handle, gpus[owner].handle);
        for (uint32_t i = 0; i < count; i++)
            for (unsigned one = 0; one < 2; one++)
                if (accessible[i].handle == gpus[one].handle) found |= 1u << one;
        EQUAL(found, 3);
        free(accessible);
        give_back(memory);
    }
}

CASE(peers_access_is_refused_without_agents_or_memory) {
    start_both();
    uint32_t* memory = memory_for_all(pools[0]);
    REFUSED(hsa_amd_agents_allow_access(0, gpus, NULL, memory));
    REFUSED(hsa_amd_agents_allow_access(2, NULL, NULL, memory));
    REFUSED(hsa_amd_agents_allow_access(2, gpus, NULL, NULL));
    memory[3] = 4;
    EQUAL(memory[3], 4);
    give_back(memory);
}

CASE(peers_copy_in_every_direction) {
    start_both();
    uint32_t* parts[2] = {memory_for_all(pools[0]), memory_for_all(pools[1])};
    uint32_t *host = memory_for_all(fine), *back = memory_for_all(fine);
    for (unsigned i = 0; i < 2; i++) {
        fill_noise(host, WORDS, 91 + i);
        copy(parts[i], gpus[i], host, cpu, BYTES);
        // The agents tell where the memory is.
        copy(parts[1 - i], gpus[1 - i], parts[i], gpus[i], BYTES);
        memset(back, 0, BYTES);
        copy(back, cpu, parts[1 - i], gpus[1 - i], BYTES);
        SAME(back, host, WORDS);
    }
}

CASE(peers_copy_by_every_engine) {
    start_both();
    for (unsigned from = 0; from < 2; from++) {
        uint32_t *source = memory_for_all(pools[from]), *target = memory_for_all(pools[1 - from]), engines = 0;
        fill_noise(source, WORDS, 93 + from);
        hsa_status_t status = hsa_amd_memory_copy_engine_status(gpus[1 - from], gpus[from], &engines);
        CHECK(status == HSA_STATUS_SUCCESS && engines != 0, "%s, engines %#x", name_of(status), engines);
        for (uint32_t bit = 1; bit && bit <= engines; bit <<= 1) {
            if (!(engines & bit)) continue;
            memset(target, 0, BYTES);
            hsa_signal_t signal = make_signal(1);
            GOOD(hsa_amd_memory_async_copy_on_engine(target, gpus[1 - from], source, gpus[from], BYTES, 0, NULL, signal,
                                                     (hsa_amd_sdma_engine_id_t)bit, true));
            wait_for(signal, 0);
            SAME(target, source, WORDS);
            GOOD(hsa_signal_destroy(signal));
        }
    }
}

CASE(peers_copy_odd_lengths_and_places) {
    start_both();
    uint8_t *from = (uint8_t*)memory_for_all(pools[0]), *to = (uint8_t*)memory_for_all(pools[1]);
    fill_noise((uint32_t*)from, WORDS, 95);
    static const size_t lengths[] = {1, 3, 4, 63, 64, 65, 1000, 4097};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memset(to, 0xee, 8192);
        copy(to + i, gpus[1], from + 7, gpus[0], lengths[i]);
        CHECK(memcmp(to + i, from + 7, lengths[i]) == 0, "%zu bytes differ", lengths[i]);
        EQUAL(to[i + lengths[i]], 0xee);
        CHECK(i == 0 || to[i - 1] == 0xee, "something was written before");
    }
}

CASE(peers_copies_wait_for_each_other) {
    start_both();
    enum { PARTS = 10 };
    uint32_t* parts[PARTS];
    hsa_signal_t signals[PARTS];
    for (int i = 0; i < PARTS; i++) {
        parts[i] = memory_for_all(pools[i % 2]);
        signals[i] = make_signal(1);
    }
    fill_noise(parts[0], WORDS, 96);
    for (int i = 1; i < PARTS; i++)
        GOOD(hsa_amd_memory_async_copy(parts[i], gpus[i % 2], parts[i - 1], gpus[1 - i % 2], BYTES, 1, &signals[i - 1], signals[i]));
    usleep(5000);
    EQUAL(hsa_signal_load_scacquire(signals[1]), 1);
    hsa_signal_store_screlease(signals[0], 0);
    wait_for(signals[PARTS - 1], 0);
    SAME(parts[PARTS - 1], parts[0], WORDS);
}

CASE(peers_lock_one_memory_of_the_program) {
    start_both();
    struct side sides[2] = {side_of(0), side_of(1)};
    uint32_t* mine = (uint32_t*)calloc(WORDS, 4);
    void* theirs = NULL;
    GOOD(hsa_amd_memory_lock(mine, BYTES, gpus, 2, &theirs));
    for (unsigned i = 0; i < 2; i++)
        store(sides[i], i, (uint32_t*)theirs + 1000 + i, 31 + i);
    EQUAL(mine[1000], 31);
    EQUAL(mine[1001], 32);
    // Both copy it, too.
    for (unsigned i = 0; i < 2; i++) {
        uint32_t* device = memory_for_all(pools[i]);
        copy(device, gpus[i], theirs, cpu, BYTES);
        SAME(device, mine, WORDS);
        give_back(device);
    }
    GOOD(hsa_amd_memory_unlock(mine));
    free(mine);
}

CASE(peers_count_on_one_word) {
    start_both();
    struct side sides[2] = {side_of(0), side_of(1)};
    for (unsigned owner = 0; owner < 2; owner++) {
        uint32_t* counter = memory_for_all(pools[owner]);
        *counter = 0;
        hsa_signal_t signal = make_signal(40);
        void* arguments = arguments_for_both(&counter, sizeof counter);
        for (int round = 0; round < 40; round++) {
            unsigned i = round % 2;
            dispatch(sides[i].queue, kernel_of(sides[i], i, "count"), arguments, 256, 64, signal);
        }
        // The signal itself is counted down by both.
        wait_for(signal, 0);
        EQUAL(*counter, 40 * 256);
    }
}

CASE(peers_packets_wait_for_the_other_one_s_signal) {
    start_both();
    struct side sides[2] = {side_of(0), side_of(1)};
    uint32_t* words = memory_for_all(pools[0]);
    enum { TURNS = 20 };
    hsa_signal_t signals[TURNS + 1];
    for (int i = 0; i <= TURNS; i++)
        signals[i] = make_signal(1);
    words[0] = 5;
    for (int i = 1; i <= TURNS; i++) {
        unsigned side = i % 2;
        hsa_barrier_and_packet_t barrier = {.dep_signal = {signals[i - 1]}};
        put(sides[side].queue, &barrier, HSA_PACKET_TYPE_BARRIER_AND, BARRIER, true);
        struct {
            uint64_t to, from;
        } values = {(uint64_t)(uintptr_t)(words + i), (uint64_t)(uintptr_t)(words + i - 1)};
        dispatch(sides[side].queue, kernel_of(sides[side], side, "copy_at"), arguments_for_both(&values, sizeof values), 1, 64,
                 signals[i]);
    }
    usleep(5000);
    EQUAL(hsa_signal_load_scacquire(signals[1]), 1);
    hsa_signal_store_screlease(signals[0], 0);
    wait_for(signals[TURNS], 0);
    EQUAL(words[TURNS], 5);
}

CASE(peers_barrier_or_of_both_s_signals) {
    start_both();
    struct side sides[2] = {side_of(0), side_of(1)};
    uint32_t* flags[2] = {memory_for_all(fine), memory_for_all(fine)};
    hsa_signal_t ends[2] = {make_signal(1), make_signal(1)}, done = make_signal(1);
    for (unsigned i = 0; i < 2; i++) {
        memset(flags[i], 0, 8);
        dispatch(sides[i].queue, kernel_of(sides[i], i, "wait_and_answer"), arguments_for_both(&flags[i], sizeof flags[i]), 1, 64,
                 ends[i]);
    }
    gpu = gpus[0];
    hsa_queue_t* third = make_queue(64);
    hsa_barrier_or_packet_t barrier = {.dep_signal = {ends[0], ends[1]}, .completion_signal = done};
    put(third, &barrier, HSA_PACKET_TYPE_BARRIER_OR, BARRIER, true);
    usleep(5000);
    EQUAL(hsa_signal_load_scacquire(done), 1);
    // One of them is enough.
    __atomic_store_n(flags[1], 1, __ATOMIC_RELEASE);
    wait_for(done, 0);
    EQUAL(hsa_signal_load_scacquire(ends[0]), 1);
    __atomic_store_n(flags[0], 1, __ATOMIC_RELEASE);
    wait_for(ends[0], 0);
    EQUAL(flags[0][1] + flags[1][1], 154);
}

CASE(peers_copy_waits_for_the_other_one_s_kernel) {
    start_both();
    struct side sides[2] = {side_of(0), side_of(1)};
    for (unsigned i = 0; i < 2; i++) {
        uint32_t *flag = memory_for_all(pools[i]), *to = memory_for_all(pools[1 - i]);
        memset(flag, 0, 8);
        hsa_signal_t kernel = make_signal(1), done = make_signal(1);
        dispatch(sides[i].queue, kernel_of(sides[i], i, "wait_and_answer"), arguments_for_both(&flag, sizeof flag), 1, 64, kernel);
        GOOD(hsa_amd_memory_async_copy(to, gpus[1 - i], flag, gpus[i], PAGE, 1, &kernel, done));
        usleep(5000);
        EQUAL(hsa_signal_load_scacquire(done), 1);
        __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
        wait_for(done, 0);
        EQUAL(to[1], 77);
    }
}

CASE(peers_memory_of_another_process_for_both) {
    int ends[2];
    CHECK(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    hsa_amd_ipc_memory_t handle;
    if (child == 0) {
        close(ends[1]);
        CHECK(read(ends[0], &handle, sizeof handle) == sizeof handle, "no handle");
        start_both();
        struct side sides[2] = {side_of(0), side_of(1)};
        uint32_t* memory = NULL;
        GOOD(hsa_amd_ipc_memory_attach(&handle, BYTES, 2, gpus, (void**)&memory));
        for (unsigned i = 0; i < 2; i++)
            store(sides[i], i, memory + 20 + i, 2020 + i);
        GOOD(hsa_amd_ipc_memory_detach(memory));
        _exit(0);
    }
    start_both();
    int status = 0;
    uint32_t* memory = memory_for_all(pools[1]);
    GOOD(hsa_amd_ipc_memory_create(memory, BYTES, &handle));
    CHECK(write(ends[1], &handle, sizeof handle) == sizeof handle, "write");
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the other process ended with %#x", status);
    EQUAL(memory[20], 2020);
    EQUAL(memory[21], 2021);
}

CASE(peers_dma_buf_of_one_is_mapped_by_the_other) {
    start_both();
    for (unsigned owner = 0; owner < 2; owner++) {
        uint32_t* memory = memory_for_all(pools[owner]);
        int fd = -1;
        uint64_t offset = 0;
        memory[3] = 33 + owner;
        GOOD(hsa_amd_portable_export_dmabuf(memory, BYTES, &fd, &offset));
        size_t size = 0, metadata_size = 0;
        char* again = NULL;
        const void* metadata = NULL;
        GOOD(hsa_amd_interop_map_buffer(1, &gpus[1 - owner], fd, 0, &size, (void**)&again, &metadata_size, &metadata));
        uint32_t* seen = memory_for_all(fine);
        copy(seen, cpu, again + offset, gpus[1 - owner], PAGE);
        EQUAL(seen[3], 33 + owner);
        GOOD(hsa_amd_interop_unmap_buffer(again));
        GOOD(hsa_amd_portable_close_dmabuf(fd));
    }
}

static hsa_agent_t faulted;
static int faults;
static hsa_status_t note_fault(const hsa_amd_event_t* event, void* data) {
    (void)data;
    if (event->event_type != HSA_AMD_GPU_MEMORY_FAULT_EVENT) return HSA_STATUS_ERROR;
    faulted = event->memory_fault.agent;
    __atomic_fetch_add(&faults, 1, __ATOMIC_RELEASE);
    return HSA_STATUS_SUCCESS;
}

CASE(peers_fault_names_its_agent_and_leaves_the_other_one) {
    start_both();
    GOOD(hsa_amd_register_system_event_handler(note_fault, NULL));
    struct side sides[2] = {side_of(0), side_of(1)};
    uint32_t* memory = memory_for_all(pools[0]);
    struct {
        uint64_t address;
        uint32_t value;
    } values = {0x123456000, 1};
    hsa_signal_t never = make_signal(1);
    dispatch(sides[1].queue, kernel_of(sides[1], 1, "store_at"), arguments_for_both(&values, sizeof values), 1, 64, never);
    for (int i = 0; i < 20000 && !__atomic_load_n(&faults, __ATOMIC_ACQUIRE); i++)
        usleep(100);
    EQUAL(faults, 1);
    EQUAL(faulted.handle, gpus[1].handle);
    for (unsigned i = 0; i < 20; i++) {
        store(sides[0], 0, memory + i, 10 + i);
        EQUAL(memory[i], 10 + i);
    }
    EQUAL(hsa_signal_load_scacquire(never), 1);
}
