// Nodes of graphs by kind, what an instantiated graph can change, and what a capture refuses.
#include "hip_cases.h"

using Words = std::vector<uint32_t>;

static const uint32_t COUNT = 6007;
static const dim3 GRID((COUNT + 255) / 256), BLOCK(256);

__global__ void step(uint32_t* words, uint32_t count, uint32_t value) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] = words[i] * 5 + value;
}

static Words stepped(Words words, std::initializer_list<uint32_t> values) {
    for (uint32_t value : values)
        for (uint32_t& word : words) word = word * 5 + value;
    return words;
}

// The parameters of a launch of `step`, with the memory they point to.
struct Step {
    uint32_t* data;
    uint32_t count = COUNT, value;
    void* arguments[3] = {&data, &count, &value};
    hipKernelNodeParams params = {};

    Step(Buffer<uint32_t>& words, uint32_t value) : data(words.data), value(value) {
        params.func = (void*)step;
        params.gridDim = GRID;
        params.blockDim = BLOCK;
        params.kernelParams = arguments;
    }
    Step(const Step&) = delete;
};

static hipGraph_t new_graph() {
    hipGraph_t graph;
    HIP(hipGraphCreate(&graph, 0));
    return graph;
}

static hipGraphExec_t instantiate(hipGraph_t graph) {
    hipGraphExec_t executable;
    HIP(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    return executable;
}

static void launch(hipGraphExec_t executable) {
    HIP(hipGraphLaunch(executable, nullptr));
    HIP(hipStreamSynchronize(nullptr));
}

CASE(graph_memcpy_node_of_a_box) {
    const size_t width = 40, height = 6, depth = 4;
    std::vector<uint8_t> from(width * height * depth), want(from.size(), 0x44);
    for (size_t i = 0; i < from.size(); i++) from[i] = uint8_t(i * 31 + i / 7);
    Buffer<uint8_t> device(want);
    hipMemcpy3DParms copy = {};
    copy.srcPtr = make_hipPitchedPtr(from.data(), width, width, height);
    copy.srcPos = make_hipPos(3, 1, 0);
    copy.dstPtr = make_hipPitchedPtr(device.data, width, width, height);
    copy.dstPos = make_hipPos(6, 2, 1);
    copy.extent = make_hipExtent(29, 4, 3);
    copy.kind = hipMemcpyHostToDevice;
    hipGraph_t graph = new_graph();
    hipGraphNode_t node;
    HIP(hipGraphAddMemcpyNode(&node, graph, nullptr, 0, &copy));
    hipGraphExec_t executable = instantiate(graph);
    launch(executable);
    for (size_t z = 0; z < 3; z++)
        for (size_t y = 0; y < 4; y++)
            memcpy(&want[((z + 1) * height + y + 2) * width + 6], &from[(z * height + y + 1) * width + 3], 29);
    SAME_AS(device.read(), want);
    HIP(hipGraphExecDestroy(executable));
    HIP(hipGraphDestroy(graph));
}

CASE(graph_memset_nodes) {
    Words want(COUNT, 0x01010101);
    Buffer<uint32_t> words(want);
    hipGraph_t graph = new_graph();
    hipGraphNode_t whole, bytes, halves;
    hipMemsetParams fill = {};
    fill.dst = words.data + 10;
    fill.elementSize = 4;
    fill.value = 0xdeadbeef;
    fill.width = 1000;
    fill.height = 1;
    HIP(hipGraphAddMemsetNode(&whole, graph, nullptr, 0, &fill));
    fill.dst = words.data + 20;
    fill.elementSize = 1;
    fill.value = 0x5a;
    fill.width = 400;
    HIP(hipGraphAddMemsetNode(&bytes, graph, &whole, 1, &fill));
    fill.dst = words.data + 200;
    fill.elementSize = 2;
    fill.value = 0x1234;
    fill.width = 100;
    HIP(hipGraphAddMemsetNode(&halves, graph, &bytes, 1, &fill));
    hipGraphExec_t executable = instantiate(graph);
    launch(executable);
    std::fill_n(want.begin() + 10, 1000, 0xdeadbeef);
    std::fill_n(want.begin() + 20, 100, 0x5a5a5a5a);
    std::fill_n(want.begin() + 200, 50, 0x12341234);
    SAME_AS(words.read(), want);
    HIP(hipGraphExecDestroy(executable));
    HIP(hipGraphDestroy(graph));
}

__device__ uint32_t graph_symbol[256];

CASE(graph_symbol_nodes) {
    Words from = noise(256, 1), to(256);
    hipGraph_t graph = new_graph();
    hipGraphNode_t in, out;
    HIP(hipGraphAddMemcpyNodeToSymbol(&in, graph, nullptr, 0, HIP_SYMBOL(graph_symbol), from.data(), 1024, 0,
                                      hipMemcpyHostToDevice));
    HIP(hipGraphAddMemcpyNodeFromSymbol(&out, graph, &in, 1, to.data(), HIP_SYMBOL(graph_symbol), 512, 512,
                                        hipMemcpyDeviceToHost));
    hipGraphExec_t executable = instantiate(graph);
    launch(executable);
    SAME(to.data(), from.data() + 128, 128);
    HIP(hipGraphExecDestroy(executable));
    HIP(hipGraphDestroy(graph));
}

// One graph records an event, another one waits for it in another stream.
CASE(graph_event_nodes) {
    Words from = noise(COUNT, 2);
    Buffer<uint32_t> words(from);
    hipEvent_t event, other;
    HIP(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    HIP(hipEventCreateWithFlags(&other, hipEventDisableTiming));
    Step first(words, 3), second(words, 4);
    hipGraph_t records = new_graph(), waits = new_graph();
    hipGraphNode_t kernel, record, wait, last;
    HIP(hipGraphAddKernelNode(&kernel, records, nullptr, 0, &first.params));
    HIP(hipGraphAddEventRecordNode(&record, records, &kernel, 1, event));
    HIP(hipGraphAddEventWaitNode(&wait, waits, nullptr, 0, event));
    HIP(hipGraphAddKernelNode(&last, waits, &wait, 1, &second.params));
    hipEvent_t got;
    HIP(hipGraphEventRecordNodeGetEvent(record, &got));
    CHECK(got == event, "another event");
    HIP(hipGraphEventWaitNodeSetEvent(wait, other));
    HIP(hipGraphEventWaitNodeGetEvent(wait, &got));
    CHECK(got == other, "another event");
    HIP(hipGraphEventWaitNodeSetEvent(wait, event));
    hipGraphExec_t recording = instantiate(records), waiting = instantiate(waits);
    hipStream_t streams[2];
    for (auto& stream : streams) HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    HIP(hipGraphLaunch(recording, streams[0]));
    HIP(hipGraphLaunch(waiting, streams[1]));
    HIP(hipStreamSynchronize(streams[1]));
    HIP(hipEventQuery(event));
    SAME_AS(words.read(), stepped(from, {3, 4}));
    for (auto& stream : streams) HIP(hipStreamDestroy(stream));
    HIP(hipGraphExecDestroy(recording));
    HIP(hipGraphExecDestroy(waiting));
    HIP(hipGraphDestroy(records));
    HIP(hipGraphDestroy(waits));
    HIP(hipEventDestroy(event));
    HIP(hipEventDestroy(other));
}

// The executable takes the parameters of another graph of the same shape, and refuses one of another shape.
CASE(graph_executable_update) {
    Words from = noise(COUNT, 3);
    Buffer<uint32_t> words(from);
    hipGraph_t graphs[2] = {new_graph(), new_graph()}, other = new_graph();
    Step one(words, 1), two(words, 2), eleven(words, 11), twelve(words, 12);
    hipGraphNode_t before, after, bad;
    HIP(hipGraphAddKernelNode(&before, graphs[0], nullptr, 0, &one.params));
    HIP(hipGraphAddKernelNode(&after, graphs[0], &before, 1, &two.params));
    HIP(hipGraphAddKernelNode(&before, graphs[1], nullptr, 0, &eleven.params));
    HIP(hipGraphAddKernelNode(&after, graphs[1], &before, 1, &twelve.params));
    HIP(hipGraphAddKernelNode(&before, other, nullptr, 0, &one.params));
    hipGraphExec_t executable = instantiate(graphs[0]);
    launch(executable);
    SAME_AS(words.read(), stepped(from, {1, 2}));
    hipGraphExecUpdateResult result;
    HIP(hipGraphExecUpdate(executable, graphs[1], &bad, &result));
    EQUAL(result, hipGraphExecUpdateSuccess);
    launch(executable);
    SAME_AS(words.read(), stepped(from, {1, 2, 11, 12}));
    HIP_FAILS(hipGraphExecUpdate(executable, other, &bad, &result), hipErrorGraphExecUpdateFailure);
    EQUAL(result, hipGraphExecUpdateErrorTopologyChanged);
    launch(executable);
    SAME_AS(words.read(), stepped(from, {1, 2, 11, 12, 11, 12}));
    HIP(hipGraphExecDestroy(executable));
    for (hipGraph_t graph : {graphs[0], graphs[1], other}) HIP(hipGraphDestroy(graph));
}

// Two executables of one graph: a change of the one, or its end, is none of the other.
CASE(graph_instantiated_twice) {
    Words from = noise(COUNT, 4);
    Buffer<uint32_t> words(from);
    Step change(words, 6);
    hipGraph_t graph = new_graph();
    hipGraphNode_t node;
    HIP(hipGraphAddKernelNode(&node, graph, nullptr, 0, &change.params));
    hipGraphExec_t first = instantiate(graph), second = instantiate(graph);
    change.value = 7;
    HIP(hipGraphExecKernelNodeSetParams(second, node, &change.params));
    launch(first);
    launch(second);
    launch(first);
    SAME_AS(words.read(), stepped(from, {6, 7, 6}));
    HIP(hipGraphExecDestroy(first));
    HIP(hipGraphDestroy(graph));
    launch(second);
    SAME_AS(words.read(), stepped(from, {6, 7, 6, 7}));
    HIP(hipGraphExecDestroy(second));
}

CASE(graph_copy_and_fill_parameters_change) {
    Words a = noise(COUNT, 5), b = noise(COUNT, 6), to(COUNT);
    Buffer<uint32_t> words(COUNT);
    hipGraph_t graph = new_graph();
    hipGraphNode_t in, fill, out;
    HIP(hipGraphAddMemcpyNode1D(&in, graph, nullptr, 0, words.data, a.data(), COUNT * 4, hipMemcpyHostToDevice));
    hipMemsetParams filling = {};
    filling.dst = words.data;
    filling.elementSize = 4;
    filling.value = 9;
    filling.width = 100;
    filling.height = 1;
    HIP(hipGraphAddMemsetNode(&fill, graph, &in, 1, &filling));
    HIP(hipGraphAddMemcpyNode1D(&out, graph, &fill, 1, to.data(), words.data, COUNT * 4, hipMemcpyDeviceToHost));
    hipGraphExec_t executable = instantiate(graph);
    launch(executable);
    Words want = a;
    std::fill_n(want.begin(), 100, 9);
    SAME_AS(to, want);
    HIP(hipGraphExecMemcpyNodeSetParams1D(executable, in, words.data, b.data(), COUNT * 4, hipMemcpyHostToDevice));
    filling.value = 10;
    HIP(hipGraphExecMemsetNodeSetParams(executable, fill, &filling));
    launch(executable);
    want = b;
    std::fill_n(want.begin(), 100, 10);
    SAME_AS(to, want);
    HIP(hipGraphExecDestroy(executable));
    HIP(hipGraphDestroy(graph));
}

struct Steps {
    Words done;
    uint32_t next = 0;
};

struct Host {
    Steps* steps;
    uint32_t number;
};

static void take_down(void* data) {
    auto* host = (Host*)data;
    host->steps->done.push_back(host->number);
}

// Host functions along a chain run in its order, each once in a launch.
CASE(graph_host_nodes_in_order) {
    Steps steps;
    Host hosts[6], instead = {&steps, 100};
    hipGraph_t graph = new_graph();
    hipGraphNode_t nodes[6];
    for (uint32_t i = 0; i < 6; i++) {
        hosts[i] = {&steps, i};
        hipHostNodeParams params = {};
        params.fn = take_down;
        params.userData = &hosts[i];
        HIP(hipGraphAddHostNode(&nodes[i], graph, i ? &nodes[i - 1] : nullptr, i ? 1 : 0, &params));
    }
    hipGraphExec_t executable = instantiate(graph);
    launch(executable);
    launch(executable);
    SAME_AS(steps.done, (Words{0, 1, 2, 3, 4, 5, 0, 1, 2, 3, 4, 5}));
    hipHostNodeParams params = {};
    params.fn = take_down;
    params.userData = &instead;
    HIP(hipGraphExecHostNodeSetParams(executable, nodes[2], &params));
    steps.done.clear();
    launch(executable);
    SAME_AS(steps.done, (Words{0, 1, 100, 3, 4, 5}));
    HIP(hipGraphExecDestroy(executable));
    HIP(hipGraphDestroy(graph));
}

CASE(graph_capture_of_host_functions_and_fills) {
    Words want(COUNT, 0x0b0b0b0b);
    Buffer<uint32_t> words(COUNT);
    Steps steps;
    Host first = {&steps, 1}, second = {&steps, 2};
    hipStream_t stream;
    hipGraph_t graph;
    HIP(hipStreamCreate(&stream));
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeRelaxed));
    HIP(hipMemsetAsync(words.data, 0x0b, COUNT * 4, stream));
    HIP(hipLaunchHostFunc(stream, take_down, &first));
    step<<<GRID, BLOCK, 0, stream>>>(words.data, COUNT, 3);
    HIP(hipLaunchHostFunc(stream, take_down, &second));
    HIP(hipStreamEndCapture(stream, &graph));
    EQUAL(steps.done.size(), 0);
    hipGraphExec_t executable = instantiate(graph);
    for (int round = 0; round < 3; round++) {
        HIP(hipGraphLaunch(executable, stream));
        HIP(hipStreamSynchronize(stream));
        SAME_AS(words.read(), stepped(want, {3}));
    }
    SAME_AS(steps.done, (Words{1, 2, 1, 2, 1, 2}));
    HIP(hipGraphExecDestroy(executable));
    HIP(hipGraphDestroy(graph));
    HIP(hipStreamDestroy(stream));
}

