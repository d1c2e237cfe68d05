// What kernels compute: every result is compared with the same computation on the processor.
#include "hip_cases.h"

#include <hip/hip_cooperative_groups.h>

#include <cmath>

using Words = std::vector<uint32_t>;

__device__ __host__ static inline uint32_t mix(uint32_t x) {
    x ^= x >> 16;
    x *= 0x7feb352d;
    x ^= x >> 15;
    x *= 0x846ca68b;
    return x ^ (x >> 16);
}

__global__ void saxpy(float* y, const float* x, float a, uint32_t count) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) y[i] = fmaf(a, x[i], y[i]);
}

CASE(saxpy_of_a_million) {
    const uint32_t count = 1 << 20;
    std::vector<float> x(count), y(count);
    for (uint32_t i = 0; i < count; i++) {
        x[i] = float(mix(i) % 20011) / 7.0f;
        y[i] = float(mix(i + count) % 30011) / 11.0f;
    }
    Buffer<float> device_x(x), device_y(y);
    saxpy<<<count / 256, 256>>>(device_y.data, device_x.data, 2.7182818f, count);
    FINISHED();
    for (uint32_t i = 0; i < count; i++) y[i] = fmaf(2.7182818f, x[i], y[i]);
    SAME_AS(device_y.read(), y);
}

__global__ void reverse_blocks(uint32_t* words) {
    __shared__ uint32_t tile[256];
    uint32_t* block = words + blockIdx.x * 256;
    tile[threadIdx.x] = block[threadIdx.x];
    __syncthreads();
    block[threadIdx.x] = tile[255 - threadIdx.x] + blockIdx.x;
}

CASE(lds_static) {
    Words from = noise(256 * 100), want(from.size());
    Buffer<uint32_t> words(from);
    reverse_blocks<<<100, 256>>>(words.data);
    FINISHED();
    for (uint32_t i = 0; i < want.size(); i++) want[i] = from[i / 256 * 256 + 255 - i % 256] + i / 256;
    SAME_AS(words.read(), want);
}

__global__ void rotate_blocks(uint32_t* words, uint32_t by) {
    extern __shared__ uint32_t tile[];
    uint32_t* block = words + blockIdx.x * blockDim.x;
    tile[threadIdx.x] = block[threadIdx.x];
    __syncthreads();
    block[threadIdx.x] = tile[(threadIdx.x + by) % blockDim.x];
}

CASE(lds_dynamic) {
    for (uint32_t block : {1u, 31u, 32u, 100u, 256u, 1024u}) {
        Words from = noise(block * 20, block), want(from.size());
        Buffer<uint32_t> words(from);
        rotate_blocks<<<20, block, block * 4>>>(words.data, 17);
        FINISHED();
        for (uint32_t i = 0; i < want.size(); i++) want[i] = from[i / block * block + (i % block + 17) % block];
        SAME_AS(words.read(), want);
    }
}

__global__ void fill_lds(uint32_t* sums, uint32_t words) {
    extern __shared__ uint32_t all[];
    for (uint32_t i = threadIdx.x; i < words; i += blockDim.x) all[i] = mix(i + blockIdx.x);
    __syncthreads();
    if (threadIdx.x == 0) {
        uint32_t sum = 0;
        for (uint32_t i = 0; i < words; i += 97) sum = sum * 31 + all[i];
        sums[blockIdx.x] = sum;
    }
}

CASE(lds_all_64_kib) {
    const uint32_t words = 65536 / 4, blocks = 12;
    Buffer<uint32_t> sums(blocks);
    fill_lds<<<blocks, 256, 65536>>>(sums.data, words);
    FINISHED();
    Words want(blocks, 0);
    for (uint32_t block = 0; block < blocks; block++)
        for (uint32_t i = 0; i < words; i += 97) want[block] = want[block] * 31 + mix(i + block);
    SAME_AS(sums.read(), want);
}

__global__ void where_am_i(uint32_t* words) {
    uint32_t x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y,
             z = blockIdx.z * blockDim.z + threadIdx.z;
    uint32_t width = gridDim.x * blockDim.x, height = gridDim.y * blockDim.y;
    words[(z * height + y) * width + x] = mix(x * 1000003 + y * 1009 + z) + blockDim.x * blockDim.y * blockDim.z;
}

