// Code objects, and kernels of every shape on a queue.
#include "hsa_cases.h"

CASE(kernel_of_one_dimension) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(256);
    uint32_t* out = (uint32_t*)allocate(fine, 1024 * 4);
    struct {
        uint32_t* out;
        uint32_t first;
    } values = {out, 7};
    run(queue, find(executable, "squares"), arguments_of(&values, sizeof values), 1024, 64);
    for (uint32_t at = 0; at < 1024; at++)
        EQUAL(out[at], 7 + at * at);
    GOOD(hsa_queue_destroy(queue));
    GOOD(hsa_executable_destroy(executable));
    give_back(out);
    GOOD(hsa_shut_down());
}

CASE(kernel_on_a_part_of_a_group) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(256);
    uint32_t* out = (uint32_t*)allocate(fine, 1024 * 4);
    struct {
        uint32_t* out;
        uint32_t first;
    } values = {out, 1};
    run(queue, find(executable, "squares"), arguments_of(&values, sizeof values), 1000, 64);
    for (uint32_t at = 0; at < 1024; at++)
        EQUAL(out[at], at < 1000 ? 1 + at * at : 0);
}

// Runs `places` over a grid and checks each place.
static void check_places(uint16_t dimensions, uint32_t width, uint32_t height, uint32_t depth) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(256);
    uint32_t* out = (uint32_t*)allocate(fine, width * height * depth * 4);
    memset(out, 0xff, width * height * depth * 4);
    struct {
        uint32_t* out;
        uint32_t width, height;
    } values = {out, width, height};
    hsa_signal_t signal = make_signal(1);
    hsa_kernel_dispatch_packet_t packet =
        packet_of(find(executable, "places"), arguments_of(&values, sizeof values), width, 4, signal);
    packet.setup = dimensions;
    packet.grid_size_y = height;
    packet.grid_size_z = depth;
    packet.workgroup_size_y = dimensions > 1 ? 4 : 1;
    packet.workgroup_size_z = dimensions > 2 ? 4 : 1;
    put(queue, &packet, HSA_PACKET_TYPE_KERNEL_DISPATCH, 0, true);
    wait_for(signal, 0);
    for (uint32_t z = 0; z < depth; z++)
        for (uint32_t y = 0; y < height; y++)
            for (uint32_t x = 0; x < width; x++)
                EQUAL(out[(z * height + y) * width + x], z << 16 | y << 8 | x);
}

CASE(grid_of_one_dimension) {
    check_places(1, 36, 1, 1);
}

CASE(grid_of_two_dimensions) {
    check_places(2, 20, 13, 1);
}

CASE(grid_of_three_dimensions) {
    check_places(3, 12, 9, 6);
}

CASE(memory_of_the_group) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(256);
    uint32_t *in = (uint32_t*)allocate(fine, 4096), *out = (uint32_t*)allocate(vram, 4096);
    fill_noise(in, 1024, 3);
    uint32_t* values[2] = {out, in};
    struct kernel kernel = find(executable, "reverse");
    EQUAL(kernel.group, 1024);
    run(queue, kernel, arguments_of(values, sizeof values), 1024, 256);
    for (uint32_t at = 0; at < 1024; at++)
        EQUAL(out[at], in[(at & ~255u) + 255 - at % 256]);
}

CASE(memory_of_the_group_that_the_packet_asks_for) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(256);
    uint32_t *in = (uint32_t*)allocate(fine, 4096), *out = (uint32_t*)allocate(fine, 4096);
    fill_noise(in, 1024, 4);
    struct {
        uint32_t *out, *in;
        uint32_t group;
    } values = {out, in, 256};
    struct kernel kernel = find(executable, "reverse_in");
    EQUAL(kernel.group, 0);
    kernel.group = 2048;
    run(queue, kernel, arguments_of(&values, sizeof values), 1024, 256);
    for (uint32_t at = 0; at < 1024; at++)
        EQUAL(out[at], in[(at & ~255u) + 255 - at % 256]);
}

