// Memory of ROCr: pools, copies, locks, pointers, and memory that is shared.
#include "hsa_cases.h"

#include <sys/socket.h>

enum { WORDS = 1 << 16, BYTES = WORDS * 4 };

CASE(pools_give_memory_to_both_sides) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(64);
    const hsa_amd_memory_pool_t pools[] = {fine, coarse, kernargs, vram};
    for (unsigned i = 0; i < 4; i++) {
        uint32_t* memory = (uint32_t*)allocate(pools[i], BYTES);
        struct {
            uint64_t address;
            uint32_t value;
        } values = {(uint64_t)(uintptr_t)(memory + WORDS - 1), 100 + i};
        run(queue, find(executable, "store_at"), arguments_of(&values, sizeof values), 1, 64);
        EQUAL(memory[WORDS - 1], 100 + i);
        give_back(memory);
    }
    GOOD(hsa_shut_down());
}

CASE(memory_is_filled) {
    start();
    uint32_t* memory = (uint32_t*)allocate(vram, BYTES);
    GOOD(hsa_amd_memory_fill(memory, 0xabcd1234, WORDS));
    for (unsigned i = 0; i < WORDS; i++)
        EQUAL(memory[i], 0xabcd1234);
    GOOD(hsa_amd_memory_fill(memory + 16, 7, 3));
    EQUAL(memory[15], 0xabcd1234);
    EQUAL(memory[16] + memory[17] + memory[18], 21);
    EQUAL(memory[19], 0xabcd1234);
    GIVES(hsa_amd_memory_fill(NULL, 7, 3), HSA_STATUS_ERROR_INVALID_ARGUMENT);
}

CASE(memory_is_copied_at_once) {
    start();
    uint32_t *from = (uint32_t*)malloc(BYTES), *to = (uint32_t*)malloc(BYTES), *device = (uint32_t*)allocate(vram, BYTES);
    fill_noise(from, WORDS, 1);
    GOOD(hsa_memory_copy(device, from, BYTES));
    GOOD(hsa_memory_copy(to, device, BYTES));
    SAME(to, from, WORDS);
    GOOD(hsa_memory_copy(to, device, 0));
}

// Copies and waits.
static void copy(void* to, hsa_agent_t to_agent, const void* from, hsa_agent_t from_agent, size_t bytes) {
    hsa_signal_t signal = make_signal(1);
    GOOD(hsa_amd_memory_async_copy(to, to_agent, from, from_agent, bytes, 0, NULL, signal));
    wait_for(signal, 0);
    GOOD(hsa_signal_destroy(signal));
}

CASE(memory_is_copied_in_every_direction) {
    start();
    uint32_t *host = (uint32_t*)allocate(fine, BYTES), *back = (uint32_t*)allocate(coarse, BYTES);
    uint32_t *one = (uint32_t*)allocate(vram, BYTES), *two = (uint32_t*)allocate(vram, BYTES);
    fill_noise(host, WORDS, 2);
    copy(one, gpu, host, cpu, BYTES);
    copy(two, gpu, one, gpu, BYTES);
    copy(back, cpu, two, gpu, BYTES);
    SAME(back, host, WORDS);
    memset(back, 0, BYTES);
    copy(back, cpu, host, cpu, BYTES);
    SAME(back, host, WORDS);
}

CASE(copies_of_odd_lengths_and_places) {
    start();
    uint8_t *host = (uint8_t*)allocate(fine, BYTES), *device = (uint8_t*)allocate(vram, BYTES);
    fill_noise((uint32_t*)host, WORDS, 3);
    static const size_t lengths[] = {1, 3, 4, 63, 64, 65, 1000, 4097};
    for (unsigned i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        memset(device, 0xee, 8192);
        copy(device + i, gpu, host + 7, cpu, lengths[i]);
        CHECK(memcmp(device + i, host + 7, lengths[i]) == 0, "%zu bytes differ", lengths[i]);
        EQUAL(device[i + lengths[i]], 0xee);
        CHECK(i == 0 || device[i - 1] == 0xee, "something was written before");
    }
}

