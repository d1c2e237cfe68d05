// Vulkan's images: loads, stores and atomics of texels, in all dimensions and layouts, and copies between images and buffers.
#include "vk_cases.h"

#include "shaders.inc"

SHADER(flip_1d)
SHADER(flip_1d_array)
SHADER(flip_2d)
SHADER(flip_2d_array)
SHADER(flip_3d)
SHADER(flip_cube)
SHADER(mirror_floats)
SHADER(mirror_unsigned)
SHADER(mirror_signed)
SHADER(add_to_texels)
SHADER(beyond)
SHADER(sizes)
SHADER(fetched)

// A device without a ring for graphics has no image instructions for Mesa, unless this says so.
__attribute__((constructor)) static void turn_images_on(void) { setenv("AMD_IMAGE_OPCODES", "1", 1); }

enum {
    USES = VK_IMAGE_USAGE_TRANSFER_SRC_BIT | VK_IMAGE_USAGE_TRANSFER_DST_BIT | VK_IMAGE_USAGE_STORAGE_BIT |
           VK_IMAGE_USAGE_SAMPLED_BIT,
};

struct image {
    VkImage handle;
    VkDeviceMemory memory;
    VkImageViewType kind;
    VkFormat format;
    VkExtent3D size;
    uint32_t layers, levels;
    VkImageView view;
};

static VkImageType type_of(VkImageViewType kind) {
    if (kind == VK_IMAGE_VIEW_TYPE_1D || kind == VK_IMAGE_VIEW_TYPE_1D_ARRAY) return VK_IMAGE_TYPE_1D;
    return kind == VK_IMAGE_VIEW_TYPE_3D ? VK_IMAGE_TYPE_3D : VK_IMAGE_TYPE_2D;
}

static VkImageView view_of(struct image image, uint32_t level, VkComponentMapping components) {
    VkImageViewCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_VIEW_CREATE_INFO,
        .image = image.handle,
        .viewType = image.kind,
        .format = image.format,
        .components = components,
        .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, level, 1, 0, image.layers},
    };
    VkImageView view;
    VK(vkCreateImageView(device, &info, NULL, &view));
    return view;
}

static struct image make_image(VkImageViewType kind, VkFormat format, VkExtent3D size, uint32_t layers, uint32_t levels,
                               VkImageTiling tiling) {
    struct image made = {.kind = kind, .format = format, .size = size, .layers = layers, .levels = levels};
    VkImageCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_CREATE_INFO,
        .flags = kind == VK_IMAGE_VIEW_TYPE_CUBE ? VK_IMAGE_CREATE_CUBE_COMPATIBLE_BIT : 0,
        .imageType = type_of(kind),
        .format = format,
        .extent = size,
        .mipLevels = levels,
        .arrayLayers = layers,
        .samples = VK_SAMPLE_COUNT_1_BIT,
        .tiling = tiling,
        .usage = USES,
    };
    VK(vkCreateImage(device, &info, NULL, &made.handle));
    VkMemoryRequirements needs;
    vkGetImageMemoryRequirements(device, made.handle, &needs);
    made.memory = allocate(needs, tiling == VK_IMAGE_TILING_LINEAR ? HOST : LOCAL);
    VK(vkBindImageMemory(device, made.handle, made.memory, 0));
    made.view = view_of(made, 0, (VkComponentMapping){0});
    return made;
}

static struct image two_dimensions(VkFormat format, uint32_t width, uint32_t height) {
    return make_image(VK_IMAGE_VIEW_TYPE_2D, format, (VkExtent3D){width, height, 1}, 1, 1, VK_IMAGE_TILING_OPTIMAL);
}

static void free_image(struct image image) {
    vkDestroyImageView(device, image.view, NULL);
    vkDestroyImage(device, image.handle, NULL);
    vkFreeMemory(device, image.memory, NULL);
}

