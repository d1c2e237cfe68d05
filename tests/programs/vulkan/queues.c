// Vulkan's queues: fences, semaphores, events, queries, sparse memory, and errors.
#include "vk_cases.h"

#include <pthread.h>

#include "shaders.inc"

SHADER(step)
SHADER(copied)
SHADER(wild)

enum { COUNT = 4096, BYTES = COUNT * 4 };

// Commands that run `step` on a buffer, ended.
static VkCommandBuffer step_commands(const struct kernel* kernel, uint32_t add) {
    VkCommandBuffer commands = begin();
    barrier(commands);
    use(commands, kernel, &add);
    vkCmdDispatch(commands, COUNT / 64, 1, 1);
    barrier(commands);
    VK(vkEndCommandBuffer(commands));
    return commands;
}

static struct kernel step_on(struct buffer out) {
    struct kernel kernel = KERNEL(step, 1, 4);
    bind(&kernel, 0, out);
    return kernel;
}

static void step_on_host(uint32_t* words, uint32_t add) {
    for (int i = 0; i < COUNT; i++) words[i] = words[i] * 5 + add;
}

static const uint64_t LONG = WAIT_SECONDS * UINT64_C(1000000000);

CASE(properties_of_the_device) {
    open_device();
    CHECK(strstr(properties.deviceName, "RADV"), "the name is %s", properties.deviceName);
    EQUAL(properties.deviceID, GPU_DEVICE);
    CHECK(properties.limits.timestampPeriod == 10.0f, "the clock has a period of %f ns", properties.limits.timestampPeriod);
    EQUAL(properties.limits.maxComputeWorkGroupInvocations, 1024);
    bool local = false;
    for (uint32_t i = 0; i < memories.memoryHeapCount; i++) {
        CHECK(memories.memoryHeaps[i].size >= 16 << 20, "heap %u has %llu bytes", i,
              (unsigned long long)memories.memoryHeaps[i].size);
        local |= memories.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT;
    }
    CHECK(local, "no heap is the device's own");
    close_device();
}

CASE(fences_say_when_work_is_over) {
    open_device();
    uint32_t* words = noise(COUNT, 1);
    struct buffer out = host_buffer(BYTES, words);
    struct kernel kernel = step_on(out);
    VkFence fence = make_fence();
    VK_GIVES(vkGetFenceStatus(device, fence), VK_NOT_READY);
    VK_GIVES(vkWaitForFences(device, 1, &fence, VK_TRUE, 1000), VK_TIMEOUT);
    for (uint32_t add = 1; add < 4; add++) {
        submit(queue, step_commands(&kernel, add), NULL, fence);
        VK(vkWaitForFences(device, 1, &fence, VK_TRUE, LONG));
        VK(vkGetFenceStatus(device, fence));
        step_on_host(words, add);
        SAME((uint32_t*)out.at, words, COUNT);
        VK(vkResetFences(device, 1, &fence));
    }
    // One of two that is signalled is enough where any will do.
    VkFence two[] = {make_fence(), make_fence()};
    submit(queue, NULL, NULL, two[1]);
    VK(vkWaitForFences(device, 2, two, VK_FALSE, LONG));
    VK_GIVES(vkWaitForFences(device, 2, two, VK_TRUE, 1000), VK_TIMEOUT);
    close_device();
}

CASE(many_submissions) {
    open_device();
    uint32_t* words = noise(COUNT, 2);
    struct buffer out = host_buffer(BYTES, words);
    struct kernel kernel = step_on(out);
    VkCommandBuffer commands = step_commands(&kernel, 7);
    for (int i = 0; i < 200; i++) {
        submit(queue, commands, NULL, VK_NULL_HANDLE);
        step_on_host(words, 7);
    }
    VK(vkQueueWaitIdle(queue));
    SAME((uint32_t*)out.at, words, COUNT);
    close_device();
}

static VkSemaphore make_semaphore(bool timeline, uint64_t value) {
    VkSemaphoreTypeCreateInfo type = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO,
        .semaphoreType = timeline ? VK_SEMAPHORE_TYPE_TIMELINE : VK_SEMAPHORE_TYPE_BINARY,
        .initialValue = value,
    };
    VkSemaphoreCreateInfo info = {.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO, .pNext = &type};
    VkSemaphore made;
    VK(vkCreateSemaphore(device, &info, NULL, &made));
    return made;
}

