// Vulkan's buffers and dispatches: what commands and shaders do with memory.
#include "vk_cases.h"

#include "shaders.inc"

SHADER(sum)
SHADER(scale)
SHADER(pushed)
SHADER(sized)
SHADER(linked)
SHADER(texels)
SHADER(beyond)
SHADER(places)
SHADER(groups)
SHADER(step)

enum { COUNT = 10240, BYTES = COUNT * 4 };

CASE(fill_update_and_copy) {
    open_device();
    uint32_t* want = noise(COUNT, 1);
    struct buffer first = host_buffer(BYTES, want), second = host_buffer(BYTES, NULL);
    VkBufferCopy parts[] = {{0, 0, BYTES / 2}, {BYTES / 2 + 4, BYTES / 2, 1004}, {9, BYTES - 3003, 3003}};
    VkCommandBuffer commands = begin();
    vkCmdCopyBuffer(commands, first.handle, second.handle, 3, parts);
    barrier(commands);
    vkCmdFillBuffer(commands, second.handle, 400, 4000, 0xfeedface);
    vkCmdUpdateBuffer(commands, second.handle, 8000, 1000, want + 2000);
    finish(commands);
    uint8_t* bytes = calloc(1, BYTES);
    const uint8_t* from = (const uint8_t*)want;
    for (int i = 0; i < 3; i++) memcpy(bytes + parts[i].dstOffset, from + parts[i].srcOffset, parts[i].size);
    for (int i = 400; i < 4400; i += 4) memcpy(bytes + i, &(uint32_t){0xfeedface}, 4);
    memcpy(bytes + 8000, from + 8000, 1000);
    SAME((uint8_t*)second.at, bytes, BYTES);
    free_buffer(first);
    free_buffer(second);
    close_device();
}

CASE(storage_buffers) {
    open_device();
    uint32_t *a = noise(COUNT, 2), *b = noise(COUNT, 3);
    struct buffer in = host_buffer(BYTES, a), other = host_buffer(BYTES, b), out = host_buffer(BYTES, NULL);
    struct kernel kernel = KERNEL(sum, 3, 0);
    bind(&kernel, 0, in);
    bind(&kernel, 1, other);
    bind(&kernel, 2, out);
    run(&kernel, NULL, COUNT / 64);
    for (int i = 0; i < COUNT; i++) a[i] += b[i];
    SAME((uint32_t*)out.at, a, COUNT);
    free_kernel(kernel);
    close_device();
}

CASE(parts_of_buffers_and_their_length) {
    open_device();
    uint32_t *a = noise(COUNT, 4), *want = calloc(4, COUNT);
    struct buffer in = host_buffer(BYTES, a), out = host_buffer(BYTES, NULL);
    struct kernel kernel = KERNEL(sum, 3, 0);
    bind_part(&kernel, 0, in, 1024, 4096);
    bind_part(&kernel, 1, in, 8192, 4096);
    // More work-items than elements: the length keeps them out.
    bind_part(&kernel, 2, out, 256, 1000 * 4);
    run(&kernel, NULL, 16);
    for (int i = 0; i < 1000; i++) want[64 + i] = a[256 + i] + a[2048 + i];
    SAME((uint32_t*)out.at, want, COUNT);
    close_device();
}

CASE(uniform_buffer) {
    open_device();
    uint32_t *words = noise(COUNT, 5), *factors = noise(16, 6);
    struct buffer constants = host_buffer(64, factors), out = host_buffer(BYTES, words);
    VkDescriptorType kinds[] = {VK_DESCRIPTOR_TYPE_UNIFORM_BUFFER, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER};
    struct kernel kernel = KERNEL_WITH(scale, 2, 0, .kinds = kinds);
    bind(&kernel, 0, constants);
    bind(&kernel, 1, out);
    run(&kernel, NULL, COUNT / 64);
    for (int i = 0; i < COUNT; i++) words[i] = words[i] * factors[i % 16] + factors[15];
    SAME((uint32_t*)out.at, words, COUNT);
    close_device();
}