CASE(memory_of_the_work_item) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(256);
    enum { ITEMS = 4096, SEED = 12345 };
    uint32_t* out = (uint32_t*)allocate(fine, ITEMS * 4);
    struct {
        uint32_t* out;
        uint32_t seed;
    } values = {out, SEED};
    struct kernel kernel = find(executable, "private_sums");
    CHECK(kernel.private >= 1024, "%u bytes", kernel.private);
    run(queue, kernel, arguments_of(&values, sizeof values), ITEMS, 64);
    for (uint32_t id = 0; id < ITEMS; id++) {
        uint32_t array[256], sum = 0;
        for (uint32_t at = 0; at < 256; at++)
            array[(at * 7 + id) % 256] = at * SEED + id;
        for (uint32_t at = 0; at < 256; at++)
            sum = sum * 31 + array[at];
        EQUAL(out[id], sum);
    }
}

CASE(variable_of_the_program_is_found_and_kept) {
    start();
    hsa_executable_t executable = load();
    hsa_queue_t* queue = make_queue(256);
    hsa_executable_symbol_t symbol;
    hsa_symbol_kind_t kind;
    uint64_t address = 0;
    uint32_t size = 0, *out = (uint32_t*)allocate(fine, PAGE), values[64];
    static const uint32_t primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
    GOOD(hsa_executable_get_symbol_by_name(executable, "table", &gpu, &symbol));
    GOOD(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_TYPE, &kind));
    GOOD(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_ADDRESS, &address));
    GOOD(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_VARIABLE_SIZE, &size));
    EQUAL(kind, HSA_SYMBOL_KIND_VARIABLE);
    EQUAL(size, sizeof values);
    fill_noise(values, 64, 5);
    GOOD(hsa_memory_copy((void*)(uintptr_t)address, values, sizeof values));
    run(queue, find(executable, "use_table"), arguments_of(&out, sizeof out), 64, 64);
    for (uint32_t at = 0; at < 64; at++)
        EQUAL(out[at], values[at] + primes[at % 8]);
    GOOD(hsa_memory_copy(values, (void*)(uintptr_t)address, sizeof values));
    for (uint32_t at = 0; at < 64; at++)
        EQUAL(values[at], (uint32_t)(out[at] * 2));
}

static hsa_status_t count_symbol(hsa_executable_t executable, hsa_agent_t agent, hsa_executable_symbol_t symbol, void* counts) {
    (void)executable;
    (void)agent;
    hsa_symbol_kind_t kind;
    GOOD(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_TYPE, &kind));
    ((unsigned*)counts)[kind == HSA_SYMBOL_KIND_KERNEL]++;
    return HSA_STATUS_SUCCESS;
}

CASE(symbols_are_listed_and_described) {
    start();
    hsa_executable_t executable = load();
    unsigned counts[2] = {0, 0};
    GOOD(hsa_executable_iterate_agent_symbols(executable, gpu, count_symbol, counts));
    EQUAL(counts[1], 11);
    CHECK(counts[0] >= 1, "%u variables", counts[0]);
    hsa_executable_symbol_t symbol;
    char name[64] = "";
    uint32_t length = 0, alignment = 0;
    hsa_agent_t agent = {0};
    GOOD(hsa_executable_get_symbol_by_name(executable, "squares.kd", &gpu, &symbol));
    GOOD(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME_LENGTH, &length));
    GOOD(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_NAME, name));
    GOOD(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_AGENT, &agent));
    GOOD(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_KERNARG_SEGMENT_ALIGNMENT, &alignment));
    EQUAL(length, strlen("squares.kd"));
    CHECK(memcmp(name, "squares.kd", length) == 0, "it is %s", name);
    EQUAL(agent.handle, gpu.handle);
    CHECK(alignment >= 8, "aligned to %u", alignment);
}

