// The structure of graphs: order, children, empty and disabled nodes, what belongs to them, and mistakes.
#include "hip_cases.h"

#include <algorithm>

using Words = std::vector<uint32_t>;

static const uint32_t COUNT = 5003;
static const dim3 GRID((COUNT + 255) / 256), BLOCK(256);

__global__ void advance(uint32_t* words, uint32_t count, uint32_t value) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] = words[i] * 3 + value;
}

__global__ void flip(uint32_t* words, uint32_t count, uint32_t value) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) words[i] = ~words[i] ^ value;
}

static Words advanced(Words words, uint32_t value) {
    for (uint32_t& word : words) word = word * 3 + value;
    return words;
}

// A kernel's launch as a node; what its arguments point to is copied when the node is made.
struct Launch {
    uint32_t *words, count, value;
    void* arguments[3];
    hipKernelNodeParams parameters = {};

    Launch(void (*kernel)(uint32_t*, uint32_t, uint32_t), uint32_t* words, uint32_t value)
        : words(words), count(COUNT), value(value), arguments{&this->words, &count, &this->value} {
        parameters.func = (void*)kernel;
        parameters.gridDim = GRID;
        parameters.blockDim = BLOCK;
        parameters.kernelParams = arguments;
    }
    Launch(const Launch&) = delete;
    hipGraphNode_t add(hipGraph_t graph, const std::vector<hipGraphNode_t>& after = {}) {
        hipGraphNode_t node;
        HIP(hipGraphAddKernelNode(&node, graph, after.data(), after.size(), &parameters));
        return node;
    }
};

struct Graph {
    hipGraph_t graph;
    hipGraphExec_t executable = nullptr;

    Graph() { HIP(hipGraphCreate(&graph, 0)); }
    Graph(const Graph&) = delete;
    ~Graph() {
        if (executable) HIP(hipGraphExecDestroy(executable));
        HIP(hipGraphDestroy(graph));
    }
    void instantiate() { HIP(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0)); }
    void run() {
        if (!executable) instantiate();
        HIP(hipGraphLaunch(executable, nullptr));
        HIP(hipStreamSynchronize(nullptr));
    }
    size_t nodes() const {
        size_t count = 0;
        HIP(hipGraphGetNodes(graph, nullptr, &count));
        return count;
    }
};

CASE(graph_memset_node_2d) {
    const size_t pitch = 256, width = 150, rows = 20;
    std::vector<uint8_t> want(pitch * rows, 0x0f);
    Buffer<uint8_t> device(want);
    Graph graph;
    hipGraphNode_t node;
    hipMemsetParams fill = {}, got = {};
    fill.dst = device.data;
    fill.elementSize = 1;
    fill.value = 0xe1;
    fill.width = width;
    fill.height = rows;
    fill.pitch = pitch;
    HIP(hipGraphAddMemsetNode(&node, graph.graph, nullptr, 0, &fill));
    HIP(hipGraphMemsetNodeGetParams(node, &got));
    EQUAL(got.value, 0xe1);
    EQUAL(got.height, rows);
    graph.run();
    for (size_t row = 0; row < rows; row++) memset(&want[row * pitch], 0xe1, width);
    SAME_AS(device.read(), want);
}

struct Log { std::vector<int> calls; };
struct Entry { Log* log; int number; };
static void write_down(void* data) { ((Entry*)data)->log->calls.push_back(((Entry*)data)->number); }

static hipHostNodeParams calling(Entry& entry) {
    hipHostNodeParams host = {};
    host.fn = write_down;
    host.userData = &entry;
    return host;
}

CASE(graph_host_node_changes) {
    Log log;
    Entry first = {&log, 1}, second = {&log, 2};
    Graph graph;
    hipGraphNode_t node;
    hipHostNodeParams host = calling(first), got = {};
    HIP(hipGraphAddHostNode(&node, graph.graph, nullptr, 0, &host));
    HIP(hipGraphHostNodeGetParams(node, &got));
    CHECK(got.fn == write_down && got.userData == &first, "another function");
    graph.run();
    host = calling(second);
    HIP(hipGraphExecHostNodeSetParams(graph.executable, node, &host));
    graph.run();
    SAME_AS(log.calls, (std::vector<int>{1, 2}));
}