static void bind_view(struct kernel* kernel, uint32_t at, VkImageView view) {
    VkDescriptorImageInfo part = {.imageView = view, .imageLayout = VK_IMAGE_LAYOUT_GENERAL};
    VkWriteDescriptorSet write = {
        .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
        .dstSet = kernel->set,
        .dstBinding = at,
        .descriptorCount = 1,
        .descriptorType = kernel->kinds[at],
        .pImageInfo = &part,
    };
    vkUpdateDescriptorSets(device, 1, &write, 0, NULL);
}

// All of an image may be used from here on.
static void begin_use(VkCommandBuffer commands, struct image image) {
    VkImageMemoryBarrier all = {
        .sType = VK_STRUCTURE_TYPE_IMAGE_MEMORY_BARRIER,
        .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
        .oldLayout = VK_IMAGE_LAYOUT_UNDEFINED,
        .newLayout = VK_IMAGE_LAYOUT_GENERAL,
        .srcQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
        .dstQueueFamilyIndex = VK_QUEUE_FAMILY_IGNORED,
        .image = image.handle,
        .subresourceRange = {VK_IMAGE_ASPECT_COLOR_BIT, 0, image.levels, 0, image.layers},
    };
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 0, 0, NULL, 0,
                         NULL, 1, &all);
}

static uint32_t at_level(uint32_t size, uint32_t level) { return size >> level ? size >> level : 1; }

static VkBufferImageCopy level_of(struct image image, uint32_t level) {
    return (VkBufferImageCopy){
        .imageSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, level, 0, image.layers},
        .imageExtent = {at_level(image.size.width, level), at_level(image.size.height, level),
                        at_level(image.size.depth, level)},
    };
}

static void upload(VkCommandBuffer commands, struct buffer from, struct image to, uint32_t level) {
    VkBufferImageCopy all = level_of(to, level);
    vkCmdCopyBufferToImage(commands, from.handle, to.handle, VK_IMAGE_LAYOUT_GENERAL, 1, &all);
    barrier(commands);
}

static void download(VkCommandBuffer commands, struct image from, struct buffer to, uint32_t level) {
    barrier(commands);
    VkBufferImageCopy all = level_of(from, level);
    vkCmdCopyImageToBuffer(commands, from.handle, VK_IMAGE_LAYOUT_GENERAL, to.handle, 1, &all);
}

// Dispatches a kernel for so many work-items.
static void cover(VkCommandBuffer commands, const struct kernel* kernel, const uint32_t size[3]) {
    use(commands, kernel, size);
    vkCmdDispatch(commands, (size[0] + 7) / 8, (size[1] + 3) / 4, (size[2] + 1) / 2);
}

static const VkDescriptorType TWO_IMAGES[] = {VK_DESCRIPTOR_TYPE_STORAGE_IMAGE, VK_DESCRIPTOR_TYPE_STORAGE_IMAGE};
static const VkDescriptorType IMAGE_AND_BUFFER[] = {VK_DESCRIPTOR_TYPE_STORAGE_IMAGE, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER};

static void flip_on_host(uint32_t* want, const uint32_t* words, const uint32_t size[3]) {
    uint32_t count = size[0] * size[1] * size[2];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t x = i % size[0], y = i / size[0] % size[1], z = i / size[0] / size[1];
        want[count - 1 - i] = words[i] * 3 + x + (y << 8) + (z << 16);
    }
}