CASE(copies_wait_for_each_other) {
    start();
    uint32_t* parts[12];
    hsa_signal_t signals[12];
    for (int i = 0; i < 12; i++) {
        parts[i] = (uint32_t*)allocate(i % 2 ? vram : fine, BYTES);
        signals[i] = make_signal(1);
    }
    fill_noise(parts[0], WORDS, 4);
    // The first waits for the program; none is to begin before.
    for (int i = 1; i < 12; i++)
        GOOD(hsa_amd_memory_async_copy(parts[i], i % 2 ? gpu : cpu, parts[i - 1], i % 2 ? cpu : gpu, BYTES, 1, &signals[i - 1],
                                       signals[i]));
    usleep(5000);
    EQUAL(hsa_signal_load_scacquire(signals[1]), 1);
    hsa_signal_store_screlease(signals[0], 0);
    wait_for(signals[11], 0);
    SAME(parts[11], parts[0], WORDS);
}

CASE(copy_waits_for_many_signals) {
    start();
    uint32_t *host = (uint32_t*)allocate(fine, PAGE), *device = (uint32_t*)allocate(vram, PAGE);
    // ROCr 7.2.4 has room for so many on its stack and does not look (`BlitSdma::SubmitCommand`, `HSA_MAX_DEP_SIGNALS`).
    enum { MANY = ROCM_MAJOR < 7 ? 9 : 5 };
    hsa_signal_t signals[MANY], done = make_signal(1);
    for (int i = 0; i < MANY; i++)
        signals[i] = make_signal(1);
    host[0] = 8;
    GOOD(hsa_amd_memory_async_copy(device, gpu, host, cpu, PAGE, MANY, signals, done));
    for (int i = 0; i < MANY; i++) {
        EQUAL(hsa_signal_load_scacquire(done), 1);
        hsa_signal_store_screlease(signals[i], 0);
    }
    wait_for(done, 0);
    EQUAL(device[0], 8);
}

CASE(copy_waits_for_a_kernel) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(64);
    uint32_t *flag = (uint32_t*)allocate(fine, PAGE), *to = (uint32_t*)allocate(fine, PAGE);
    hsa_signal_t kernel = make_signal(1), done = make_signal(1);
    dispatch(queue, find(executable, "wait_and_answer"), arguments_of(&flag, sizeof flag), 1, 64, kernel);
    GOOD(hsa_amd_memory_async_copy(to, gpu, flag, gpu, PAGE, 1, &kernel, done));
    usleep(5000);
    EQUAL(hsa_signal_load_scacquire(done), 1);
    __atomic_store_n(flag, 1, __ATOMIC_RELEASE);
    wait_for(done, 0);
    EQUAL(to[1], 77);
}

CASE(copies_have_times) {
    start();
    uint32_t *host = (uint32_t*)allocate(fine, BYTES), *device = (uint32_t*)allocate(vram, BYTES);
    GOOD(hsa_amd_profiling_async_copy_enable(true));
    hsa_signal_t signal = make_signal(1);
    hsa_amd_profiling_async_copy_time_t time = {0};
    GOOD(hsa_amd_memory_async_copy(device, gpu, host, cpu, BYTES, 0, NULL, signal));
    wait_for(signal, 0);
    GOOD(hsa_amd_profiling_get_async_copy_time(signal, &time));
    CHECK(time.start > 0 && time.end >= time.start, "from %llu to %llu", (unsigned long long)time.start,
          (unsigned long long)time.end);
}

CASE(copy_on_a_chosen_engine) {
    start();
    uint32_t *host = (uint32_t*)allocate(fine, BYTES), *device = (uint32_t*)allocate(vram, BYTES), engines = 0;
    fill_noise(host, WORDS, 5);
    hsa_status_t status = hsa_amd_memory_copy_engine_status(gpu, cpu, &engines);
    CHECK(status == HSA_STATUS_SUCCESS && engines != 0, "%s, engines %#x", name_of(status), engines);
    for (uint32_t bit = 1; bit && bit <= engines; bit <<= 1) {
        if (!(engines & bit)) continue;
        memset(device, 0, BYTES);
        hsa_signal_t signal = make_signal(1);
        GOOD(hsa_amd_memory_async_copy_on_engine(device, gpu, host, cpu, BYTES, 0, NULL, signal, (hsa_amd_sdma_engine_id_t)bit,
                                                 true));
        wait_for(signal, 0);
        SAME(device, host, WORDS);
    }
}