// Submits commands that wait for a value and then set another one; no wait for 0, no signal for 0.
static void submit_between(VkQueue to, VkCommandBuffer commands, VkSemaphore semaphore, uint64_t wait, uint64_t signal) {
    VkSemaphoreSubmitInfo waits = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO,
        .semaphore = semaphore,
        .value = wait,
        .stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT,
    };
    VkSemaphoreSubmitInfo signals = waits;
    signals.value = signal;
    VkCommandBufferSubmitInfo part = {.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO, .commandBuffer = commands};
    VkSubmitInfo2 info = {
        .sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2,
        .waitSemaphoreInfoCount = wait ? 1 : 0,
        .pWaitSemaphoreInfos = &waits,
        .commandBufferInfoCount = commands ? 1 : 0,
        .pCommandBufferInfos = &part,
        .signalSemaphoreInfoCount = signal ? 1 : 0,
        .pSignalSemaphoreInfos = &signals,
    };
    VK(vkQueueSubmit2(to, 1, &info, VK_NULL_HANDLE));
}

CASE(semaphores_between_queues) {
    open_device();
    CHECK(queue_count >= 2, "there is %u queue", queue_count);
    uint32_t* words = noise(COUNT, 3);
    struct buffer out = host_buffer(BYTES, words);
    struct kernel kernel = step_on(out);
    VkSemaphore semaphore = make_semaphore(false, 0);
    for (uint32_t i = 0; i < 20; i++) {
        submit_between(queues[i % 2], step_commands(&kernel, i), semaphore, i > 0, i < 19);
        step_on_host(words, i);
    }
    VK(vkDeviceWaitIdle(device));
    SAME((uint32_t*)out.at, words, COUNT);
    close_device();
}

static uint64_t value_of(VkSemaphore semaphore) {
    uint64_t value = 0;
    VK(vkGetSemaphoreCounterValue(device, semaphore, &value));
    return value;
}

static VkResult wait_for_value(VkSemaphore semaphore, uint64_t value, uint64_t time) {
    VkSemaphoreWaitInfo info = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_WAIT_INFO,
        .semaphoreCount = 1,
        .pSemaphores = &semaphore,
        .pValues = &value,
    };
    return vkWaitSemaphores(device, &info, time);
}

CASE(timeline_semaphores) {
    open_device();
    CHECK(vk12.timelineSemaphore, "there are no timelines");
    uint32_t* words = noise(COUNT, 4);
    struct buffer out = host_buffer(BYTES, words);
    struct kernel kernel = step_on(out);
    VkSemaphore semaphore = make_semaphore(true, 5);
    EQUAL(value_of(semaphore), 5);
    // Work that waits for the processor, on every queue, submitted in the opposite order.
    for (uint32_t i = queue_count; i-- > 0;)
        submit_between(queues[i], step_commands(&kernel, i), semaphore, 10 + i, 11 + i);
    VK_GIVES(wait_for_value(semaphore, 11, 2000000), VK_TIMEOUT);
    SAME((uint32_t*)out.at, words, COUNT);
    VkSemaphoreSignalInfo signal = {
        .sType = VK_STRUCTURE_TYPE_SEMAPHORE_SIGNAL_INFO,
        .semaphore = semaphore,
        .value = 10,
    };
    VK(vkSignalSemaphore(device, &signal));
    VK(wait_for_value(semaphore, 10 + queue_count, LONG));
    EQUAL(value_of(semaphore), 10 + queue_count);
    for (uint32_t i = 0; i < queue_count; i++) step_on_host(words, i);
    SAME((uint32_t*)out.at, words, COUNT);
    close_device();
}

CASE(events) {
    open_device();
    uint32_t* words = noise(COUNT, 5);
    struct buffer out = host_buffer(BYTES, words);
    struct kernel kernel = step_on(out);
    VkEventCreateInfo info = {.sType = VK_STRUCTURE_TYPE_EVENT_CREATE_INFO};
    VkEvent event, hosts;
    VK(vkCreateEvent(device, &info, NULL, &event));
    VK(vkCreateEvent(device, &info, NULL, &hosts));
    VK_GIVES(vkGetEventStatus(device, event), VK_EVENT_RESET);
    VkMemoryBarrier all = {
        .sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER,
        .srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT,
        .dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT,
    };
    VkCommandBuffer commands = begin();
    vkCmdWaitEvents(commands, 1, &hosts, VK_PIPELINE_STAGE_HOST_BIT, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, 1, &all, 0, NULL, 0,
                    NULL);
    use(commands, &kernel, &(uint32_t){1});
    vkCmdDispatch(commands, COUNT / 64, 1, 1);
    vkCmdSetEvent(commands, event, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT);
    vkCmdWaitEvents(commands, 1, &event, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, 1, &all,
                    0, NULL, 0, NULL);
    use(commands, &kernel, &(uint32_t){2});
    vkCmdDispatch(commands, COUNT / 64, 1, 1);
    barrier(commands);
    VK(vkEndCommandBuffer(commands));
    VkFence fence = make_fence();
    submit(queue, commands, NULL, fence);
    VK_GIVES(vkWaitForFences(device, 1, &fence, VK_TRUE, 2000000), VK_TIMEOUT);
    VK(vkSetEvent(device, hosts));
    VK(vkWaitForFences(device, 1, &fence, VK_TRUE, LONG));
    VK_GIVES(vkGetEventStatus(device, event), VK_EVENT_SET);
    step_on_host(words, 1);
    step_on_host(words, 2);
    SAME((uint32_t*)out.at, words, COUNT);
    close_device();
}

