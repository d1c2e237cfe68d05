// What the Vulkan programs share: checks of results by name, the device with all features that it has, memory, kernels.
//
// `SHADER(name)` at the start of a line is a shader: the part of the file `PROGRAM.comp` that the macro `name` turns on. It is
// compiled before the program, as an array of that name.
#pragma once

#include <vulkan/vulkan.h>

#include "../cases.h"

#define SHADER(name)

static const char* vk_result_name(VkResult result) {
    switch (result) {
#define NAME(name) \
    case name: return #name;
        NAME(VK_SUCCESS)
        NAME(VK_NOT_READY)
        NAME(VK_TIMEOUT)
        NAME(VK_EVENT_SET)
        NAME(VK_EVENT_RESET)
        NAME(VK_INCOMPLETE)
        NAME(VK_ERROR_OUT_OF_HOST_MEMORY)
        NAME(VK_ERROR_OUT_OF_DEVICE_MEMORY)
        NAME(VK_ERROR_INITIALIZATION_FAILED)
        NAME(VK_ERROR_DEVICE_LOST)
        NAME(VK_ERROR_MEMORY_MAP_FAILED)
        NAME(VK_ERROR_LAYER_NOT_PRESENT)
        NAME(VK_ERROR_EXTENSION_NOT_PRESENT)
        NAME(VK_ERROR_FEATURE_NOT_PRESENT)
        NAME(VK_ERROR_INCOMPATIBLE_DRIVER)
        NAME(VK_ERROR_TOO_MANY_OBJECTS)
        NAME(VK_ERROR_FORMAT_NOT_SUPPORTED)
        NAME(VK_ERROR_FRAGMENTED_POOL)
        NAME(VK_ERROR_OUT_OF_POOL_MEMORY)
        NAME(VK_ERROR_INVALID_EXTERNAL_HANDLE)
        NAME(VK_ERROR_UNKNOWN)
#undef NAME
        default: return "a result of another name";
    }
}

__attribute__((unused)) static void expect_vk(const char* file, int line, const char* call, VkResult got, VkResult want) {
    if (got != want)
        fail(file, line, "%s gave %s (%d), not %s", call, vk_result_name(got), got, vk_result_name(want));
}

// A call that has to succeed, and one that has to give just this result.
#define VK(call) expect_vk(__FILE__, __LINE__, #call, (call), VK_SUCCESS)
#define VK_GIVES(call, result) expect_vk(__FILE__, __LINE__, #call, (call), result)

enum { VENDOR = 0x1002, MOST_QUEUES = 4, WAIT_SECONDS = 50 };

static VkInstance instance;
static VkPhysicalDevice gpu;
static VkPhysicalDeviceProperties properties;
static VkPhysicalDeviceMemoryProperties memories;
static VkDevice device;
// The family of computing queues, and the queues of it that there are.
static uint32_t family, queue_count;
static VkQueue queues[MOST_QUEUES];
static VkQueue queue;
static VkCommandPool command_pool;
// Features of the device, which are all turned on.
static VkPhysicalDeviceVulkan13Features vk13 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_3_FEATURES};
static VkPhysicalDeviceVulkan12Features vk12 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_2_FEATURES, .pNext = &vk13};
static VkPhysicalDeviceVulkan11Features vk11 = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_VULKAN_1_1_FEATURES, .pNext = &vk12};
static VkPhysicalDeviceFeatures2 features = {.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_FEATURES_2, .pNext = &vk11};

__attribute__((unused)) static void find_gpu(void) {
    VkApplicationInfo application = {.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO, .apiVersion = VK_API_VERSION_1_3};
    VkInstanceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO, .pApplicationInfo = &application};
    VK(vkCreateInstance(&info, NULL, &instance));
    VkPhysicalDevice all[8];
    uint32_t count = 8;
    VK(vkEnumeratePhysicalDevices(instance, &count, all));
    for (uint32_t i = 0; i < count && !gpu; i++) {
        vkGetPhysicalDeviceProperties(all[i], &properties);
        if (properties.vendorID == VENDOR) gpu = all[i];
    }
    CHECK(gpu, "none of %u devices is a GPU of vendor %#x", count, VENDOR);
    vkGetPhysicalDeviceMemoryProperties(gpu, &memories);
}