CASE(grid_3d) {
    struct { dim3 grid, block; } shapes[] = {
        {dim3(5, 3, 2), dim3(8, 4, 4)}, {dim3(1, 7, 1), dim3(3, 5, 7)}, {dim3(4, 1, 9), dim3(1, 1, 64)},
        {dim3(2, 2, 2), dim3(32, 32, 1)}};
    for (auto& [grid, block] : shapes) {
        uint32_t width = grid.x * block.x, height = grid.y * block.y, depth = grid.z * block.z;
        Words want(width * height * depth);
        Buffer<uint32_t> words(want.size());
        where_am_i<<<grid, block>>>(words.data);
        FINISHED();
        for (uint32_t z = 0; z < depth; z++)
            for (uint32_t y = 0; y < height; y++)
                for (uint32_t x = 0; x < width; x++)
                    want[(z * height + y) * width + x] = mix(x * 1000003 + y * 1009 + z) + block.x * block.y * block.z;
        SAME_AS(words.read(), want);
    }
}

__global__ void count_threads(uint32_t* counts) {
    if (threadIdx.x == 0) counts[blockIdx.x] = blockIdx.x + 1;
}

CASE(grid_of_many_blocks) {
    const uint32_t blocks = 70001;
    Words want(blocks);
    Buffer<uint32_t> counts(blocks);
    count_threads<<<blocks, 64>>>(counts.data);
    FINISHED();
    for (uint32_t i = 0; i < blocks; i++) want[i] = i + 1;
    SAME_AS(counts.read(), want);
}

// An array whose indices are known only at run time lies in scratch.
__device__ __host__ static uint32_t shuffle_in_private(const uint32_t* from, uint32_t seed) {
    uint32_t items[200];
    for (uint32_t i = 0; i < 200; i++) items[i] = from[i] + seed;
    for (uint32_t i = 199; i > 0; i--) {
        uint32_t j = mix(seed + i) % (i + 1), kept = items[i];
        items[i] = items[j];
        items[j] = kept;
    }
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 200; i++) sum = sum * 31 + items[i];
    return sum;
}

__global__ void scratch_kernel(uint32_t* sums, const uint32_t* from) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    sums[i] = shuffle_in_private(from, i);
}

CASE(scratch_private_array) {
    const uint32_t count = 2000;
    Words from = noise(200, 21), want(count);
    Buffer<uint32_t> device(from), sums(count);
    scratch_kernel<<<count / 200, 200>>>(sums.data, device.data);
    FINISHED();
    for (uint32_t i = 0; i < count; i++) want[i] = shuffle_in_private(from.data(), i);
    SAME_AS(sums.read(), want);
}

// More live values than `__launch_bounds__` leaves registers for: they are spilled.
#define SPILLED 96
template <class Load>
__device__ __host__ static inline uint32_t many_live(Load load) {
    uint32_t values[SPILLED], sum = 0;
#pragma unroll
    for (int i = 0; i < SPILLED; i++) values[i] = load(i);
#pragma unroll
    for (int round = 0; round < 3; round++) {
#pragma unroll
        for (int i = 0; i < SPILLED; i++) values[i] = values[i] * 3 + (values[(i * 7 + round) % SPILLED] ^ i);
    }
#pragma unroll
    for (int i = 0; i < SPILLED; i++) sum = (sum << 5) - sum + values[i];
    return sum;
}

__global__ __attribute__((amdgpu_num_vgpr(40))) void spilling_kernel(uint32_t* sums, const uint32_t* from) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    sums[i] = many_live([=](int k) { return from[(i + k) % 1024]; });
}

CASE(scratch_register_spills) {
    Words from = noise(1024, 22), want(1024);
    Buffer<uint32_t> device(from), sums(1024);
    spilling_kernel<<<8, 128>>>(sums.data, device.data);
    FINISHED();
    hipFuncAttributes attributes;
    HIP(hipFuncGetAttributes(&attributes, (const void*)spilling_kernel));
    CHECK(attributes.localSizeBytes > 0, "nothing was spilled, so nothing was tested");
    for (uint32_t i = 0; i < 1024; i++) want[i] = many_live([&](int k) { return from[(i + k) % 1024]; });
    SAME_AS(sums.read(), want);
}

__device__ __host__ __attribute__((noinline)) static uint32_t depth_first(uint32_t node, uint32_t depth) {
    if (depth == 0) return mix(node);
    uint32_t left = depth_first(node * 2 + 1, depth - 1), right = depth_first(node * 2 + 2, depth - 1);
    return left * 31 + (right ^ node);
}