CASE(rectangle_is_copied) {
    start();
    enum { PITCH = 512, ROWS = 32 };
    uint8_t *from = (uint8_t*)allocate(fine, PITCH * ROWS), *to = (uint8_t*)allocate(vram, PITCH * ROWS);
    fill_noise((uint32_t*)from, PITCH * ROWS / 4, 6);
    hsa_pitched_ptr_t source = {from, PITCH, PITCH * ROWS}, target = {to, PITCH, PITCH * ROWS};
    hsa_dim3_t at = {64, 4, 0}, into = {128, 9, 0}, range = {200, 20, 1};
    hsa_signal_t signal = make_signal(1);
    GOOD(hsa_amd_memory_async_copy_rect(&target, &into, &source, &at, &range, gpu, hsaHostToDevice, 0, NULL, signal));
    wait_for(signal, 0);
    for (unsigned y = 0; y < ROWS; y++)
        for (unsigned x = 0; x < PITCH; x++) {
            bool inside = x >= 128 && x < 328 && y >= 9 && y < 29;
            EQUAL(to[y * PITCH + x], inside ? from[(y - 5) * PITCH + x - 64] : 0);
        }
}

CASE(memory_of_the_program_is_locked) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(64);
    uint32_t* mine = (uint32_t*)calloc(WORDS, 4);
    void* theirs = NULL;
    GOOD(hsa_amd_memory_lock(mine, BYTES, &gpu, 1, &theirs));
    struct {
        uint64_t address;
        uint32_t value;
    } values = {(uint64_t)(uintptr_t)theirs + 4000, 31};
    run(queue, find(executable, "store_at"), arguments_of(&values, sizeof values), 1, 64);
    EQUAL(mine[1000], 31);
    GOOD(hsa_amd_memory_unlock(mine));
    free(mine);
}

CASE(memory_of_the_program_is_locked_to_a_pool) {
    start();
    uint32_t *mine = (uint32_t*)mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t* device = (uint32_t*)allocate(vram, PAGE);
    void* theirs = NULL;
    GOOD(hsa_amd_memory_lock_to_pool(mine, PAGE, &gpu, 1, coarse, 0, &theirs));
    device[3] = 5150;
    copy(theirs, cpu, device, gpu, PAGE);
    EQUAL(mine[3], 5150);
    GOOD(hsa_amd_memory_unlock(mine));
}

CASE(pointer_tells_what_it_points_to) {
    start();
    char *memory = (char*)allocate(vram, 3 * PAGE), local;
    hsa_amd_pointer_info_t info = {.size = sizeof info};
    hsa_agent_t* accessible = NULL;
    uint32_t count = 0;
    GOOD(hsa_amd_pointer_info(memory + 5000, &info, malloc, &count, &accessible));
    EQUAL(info.type, HSA_EXT_POINTER_TYPE_HSA);
    EQUAL(info.agentOwner.handle, gpu.handle);
    CHECK(info.agentBaseAddress == memory && info.sizeInBytes == 3 * PAGE, "%p with %zu", info.agentBaseAddress,
          info.sizeInBytes);
    CHECK(count >= 1 && accessible != NULL, "%u agents", count);
    GOOD(hsa_amd_pointer_info_set_userdata(memory, &local));
    GOOD(hsa_amd_pointer_info(memory, &info, NULL, NULL, NULL));
    CHECK(info.userData == &local, "%p", info.userData);
    GOOD(hsa_amd_pointer_info(&local, &info, NULL, NULL, NULL));
    EQUAL(info.type, HSA_EXT_POINTER_TYPE_UNKNOWN);
}

static void note_freed(void* memory, void* data) { *(void**)data = memory; }

CASE(program_is_told_when_memory_is_freed) {
    start();
    void *memory = allocate(vram, PAGE), *freed = NULL;
    GOOD(hsa_amd_register_deallocation_callback(memory, note_freed, &freed));
    give_back(memory);
    CHECK(freed == memory, "%p", freed);
    memory = allocate(vram, PAGE);
    freed = NULL;
    GOOD(hsa_amd_register_deallocation_callback(memory, note_freed, &freed));
    GOOD(hsa_amd_deregister_deallocation_callback(memory, note_freed));
    give_back(memory);
    CHECK(freed == NULL, "%p", freed);
}