CASE(push_constants) {
    open_device();
    uint32_t *words = noise(COUNT, 7), *push = noise(18, 8);
    struct buffer out = host_buffer(BYTES, words);
    struct kernel kernel = KERNEL(pushed, 1, 72);
    bind(&kernel, 0, out);
    VkCommandBuffer commands = begin();
    use(commands, &kernel, push);
    vkCmdDispatch(commands, COUNT / 64, 1, 1);
    barrier(commands);
    // A part of them changes.
    uint32_t add = 1000;
    vkCmdPushConstants(commands, kernel.layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, 4, &add);
    vkCmdDispatch(commands, COUNT / 128, 1, 1);
    finish(commands);
    for (int i = 0; i < COUNT; i++) {
        uint32_t each = push[1 + i / 64 % 15];
        words[i] += push[0] + each + push[17];
        if (i < COUNT / 2) words[i] += add + each + push[17];
    }
    SAME((uint32_t*)out.at, words, COUNT);
    close_device();
}

CASE(specialisation) {
    open_device();
    struct buffer out = host_buffer(BYTES, NULL);
    static const VkSpecializationMapEntry entries[] = {{0, 0, 4}, {1, 4, 4}, {2, 8, 4}, {3, 12, 4}};
    static const uint32_t rows[][4] = {{64, 1, 5, 0}, {7, 9, 0x10000, 1}, {1, 1, 3, 0}, {32, 32, 9, 1}};
    for (int row = 0; row < 4; row++) {
        const uint32_t* values = rows[row];
        VkSpecializationInfo constants = {4, entries, sizeof rows[row], values};
        struct kernel kernel = KERNEL_WITH(sized, 1, 0, .constants = &constants);
        bind(&kernel, 0, out);
        memset(out.at, 0, BYTES);
        run(&kernel, NULL, 3);
        uint32_t value = values[2] + values[0] * 1000 + values[1], count = values[0] * values[1] * 3;
        if (values[3]) value = ~value;
        for (uint32_t i = 0; i < COUNT; i++)
            CHECK(((uint32_t*)out.at)[i] == (i < count ? value : 0), "row %d, word %u is %#x", row, i,
                  ((uint32_t*)out.at)[i]);
        free_kernel(kernel);
    }
    close_device();
}

CASE(addresses_of_buffers) {
    open_device();
    CHECK(vk12.bufferDeviceAddress, "buffers have no addresses");
    struct node {
        uint64_t next;
        uint32_t value, pad;
    };
    enum { NODES = 5 };
    struct buffer nodes[NODES], sums = host_buffer(64 * 4, NULL);
    for (int i = 0; i < NODES; i++) nodes[i] = make_buffer(4096, HOST);
    uint32_t total = 0;
    for (int i = 0; i < NODES; i++) {
        uint64_t next = i + 1 < NODES ? address_of(nodes[i + 1]) + 16 * i : 0;
        struct node node = {next, 100u + i * i, 0};
        memcpy((char*)nodes[i].at + (i ? 16 * (i - 1) : 0), &node, sizeof node);
        total += node.value;
    }
    struct kernel kernel = KERNEL(linked, 1, 8);
    bind(&kernel, 0, sums);
    uint64_t first = address_of(nodes[0]);
    run(&kernel, &first, 1);
    for (uint32_t i = 0; i < 64; i++) EQUAL(((uint32_t*)sums.at)[i], total * (i + 1) + NODES);
    close_device();
}

CASE(texel_buffers) {
    open_device();
    uint32_t* words = noise(COUNT, 9);
    struct buffer in = host_buffer(BYTES, words), out = host_buffer(BYTES, NULL);
    VkDescriptorType kinds[] = {VK_DESCRIPTOR_TYPE_UNIFORM_TEXEL_BUFFER, VK_DESCRIPTOR_TYPE_STORAGE_TEXEL_BUFFER};
    struct kernel kernel = KERNEL_WITH(texels, 2, 0, .kinds = kinds);
    VkFormat formats[] = {VK_FORMAT_R8G8B8A8_UNORM, VK_FORMAT_R32_UINT};
    struct buffer* buffers[] = {&in, &out};
    VkBufferView views[2];
    for (uint32_t i = 0; i < 2; i++) {
        VkBufferViewCreateInfo info = {
            .sType = VK_STRUCTURE_TYPE_BUFFER_VIEW_CREATE_INFO,
            .buffer = buffers[i]->handle,
            .format = formats[i],
            .range = VK_WHOLE_SIZE,
        };
        VK(vkCreateBufferView(device, &info, NULL, &views[i]));
        VkWriteDescriptorSet write = {
            .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
            .dstSet = kernel.set,
            .dstBinding = i,
            .descriptorCount = 1,
            .descriptorType = kinds[i],
            .pTexelBufferView = &views[i],
        };
        vkUpdateDescriptorSets(device, 1, &write, 0, NULL);
    }
    run(&kernel, NULL, COUNT / 64);
    // A byte is a whole number of 255ths, so that rounding changes nothing but the last bit of a product.
    for (int i = 0; i < BYTES; i++) {
        int got = ((uint8_t*)out.at)[i], want = ((uint8_t*)words)[i];
        CHECK(got == want || got == want - 1, "byte %d is %d, not %d", i, got, want);
    }
    for (int i = 0; i < 2; i++) vkDestroyBufferView(device, views[i], NULL);
    close_device();
}