__global__ void recursive_kernel(uint32_t* results) { results[threadIdx.x] = depth_first(threadIdx.x, threadIdx.x % 9); }

CASE(scratch_recursion) {
    Words want(64);
    Buffer<uint32_t> results(64);
    recursive_kernel<<<1, 64>>>(results.data);
    FINISHED();
    for (uint32_t i = 0; i < 64; i++) want[i] = depth_first(i, i % 9);
    SAME_AS(results.read(), want);
}

__device__ __host__ static uint32_t add_op(uint32_t a, uint32_t b) { return a + b; }
__device__ __host__ static uint32_t xor_op(uint32_t a, uint32_t b) { return a ^ (b * 3); }
__device__ __host__ static uint32_t mul_op(uint32_t a, uint32_t b) { return a * (b | 1); }
typedef uint32_t (*operation)(uint32_t, uint32_t);
__device__ operation device_operations[3] = {add_op, xor_op, mul_op};

__global__ void indirect_kernel(uint32_t* words) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    words[i] = device_operations[words[i] % 3](words[i], i);
}

CASE(function_pointers) {
    const operation operations[3] = {add_op, xor_op, mul_op};
    Words want = noise(1024, 23);
    Buffer<uint32_t> words(want);
    indirect_kernel<<<4, 256>>>(words.data);
    FINISHED();
    for (uint32_t i = 0; i < 1024; i++) want[i] = operations[want[i] % 3](want[i], i);
    SAME_AS(words.read(), want);
}

// One step of Newton's method, a quotient and a root: all of them rounded as IEEE 754 says.
__device__ __host__ static inline double double_work(double x, double y) {
    double quotient = x / y, root = sqrt(fabs(quotient));
    double refined = fma(root, root, -quotient);
    return floor(refined * 1e9) + trunc(quotient) + fmin(x, y) - ldexp(root, 3);
}

__global__ void double_kernel(double* out, const double* x, const double* y) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = double_work(x[i], y[i]);
}

CASE(double_arithmetic) {
    const uint32_t count = 4096;
    std::vector<double> x(count), y(count), want(count);
    for (uint32_t i = 0; i < count; i++) {
        x[i] = ldexp(double(int32_t(mix(i))), int(i % 40) - 20);
        y[i] = ldexp(double(mix(i + 9999) | 1), int(i % 30) - 35);
    }
    Buffer<double> out(count), device_x(x), device_y(y);
    double_kernel<<<count / 128, 128>>>(out.data, device_x.data, device_y.data);
    FINISHED();
    for (uint32_t i = 0; i < count; i++) want[i] = double_work(x[i], y[i]);
    SAME_AS(out.read(), want);
}

__global__ void matrix_kernel(float* c, const float* a, const float* b, uint32_t n) {
    __shared__ float tile_a[16][17], tile_b[16][17];
    uint32_t row = blockIdx.y * 16 + threadIdx.y, column = blockIdx.x * 16 + threadIdx.x;
    float sum = 0;
    for (uint32_t at = 0; at < n; at += 16) {
        tile_a[threadIdx.y][threadIdx.x] = a[row * n + at + threadIdx.x];
        tile_b[threadIdx.y][threadIdx.x] = b[(at + threadIdx.y) * n + column];
        __syncthreads();
        for (uint32_t k = 0; k < 16; k++) sum += tile_a[threadIdx.y][k] * tile_b[k][threadIdx.x];
        __syncthreads();
    }
    c[row * n + column] = sum;
}

// Whole numbers below 2^24, so that no order of the sums rounds.
CASE(matrix_product) {
    const uint32_t n = 96;
    std::vector<float> a(n * n), b(n * n), want(n * n, 0);
    for (uint32_t i = 0; i < n * n; i++) {
        a[i] = float(mix(i) % 200) - 100;
        b[i] = float(mix(i * 3 + 1) % 200) - 100;
    }
    Buffer<float> device_a(a), device_b(b), c(n * n);
    matrix_kernel<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(c.data, device_a.data, device_b.data, n);
    FINISHED();
    for (uint32_t row = 0; row < n; row++)
        for (uint32_t k = 0; k < n; k++)
            for (uint32_t column = 0; column < n; column++)
                want[row * n + column] += a[row * n + k] * b[k * n + column];
    SAME_AS(c.read(), want);
}