CASE(memory_of_another_process) {
    int ends[2];
    CHECK(pipe(ends) == 0, "pipe");
    pid_t child = fork();
    CHECK(child >= 0, "fork");
    hsa_amd_ipc_memory_t handle;
    if (child == 0) {
        close(ends[1]);
        CHECK(read(ends[0], &handle, sizeof handle) == sizeof handle, "no handle");
        start();
        uint32_t* memory = NULL;
        GOOD(hsa_amd_ipc_memory_attach(&handle, BYTES, 1, &gpu, (void**)&memory));
        uint32_t* seen = (uint32_t*)allocate(fine, PAGE);
        copy(seen, cpu, memory, gpu, PAGE);
        EQUAL(seen[9], 99);
        seen[10] = 1010;
        copy(memory, gpu, seen, cpu, PAGE);
        GOOD(hsa_amd_ipc_memory_detach(memory));
        _exit(0);
    }
    start();
    int status = 0;
    uint32_t* memory = (uint32_t*)allocate(vram, BYTES);
    memory[9] = 99;
    GOOD(hsa_amd_ipc_memory_create(memory, BYTES, &handle));
    CHECK(write(ends[1], &handle, sizeof handle) == sizeof handle, "write");
    CHECK(waitpid(child, &status, 0) == child && status == 0, "the other process ended with %#x", status);
    EQUAL(memory[10], 1010);
}

CASE(dma_buf_is_exported_and_mapped) {
    start();
    uint32_t* memory = (uint32_t*)allocate(vram, 2 * PAGE);
    int fd = -1;
    uint64_t offset = 77;
    memory[3] = 33;
    GOOD(hsa_amd_portable_export_dmabuf(memory, 2 * PAGE, &fd, &offset));
    CHECK(fd >= 0, "no descriptor");
    size_t size = 0, metadata_size = 0;
    uint32_t* again = NULL;
    const void* metadata = NULL;
    GOOD(hsa_amd_interop_map_buffer(1, &gpu, fd, 0, &size, (void**)&again, &metadata_size, &metadata));
    // The runtime cuts allocations out of larger ones, and shares those.
    CHECK(size >= offset + 2 * PAGE, "%zu bytes, and the memory is at %llu", size, (unsigned long long)offset);
    uint32_t* seen = (uint32_t*)allocate(fine, PAGE);
    copy(seen, cpu, (char*)again + offset, gpu, PAGE);
    EQUAL(seen[3], 33);
    GOOD(hsa_amd_interop_unmap_buffer(again));
    GOOD(hsa_amd_portable_close_dmabuf(fd));
    uint32_t mine = 0;
    REFUSED(hsa_amd_portable_export_dmabuf(&mine, 4, &fd, &offset));
}

CASE(range_has_attributes) {
    start();
    char* memory = (char*)mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    hsa_amd_svm_attribute_pair_t set[] = {{HSA_AMD_SVM_ATTRIB_GLOBAL_FLAG, HSA_AMD_SVM_GLOBAL_FLAG_FINE_GRAINED},
                                          {HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE, gpu.handle}};
    GOOD(hsa_amd_svm_attributes_set(memory, 16 * PAGE, set, 2));
    hsa_amd_svm_attribute_pair_t get[] = {{HSA_AMD_SVM_ATTRIB_GLOBAL_FLAG, 77}, {HSA_AMD_SVM_ATTRIB_ACCESS_QUERY, gpu.handle}};
    GOOD(hsa_amd_svm_attributes_get(memory, 16 * PAGE, get, 2));
    EQUAL(get[0].value, HSA_AMD_SVM_GLOBAL_FLAG_FINE_GRAINED);
    EQUAL(get[1].attribute, HSA_AMD_SVM_ATTRIB_AGENT_ACCESSIBLE);
    hsa_executable_t executable = load();
    struct {
        uint64_t address;
        uint32_t value;
    } values = {(uint64_t)(uintptr_t)(memory + 5 * PAGE), 1234};
    run(make_queue(64), find(executable, "store_at"), arguments_of(&values, sizeof values), 1, 64);
    EQUAL(*(uint32_t*)(memory + 5 * PAGE), 1234);
    hsa_signal_t signal = make_signal(1);
    GOOD(hsa_amd_svm_prefetch_async(memory, 16 * PAGE, gpu, 0, NULL, signal));
    wait_for(signal, 0);
    EQUAL(*(uint32_t*)(memory + 5 * PAGE), 1234);
}