CASE(access_beyond_a_buffer_is_bounded) {
    open_device();
    CHECK(features.features.robustBufferAccess, "accesses are not bounded");
    struct buffer words = make_buffer(4096, HOST), out = host_buffer(1024 * 4, NULL);
    memset(words.at, 0x11, 4096);
    memset(out.at, 0xff, 4096);
    struct kernel kernel = KERNEL(beyond, 2, 0);
    bind_part(&kernel, 0, words, 0, 1000);
    bind(&kernel, 1, out);
    run(&kernel, NULL, 16);
    for (int i = 0; i < 1024; i++) {
        bool inside = i < 250;
        EQUAL(((uint32_t*)out.at)[i], inside ? 0x11111111 : 0);
        EQUAL(((uint32_t*)words.at)[i], inside ? 77 : 0x11111111);
    }
    close_device();
}

CASE(three_dimensions) {
    open_device();
    enum { X = 4 * 5, Y = 2 * 7, Z = 2 * 3 };
    struct buffer out = host_buffer(X * Y * Z * 4, NULL);
    struct kernel kernel = KERNEL(places, 1, 8);
    bind(&kernel, 0, out);
    uint32_t sizes[] = {X, Y};
    VkCommandBuffer commands = begin();
    use(commands, &kernel, sizes);
    vkCmdDispatch(commands, 5, 7, 3);
    finish(commands);
    for (uint32_t z = 0; z < Z; z++)
        for (uint32_t y = 0; y < Y; y++)
            for (uint32_t x = 0; x < X; x++) {
                uint32_t local = x % 4 + y % 2 * 4 + z % 2 * 8;
                EQUAL(((uint32_t*)out.at)[(z * Y + y) * X + x], 1 + x + (y << 8) + (z << 16) + (local << 24));
            }
    close_device();
}

CASE(dispatch_from_a_base) {
    open_device();
    enum { X = 4 * 5, Y = 2 * 7, Z = 2 * 3 };
    struct buffer out = host_buffer(X * Y * Z * 4, NULL);
    struct kernel kernel = KERNEL(places, 1, 8);
    bind(&kernel, 0, out);
    uint32_t sizes[] = {X, Y};
    VkCommandBuffer commands = begin();
    use(commands, &kernel, sizes);
    vkCmdDispatchBase(commands, 2, 3, 1, 3, 2, 2);
    finish(commands);
    for (uint32_t z = 0; z < Z; z++)
        for (uint32_t y = 0; y < Y; y++)
            for (uint32_t x = 0; x < X; x++) {
                bool runs = x >= 8 && y >= 6 && y < 10 && z >= 2;
                uint32_t local = x % 4 + y % 2 * 4 + z % 2 * 8;
                uint32_t want = runs ? 1 + x + (y << 8) + (z << 16) + (local << 24) : 0;
                EQUAL(((uint32_t*)out.at)[(z * Y + y) * X + x], want);
            }
    close_device();
}

// Looks at what the shader `groups` has written for so many workgroups.
static void check_groups(const uint32_t* words, uint32_t x, uint32_t y, uint32_t z) {
    for (uint32_t i = 0; i < x * y * z * 32; i++) {
        EQUAL(words[i * 4], x);
        EQUAL(words[i * 4 + 1], y);
        EQUAL(words[i * 4 + 2], z);
        EQUAL(words[i * 4 + 3], i / 32 + 1);
    }
    EQUAL(words[x * y * z * 32 * 4], 0);
}