// Runs a shader that flips an image; sizes are texels, and slices or layers.
static void flips(struct kernel kernel, VkImageViewType kind, const uint32_t size[3]) {
    uint32_t count = size[0] * size[1] * size[2];
    uint32_t *words = noise(count, count), *want = malloc(count * 4);
    flip_on_host(want, words, size);
    bool deep = kind == VK_IMAGE_VIEW_TYPE_3D;
    VkExtent3D extent = {size[0], size[1], deep ? size[2] : 1};
    struct image images[2];
    for (int i = 0; i < 2; i++) {
        images[i] = make_image(kind, VK_FORMAT_R32_UINT, extent, deep ? 1 : size[2], 1, VK_IMAGE_TILING_OPTIMAL);
        bind_view(&kernel, i, images[i].view);
    }
    struct buffer in = host_buffer(count * 4, words), out = host_buffer(count * 4, NULL);
    VkCommandBuffer commands = begin();
    for (int i = 0; i < 2; i++) begin_use(commands, images[i]);
    upload(commands, in, images[0], 0);
    cover(commands, &kernel, size);
    download(commands, images[1], out, 0);
    finish(commands);
    SAME((uint32_t*)out.at, want, count);
    for (int i = 0; i < 2; i++) free_image(images[i]);
    free_buffer(in);
    free_buffer(out);
    free(words);
    free(want);
}

#define FLIPS(kernel, kind, ...)                                                                          \
    do {                                                                                                  \
        static const uint32_t sizes[][3] = {__VA_ARGS__};                                                 \
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)                                         \
            flips(KERNEL_WITH(kernel, 2, 12, .kinds = TWO_IMAGES), VK_IMAGE_VIEW_TYPE_##kind, sizes[i]);  \
    } while (0)

CASE(texels_of_one_dimension) {
    open_device();
    FLIPS(flip_1d, 1D, {1, 1, 1}, {77, 1, 1}, {4000, 1, 1});
    close_device();
}

CASE(texels_of_lines) {
    open_device();
    FLIPS(flip_1d_array, 1D_ARRAY, {77, 1, 3}, {1000, 1, 20});
    close_device();
}

CASE(texels_of_two_dimensions) {
    open_device();
    FLIPS(flip_2d, 2D, {1, 1, 1}, {7, 5, 1}, {100, 37, 1}, {300, 200, 1});
    close_device();
}

CASE(texels_of_layers) {
    open_device();
    FLIPS(flip_2d_array, 2D_ARRAY, {9, 9, 4}, {130, 70, 3});
    close_device();
}

CASE(texels_of_three_dimensions) {
    open_device();
    FLIPS(flip_3d, 3D, {3, 3, 3}, {20, 30, 10}, {65, 40, 33});
    close_device();
}

CASE(texels_of_a_cube) {
    open_device();
    FLIPS(flip_cube, CUBE, {16, 16, 6}, {100, 100, 6});
    close_device();
}

CASE(rows_of_a_linear_image) {
    open_device();
    enum { WIDTH = 100, HEIGHT = 40 };
    uint32_t size[] = {WIDTH, HEIGHT, 1}, *words = noise(WIDTH * HEIGHT, 1), *want = malloc(WIDTH * HEIGHT * 4);
    flip_on_host(want, words, size);
    struct kernel kernel = KERNEL_WITH(flip_2d, 2, 12, .kinds = TWO_IMAGES);
    struct image images[2];
    char* rows[2];
    VkDeviceSize pitch = 0;
    VkCommandBuffer commands = begin();
    for (int i = 0; i < 2; i++) {
        images[i] = make_image(VK_IMAGE_VIEW_TYPE_2D, VK_FORMAT_R32_UINT, (VkExtent3D){WIDTH, HEIGHT, 1}, 1, 1,
                               VK_IMAGE_TILING_LINEAR);
        bind_view(&kernel, i, images[i].view);
        void* at;
        VK(vkMapMemory(device, images[i].memory, 0, VK_WHOLE_SIZE, 0, &at));
        VkSubresourceLayout layout;
        vkGetImageSubresourceLayout(device, images[i].handle, &(VkImageSubresource){VK_IMAGE_ASPECT_COLOR_BIT, 0, 0}, &layout);
        rows[i] = (char*)at + layout.offset;
        pitch = layout.rowPitch;
        begin_use(commands, images[i]);
    }
    CHECK(pitch >= WIDTH * 4, "rows of %llu bytes", (unsigned long long)pitch);
    for (int y = 0; y < HEIGHT; y++) memcpy(rows[0] + y * pitch, words + y * WIDTH, WIDTH * 4);
    cover(commands, &kernel, size);
    finish(commands);
    for (int y = 0; y < HEIGHT; y++) SAME((uint32_t*)(rows[1] + y * pitch), want + y * WIDTH, WIDTH);
    close_device();
}