__global__ void add_up(uint32_t* out, const uint32_t* a, const uint32_t* b, const uint32_t* c, uint32_t count) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) out[i] = a[i] + 3 * b[i] + 7 * c[i];
}

// One stream forks into two more and is joined by both.
CASE(graph_capture_fork_of_three) {
    Words from[3], want(COUNT);
    for (uint32_t i = 0; i < 3; i++) from[i] = noise(COUNT, 7 + i);
    Buffer<uint32_t> a(from[0]), b(from[1]), c(from[2]), out(COUNT);
    uint32_t* data[3] = {a.data, b.data, c.data};
    hipStream_t streams[3];
    hipEvent_t fork, joins[3];
    HIP(hipEventCreate(&fork));
    for (int i = 0; i < 3; i++) {
        HIP(hipStreamCreate(&streams[i]));
        HIP(hipEventCreate(&joins[i]));
    }
    hipGraph_t graph;
    HIP(hipStreamBeginCapture(streams[0], hipStreamCaptureModeGlobal));
    HIP(hipEventRecord(fork, streams[0]));
    for (uint32_t i = 0; i < 3; i++) {
        if (i) HIP(hipStreamWaitEvent(streams[i], fork, 0));
        for (uint32_t n = 0; n <= i; n++) step<<<GRID, BLOCK, 0, streams[i]>>>(data[i], COUNT, i * 10 + n);
        if (i) {
            HIP(hipEventRecord(joins[i], streams[i]));
            HIP(hipStreamWaitEvent(streams[0], joins[i], 0));
        }
    }
    add_up<<<GRID, BLOCK, 0, streams[0]>>>(out.data, a.data, b.data, c.data, COUNT);
    HIP(hipStreamEndCapture(streams[0], &graph));
    size_t nodes = 0, roots = 0;
    HIP(hipGraphGetNodes(graph, nullptr, &nodes));
    EQUAL(nodes, 7);
    HIP(hipGraphGetRootNodes(graph, nullptr, &roots));
    EQUAL(roots, 3);
    hipGraphExec_t executable = instantiate(graph);
    HIP(hipGraphLaunch(executable, streams[0]));
    HIP(hipStreamSynchronize(streams[0]));
    Words x = stepped(from[0], {0}), y = stepped(from[1], {10, 11}), z = stepped(from[2], {20, 21, 22});
    for (uint32_t i = 0; i < COUNT; i++) want[i] = x[i] + 3 * y[i] + 7 * z[i];
    SAME_AS(out.read(), want);
    HIP(hipGraphExecDestroy(executable));
    HIP(hipGraphDestroy(graph));
    HIP(hipEventDestroy(fork));
    for (int i = 0; i < 3; i++) {
        HIP(hipStreamDestroy(streams[i]));
        HIP(hipEventDestroy(joins[i]));
    }
}