CASE(executable_has_its_states) {
    start();
    hsa_code_object_reader_t reader;
    hsa_executable_t executable;
    hsa_executable_state_t state;
    hsa_profile_t profile;
    uint32_t valid = 1;
    GOOD(hsa_code_object_reader_create_from_memory(kernels_begin, (size_t)(kernels_end - kernels_begin), &reader));
    GOOD(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &executable));
    GOOD(hsa_executable_get_info(executable, HSA_EXECUTABLE_INFO_STATE, &state));
    EQUAL(state, HSA_EXECUTABLE_STATE_UNFROZEN);
    GOOD(hsa_executable_load_agent_code_object(executable, gpu, reader, NULL, NULL));
    GOOD(hsa_executable_freeze(executable, NULL));
    GOOD(hsa_executable_get_info(executable, HSA_EXECUTABLE_INFO_STATE, &state));
    GOOD(hsa_executable_get_info(executable, HSA_EXECUTABLE_INFO_PROFILE, &profile));
    EQUAL(state, HSA_EXECUTABLE_STATE_FROZEN);
    EQUAL(profile, HSA_PROFILE_FULL);
    GOOD(hsa_executable_validate(executable, &valid));
    EQUAL(valid, 0);
    GIVES(hsa_executable_load_agent_code_object(executable, gpu, reader, NULL, NULL), HSA_STATUS_ERROR_FROZEN_EXECUTABLE);
    GIVES(hsa_executable_freeze(executable, NULL), HSA_STATUS_ERROR_FROZEN_EXECUTABLE);
    GOOD(hsa_executable_destroy(executable));
    GOOD(hsa_code_object_reader_destroy(reader));
}

CASE(code_object_comes_from_a_file) {
    start();
    FILE* file = tmpfile();
    size_t size = (size_t)(kernels_end - kernels_begin);
    CHECK(file && fwrite(kernels_begin, 1, size, file) == size && fflush(file) == 0, "the file cannot be written");
    hsa_code_object_reader_t reader;
    hsa_executable_t executable;
    GOOD(hsa_code_object_reader_create_from_file(fileno(file), &reader));
    GOOD(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &executable));
    GOOD(hsa_executable_load_agent_code_object(executable, gpu, reader, NULL, NULL));
    GOOD(hsa_executable_freeze(executable, NULL));
    hsa_queue_t* queue = make_queue(64);
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    run(queue, find(executable, "count"), arguments_of(&counter, sizeof counter), 640, 64);
    EQUAL(*counter, 640);
}

CASE(code_object_is_loaded_twice) {
    start();
    hsa_executable_t one = load(), two = load();
    hsa_queue_t* queue = make_queue(64);
    CHECK(find(one, "count").object != find(two, "count").object, "they are one");
    uint32_t* counter = (uint32_t*)allocate(fine, PAGE);
    run(queue, find(one, "count"), arguments_of(&counter, sizeof counter), 64, 64);
    GOOD(hsa_executable_destroy(one));
    run(queue, find(two, "count"), arguments_of(&counter, sizeof counter), 64, 64);
    EQUAL(*counter, 128);
}

CASE(refused_code_objects) {
    start();
    hsa_executable_t executable = load();
    hsa_executable_symbol_t symbol;
    hsa_code_object_reader_t reader;
    GIVES(hsa_executable_get_symbol_by_name(executable, "nothing.kd", &gpu, &symbol), HSA_STATUS_ERROR_INVALID_SYMBOL_NAME);
    GIVES(hsa_executable_get_symbol_by_name(executable, NULL, &gpu, &symbol), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_code_object_reader_create_from_memory(NULL, 5, &reader), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    GIVES(hsa_code_object_reader_create_from_memory(kernels_begin, 0, &reader), HSA_STATUS_ERROR_INVALID_ARGUMENT);
    static char nonsense[4096];
    hsa_executable_t empty;
    GOOD(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &empty));
    if (hsa_code_object_reader_create_from_memory(nonsense, sizeof nonsense, &reader) == HSA_STATUS_SUCCESS)
        REFUSED(hsa_executable_load_agent_code_object(empty, gpu, reader, NULL, NULL));
    hsa_executable_t none = {0};
    REFUSED(hsa_executable_freeze(none, NULL));
}