// Bits that are left out, so that every texel of a format is a number that a load and a store give back.
struct format {
    VkFormat format;
    uint32_t bytes, cleared;
};

// Mirrors images of formats, whose texels come back as they were.
static void mirrors(struct kernel kernel, const struct format* formats, int count) {
    enum { WIDTH = 70, HEIGHT = 33 };
    for (int i = 0; i < count; i++) {
        uint32_t bytes = WIDTH * HEIGHT * formats[i].bytes, words = (bytes + 3) / 4;
        uint32_t* texels = noise(words, formats[i].format);
        for (uint32_t n = 0; n < words; n++) texels[n] &= ~formats[i].cleared;
        struct image images[2];
        struct buffer in = host_buffer(words * 4, texels), out = host_buffer(words * 4, NULL);
        VkCommandBuffer commands = begin();
        for (int n = 0; n < 2; n++) {
            images[n] = two_dimensions(formats[i].format, WIDTH, HEIGHT);
            bind_view(&kernel, n, images[n].view);
            begin_use(commands, images[n]);
        }
        upload(commands, in, images[0], 0);
        cover(commands, &kernel, (uint32_t[]){WIDTH, HEIGHT, 1});
        download(commands, images[1], out, 0);
        finish(commands);
        for (uint32_t texel = 0; texel < WIDTH * HEIGHT; texel++) {
            uint32_t mirrored = texel / WIDTH * WIDTH + (WIDTH - 1 - texel % WIDTH);
            const char *got = (char*)out.at + mirrored * formats[i].bytes, *want = (char*)texels + texel * formats[i].bytes;
            CHECK(memcmp(got, want, formats[i].bytes) == 0, "texel %u of format %d is %#x and not %#x", texel,
                  formats[i].format, *(const uint8_t*)got, *(const uint8_t*)want);
        }
        for (int n = 0; n < 2; n++) free_image(images[n]);
        free_buffer(in);
        free_buffer(out);
        free(texels);
    }
}

#define MIRRORS(kernel, ...)                                                                                        \
    do {                                                                                                            \
        static const struct format formats[] = {__VA_ARGS__};                                                       \
        mirrors(KERNEL_WITH(kernel, 2, 12, .kinds = TWO_IMAGES), formats, (int)(sizeof formats / sizeof *formats)); \
    } while (0)

CASE(formats_of_floats) {
    open_device();
    // Neither infinities and NaNs, nor the lowest signed number, which is another name for the next one.
    MIRRORS(mirror_floats, {VK_FORMAT_R8_UNORM, 1, 0}, {VK_FORMAT_R8G8_UNORM, 2, 0}, {VK_FORMAT_R8G8B8A8_UNORM, 4, 0},
            {VK_FORMAT_R8G8B8A8_SNORM, 4, 0x80808080}, {VK_FORMAT_R16_UNORM, 2, 0}, {VK_FORMAT_R16G16_UNORM, 4, 0},
            {VK_FORMAT_R16G16B16A16_UNORM, 8, 0}, {VK_FORMAT_R16G16_SNORM, 4, 0x80008000},
            {VK_FORMAT_A2B10G10R10_UNORM_PACK32, 4, 0}, {VK_FORMAT_R16_SFLOAT, 2, 0x40004000},
            {VK_FORMAT_R16G16_SFLOAT, 4, 0x40004000}, {VK_FORMAT_R16G16B16A16_SFLOAT, 8, 0x40004000},
            {VK_FORMAT_R32_SFLOAT, 4, 0x40000000}, {VK_FORMAT_R32G32_SFLOAT, 8, 0x40000000},
            {VK_FORMAT_R32G32B32A32_SFLOAT, 16, 0x40000000});
    close_device();
}