CASE(graph_empty_node_joins) {
    Words a = noise(COUNT, 7), b = noise(COUNT, 8);
    Buffer<uint32_t> first(a), second(b);
    Graph graph;
    Launch one(advance, first.data, 1), two(advance, second.data, 2), three(flip, first.data, 3);
    hipGraphNode_t nodes[] = {one.add(graph.graph), two.add(graph.graph)}, empty;
    HIP(hipGraphAddEmptyNode(&empty, graph.graph, nodes, 2));
    three.add(graph.graph, {empty});
    EQUAL(graph.nodes(), 4);
    graph.run();
    a = advanced(a, 1);
    for (uint32_t& word : a) word = ~word ^ 3;
    SAME_AS(first.read(), a);
    SAME_AS(second.read(), advanced(b, 2));
}

CASE(graph_children_in_children) {
    Words from = noise(COUNT, 9);
    Buffer<uint32_t> device(from);
    Graph inner, middle, outer;
    Launch one(advance, device.data, 1), two(advance, device.data, 2), three(advance, device.data, 3);
    one.add(inner.graph);
    hipGraphNode_t child, outer_child;
    HIP(hipGraphAddChildGraphNode(&child, middle.graph, nullptr, 0, inner.graph));
    two.add(middle.graph, {child});
    HIP(hipGraphAddChildGraphNode(&outer_child, outer.graph, nullptr, 0, middle.graph));
    three.add(outer.graph, {outer_child});
    hipGraph_t copy;
    HIP(hipGraphChildGraphNodeGetGraph(outer_child, &copy));
    size_t nodes = 0;
    HIP(hipGraphGetNodes(copy, nullptr, &nodes));
    EQUAL(nodes, 2);
    outer.run();
    SAME_AS(device.read(), advanced(advanced(advanced(from, 1), 2), 3));
}

CASE(graph_structure_is_told) {
    Buffer<uint32_t> device(COUNT);
    Graph graph;
    Launch launch(advance, device.data, 1);
    hipGraphNode_t root = launch.add(graph.graph), left = launch.add(graph.graph, {root}),
                   right = launch.add(graph.graph, {root}), last = launch.add(graph.graph, {left, right});
    size_t count = 8;
    hipGraphNode_t nodes[8];
    HIP(hipGraphGetRootNodes(graph.graph, nodes, &count));
    EQUAL(count, 1);
    CHECK(nodes[0] == root, "another root");
    count = 8;
    HIP(hipGraphNodeGetDependencies(last, nodes, &count));
    EQUAL(count, 2);
    CHECK(std::find(nodes, nodes + 2, left) != nodes + 2 && std::find(nodes, nodes + 2, right) != nodes + 2, "others");
    count = 8;
    HIP(hipGraphNodeGetDependentNodes(root, nodes, &count));
    EQUAL(count, 2);
    hipGraphNodeType type;
    HIP(hipGraphNodeGetType(last, &type));
    EQUAL(type, hipGraphNodeTypeKernel);
    size_t edges = 0;
    HIP(hipGraphGetEdges(graph.graph, nullptr, nullptr, &edges));
    EQUAL(edges, 4);
    HIP(hipGraphRemoveDependencies(graph.graph, &left, &last, 1));
    HIP(hipGraphGetEdges(graph.graph, nullptr, nullptr, &edges));
    EQUAL(edges, 3);
    HIP(hipGraphAddDependencies(graph.graph, &left, &last, 1));
    HIP(hipGraphDestroyNode(right));
    EQUAL(graph.nodes(), 3);
    HIP(hipGraphGetEdges(graph.graph, nullptr, nullptr, &edges));
    EQUAL(edges, 2);
}

// Dependencies alone make an order: the nodes are added in the opposite one.
CASE(graph_dependencies_make_the_order) {
    Words from = noise(COUNT, 10), want = from;
    Buffer<uint32_t> device(from);
    Graph graph;
    std::vector<hipGraphNode_t> nodes(12);
    for (uint32_t i = 12; i-- > 0;) nodes[i] = Launch(advance, device.data, i).add(graph.graph);
    HIP(hipGraphAddDependencies(graph.graph, nodes.data(), nodes.data() + 1, 11));
    graph.run();
    for (uint32_t i = 0; i < 12; i++) want = advanced(want, i);
    SAME_AS(device.read(), want);
}

