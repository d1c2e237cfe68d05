// Atomic operations of every width, memory and scope, by many threads on few words.
#include "hip_cases.h"

#include <thread>

using Words = std::vector<uint32_t>;

static const uint32_t THREADS = 64 * 256, SLOTS = 8;

struct Integers {
    uint32_t add, sub, min, max, bit_and, bit_or, bit_xor, inc, dec, compare;
    int32_t signed_min, signed_max;
};

__global__ void integer_kernel(Integers* slots, const uint32_t* values) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    Integers& slot = slots[i % SLOTS];
    uint32_t value = values[i];
    atomicAdd(&slot.add, value);
    atomicSub(&slot.sub, value);
    atomicMin(&slot.min, value);
    atomicMax(&slot.max, value);
    atomicAnd(&slot.bit_and, value | 0xff00ff00);
    atomicOr(&slot.bit_or, value & 0x0f0f0f0f);
    atomicXor(&slot.bit_xor, value);
    atomicInc(&slot.inc, 999);
    atomicDec(&slot.dec, 777);
    atomicMin(&slot.signed_min, int32_t(value));
    atomicMax(&slot.signed_max, int32_t(value));
    // Adds by compare-and-swap.
    uint32_t seen = slot.compare, expected;
    do {
        expected = seen;
        seen = atomicCAS(&slot.compare, expected, expected * 1 + (value & 0xff));
    } while (seen != expected);
}

CASE(atomics_int) {
    Words values = noise(THREADS, 1);
    std::vector<Integers> want(SLOTS, Integers{0, 0, ~0u, 0, ~0u, 0, 0, 0, 0, 0, INT32_MAX, INT32_MIN});
    Buffer<Integers> slots(want);
    Buffer<uint32_t> device(values);
    integer_kernel<<<THREADS / 256, 256>>>(slots.data, device.data);
    FINISHED();
    for (uint32_t i = 0; i < THREADS; i++) {
        Integers& slot = want[i % SLOTS];
        uint32_t value = values[i];
        slot.add += value;
        slot.sub -= value;
        slot.min = std::min(slot.min, value);
        slot.max = std::max(slot.max, value);
        slot.bit_and &= value | 0xff00ff00;
        slot.bit_or |= value & 0x0f0f0f0f;
        slot.bit_xor ^= value;
        slot.inc = slot.inc >= 999 ? 0 : slot.inc + 1;
        slot.dec = slot.dec == 0 || slot.dec > 777 ? 777 : slot.dec - 1;
        slot.signed_min = std::min(slot.signed_min, int32_t(value));
        slot.signed_max = std::max(slot.signed_max, int32_t(value));
        slot.compare += value & 0xff;
    }
    auto got = slots.read();
    SAME((uint32_t*)got.data(), (uint32_t*)want.data(), SLOTS * sizeof(Integers) / 4);
}

// Every thread gets a number of its own.
__global__ void ticket_kernel(uint32_t* counter, uint32_t* taken) {
    uint32_t ticket = atomicAdd(counter, 1);
    atomicAdd(&taken[ticket], 1);
}

CASE(atomics_return_each_value_once) {
    Buffer<uint32_t> counter(1), taken(THREADS);
    counter.clear();
    taken.clear();
    ticket_kernel<<<THREADS / 256, 256>>>(counter.data, taken.data);
    FINISHED();
    EQUAL(counter.read()[0], THREADS);
    SAME_AS(taken.read(), Words(THREADS, 1));
}

template <class T>
struct Floats {
    T add, exchange, compare;
};

template <class T>
__global__ void float_kernel(Floats<T>* slots, uint32_t* exchanged) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    Floats<T>& slot = slots[i % SLOTS];
    atomicAdd(&slot.add, T(i % 13) / 4);
    T old = atomicExch(&slot.exchange, T(i + 1));
    atomicAdd(&exchanged[uint32_t(old)], 1);
    // A maximum by compare-and-swap of the bits.
    using Bits = typename std::conditional<sizeof(T) == 4, unsigned, unsigned long long>::type;
    Bits* bits = (Bits*)&slot.compare;
    Bits seen = *bits;
    for (;;) {
        T value;
        memcpy(&value, &seen, sizeof value);
        if (value >= T(i)) break;
        T mine = T(i);
        Bits mine_bits;
        memcpy(&mine_bits, &mine, sizeof mine);
        Bits now = atomicCAS(bits, seen, mine_bits);
        if (now == seen) break;
        seen = now;
    }
}

// Quarters of small whole numbers: no order of the sums rounds.
template <class T>
static void float_atomics() {
    std::vector<Floats<T>> want(SLOTS, Floats<T>{0, 0, -1});
    Buffer<Floats<T>> slots(want);
    Buffer<uint32_t> exchanged(THREADS + 1);
    exchanged.clear();
    float_kernel<T><<<THREADS / 256, 256>>>(slots.data, exchanged.data);
    FINISHED();
    for (uint32_t i = 0; i < THREADS; i++) {
        want[i % SLOTS].add += T(i % 13) / 4;
        want[i % SLOTS].compare = T(i);
    }
    auto got = slots.read();
    Words left = exchanged.read();
    // Each value was exchanged out once, but for those that are still in; zero was in each slot.
    Words want_left(THREADS + 1, 1);
    want_left[0] = SLOTS;
    for (uint32_t slot = 0; slot < SLOTS; slot++) {
        CHECK(got[slot].add == want[slot].add, "slot %u: %f, not %f", slot, double(got[slot].add), double(want[slot].add));
        CHECK(got[slot].compare == want[slot].compare, "slot %u: %f, not %f", slot, double(got[slot].compare),
              double(want[slot].compare));
        uint32_t last = uint32_t(got[slot].exchange);
        CHECK(last >= 1 && last <= THREADS && (last - 1) % SLOTS == slot, "slot %u ends with %u", slot, last);
        want_left[last] = 0;
    }
    SAME_AS(left, want_left);
}