static VkQueryPool make_queries(VkQueryType type, uint32_t count, VkQueryPipelineStatisticFlags statistics) {
    VkQueryPoolCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
        .queryType = type,
        .queryCount = count,
        .pipelineStatistics = statistics,
    };
    VkQueryPool made;
    VK(vkCreateQueryPool(device, &info, NULL, &made));
    return made;
}

CASE(timestamps) {
    open_device();
    struct buffer out = host_buffer(BYTES, NULL), copies = host_buffer(64, NULL);
    struct kernel kernel = step_on(out);
    VkQueryPool pool = make_queries(VK_QUERY_TYPE_TIMESTAMP, 3, 0);
    VkCommandBuffer commands = begin();
    vkCmdResetQueryPool(commands, pool, 0, 3);
    vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, pool, 0);
    for (int i = 0; i < 20; i++) {
        use(commands, &kernel, &(uint32_t){1});
        vkCmdDispatch(commands, COUNT / 64, 1, 1);
        barrier(commands);
    }
    vkCmdWriteTimestamp(commands, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pool, 1);
    barrier(commands);
    vkCmdCopyQueryPoolResults(commands, pool, 0, 2, copies.handle, 0, 8, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT);
    finish(commands);
    uint64_t got[2], there[2] = {1, 1};
    VK(vkGetQueryPoolResults(device, pool, 0, 2, sizeof got, got, 8, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT));
    CHECK(got[0] && got[0] < got[1], "%llu is not before %llu", (unsigned long long)got[0], (unsigned long long)got[1]);
    SAME((uint64_t*)copies.at, got, 2);
    VK_GIVES(vkGetQueryPoolResults(device, pool, 2, 1, sizeof there, there, 16,
                                   VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WITH_AVAILABILITY_BIT),
             VK_NOT_READY);
    EQUAL(there[1], 0);
    close_device();
}

CASE(invocations_are_counted) {
    open_device();
    CHECK(features.features.pipelineStatisticsQuery, "there are no statistics");
    struct buffer out = host_buffer(BYTES, NULL);
    struct kernel kernel = step_on(out);
    VkQueryPool pool = make_queries(VK_QUERY_TYPE_PIPELINE_STATISTICS, 2, VK_QUERY_PIPELINE_STATISTIC_COMPUTE_SHADER_INVOCATIONS_BIT);
    VkCommandBuffer commands = begin();
    vkCmdResetQueryPool(commands, pool, 0, 2);
    use(commands, &kernel, &(uint32_t){1});
    vkCmdDispatch(commands, 5, 1, 1);
    vkCmdBeginQuery(commands, pool, 0, 0);
    vkCmdDispatch(commands, 3, 1, 1);
    vkCmdDispatch(commands, 4, 2, 1);
    vkCmdEndQuery(commands, pool, 0);
    vkCmdDispatch(commands, 7, 1, 1);
    vkCmdBeginQuery(commands, pool, 1, 0);
    vkCmdEndQuery(commands, pool, 1);
    finish(commands);
    uint64_t got[2];
    VK(vkGetQueryPoolResults(device, pool, 0, 2, sizeof got, got, 8, VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT));
    EQUAL(got[0], (3 + 8) * 64);
    EQUAL(got[1], 0);
    close_device();
}

CASE(secondary_commands) {
    open_device();
    uint32_t* words = noise(COUNT, 6);
    struct buffer out = host_buffer(BYTES, words);
    struct kernel kernel = step_on(out);
    VkCommandBuffer second = begin_of(VK_COMMAND_BUFFER_LEVEL_SECONDARY);
    use(second, &kernel, &(uint32_t){9});
    vkCmdDispatch(second, COUNT / 64, 1, 1);
    barrier(second);
    VK(vkEndCommandBuffer(second));
    VkCommandBuffer commands = begin();
    for (int i = 0; i < 3; i++) {
        vkCmdExecuteCommands(commands, 1, &second);
        step_on_host(words, 9);
    }
    finish(commands);
    SAME((uint32_t*)out.at, words, COUNT);
    close_device();
}

