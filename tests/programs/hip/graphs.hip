// Graphs, captured and built by hand; launched more than once.
#include "hip_cases.h"

using Words = std::vector<uint32_t>;

static const uint32_t COUNT = 10007;

__global__ void step(uint32_t* words, uint32_t count, uint32_t value) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] = words[i] * 5 + value;
}

__global__ void sum_up(uint32_t* out, const uint32_t* a, const uint32_t* b, uint32_t count) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = a[i] + b[i] * 2;
}

static const dim3 GRID((COUNT + 255) / 256), BLOCK(256);

CASE(graph_capture) {
    Words from = noise(COUNT, 1), want = from;
    Buffer<uint32_t> words(from);
    uint32_t* pinned = nullptr;
    HIP(hipHostMalloc((void**)&pinned, COUNT * 4, hipHostMallocDefault));
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    hipGraph_t graph;
    hipGraphExec_t executable;
    hipStreamCaptureStatus status;
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    HIP(hipStreamIsCapturing(stream, &status));
    EQUAL(status, hipStreamCaptureStatusActive);
    step<<<GRID, BLOCK, 0, stream>>>(words.data, COUNT, 1);
    step<<<GRID, BLOCK, 0, stream>>>(words.data, COUNT, 2);
    HIP(hipMemcpyAsync(pinned, words.data, COUNT * 4, hipMemcpyDeviceToHost, stream));
    HIP(hipStreamEndCapture(stream, &graph));
    SAME_AS(words.read(), from); // nothing has run yet
    size_t nodes = 0;
    HIP(hipGraphGetNodes(graph, nullptr, &nodes));
    EQUAL(nodes, 3);
    HIP(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    for (int round = 0; round < 4; round++) {
        HIP(hipGraphLaunch(executable, stream));
        HIP(hipStreamSynchronize(stream));
        for (uint32_t& word : want) word = (word * 5 + 1) * 5 + 2;
        SAME(pinned, want.data(), COUNT);
    }
    HIP(hipGraphExecDestroy(executable));
    HIP(hipGraphDestroy(graph));
    HIP(hipStreamDestroy(stream));
    HIP(hipHostFree(pinned));
}

// Two streams that part and meet again, by events.
CASE(graph_capture_of_two_streams) {
    Words from_a = noise(COUNT, 2), from_b = noise(COUNT, 3), want(COUNT);
    Buffer<uint32_t> a(from_a), b(from_b), out(COUNT);
    hipStream_t first, second;
    hipEvent_t parts, meets;
    HIP(hipStreamCreate(&first));
    HIP(hipStreamCreate(&second));
    HIP(hipEventCreate(&parts));
    HIP(hipEventCreate(&meets));
    hipGraph_t graph;
    hipGraphExec_t executable;
    HIP(hipStreamBeginCapture(first, hipStreamCaptureModeThreadLocal));
    HIP(hipEventRecord(parts, first));
    HIP(hipStreamWaitEvent(second, parts, 0));
    step<<<GRID, BLOCK, 0, first>>>(a.data, COUNT, 7);
    step<<<GRID, BLOCK, 0, second>>>(b.data, COUNT, 8);
    HIP(hipEventRecord(meets, second));
    HIP(hipStreamWaitEvent(first, meets, 0));
    sum_up<<<GRID, BLOCK, 0, first>>>(out.data, a.data, b.data, COUNT);
    HIP(hipStreamEndCapture(first, &graph));
    HIP(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    HIP(hipGraphLaunch(executable, first));
    HIP(hipStreamSynchronize(first));
    for (uint32_t i = 0; i < COUNT; i++) want[i] = from_a[i] * 5 + 7 + (from_b[i] * 5 + 8) * 2;
    SAME_AS(out.read(), want);
    HIP(hipGraphExecDestroy(executable));
    HIP(hipGraphDestroy(graph));
    HIP(hipEventDestroy(parts));
    HIP(hipEventDestroy(meets));
    HIP(hipStreamDestroy(first));
    HIP(hipStreamDestroy(second));
}

// Copy in, fill, two kernels, a host function, copy out: a graph with a diamond in it.
CASE(graph_explicit) {
    Words from = noise(COUNT, 4), to(COUNT), want(COUNT);
    Buffer<uint32_t> a(COUNT), b(COUNT), out(COUNT);
    hipGraph_t graph;
    HIP(hipGraphCreate(&graph, 0));

    hipGraphNode_t copy_in, fill, scale, combine, copy_out, host;
    HIP(hipGraphAddMemcpyNode1D(&copy_in, graph, nullptr, 0, a.data, from.data(), COUNT * 4, hipMemcpyHostToDevice));
    hipMemsetParams filling = {};
    filling.dst = b.data;
    filling.elementSize = 4;
    filling.value = 17;
    filling.width = COUNT;
    filling.height = 1;
    HIP(hipGraphAddMemsetNode(&fill, graph, nullptr, 0, &filling));

    uint32_t count = COUNT, value = 3;
    void* scale_arguments[] = {&a.data, &count, &value};
    hipKernelNodeParams kernel = {};
    kernel.func = (void*)step;
    kernel.gridDim = GRID;
    kernel.blockDim = BLOCK;
    kernel.kernelParams = scale_arguments;
    HIP(hipGraphAddKernelNode(&scale, graph, &copy_in, 1, &kernel));

    void* combine_arguments[] = {&out.data, &a.data, &b.data, &count};
    hipGraphNode_t before_combine[] = {scale, fill};
    kernel.func = (void*)sum_up;
    kernel.kernelParams = combine_arguments;
    HIP(hipGraphAddKernelNode(&combine, graph, before_combine, 2, &kernel));

    HIP(hipGraphAddMemcpyNode1D(&copy_out, graph, &combine, 1, to.data(), out.data, COUNT * 4, hipMemcpyDeviceToHost));
    uint32_t seen = 0;
    struct Look { Words* to; uint32_t* seen; } look = {&to, &seen};
    hipHostNodeParams looking = {};
    looking.fn = [](void* data) { *((Look*)data)->seen = (*((Look*)data)->to)[5]; };
    looking.userData = &look;
    HIP(hipGraphAddHostNode(&host, graph, &copy_out, 1, &looking));

    size_t nodes = 0, edges = 0;
    HIP(hipGraphGetNodes(graph, nullptr, &nodes));
    HIP(hipGraphGetEdges(graph, nullptr, nullptr, &edges));
    EQUAL(nodes, 6);
    EQUAL(edges, 5);
    hipGraphExec_t executable;
    HIP(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    for (int round = 0; round < 3; round++) {
        for (uint32_t& word : from) word += round;
        HIP(hipGraphLaunch(executable, nullptr));
        HIP(hipStreamSynchronize(nullptr));
        for (uint32_t i = 0; i < COUNT; i++) want[i] = from[i] * 5 + 3 + 17 * 2;
        SAME_AS(to, want);
        EQUAL(seen, want[5]);
    }
    HIP(hipGraphExecDestroy(executable));
    HIP(hipGraphDestroy(graph));
}

CASE(graph_kernel_parameters_change) {
    Words want = noise(COUNT, 5);
    Buffer<uint32_t> words(want);
    hipGraph_t graph;
    hipGraphNode_t node;
    hipGraphExec_t executable;
    uint32_t count = COUNT, value = 1;
    void* arguments[] = {&words.data, &count, &value};
    hipKernelNodeParams kernel = {};
    kernel.func = (void*)step;
    kernel.gridDim = GRID;
    kernel.blockDim = BLOCK;
    kernel.kernelParams = arguments;
    HIP(hipGraphCreate(&graph, 0));
    HIP(hipGraphAddKernelNode(&node, graph, nullptr, 0, &kernel));
    HIP(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    for (value = 1; value < 5; value++) {
        HIP(hipGraphExecKernelNodeSetParams(executable, node, &kernel));
        HIP(hipGraphLaunch(executable, nullptr));
        HIP(hipStreamSynchronize(nullptr));
        for (uint32_t& word : want) word = word * 5 + value;
        SAME_AS(words.read(), want);
    }
    HIP(hipGraphExecDestroy(executable));
    HIP(hipGraphDestroy(graph));
}

CASE(graph_child_and_clone) {
    Words want = noise(COUNT, 6);
    Buffer<uint32_t> words(want);
    uint32_t count = COUNT, value = 9;
    void* arguments[] = {&words.data, &count, &value};
    hipKernelNodeParams kernel = {};
    kernel.func = (void*)step;
    kernel.gridDim = GRID;
    kernel.blockDim = BLOCK;
    kernel.kernelParams = arguments;
    hipGraph_t inner, outer, clone;
    hipGraphNode_t node, child, last;
    hipGraphExec_t executable;
    HIP(hipGraphCreate(&inner, 0));
    HIP(hipGraphAddKernelNode(&node, inner, nullptr, 0, &kernel));
    HIP(hipGraphCreate(&outer, 0));
    HIP(hipGraphAddChildGraphNode(&child, outer, nullptr, 0, inner));
    value = 10;
    HIP(hipGraphAddKernelNode(&last, outer, &child, 1, &kernel));
    HIP(hipGraphClone(&clone, outer));
    HIP(hipGraphInstantiate(&executable, clone, nullptr, nullptr, 0));
    HIP(hipGraphDestroy(outer));
    HIP(hipGraphDestroy(inner));
    HIP(hipGraphLaunch(executable, nullptr));
    HIP(hipStreamSynchronize(nullptr));
    for (uint32_t& word : want) word = (word * 5 + 9) * 5 + 10;
    SAME_AS(words.read(), want);
    HIP(hipGraphExecDestroy(executable));
    HIP(hipGraphDestroy(clone));
}