__attribute__((unused)) static void open_device(void) {
    find_gpu();
    vkGetPhysicalDeviceFeatures2(gpu, &features);
    VkQueueFamilyProperties families[8];
    uint32_t count = 8;
    vkGetPhysicalDeviceQueueFamilyProperties(gpu, &count, families);
    for (family = 0; family < count; family++)
        if (families[family].queueFlags & VK_QUEUE_COMPUTE_BIT) break;
    CHECK(family < count, "no family of %u computes", count);
    queue_count = families[family].queueCount < MOST_QUEUES ? families[family].queueCount : MOST_QUEUES;
    float priorities[MOST_QUEUES] = {1, 1, 1, 1};
    VkDeviceQueueCreateInfo wanted[2] = {{
        .sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
        .queueFamilyIndex = family,
        .queueCount = queue_count,
        .pQueuePriorities = priorities,
    }};
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &features,
        .queueCreateInfoCount = 1,
        .pQueueCreateInfos = wanted,
    };
    VK(vkCreateDevice(gpu, &info, NULL, &device));
    for (uint32_t i = 0; i < queue_count; i++) vkGetDeviceQueue(device, family, i, &queues[i]);
    queue = queues[0];
    VkCommandPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO,
        .flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT,
        .queueFamilyIndex = family,
    };
    VK(vkCreateCommandPool(device, &pool, NULL, &command_pool));
}

__attribute__((unused)) static void close_device(void) {
    VK(vkDeviceWaitIdle(device));
    vkDestroyCommandPool(device, command_pool, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
}

static uint32_t memory_type(uint32_t allowed, VkMemoryPropertyFlags wanted) {
    for (uint32_t i = 0; i < memories.memoryTypeCount; i++)
        if (allowed >> i & 1 && (memories.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
    FAIL("no type of memory in %#x has %#x", allowed, wanted);
}

enum {
    HOST = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
    LOCAL = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
    ANY_USE = VK_BUFFER_USAGE_TRANSFER_SRC_BIT | VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_UNIFORM_BUFFER_BIT |
              VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT |
              VK_BUFFER_USAGE_UNIFORM_TEXEL_BUFFER_BIT | VK_BUFFER_USAGE_STORAGE_TEXEL_BUFFER_BIT |
              VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT,
};

// A buffer with memory of its own, which the processor sees if it is host memory.
struct buffer {
    VkBuffer handle;
    VkDeviceMemory memory;
    VkDeviceSize size;
    void* at;
};

__attribute__((unused)) static VkDeviceMemory allocate(VkMemoryRequirements needs, VkMemoryPropertyFlags wanted) {
    VkMemoryAllocateFlagsInfo addressed = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_FLAGS_INFO,
        .flags = VK_MEMORY_ALLOCATE_DEVICE_ADDRESS_BIT,
    };
    VkMemoryAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
        .pNext = &addressed,
        .allocationSize = needs.size,
        .memoryTypeIndex = memory_type(needs.memoryTypeBits, wanted),
    };
    VkDeviceMemory memory;
    VK(vkAllocateMemory(device, &info, NULL, &memory));
    return memory;
}

__attribute__((unused)) static struct buffer make_buffer(VkDeviceSize size, VkMemoryPropertyFlags wanted) {
    struct buffer made = {.size = size};
    VkBufferCreateInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO, .size = size, .usage = ANY_USE};
    VK(vkCreateBuffer(device, &info, NULL, &made.handle));
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device, made.handle, &needs);
    made.memory = allocate(needs, wanted);
    VK(vkBindBufferMemory(device, made.handle, made.memory, 0));
    if (wanted & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) {
        VK(vkMapMemory(device, made.memory, 0, VK_WHOLE_SIZE, 0, &made.at));
        memset(made.at, 0, size);
    }
    return made;
}

// Host memory with this content, or zeros.
__attribute__((unused)) static struct buffer host_buffer(VkDeviceSize size, const void* content) {
    struct buffer made = make_buffer(size, HOST);
    if (content) memcpy(made.at, content, size);
    return made;
}

__attribute__((unused)) static void free_buffer(struct buffer buffer) {
    vkDestroyBuffer(device, buffer.handle, NULL);
    vkFreeMemory(device, buffer.memory, NULL);
}

__attribute__((unused)) static VkDeviceAddress address_of(struct buffer buffer) {
    VkBufferDeviceAddressInfo info = {.sType = VK_STRUCTURE_TYPE_BUFFER_DEVICE_ADDRESS_INFO, .buffer = buffer.handle};
    return vkGetBufferDeviceAddress(device, &info);
}