static struct kernel thread_kernels[2];
static VkCommandBuffer thread_commands[2];

static void* submit_often(void* which) {
    long at = (long)which;
    for (int i = 0; i < 50; i++) {
        submit(queues[at], thread_commands[at], NULL, VK_NULL_HANDLE);
        VK(vkQueueWaitIdle(queues[at]));
    }
    return NULL;
}

CASE(queues_of_several_threads) {
    open_device();
    CHECK(queue_count >= 2, "there is %u queue", queue_count);
    uint32_t* words = noise(COUNT, 7);
    struct buffer outs[2];
    pthread_t threads[2];
    for (long i = 0; i < 2; i++) {
        outs[i] = host_buffer(BYTES, words);
        thread_kernels[i] = step_on(outs[i]);
        thread_commands[i] = step_commands(&thread_kernels[i], 3);
    }
    for (long i = 0; i < 2; i++) pthread_create(&threads[i], NULL, submit_often, (void*)i);
    for (long i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 50; i++) step_on_host(words, 3);
    SAME((uint32_t*)outs[0].at, words, COUNT);
    SAME((uint32_t*)outs[1].at, words, COUNT);
    close_device();
}

CASE(sparse_buffers_read_zeros_where_nothing_is) {
    find_gpu();
    VkPhysicalDeviceFeatures wanted;
    vkGetPhysicalDeviceFeatures(gpu, &wanted);
    CHECK(wanted.sparseBinding && wanted.sparseResidencyBuffer, "there are no sparse buffers");
    CHECK(properties.sparseProperties.residencyNonResidentStrict, "what is not there may be anything");
    VkQueueFamilyProperties families[8];
    uint32_t count = 8, computes = ~0u, binds = ~0u;
    vkGetPhysicalDeviceQueueFamilyProperties(gpu, &count, families);
    for (uint32_t i = count; i-- > 0;) {
        if (families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) computes = i;
        if (families[i].queueFlags & VK_QUEUE_SPARSE_BINDING_BIT) binds = i;
    }
    CHECK(computes < count && binds < count, "families are missing");
    float priority = 1;
    VkDeviceQueueCreateInfo list[2] = {
        {.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO,
         .queueFamilyIndex = computes,
         .queueCount = 1,
         .pQueuePriorities = &priority},
    };
    list[1] = list[0];
    list[1].queueFamilyIndex = binds;
    VkDeviceCreateInfo info = {
        .sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO,
        .pNext = &features,
        .queueCreateInfoCount = computes == binds ? 1 : 2,
        .pQueueCreateInfos = list,
    };
    vkGetPhysicalDeviceFeatures2(gpu, &features);
    VK(vkCreateDevice(gpu, &info, NULL, &device));
    VkQueue binder;
    vkGetDeviceQueue(device, computes, 0, &queue);
    vkGetDeviceQueue(device, binds, 0, &binder);
    VkCommandPoolCreateInfo pool = {.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO, .queueFamilyIndex = computes};
    VK(vkCreateCommandPool(device, &pool, NULL, &command_pool));
    VkBufferCreateInfo sparse = {
        .sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
        .flags = VK_BUFFER_CREATE_SPARSE_BINDING_BIT | VK_BUFFER_CREATE_SPARSE_RESIDENCY_BIT,
        .size = 8 << 20,
        .usage = ANY_USE & ~VK_BUFFER_USAGE_SHADER_DEVICE_ADDRESS_BIT,
    };
    struct buffer buffer = {.size = sparse.size};
    VK(vkCreateBuffer(device, &sparse, NULL, &buffer.handle));
    VkMemoryRequirements needs;
    vkGetBufferMemoryRequirements(device, buffer.handle, &needs);
    VkDeviceSize page = needs.alignment;
    CHECK(page >= 4096 && page <= 1 << 20, "a page has %llu bytes", (unsigned long long)page);
    needs.size = page;
    VkDeviceMemory memory = allocate(needs, LOCAL);
    uint32_t words = (uint32_t)(page / 4), total = 3 * words;
    struct buffer out = host_buffer(total * 4, NULL);
    struct kernel kernel = KERNEL(copied, 2, 0);
    // The page in the middle has memory, then none, then memory again.
    VkDeviceSize middle = 5 * page;
    bind_part(&kernel, 0, buffer, middle - page, 3 * page);
    bind(&kernel, 1, out);
    for (int round = 0; round < 3; round++) {
        bool there = round != 1;
        VkSparseMemoryBind part = {middle, page, there ? memory : VK_NULL_HANDLE, 0, 0};
        VkSparseBufferMemoryBindInfo parts = {buffer.handle, 1, &part};
        VkBindSparseInfo bind_info = {
            .sType = VK_STRUCTURE_TYPE_BIND_SPARSE_INFO,
            .bufferBindCount = 1,
            .pBufferBinds = &parts,
        };
        VkFence fence = make_fence();
        VK(vkQueueBindSparse(binder, 1, &bind_info, fence));
        VK(vkWaitForFences(device, 1, &fence, VK_TRUE, LONG));
        if (round == 0) {
            VkCommandBuffer commands = begin();
            vkCmdFillBuffer(commands, buffer.handle, middle - page, 3 * page, 0x55);
            finish(commands);
        }
        run(&kernel, NULL, total / 64);
        for (uint32_t i = 0; i < total; i++) {
            bool inside = i >= words && i < 2 * words;
            uint32_t want = !inside || !there ? 0 : round == 0 ? 0x55 : i;
            CHECK(((uint32_t*)out.at)[i] == want + 1, "round %d: word %u is %#x, not %#x", round, i,
                  ((uint32_t*)out.at)[i], want + 1);
        }
    }
    close_device();
}