CASE(atomics_float) { float_atomics<float>(); }
CASE(atomics_double) { float_atomics<double>(); }

typedef unsigned long long u64;

struct Wide {
    u64 add, min, max, bit_and, bit_or, bit_xor, compare, unused;
};

__global__ void wide_kernel(Wide* slots, const u64* values) {
    uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
    Wide& slot = slots[i % SLOTS];
    u64 value = values[i];
    atomicAdd(&slot.add, value);
    atomicMin(&slot.min, value);
    atomicMax(&slot.max, value);
    atomicAnd(&slot.bit_and, value | 0xffff0000ffff0000ull);
    atomicOr(&slot.bit_or, value & 0x0f0f0f0f0f0f0f0full);
    atomicXor(&slot.bit_xor, value);
    u64 seen = slot.compare, expected;
    do {
        expected = seen;
        seen = atomicCAS(&slot.compare, expected, expected + (value >> 32));
    } while (seen != expected);
}

CASE(atomics_64) {
    Words words = noise(THREADS * 2, 2);
    std::vector<u64> values(THREADS);
    memcpy(values.data(), words.data(), THREADS * 8);
    std::vector<Wide> want(SLOTS, Wide{0, ~0ull, 0, ~0ull, 0, 0, 0, 0});
    Buffer<Wide> slots(want);
    Buffer<u64> device(values);
    wide_kernel<<<THREADS / 256, 256>>>(slots.data, device.data);
    FINISHED();
    for (uint32_t i = 0; i < THREADS; i++) {
        Wide& slot = want[i % SLOTS];
        u64 value = values[i];
        slot.add += value;
        slot.min = std::min(slot.min, value);
        slot.max = std::max(slot.max, value);
        slot.bit_and &= value | 0xffff0000ffff0000ull;
        slot.bit_or |= value & 0x0f0f0f0f0f0f0f0full;
        slot.bit_xor ^= value;
        slot.compare += value >> 32;
    }
    auto got = slots.read();
    SAME((u64*)got.data(), (u64*)want.data(), SLOTS * sizeof(Wide) / 8);
}

__global__ void lds_kernel(uint32_t* histograms, u64* sums, float* floats, const uint32_t* values) {
    __shared__ uint32_t bins[64];
    __shared__ u64 sum;
    __shared__ float total;
    if (threadIdx.x < 64) bins[threadIdx.x] = 0;
    if (threadIdx.x == 0) {
        sum = 0;
        total = 0;
    }
    __syncthreads();
    uint32_t value = values[blockIdx.x * blockDim.x + threadIdx.x];
    atomicAdd(&bins[value % 64], 1);
    atomicAdd(&sum, u64(value) << 8);
    atomicAdd(&total, float(value % 8));
    __syncthreads();
    if (threadIdx.x < 64) histograms[blockIdx.x * 64 + threadIdx.x] = bins[threadIdx.x];
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = sum;
        floats[blockIdx.x] = total;
    }
}

CASE(atomics_lds) {
    const uint32_t blocks = THREADS / 256;
    Words values = noise(THREADS, 3), want(blocks * 64, 0);
    std::vector<u64> want_sums(blocks, 0);
    std::vector<float> want_floats(blocks, 0);
    Buffer<uint32_t> device(values), histograms(blocks * 64);
    Buffer<u64> sums(blocks);
    Buffer<float> floats(blocks);
    lds_kernel<<<blocks, 256>>>(histograms.data, sums.data, floats.data, device.data);
    FINISHED();
    for (uint32_t i = 0; i < THREADS; i++) {
        want[i / 256 * 64 + values[i] % 64]++;
        want_sums[i / 256] += u64(values[i]) << 8;
        want_floats[i / 256] += float(values[i] % 8);
    }
    SAME_AS(histograms.read(), want);
    SAME_AS(sums.read(), want_sums);
    SAME_AS(floats.read(), want_floats);
}

__global__ void system_kernel(uint32_t* counter, u64* wide, uint32_t rounds) {
    for (uint32_t i = 0; i < rounds; i++) {
        atomicAdd_system(counter, 1u);
        atomicAdd_system(wide, u64(1) << 33);
        uint32_t seen = __hip_atomic_load(&counter[1], __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM), expected;
        do {
            expected = seen;
            seen = atomicCAS_system(&counter[1], expected, expected + 3);
        } while (seen != expected);
    }
}

// The processor and the device count in the same words at the same time.
CASE(atomics_system_scope) {
    uint32_t* counter = nullptr;
    HIP(hipHostMalloc((void**)&counter, 64, hipHostMallocCoherent));
    memset(counter, 0, 64);
    u64* wide = (u64*)(counter + 4);
    const uint32_t rounds = 20, threads = 512, by_host = 20000;
    system_kernel<<<threads / 64, 64>>>(counter, wide, rounds);
    LAUNCHED();
    for (uint32_t i = 0; i < by_host; i++) {
        __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
        __atomic_fetch_add(wide, u64(1) << 33, __ATOMIC_RELAXED);
        __atomic_fetch_add(&counter[1], 3, __ATOMIC_RELAXED);
    }
    HIP(hipDeviceSynchronize());
    EQUAL(counter[0], rounds * threads + by_host);
    EQUAL(counter[1], 3 * (rounds * threads + by_host));
    EQUAL(*wide >> 33, rounds * threads + by_host);
    HIP(hipHostFree(counter));
}