CASE(formats_of_unsigned_numbers) {
    open_device();
    MIRRORS(mirror_unsigned, {VK_FORMAT_R8_UINT, 1, 0}, {VK_FORMAT_R8G8_UINT, 2, 0}, {VK_FORMAT_R8G8B8A8_UINT, 4, 0},
            {VK_FORMAT_R16_UINT, 2, 0}, {VK_FORMAT_R16G16_UINT, 4, 0}, {VK_FORMAT_R16G16B16A16_UINT, 8, 0},
            {VK_FORMAT_A2B10G10R10_UINT_PACK32, 4, 0}, {VK_FORMAT_R32_UINT, 4, 0}, {VK_FORMAT_R32G32_UINT, 8, 0},
            {VK_FORMAT_R32G32B32A32_UINT, 16, 0});
    close_device();
}

CASE(formats_of_signed_numbers) {
    open_device();
    MIRRORS(mirror_signed, {VK_FORMAT_R8_SINT, 1, 0}, {VK_FORMAT_R8G8B8A8_SINT, 4, 0}, {VK_FORMAT_R16G16_SINT, 4, 0},
            {VK_FORMAT_R16G16B16A16_SINT, 8, 0}, {VK_FORMAT_R32_SINT, 4, 0}, {VK_FORMAT_R32G32B32A32_SINT, 16, 0});
    close_device();
}

CASE(atomics_on_texels) {
    open_device();
    enum { WIDTH = 64, HEIGHT = 32, ROWS = 3 * HEIGHT };
    uint32_t* words = calloc(4, WIDTH * ROWS);
    for (uint32_t i = 0; i < WIDTH * HEIGHT; i++) {
        words[WIDTH * HEIGHT + i] = i % 3 ? i % WIDTH : 1000;
        words[2 * WIDTH * HEIGHT + i] = i * 2000;
    }
    struct kernel kernel = KERNEL_WITH(add_to_texels, 2, 12, .kinds = IMAGE_AND_BUFFER);
    struct image image = two_dimensions(VK_FORMAT_R32_UINT, WIDTH, ROWS);
    struct buffer in = host_buffer(WIDTH * ROWS * 4, words), out = host_buffer(WIDTH * ROWS * 4, NULL);
    struct buffer old = host_buffer(WIDTH * HEIGHT * 4, NULL);
    bind_view(&kernel, 0, image.view);
    bind(&kernel, 1, old);
    VkCommandBuffer commands = begin();
    begin_use(commands, image);
    upload(commands, in, image, 0);
    cover(commands, &kernel, (uint32_t[]){WIDTH, HEIGHT, 2});
    download(commands, image, out, 0);
    finish(commands);
    for (uint32_t i = 0; i < WIDTH * HEIGHT; i++) {
        const uint32_t* got = (uint32_t*)out.at + i;
        uint32_t x = i % WIDTH, before = words[WIDTH * HEIGHT + i], most = x * 70000 + 1;
        EQUAL(got[0], 2 * (1000 + x));
        EQUAL(((uint32_t*)old.at)[i], before);
        EQUAL(got[WIDTH * HEIGHT], before == x ? 7 : before);
        EQUAL(got[2 * WIDTH * HEIGHT], most > i * 2000 ? most : i * 2000);
    }
    close_device();
}