enum { MOST_BINDINGS = 4 };

// A compute pipeline with bindings 0 to `bindings - 1` in set 0 and push constants.
struct kernel {
    VkDescriptorSetLayout set_layout;
    VkPipelineLayout layout;
    VkPipeline pipeline;
    VkDescriptorPool pool;
    VkDescriptorSet set;
    VkDescriptorType kinds[MOST_BINDINGS];
    uint32_t bindings, push;
};

// What a kernel may have beside its code and its buffers.
struct options {
    const VkSpecializationInfo* constants;
    uint32_t subgroup_size;
    // Kinds of the bindings, unless all are storage buffers.
    const VkDescriptorType* kinds;
};

__attribute__((unused)) static struct kernel make_kernel(const uint32_t* code, size_t bytes, uint32_t bindings, uint32_t push,
                                                         struct options options) {
    struct kernel made = {.bindings = bindings, .push = push};
    VkDescriptorSetLayoutBinding list[MOST_BINDINGS];
    VkDescriptorPoolSize sizes[MOST_BINDINGS];
    for (uint32_t i = 0; i < bindings; i++) {
        made.kinds[i] = options.kinds ? options.kinds[i] : VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
        list[i] = (VkDescriptorSetLayoutBinding){i, made.kinds[i], 1, VK_SHADER_STAGE_COMPUTE_BIT, NULL};
        sizes[i] = (VkDescriptorPoolSize){made.kinds[i], 1};
    }
    VkDescriptorSetLayoutCreateInfo set = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO,
        .bindingCount = bindings,
        .pBindings = list,
    };
    VK(vkCreateDescriptorSetLayout(device, &set, NULL, &made.set_layout));
    VkPushConstantRange range = {VK_SHADER_STAGE_COMPUTE_BIT, 0, push};
    VkPipelineLayoutCreateInfo layout = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO,
        .setLayoutCount = 1,
        .pSetLayouts = &made.set_layout,
        .pushConstantRangeCount = push ? 1 : 0,
        .pPushConstantRanges = &range,
    };
    VK(vkCreatePipelineLayout(device, &layout, NULL, &made.layout));
    VkShaderModuleCreateInfo module_info = {
        .sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO,
        .codeSize = bytes,
        .pCode = code,
    };
    VkShaderModule module;
    VK(vkCreateShaderModule(device, &module_info, NULL, &module));
    VkPipelineShaderStageRequiredSubgroupSizeCreateInfo size = {
        .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_REQUIRED_SUBGROUP_SIZE_CREATE_INFO,
        .requiredSubgroupSize = options.subgroup_size,
    };
    VkComputePipelineCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO,
        .stage =
            {
                .sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO,
                .pNext = options.subgroup_size ? &size : NULL,
                .flags = options.subgroup_size ? VK_PIPELINE_SHADER_STAGE_CREATE_REQUIRE_FULL_SUBGROUPS_BIT : 0,
                .stage = VK_SHADER_STAGE_COMPUTE_BIT,
                .module = module,
                .pName = "main",
                .pSpecializationInfo = options.constants,
            },
        .layout = made.layout,
        .flags = VK_PIPELINE_CREATE_DISPATCH_BASE_BIT,
    };
    VK(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, NULL, &made.pipeline));
    vkDestroyShaderModule(device, module, NULL);
    if (!bindings) return made;
    VkDescriptorPoolCreateInfo pool = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
        .maxSets = 1,
        .poolSizeCount = bindings,
        .pPoolSizes = sizes,
    };
    VK(vkCreateDescriptorPool(device, &pool, NULL, &made.pool));
    VkDescriptorSetAllocateInfo sets = {
        .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
        .descriptorPool = made.pool,
        .descriptorSetCount = 1,
        .pSetLayouts = &made.set_layout,
    };
    VK(vkAllocateDescriptorSets(device, &sets, &made.set));
    return made;
}

// The kernel of a shader with this many storage buffers, and bytes of push constants.
#define KERNEL(name, bindings, push) make_kernel(name, sizeof name, bindings, push, (struct options){0})
#define KERNEL_WITH(name, bindings, push, ...) \
    make_kernel(name, sizeof name, bindings, push, (struct options){__VA_ARGS__})