CASE(indirect_dispatch) {
    open_device();
    struct buffer out = host_buffer(65536, NULL);
    uint32_t list[] = {9, 9, 9, 3, 2, 4, 9};
    struct buffer sizes = host_buffer(sizeof list, list);
    struct kernel kernel = KERNEL(groups, 1, 0);
    bind(&kernel, 0, out);
    VkCommandBuffer commands = begin();
    use(commands, &kernel, NULL);
    vkCmdDispatchIndirect(commands, sizes.handle, 12);
    finish(commands);
    check_groups(out.at, 3, 2, 4);
    // A dispatch whose size the GPU itself has written, and one of none.
    memset(out.at, 0, 65536);
    commands = begin();
    vkCmdUpdateBuffer(commands, sizes.handle, 0, 12, (uint32_t[]){5, 1, 2});
    vkCmdUpdateBuffer(commands, sizes.handle, 12, 12, (uint32_t[]){1, 0, 1});
    barrier(commands);
    use(commands, &kernel, NULL);
    vkCmdDispatchIndirect(commands, sizes.handle, 0);
    vkCmdDispatchIndirect(commands, sizes.handle, 12);
    finish(commands);
    check_groups(out.at, 5, 1, 2);
    close_device();
}

CASE(number_of_workgroups) {
    open_device();
    struct buffer out = host_buffer(65536, NULL);
    struct kernel kernel = KERNEL(groups, 1, 0);
    bind(&kernel, 0, out);
    VkCommandBuffer commands = begin();
    use(commands, &kernel, NULL);
    vkCmdDispatch(commands, 7, 3, 2);
    finish(commands);
    check_groups(out.at, 7, 3, 2);
    close_device();
}

CASE(dispatches_in_order) {
    open_device();
    uint32_t* words = noise(COUNT, 10);
    struct buffer out = host_buffer(BYTES, words);
    struct kernel kernel = KERNEL(step, 1, 4);
    bind(&kernel, 0, out);
    VkCommandBuffer commands = begin();
    for (uint32_t add = 1; add <= 20; add++) {
        use(commands, &kernel, &add);
        vkCmdDispatch(commands, COUNT / 64, 1, 1);
        barrier(commands);
        for (int i = 0; i < COUNT; i++) words[i] = words[i] * 5 + add;
    }
    finish(commands);
    SAME((uint32_t*)out.at, words, COUNT);
    close_device();
}

CASE(memory_of_the_device_alone) {
    open_device();
    uint32_t* words = noise(COUNT, 11);
    struct buffer in = host_buffer(BYTES, words), out = host_buffer(BYTES, NULL), local = make_buffer(BYTES, LOCAL);
    struct kernel kernel = KERNEL(step, 1, 4);
    bind(&kernel, 0, local);
    uint32_t add = 3;
    VkBufferCopy all = {0, 0, BYTES};
    VkCommandBuffer commands = begin();
    vkCmdCopyBuffer(commands, in.handle, local.handle, 1, &all);
    barrier(commands);
    use(commands, &kernel, &add);
    vkCmdDispatch(commands, COUNT / 64, 1, 1);
    barrier(commands);
    vkCmdCopyBuffer(commands, local.handle, out.handle, 1, &all);
    finish(commands);
    for (int i = 0; i < COUNT; i++) words[i] = words[i] * 5 + 3;
    SAME((uint32_t*)out.at, words, COUNT);
    close_device();
}

CASE(memory_of_every_type) {
    open_device();
    struct kernel kernel = KERNEL(step, 1, 4);
    for (uint32_t type = 0; type < memories.memoryTypeCount; type++) {
        VkMemoryPropertyFlags kind = memories.memoryTypes[type].propertyFlags;
        if ((kind & HOST) != HOST || kind & VK_MEMORY_PROPERTY_DEVICE_COHERENT_BIT_AMD) continue;
        VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = BYTES, .usage = ANY_USE};
        struct buffer made = {.size = BYTES};
        VK(vkCreateBuffer(device, &info, NULL, &made.handle));
        VkMemoryRequirements needs;
        vkGetBufferMemoryRequirements(device, made.handle, &needs);
        needs.memoryTypeBits &= 1u << type;
        if (!needs.memoryTypeBits) continue;
        made.memory = allocate(needs, kind);
        VK(vkBindBufferMemory(device, made.handle, made.memory, 0));
        VK(vkMapMemory(device, made.memory, 0, VK_WHOLE_SIZE, 0, &made.at));
        uint32_t* words = noise(COUNT, type);
        memcpy(made.at, words, BYTES);
        bind(&kernel, 0, made);
        run(&kernel, &type, COUNT / 64);
        for (int i = 0; i < COUNT; i++) words[i] = words[i] * 5 + type;
        SAME((uint32_t*)made.at, words, COUNT);
        free_buffer(made);
    }
    close_device();
}