CASE(texels_beyond_an_image) {
    open_device();
    enum { WIDTH = 24, HEIGHT = 16, SIDE = 32 };
    uint32_t* words = noise(WIDTH * HEIGHT, 3);
    struct kernel kernel = KERNEL_WITH(beyond, 2, 12, .kinds = IMAGE_AND_BUFFER);
    struct image image = two_dimensions(VK_FORMAT_R32_UINT, WIDTH, HEIGHT);
    struct buffer in = host_buffer(WIDTH * HEIGHT * 4, words), out = host_buffer(WIDTH * HEIGHT * 4, NULL);
    struct buffer got = host_buffer(SIDE * SIDE * 4, NULL);
    memset(got.at, 0xff, SIDE * SIDE * 4);
    bind_view(&kernel, 0, image.view);
    bind(&kernel, 1, got);
    VkCommandBuffer commands = begin();
    begin_use(commands, image);
    upload(commands, in, image, 0);
    cover(commands, &kernel, (uint32_t[]){SIDE, SIDE, 1});
    download(commands, image, out, 0);
    finish(commands);
    for (int i = 0; i < SIDE * SIDE; i++) {
        int x = i % SIDE - 4, y = i / SIDE - 4;
        bool inside = x >= 0 && y >= 0 && x < WIDTH && y < HEIGHT;
        EQUAL(((uint32_t*)got.at)[i], inside ? words[y * WIDTH + x] : 0);
        if (inside) EQUAL(((uint32_t*)out.at)[y * WIDTH + x], x + y * 100);
    }
    close_device();
}

CASE(sizes_of_images) {
    open_device();
    struct kernel kernel = KERNEL_WITH(sizes, 2, 0, .kinds = IMAGE_AND_BUFFER);
    struct image image = make_image(VK_IMAGE_VIEW_TYPE_2D_ARRAY, VK_FORMAT_R32_UINT, (VkExtent3D){300, 20, 1}, 7, 1,
                                    VK_IMAGE_TILING_OPTIMAL);
    struct buffer out = host_buffer(64, NULL);
    bind_view(&kernel, 0, image.view);
    bind(&kernel, 1, out);
    VkCommandBuffer commands = begin();
    begin_use(commands, image);
    use(commands, &kernel, NULL);
    vkCmdDispatch(commands, 1, 1, 1);
    finish(commands);
    SAME((uint32_t*)out.at, ((uint32_t[]){300, 20, 7}), 3);
    close_device();
}

CASE(levels_of_an_image) {
    open_device();
    enum { SIDE = 100, LEVELS = 7 };
    struct image image = make_image(VK_IMAGE_VIEW_TYPE_2D, VK_FORMAT_R32_UINT, (VkExtent3D){SIDE, SIDE, 1}, 1, LEVELS,
                                    VK_IMAGE_TILING_OPTIMAL);
    struct image other = image;
    other = make_image(VK_IMAGE_VIEW_TYPE_2D, VK_FORMAT_R32_UINT, (VkExtent3D){SIDE, SIDE, 1}, 1, LEVELS,
                       VK_IMAGE_TILING_OPTIMAL);
    struct buffer outs[LEVELS];
    uint32_t* wants[LEVELS];
    VkCommandBuffer commands = begin();
    begin_use(commands, image);
    begin_use(commands, other);
    // All levels are written before the first one is read.
    for (uint32_t level = 0; level < LEVELS; level++) {
        uint32_t side = at_level(SIDE, level), *words = noise(side * side, level);
        upload(commands, host_buffer(side * side * 4, words), image, level);
        flip_on_host(wants[level] = malloc(side * side * 4), words, (uint32_t[]){side, side, 1});
    }
    for (uint32_t level = 0; level < LEVELS; level++) {
        struct kernel kernel = KERNEL_WITH(flip_2d, 2, 12, .kinds = TWO_IMAGES);
        bind_view(&kernel, 0, view_of(image, level, (VkComponentMapping){0}));
        bind_view(&kernel, 1, view_of(other, level, (VkComponentMapping){0}));
        cover(commands, &kernel, (uint32_t[]){at_level(SIDE, level), at_level(SIDE, level), 1});
    }
    for (uint32_t level = 0; level < LEVELS; level++) {
        uint32_t side = at_level(SIDE, level);
        download(commands, other, outs[level] = host_buffer(side * side * 4, NULL), level);
    }
    finish(commands);
    for (uint32_t level = 0; level < LEVELS; level++) {
        uint32_t side = at_level(SIDE, level);
        SAME((uint32_t*)outs[level].at, wants[level], side * side);
    }
    close_device();
}