// What cannot be captured is refused, and the stream works again once the capture has ended.
CASE(graph_capture_refuses) {
    Words from = noise(COUNT, 10);
    Buffer<uint32_t> words(from);
    hipStream_t stream;
    hipGraph_t graph = nullptr;
    HIP(hipStreamCreate(&stream));
    HIP_FAILS(hipStreamEndCapture(stream, &graph), hipErrorIllegalState);
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal));
    HIP_FAILS(hipStreamBeginCapture(stream, hipStreamCaptureModeGlobal), hipErrorIllegalState);
    HIP_FAILS(hipStreamSynchronize(stream), hipErrorStreamCaptureUnsupported);
    HIP_FAILS(hipStreamQuery(stream), hipErrorStreamCaptureUnsupported);
    // HIP 5 leaves the capture as it is.
    hipStreamCaptureStatus status;
    HIP(hipStreamIsCapturing(stream, &status));
    CHECK(status != hipStreamCaptureStatusNone, "the capture has ended by itself");
    hipError_t ended = hipStreamEndCapture(stream, &graph);
    CHECK(ended == (status == hipStreamCaptureStatusActive ? hipSuccess : hipErrorStreamCaptureInvalidated), "%s",
          hipGetErrorName(ended));
    if (ended == hipSuccess) {
        size_t nodes = 1;
        HIP(hipGraphGetNodes(graph, nullptr, &nodes));
        EQUAL(nodes, 0);
        HIP(hipGraphDestroy(graph));
    } else {
        // HIP 6 leaves the stream spoilt; another one works.
        HIP(hipStreamDestroy(stream));
        HIP(hipStreamCreate(&stream));
    }
    (void)hipGetLastError();
    HIP(hipStreamIsCapturing(stream, &status));
    EQUAL(status, hipStreamCaptureStatusNone);
    step<<<GRID, BLOCK, 0, stream>>>(words.data, COUNT, 5);
    LAUNCHED();
    HIP(hipStreamSynchronize(stream));
    SAME_AS(words.read(), stepped(from, {5}));
    HIP(hipStreamDestroy(stream));
}