__attribute__((unused)) static void bind_part(struct kernel* kernel, uint32_t at, struct buffer buffer, VkDeviceSize offset,
                                              VkDeviceSize size) {
    VkDescriptorBufferInfo part = {buffer.handle, offset, size};
    VkWriteDescriptorSet write = {
        .sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
        .dstSet = kernel->set,
        .dstBinding = at,
        .descriptorCount = 1,
        .descriptorType = kernel->kinds[at],
        .pBufferInfo = &part,
    };
    vkUpdateDescriptorSets(device, 1, &write, 0, NULL);
}

__attribute__((unused)) static void bind(struct kernel* kernel, uint32_t at, struct buffer buffer) {
    bind_part(kernel, at, buffer, 0, VK_WHOLE_SIZE);
}

__attribute__((unused)) static void free_kernel(struct kernel kernel) {
    vkDestroyDescriptorPool(device, kernel.pool, NULL);
    vkDestroyPipeline(device, kernel.pipeline, NULL);
    vkDestroyPipelineLayout(device, kernel.layout, NULL);
    vkDestroyDescriptorSetLayout(device, kernel.set_layout, NULL);
}

__attribute__((unused)) static VkCommandBuffer begin_of(VkCommandBufferLevel level) {
    VkCommandBufferAllocateInfo info = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = command_pool,
        .level = level,
        .commandBufferCount = 1,
    };
    VkCommandBuffer commands;
    VK(vkAllocateCommandBuffers(device, &info, &commands));
    VkCommandBufferInheritanceInfo inherited = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO};
    VkCommandBufferBeginInfo begins = {
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
        .flags = VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT,
        .pInheritanceInfo = &inherited,
    };
    VK(vkBeginCommandBuffer(commands, &begins));
    return commands;
}

__attribute__((unused)) static VkCommandBuffer begin(void) { return begin_of(VK_COMMAND_BUFFER_LEVEL_PRIMARY); }

// Everything before is over and seen by everything after, the processor's reads as well.
__attribute__((unused)) static void barrier(VkCommandBuffer commands) {
    VkMemoryBarrier all = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_MEMORY_READ_BIT | VK_ACCESS_MEMORY_WRITE_BIT,
    };
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT,
                         VK_PIPELINE_STAGE_ALL_COMMANDS_BIT | VK_PIPELINE_STAGE_HOST_BIT, 0, 1, &all, 0, NULL, 0, NULL);
}

__attribute__((unused)) static void use(VkCommandBuffer commands, const struct kernel* kernel, const void* push) {
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->pipeline);
    if (kernel->bindings)
        vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernel->layout, 0, 1, &kernel->set, 0, NULL);
    if (kernel->push)
        vkCmdPushConstants(commands, kernel->layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, kernel->push, push);
}

__attribute__((unused)) static void submit(VkQueue to, VkCommandBuffer commands, const void* next, VkFence fence) {
    VkSubmitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO,
        .pNext = next,
        .commandBufferCount = commands ? 1 : 0,
        .pCommandBuffers = &commands,
    };
    VK(vkQueueSubmit(to, 1, &info, fence));
}

__attribute__((unused)) static VkFence make_fence(void) {
    VkFenceCreateInfo info = {.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO};
    VkFence fence;
    VK(vkCreateFence(device, &info, NULL, &fence));
    return fence;
}

// Ends a command buffer, runs it on the first queue and waits for it.
__attribute__((unused)) static void finish(VkCommandBuffer commands) {
    barrier(commands);
    VK(vkEndCommandBuffer(commands));
    VkFence fence = make_fence();
    submit(queue, commands, NULL, fence);
    VK(vkWaitForFences(device, 1, &fence, VK_TRUE, WAIT_SECONDS * UINT64_C(1000000000)));
    vkDestroyFence(device, fence, NULL);
    vkFreeCommandBuffers(device, command_pool, 1, &commands);
}

// Runs one dispatch of `x` workgroups and waits for it.
__attribute__((unused)) static void run(const struct kernel* kernel, const void* push, uint32_t x) {
    VkCommandBuffer commands = begin();
    use(commands, kernel, push);
    vkCmdDispatch(commands, x, 1, 1);
    finish(commands);
}

__attribute__((unused)) static uint32_t* noise(size_t count, uint32_t seed) {
    uint32_t* words = malloc(count * 4);
    if (!words) FAIL("malloc of %zu words", count);
    fill_noise(words, count, seed);
    return words;
}