CASE(components_of_a_view) {
    open_device();
    enum { WIDTH = 50, HEIGHT = 20, COUNT = WIDTH * HEIGHT };
    uint32_t *words = noise(COUNT, 5), *want = malloc(COUNT * 16);
    static const VkDescriptorType kinds[] = {VK_DESCRIPTOR_TYPE_SAMPLED_IMAGE, VK_DESCRIPTOR_TYPE_STORAGE_BUFFER};
    struct kernel kernel = KERNEL_WITH(fetched, 2, 12, .kinds = kinds);
    struct image image = two_dimensions(VK_FORMAT_R8G8B8A8_UINT, WIDTH, HEIGHT);
    struct buffer in = host_buffer(COUNT * 4, words), out = host_buffer(COUNT * 16, NULL);
    VkComponentMapping mapping = {VK_COMPONENT_SWIZZLE_B, VK_COMPONENT_SWIZZLE_ONE, VK_COMPONENT_SWIZZLE_R, VK_COMPONENT_SWIZZLE_ZERO};
    bind_view(&kernel, 0, view_of(image, 0, mapping));
    bind(&kernel, 1, out);
    VkCommandBuffer commands = begin();
    begin_use(commands, image);
    upload(commands, in, image, 0);
    cover(commands, &kernel, (uint32_t[]){WIDTH, HEIGHT, 1});
    finish(commands);
    for (int i = 0; i < COUNT; i++) {
        uint32_t row[] = {words[i] >> 16 & 255, 1, words[i] & 255, 0};
        memcpy(want + i * 4, row, sizeof row);
    }
    SAME((uint32_t*)out.at, want, COUNT * 4);
    close_device();
}

CASE(clears_and_copies_of_images) {
    open_device();
    enum { WIDTH = 90, HEIGHT = 60, COUNT = WIDTH * HEIGHT };
    uint32_t *words = noise(COUNT, 6), *want = malloc(COUNT * 4);
    struct image first = two_dimensions(VK_FORMAT_R8G8B8A8_UNORM, WIDTH, HEIGHT);
    struct image second = two_dimensions(VK_FORMAT_R8G8B8A8_UNORM, WIDTH, HEIGHT);
    struct buffer in = host_buffer(COUNT * 4, words), out = host_buffer(COUNT * 4, NULL);
    VkCommandBuffer commands = begin();
    begin_use(commands, first);
    begin_use(commands, second);
    upload(commands, in, first, 0);
    VkClearColorValue colour = {.float32 = {1, 0, 0.2f, 0.4f}};
    VkImageSubresourceRange all = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 1, 0, 1};
    vkCmdClearColorImage(commands, second.handle, VK_IMAGE_LAYOUT_GENERAL, &colour, 1, &all);
    barrier(commands);
    VkImageCopy part = {
        .srcSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
        .srcOffset = {3, 7, 0},
        .dstSubresource = {VK_IMAGE_ASPECT_COLOR_BIT, 0, 0, 1},
        .dstOffset = {40, 11, 0},
        .extent = {31, 45, 1},
    };
    vkCmdCopyImage(commands, first.handle, VK_IMAGE_LAYOUT_GENERAL, second.handle, VK_IMAGE_LAYOUT_GENERAL, 1, &part);
    download(commands, second, out, 0);
    finish(commands);
    for (int i = 0; i < COUNT; i++) {
        int x = i % WIDTH - 40, y = i / WIDTH - 11;
        bool copied = x >= 0 && x < 31 && y >= 0 && y < 45;
        want[i] = copied ? words[(y + 7) * WIDTH + x + 3] : 0x663300ff;
    }
    SAME((uint32_t*)out.at, want, COUNT);
    close_device();
}