CASE(wild_address_loses_the_device_and_no_other) {
    open_device();
    struct kernel kernel = KERNEL(wild, 0, 8);
    uint64_t at = UINT64_C(0x666600000000);
    VkCommandBuffer commands = begin();
    use(commands, &kernel, &at);
    vkCmdDispatch(commands, 1, 1, 1);
    VK(vkEndCommandBuffer(commands));
    VkFence fence = make_fence();
    submit(queue, commands, NULL, fence);
    VkResult result = vkWaitForFences(device, 1, &fence, VK_TRUE, LONG);
    if (result == VK_SUCCESS) result = vkQueueWaitIdle(queue);
    // Some versions say it with the next submission alone.
    if (result == VK_SUCCESS) {
        VkSubmitInfo info = {.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO, .commandBufferCount = 1, .pCommandBuffers = &commands};
        result = vkQueueSubmit(queue, 1, &info, VK_NULL_HANDLE);
    }
    expect_vk(__FILE__, __LINE__, "work at a wild address", result, VK_ERROR_DEVICE_LOST);
    // A device has to be without objects when it goes.
    vkDestroyFence(device, fence, NULL);
    free_kernel(kernel);
    vkDestroyCommandPool(device, command_pool, NULL);
    vkDestroyDevice(device, NULL);
    vkDestroyInstance(instance, NULL);
    gpu = VK_NULL_HANDLE;
    open_device();
    uint32_t* words = noise(COUNT, 8);
    struct buffer out = host_buffer(BYTES, words);
    struct kernel works = step_on(out);
    run(&works, &(uint32_t){1}, COUNT / 64);
    step_on_host(words, 1);
    SAME((uint32_t*)out.at, words, COUNT);
    close_device();
}

CASE(more_memory_than_there_is) {
    open_device();
    VkMemoryAllocateInfo info = {.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO, .allocationSize = UINT64_C(1) << 46};
    VkDeviceMemory memory;
    info.memoryTypeIndex = memory_type(~0u, LOCAL);
    VK_GIVES(vkAllocateMemory(device, &info, NULL, &memory), VK_ERROR_OUT_OF_DEVICE_MEMORY);
    // What was given back can be had again, many times.
    for (int i = 0; i < 300; i++) {
        struct buffer made = make_buffer(1 << 20, LOCAL);
        free_buffer(made);
    }
    close_device();
}

CASE(pipelines_from_a_cache) {
    open_device();
    uint32_t* words = noise(COUNT, 9);
    struct buffer out = host_buffer(BYTES, words);
    VkPipelineCacheCreateInfo info = {.sType = VK_STRUCTURE_TYPE_PIPELINE_CACHE_CREATE_INFO};
    VkPipelineCache cache;
    VK(vkCreatePipelineCache(device, &info, NULL, &cache));
    struct kernel first = step_on(out), second = step_on(out);
    run(&first, &(uint32_t){1}, COUNT / 64);
    free_kernel(first);
    run(&second, &(uint32_t){2}, COUNT / 64);
    step_on_host(words, 1);
    step_on_host(words, 2);
    SAME((uint32_t*)out.at, words, COUNT);
    size_t size = 0;
    VK(vkGetPipelineCacheData(device, cache, &size, NULL));
    CHECK(size >= 32, "a cache of %zu bytes", size);
    vkDestroyPipelineCache(device, cache, NULL);
    close_device();
}