__global__ void shuffle_kernel(uint32_t* out, const uint32_t* in) {
    uint32_t lane = threadIdx.x % GPU_WAVE, value = in[threadIdx.x];
    uint32_t* to = out + threadIdx.x * 6;
    to[0] = __shfl(value, (lane * 7 + 3) % GPU_WAVE);
    to[1] = __shfl_up(value, 5);
    to[2] = __shfl_down(value, 9);
    to[3] = __shfl_xor(value, 0x15 | GPU_WAVE / 2);
    to[4] = __shfl(value, 3, 8);
    to[5] = __shfl_xor(value, 2, 4);
}

CASE(warp_shuffle) {
    Words in = noise(256, 24), want(256 * 6);
    Buffer<uint32_t> device(in), out(want.size());
    hipDeviceProp_t properties;
    HIP(hipGetDeviceProperties(&properties, 0));
    EQUAL(properties.warpSize, GPU_WAVE);
    shuffle_kernel<<<1, 256>>>(out.data, device.data);
    FINISHED();
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t warp = i / GPU_WAVE * GPU_WAVE, lane = i % GPU_WAVE, *to = &want[i * 6];
        to[0] = in[warp + (lane * 7 + 3) % GPU_WAVE];
        to[1] = in[lane >= 5 ? i - 5 : i];
        to[2] = in[lane + 9 < GPU_WAVE ? i + 9 : i];
        to[3] = in[warp + (lane ^ (0x15 | GPU_WAVE / 2))];
        to[4] = in[i / 8 * 8 + 3];
        to[5] = in[i ^ 2];
    }
    SAME_AS(out.read(), want);
}

__global__ void ballot_kernel(uint64_t* out, const uint32_t* in) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    uint64_t* to = out + i * 5;
    to[0] = __ballot(in[i] & 1);
    to[1] = __any(in[i] % 29 == 0);
    to[2] = __all(in[i] % 64 != 7);
    to[3] = to[4] = 0;
    if (in[i] & 2) {
        to[3] = __ballot(in[i] & 4);
        to[4] = __popcll(__ballot(1));
    }
}

CASE(warp_ballot) {
    Words in = noise(1024, 25);
    std::vector<uint64_t> want(in.size() * 5);
    Buffer<uint32_t> device(in);
    Buffer<uint64_t> out(want.size());
    ballot_kernel<<<4, 256>>>(out.data, device.data);
    FINISHED();
    for (uint32_t i = 0; i < in.size(); i++) {
        uint64_t* to = &want[i * 5];
        to[2] = 1;
        for (uint32_t lane = 0; lane < GPU_WAVE; lane++) {
            uint32_t value = in[i / GPU_WAVE * GPU_WAVE + lane];
            to[0] |= uint64_t(value & 1) << lane;
            to[1] |= value % 29 == 0;
            to[2] &= value % 64 != 7;
            if ((in[i] & 2) && (value & 2)) {
                to[4]++;
                to[3] |= uint64_t(value >> 2 & 1) << lane;
            }
        }
    }
    SAME_AS(out.read(), want);
}

__global__ void reduce_kernel(uint64_t* sums, const uint32_t* in, uint32_t count) {
    __shared__ uint64_t of_warps[32];
    uint64_t sum = 0;
    for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) sum += in[i];
    for (int by = 16; by; by /= 2) sum += __shfl_down(sum, by);
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x < 32) {
        sum = threadIdx.x < blockDim.x / 32 ? of_warps[threadIdx.x] : 0;
        for (int by = 16; by; by /= 2) sum += __shfl_down(sum, by);
        if (threadIdx.x == 0) sums[blockIdx.x] = sum;
    }
}

CASE(block_reduce) {
    const uint32_t count = 500009, blocks = 24, block = 512;
    Words in = noise(count, 26);
    std::vector<uint64_t> want(blocks, 0);
    Buffer<uint32_t> device(in);
    Buffer<uint64_t> sums(blocks);
    reduce_kernel<<<blocks, block>>>(sums.data, device.data, count);
    FINISHED();
    for (uint32_t i = 0; i < count; i++) want[i / block % blocks] += in[i];
    SAME_AS(sums.read(), want);
}