// A graph tells what it is made of; an edge and a node that are removed are gone.
CASE(graph_tells_its_nodes_and_edges) {
    Buffer<uint32_t> words(noise(COUNT, 11));
    Step params(words, 1);
    hipGraph_t graph = new_graph();
    hipGraphNode_t kernel, empty, fill, found[4];
    hipMemsetParams filling = {};
    filling.dst = words.data;
    filling.elementSize = 4;
    filling.width = filling.height = 1;
    HIP(hipGraphAddKernelNode(&kernel, graph, nullptr, 0, &params.params));
    HIP(hipGraphAddEmptyNode(&empty, graph, &kernel, 1));
    HIP(hipGraphAddMemsetNode(&fill, graph, nullptr, 0, &filling));
    HIP(hipGraphAddDependencies(graph, &empty, &fill, 1));
    hipGraphNodeType type;
    HIP(hipGraphNodeGetType(kernel, &type));
    EQUAL(type, hipGraphNodeTypeKernel);
    HIP(hipGraphNodeGetType(empty, &type));
    EQUAL(type, hipGraphNodeTypeEmpty);
    HIP(hipGraphNodeGetType(fill, &type));
    EQUAL(type, hipGraphNodeTypeMemset);
    size_t count = 4;
    HIP(hipGraphNodeGetDependencies(fill, found, &count));
    EQUAL(count, 1);
    CHECK(found[0] == empty, "another node");
    count = 4;
    HIP(hipGraphNodeGetDependentNodes(kernel, found, &count));
    EQUAL(count, 1);
    CHECK(found[0] == empty, "another node");
    HIP(hipGraphRemoveDependencies(graph, &empty, &fill, 1));
    HIP(hipGraphGetEdges(graph, nullptr, nullptr, &count));
    EQUAL(count, 1);
    HIP(hipGraphDestroyNode(empty));
    HIP(hipGraphGetNodes(graph, nullptr, &count));
    EQUAL(count, 2);
    HIP(hipGraphGetEdges(graph, nullptr, nullptr, &count));
    EQUAL(count, 0);
    HIP(hipGraphDestroy(graph));
}

// A child graph inside an executable takes the parameters of another graph.
CASE(graph_child_parameters_change) {
    Words from = noise(COUNT, 12);
    Buffer<uint32_t> words(from);
    Step inner(words, 21), outer(words, 22);
    hipGraph_t child = new_graph(), other = new_graph(), graph = new_graph();
    hipGraphNode_t node, part, last;
    HIP(hipGraphAddKernelNode(&node, child, nullptr, 0, &inner.params));
    inner.value = 23;
    HIP(hipGraphAddKernelNode(&node, other, nullptr, 0, &inner.params));
    HIP(hipGraphAddChildGraphNode(&part, graph, nullptr, 0, child));
    HIP(hipGraphAddKernelNode(&last, graph, &part, 1, &outer.params));
    hipGraphExec_t executable = instantiate(graph);
    launch(executable);
    SAME_AS(words.read(), stepped(from, {21, 22}));
    HIP(hipGraphExecChildGraphNodeSetParams(executable, part, other));
    launch(executable);
    SAME_AS(words.read(), stepped(from, {21, 22, 23, 22}));
    HIP(hipGraphExecDestroy(executable));
    for (hipGraph_t one : {child, other, graph}) HIP(hipGraphDestroy(one));
}