CASE(graph_node_disabled) {
    Words from = noise(COUNT, 12);
    Buffer<uint32_t> device(from);
    Graph graph;
    hipGraphNode_t first = Launch(advance, device.data, 1).add(graph.graph);
    hipGraphNode_t second = Launch(advance, device.data, 2).add(graph.graph, {first});
    Launch(advance, device.data, 3).add(graph.graph, {second});
    graph.instantiate();
    unsigned enabled = 9;
    HIP(hipGraphNodeGetEnabled(graph.executable, second, &enabled));
    EQUAL(enabled, 1);
    HIP(hipGraphNodeSetEnabled(graph.executable, second, 0));
    HIP(hipGraphNodeGetEnabled(graph.executable, second, &enabled));
    EQUAL(enabled, 0);
    graph.run();
    Words want = advanced(advanced(from, 1), 3);
    SAME_AS(device.read(), want);
    HIP(hipGraphNodeSetEnabled(graph.executable, second, 1));
    graph.run();
    SAME_AS(device.read(), advanced(advanced(advanced(want, 1), 2), 3));
}

// A stream that takes part and does not come back is an error at the end of the capture.
CASE(graph_capture_that_does_not_join) {
    hipStream_t first, second;
    hipEvent_t parted;
    hipGraph_t made = nullptr;
    HIP(hipStreamCreateWithFlags(&first, hipStreamNonBlocking));
    HIP(hipStreamCreateWithFlags(&second, hipStreamNonBlocking));
    HIP(hipEventCreateWithFlags(&parted, hipEventDisableTiming));
    Buffer<uint32_t> device(Words(COUNT, 1));
    HIP(hipStreamBeginCapture(first, hipStreamCaptureModeRelaxed));
    HIP(hipEventRecord(parted, first));
    HIP(hipStreamWaitEvent(second, parted, 0));
    advance<<<GRID, BLOCK, 0, second>>>(device.data, COUNT, 8);
    HIP_FAILS(hipStreamEndCapture(second, &made), hipErrorStreamCaptureUnmatched);
    HIP_FAILS(hipStreamEndCapture(first, &made), hipErrorStreamCaptureUnjoined);
    SAME_AS(device.read(), Words(COUNT, 1));
    HIP(hipEventDestroy(parted));
}

static void count_down(void* data) { --*(int*)data; }

// What belongs to a graph is destroyed with the last graph that has it.
CASE(graph_user_object) {
    int alive = 1;
    hipUserObject_t object;
    HIP(hipUserObjectCreate(&object, &alive, count_down, 1, hipUserObjectNoDestructorSync));
    {
        Graph graph;
        HIP(hipGraphRetainUserObject(graph.graph, object, 1, hipGraphUserObjectMove));
        EQUAL(alive, 1);
    }
    EQUAL(alive, 0);
}

CASE(graph_mistakes) {
    Buffer<uint32_t> device(COUNT);
    Graph graph;
    hipGraphNode_t node;
    hipGraphExec_t executable;
    HIP_FAILS(hipGraphCreate(nullptr, 0), hipErrorInvalidValue);
    HIP_FAILS(hipGraphInstantiate(&executable, nullptr, nullptr, nullptr, 0), hipErrorInvalidValue);
    HIP_FAILS(hipGraphLaunch(nullptr, nullptr), hipErrorInvalidValue);
    HIP_FAILS(hipGraphAddEmptyNode(&node, nullptr, nullptr, 0), hipErrorInvalidValue);
    HIP_FAILS(hipGraphAddEmptyNode(&node, graph.graph, nullptr, 2), hipErrorInvalidValue);
    HIP_FAILS(hipGraphAddKernelNode(&node, graph.graph, nullptr, 0, nullptr), hipErrorInvalidValue);
    HIP_FAILS(hipGraphAddMemcpyNode1D(&node, graph.graph, nullptr, 0, nullptr, device.data, 4, hipMemcpyDeviceToDevice),
              hipErrorInvalidValue);
    hipHostNodeParams host = {};
    HIP_FAILS(hipGraphAddHostNode(&node, graph.graph, nullptr, 0, &host), hipErrorInvalidValue);
    EQUAL(graph.nodes(), 0);
}