// Each step reads what other blocks wrote in the step before.
__global__ void ring_kernel(uint32_t* words, uint32_t count, uint32_t steps) {
    auto grid = cooperative_groups::this_grid();
    uint32_t size = gridDim.x * blockDim.x, first = blockIdx.x * blockDim.x + threadIdx.x;
    for (uint32_t step = 0; step < steps; step++) {
        const uint32_t* from = words + step % 2 * count;
        uint32_t* to = words + (step + 1) % 2 * count;
        for (uint32_t i = first; i < count; i += size) to[i] = from[(i + 300) % count] * 3 + from[i] + step;
        grid.sync();
    }
}

CASE(cooperative_launch_with_grid_sync) {
    uint32_t count = 4001, steps = 11;
    int blocks_per_unit = 0;
    hipDeviceProp_t properties;
    HIP(hipGetDeviceProperties(&properties, 0));
    EQUAL(properties.cooperativeLaunch, 1);
    HIP(hipOccupancyMaxActiveBlocksPerMultiprocessor(&blocks_per_unit, ring_kernel, 128, 0));
    CHECK(blocks_per_unit > 0, "%d", blocks_per_unit);
    uint32_t blocks = std::min(properties.multiProcessorCount * blocks_per_unit, 24);
    Words words = noise(count * 2, 27), before = words;
    Buffer<uint32_t> device(words);
    void* arguments[] = {&device.data, &count, &steps};
    HIP(hipLaunchCooperativeKernel((const void*)ring_kernel, dim3(blocks), dim3(128), arguments, 0, nullptr));
    FINISHED();
    for (uint32_t step = 0; step < steps; step++) {
        const uint32_t* from = &before[step % 2 * count];
        uint32_t* to = &before[(step + 1) % 2 * count];
        for (uint32_t i = 0; i < count; i++) to[i] = from[(i + 300) % count] * 3 + from[i] + step;
    }
    SAME_AS(device.read(), before);
}

__global__ void printing_kernel(const char* word, int base) {
    printf("%s %d of %u: %lld %5.2f %c %%\n", word, base + int(threadIdx.x), unsigned(blockDim.x), 1ll << threadIdx.x,
           threadIdx.x / 4.0, 'A' + char(threadIdx.x));
}

CASE(device_printf) {
    char* said = capture(stdout, [] {
        char* word = nullptr;
        HIP(hipHostMalloc((void**)&word, 16, hipHostMallocDefault));
        strcpy(word, "thread");
        printing_kernel<<<1, 40>>>(word, 100);
        FINISHED();
        HIP(hipHostFree(word));
    });
    size_t lines = 0;
    for (const char* c = said; *c; c++) lines += *c == '\n';
    EQUAL(lines, 40);
    for (int i = 0; i < 40; i++) {
        char want[128];
        snprintf(want, sizeof want, "thread %d of 40: %lld %5.2f %c %%\n", 100 + i, 1ll << i, i / 4.0, 'A' + i);
        CHECK(strstr(said, want), "no \"%s\" in \"%.200s\"", want, said);
    }
    free(said);
}

__constant__ uint32_t table[64] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
__device__ const char* const names[3] = {"one", "two", "three"};

__global__ void constant_kernel(uint32_t* out) {
    uint32_t i = threadIdx.x;
    out[i] = table[i % 64] * 100 + uint32_t(names[i % 3][i % 4 == 0 ? 0 : 1]);
}

CASE(constant_memory_with_initial_values) {
    const uint32_t start[64] = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3};
    const char* const host_names[3] = {"one", "two", "three"};
    Words want(256);
    Buffer<uint32_t> out(256);
    constant_kernel<<<1, 256>>>(out.data);
    FINISHED();
    for (uint32_t i = 0; i < 256; i++) want[i] = start[i % 64] * 100 + uint32_t(host_names[i % 3][i % 4 == 0 ? 0 : 1]);
    SAME_AS(out.read(), want);
}

__global__ void clock_kernel(uint64_t* times) {
    uint64_t begin = wall_clock64();
    uint64_t now = begin;
    while (now == begin) now = wall_clock64();
    times[0] = begin;
    times[1] = now;
}

CASE(device_clock_advances) {
    Buffer<uint64_t> times(2);
    clock_kernel<<<1, 1>>>(times.data);
    FINISHED();
    auto got = times.read();
    CHECK(got[1] > got[0], "%llu after %llu", (unsigned long long)got[1], (unsigned long long)got[0]);
}