// Memory that is reserved, made and mapped in steps.
CASE(addresses_and_memory_apart) {
    start();
    bool supported = false;
    GOOD(hsa_system_get_info((hsa_system_info_t)HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED, &supported));
    CHECK(supported, "HSA_AMD_SYSTEM_INFO_VIRTUAL_MEM_API_SUPPORTED is false");
    enum { PART = 2 << 20 };
    char* address = NULL;
    GOOD(hsa_amd_vmem_address_reserve((void**)&address, 2 * PART, 0, 0));
    hsa_amd_vmem_alloc_handle_t handles[2], kept;
    hsa_amd_memory_access_desc_t access[2] = {{HSA_ACCESS_PERMISSION_RW, gpu}, {HSA_ACCESS_PERMISSION_RW, cpu}};
    for (int i = 0; i < 2; i++) {
        GOOD(hsa_amd_vmem_handle_create(vram, PART, MEMORY_TYPE_NONE, 0, &handles[i]));
        GOOD(hsa_amd_vmem_map(address + i * PART, PART, 0, handles[i], 0));
        GOOD(hsa_amd_vmem_set_access(address + i * PART, PART, access, 2));
    }
    hsa_access_permission_t permission = HSA_ACCESS_PERMISSION_NONE;
    GOOD(hsa_amd_vmem_get_access(address, &permission, gpu));
    EQUAL(permission, HSA_ACCESS_PERMISSION_RW);
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(64);
    for (int i = 0; i < 2; i++) {
        struct {
            uint64_t address;
            uint32_t value;
        } values = {(uint64_t)(uintptr_t)(address + i * PART + 512), (uint32_t)(500 + i)};
        run(queue, find(executable, "store_at"), arguments_of(&values, sizeof values), 1, 64);
        EQUAL(*(volatile uint32_t*)(address + i * PART + 512), 500 + i);
    }
    GOOD(hsa_amd_vmem_retain_alloc_handle(&kept, address));
    GOOD(hsa_amd_vmem_handle_release(kept));
    // Exchanged, they keep what is in them.
    for (int i = 0; i < 2; i++)
        GOOD(hsa_amd_vmem_unmap(address + i * PART, PART));
    for (int i = 0; i < 2; i++) {
        GOOD(hsa_amd_vmem_map(address + i * PART, PART, 0, handles[1 - i], 0));
        GOOD(hsa_amd_vmem_set_access(address + i * PART, PART, access, 2));
        EQUAL(*(volatile uint32_t*)(address + i * PART + 512), 501 - i);
    }
    for (int i = 0; i < 2; i++) {
        GOOD(hsa_amd_vmem_unmap(address + i * PART, PART));
        GOOD(hsa_amd_vmem_handle_release(handles[i]));
    }
    GOOD(hsa_amd_vmem_address_free(address, 2 * PART));
}

CASE(vram_is_all_there_again) {
    start();
    uint64_t before = 0, after = 0;
    GOOD(hsa_agent_get_info(gpu, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_MEMORY_AVAIL, &before));
    for (int round = 0; round < 20; round++)
        give_back(allocate(vram, 64 << 20));
    GOOD(hsa_agent_get_info(gpu, (hsa_agent_info_t)HSA_AMD_AGENT_INFO_MEMORY_AVAIL, &after));
    EQUAL(after, before);
}

CASE(refused_memory) {
    start();
    void* memory = NULL;
    hsa_amd_memory_pool_t none = {0};
    hsa_signal_t signal = make_signal(1);
    GIVES(hsa_amd_memory_pool_allocate(vram, 0, 0, &memory), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_amd_memory_pool_allocate(vram, PAGE, 0, NULL), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_amd_memory_pool_allocate(none, PAGE, 0, &memory), HSA_STATUS_ERROR_INVALID_MEMORY_POOL);
    REFUSED(hsa_amd_memory_pool_allocate(vram, (size_t)1 << 45, 0, &memory));
    GIVES(hsa_amd_memory_async_copy(NULL, gpu, NULL, cpu, PAGE, 0, NULL, signal), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_amd_memory_lock(NULL, PAGE, NULL, 0, &memory), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_memory_copy(NULL, NULL, PAGE), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    REFUSED(hsa_amd_memory_pool_free(&memory));
}
