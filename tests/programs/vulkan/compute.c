// Vulkan's shaders: shared memory, atomics, subgroups, and types of every width. Results are compared exactly.
#include "vk_cases.h"

#include <math.h>

#include "shaders.inc"

SHADER(reversed)
SHADER(histogram)
SHADER(big_shared)
SHADER(atomics)
SHADER(atomics_wide)
SHADER(wide)
SHADER(narrow)
SHADER(doubles)
SHADER(halves)
SHADER(waves)
SHADER(lanes)
SHADER(branches)
SHADER(private_array)
SHADER(bits)
SHADER(floats)

enum { COUNT = 4096, BYTES = COUNT * 4 };

// Runs a kernel from one buffer to another, with as many work-items as a workgroup times `groups`.
static void run_two(struct kernel kernel, struct buffer in, struct buffer out, uint32_t groups) {
    bind(&kernel, 0, in);
    bind(&kernel, 1, out);
    run(&kernel, NULL, groups);
    free_kernel(kernel);
}

CASE(shared_memory) {
    open_device();
    uint32_t *words = noise(COUNT, 1), *want = malloc(BYTES);
    struct buffer out = host_buffer(BYTES, words);
    struct kernel kernel = KERNEL(reversed, 1, 0);
    bind(&kernel, 0, out);
    run(&kernel, NULL, COUNT / 128);
    for (int i = 0; i < COUNT; i++) want[i] = words[i / 128 * 128 + 127 - i % 128];
    SAME((uint32_t*)out.at, want, COUNT);
    close_device();
}

CASE(shared_atomics) {
    open_device();
    uint32_t *words = noise(COUNT, 2), want[256] = {0};
    struct buffer out = host_buffer(1024, NULL);
    run_two(KERNEL(histogram, 2, 0), host_buffer(BYTES, words), out, COUNT / 128);
    for (int i = 0; i < BYTES; i++) want[((uint8_t*)words)[i]]++;
    SAME((uint32_t*)out.at, want, 256);
    close_device();
}

CASE(much_shared_memory) {
    open_device();
    uint32_t *words = noise(8192, 3), *want = malloc(32768);
    struct buffer out = host_buffer(32768, words);
    struct kernel kernel = KERNEL(big_shared, 1, 0);
    bind(&kernel, 0, out);
    run(&kernel, NULL, 1);
    for (uint32_t i = 0; i < 8192; i++) want[i] = words[8191 - i] ^ (8191 - i);
    SAME((uint32_t*)out.at, want, 8192);
    close_device();
}

CASE(atomics_on_memory) {
    open_device();
    uint32_t* words = calloc(4, 8 + COUNT);
    words[1] = words[3] = UINT32_MAX;
    for (uint32_t i = 0; i < COUNT; i++) words[8 + i] = i % 2 ? i * 3 : 1;
    struct buffer memory = host_buffer((8 + COUNT) * 4, words), old = host_buffer(3 * BYTES, NULL);
    struct buffer ints = host_buffer(8, NULL);
    struct kernel kernel = KERNEL(atomics, 3, 0);
    bind(&kernel, 0, memory);
    bind(&kernel, 1, old);
    bind(&kernel, 2, ints);
    run(&kernel, NULL, COUNT / 64);
    uint32_t want[7] = {0, UINT32_MAX, 0, UINT32_MAX & ~0xfffffu, 0xfffff, 0, COUNT};
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t hash = i * 2654435761u;
        want[0] += i;
        if (hash < want[1]) want[1] = hash;
        if (hash > want[2]) want[2] = hash;
        want[5] ^= i;
    }
    const uint32_t *got = memory.at, *before = old.at;
    SAME(got, want, 7);
    uint8_t* seen = calloc(1, COUNT);
    for (uint32_t i = 0; i < COUNT; i++) {
        CHECK(before[i] < COUNT && !seen[before[i]]++, "the count %u came twice", before[i]);
        EQUAL(before[COUNT + i], words[8 + i]);
        EQUAL(before[2 * COUNT + i], words[8 + i] == i * 3 ? i + 7 : words[8 + i]);
        EQUAL(got[8 + i], i + 9);
    }
    EQUAL(((int*)ints.at)[0], -100);
    EQUAL(((int*)ints.at)[1], 50);
    close_device();
}

CASE(atomics_of_64_bits) {
    open_device();
    CHECK(vk12.shaderBufferInt64Atomics, "there are no atomics of 64 bits");
    uint64_t *words = calloc(8, 8 + COUNT), *want = calloc(8, 8 + COUNT);
    words[2] = want[2] = UINT64_MAX;
    for (uint64_t i = 0; i < COUNT; i++) words[8 + i] = want[8 + i] = i % 3 ? i + (UINT64_C(5) << 40) : 9;
    for (uint64_t i = 0; i < COUNT; i++) {
        uint64_t hash = i * UINT64_C(0x9E3779B97F4A7C15);
        want[0] += i << 33 | 1;
        if (hash > want[1]) want[1] = hash;
        if ((hash | 1) < want[2]) want[2] = hash | 1;
        want[3] |= UINT64_C(1) << i % 64;
        want[4] ^= i << 40 | i;
        if (i % 3) want[8 + i] = UINT64_C(1) << 63 | i;
    }
    struct buffer memory = host_buffer((8 + COUNT) * 8, words);
    struct kernel kernel = KERNEL(atomics_wide, 1, 0);
    bind(&kernel, 0, memory);
    run(&kernel, NULL, COUNT / 64);
    SAME((uint64_t*)memory.at, want, 8 + COUNT);
    close_device();
}

CASE(integers_of_64_bits) {
    open_device();
    CHECK(features.features.shaderInt64, "there are no integers of 64 bits");
    uint64_t *words = (uint64_t*)noise(2 * COUNT + 2, 4), *want = malloc(COUNT * 64);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint64_t a = words[i], b = words[i + 1] | 1;
        int64_t c = (int64_t)a, d = (int64_t)b;
        want[i * 8] = a * b + 3;
        want[i * 8 + 1] = a / b;
        want[i * 8 + 2] = a % b;
        want[i * 8 + 3] = (uint64_t)(c / (d >> 32 | 1));
        want[i * 8 + 4] = a << (b & 63) | a >> (63 - (b & 63));
        want[i * 8 + 5] = (uint64_t)(c >> (d & 63));
        want[i * 8 + 6] = (a < b ? a : b) ^ (uint64_t)(c > d ? c : d);
        want[i * 8 + 7] = (uint64_t)(float)(a >> 40) + (uint64_t)(double)(uint32_t)a;
    }
    struct buffer out = host_buffer(COUNT * 64, NULL);
    run_two(KERNEL(wide, 2, 0), host_buffer((COUNT + 1) * 8, words), out, COUNT / 64);
    SAME((uint64_t*)out.at, want, COUNT * 8);
    close_device();
}

CASE(integers_of_8_and_16_bits) {
    open_device();
    CHECK(vk12.shaderInt8 && features.features.shaderInt16 && vk12.storageBuffer8BitAccess && vk11.storageBuffer16BitAccess,
          "there are no narrow integers");
    uint32_t *bytes = noise(COUNT / 4, 5), *words = noise(COUNT / 2, 6);
    struct buffer got_bytes = host_buffer(COUNT, NULL), got_words = host_buffer(COUNT * 2, NULL);
    struct kernel kernel = KERNEL(narrow, 4, 0);
    bind(&kernel, 0, host_buffer(COUNT, bytes));
    bind(&kernel, 1, host_buffer(COUNT * 2, words));
    bind(&kernel, 2, got_bytes);
    bind(&kernel, 3, got_words);
    run(&kernel, NULL, COUNT / 64);
    uint8_t* want_bytes = malloc(COUNT);
    uint16_t* want_words = malloc(COUNT * 2);
    for (uint32_t i = 0; i < COUNT; i++) {
        int8_t byte = ((int8_t*)bytes)[i];
        uint16_t word = ((uint16_t*)words)[i];
        want_bytes[i] = (uint8_t)(byte * 3 + (word >> 9));
        want_words[i] = (uint16_t)((uint32_t)byte * word - i);
    }
    SAME((uint8_t*)got_bytes.at, want_bytes, COUNT);
    SAME((uint16_t*)got_words.at, want_words, COUNT);
    close_device();
}

CASE(floats_of_64_bits) {
    open_device();
    CHECK(features.features.shaderFloat64, "there are no floats of 64 bits");
    uint32_t* words = noise(COUNT + 1, 7);
    double *values = malloc((COUNT + 1) * 8), *want = malloc(COUNT * 32);
    for (int i = 0; i <= COUNT; i++) values[i] = ((int32_t)words[i] / 7.0) * 0.001;
    for (int i = 0; i < COUNT; i++) {
        double a = values[i], b = values[i + 1];
        want[i * 4] = a + b;
        want[i * 4 + 1] = a * b;
        want[i * 4 + 2] = floor(a) * floor(b) + floor(a);
        want[i * 4 + 3] = (double)(int)a + fmax(fabs(a), -b);
    }
    struct buffer out = host_buffer(COUNT * 32, NULL);
    run_two(KERNEL(doubles, 2, 0), host_buffer((COUNT + 1) * 8, values), out, COUNT / 64);
    SAME((uint64_t*)out.at, (uint64_t*)want, COUNT * 4);
    close_device();
}

// A whole number of at most 2048 as a float of 16 bits.
static uint16_t half_of(int value) {
    if (!value) return 0;
    int magnitude = abs(value), exponent = 31 - __builtin_clz((unsigned)magnitude);
    return (uint16_t)((value < 0) << 15 | (exponent + 15) << 10 | ((magnitude << 10 >> exponent) & 1023));
}

CASE(floats_of_16_bits) {
    open_device();
    CHECK(vk12.shaderFloat16, "there are no floats of 16 bits");
    uint32_t* words = noise(COUNT + 1, 8);
    uint16_t *values = malloc((COUNT + 1) * 2), *want = malloc(COUNT * 8);
    int* whole = malloc((COUNT + 1) * 4);
    for (int i = 0; i <= COUNT; i++) values[i] = half_of(whole[i] = 1 + (int)(words[i] % 40) - (i % 5 ? 0 : 41));
    for (int i = 0; i < COUNT; i++) {
        int a = whole[i], b = whole[i + 1];
        want[i * 4] = half_of(a + b);
        want[i * 4 + 1] = half_of(a * b);
        want[i * 4 + 2] = half_of(a * 2);
        want[i * 4 + 3] = half_of((a < b ? a : b) - (a > 3 ? a : 3));
    }
    struct buffer out = host_buffer(COUNT * 8, NULL);
    run_two(KERNEL(halves, 2, 0), host_buffer((COUNT + 1) * 2, values), out, COUNT / 64);
    SAME((uint16_t*)out.at, want, COUNT * 4);
    close_device();
}

CASE(numbers_of_subgroups) {
    open_device();
    CHECK(vk13.subgroupSizeControl, "the size of subgroups is not the program's");
    for (uint32_t size = 32; size <= 64; size *= 2) {
        struct buffer out = host_buffer(1024 * 16, NULL);
        struct kernel kernel = KERNEL_WITH(waves, 1, 0, .subgroup_size = size);
        bind(&kernel, 0, out);
        run(&kernel, NULL, 4);
        const uint32_t(*got)[4] = out.at;
        for (uint32_t i = 0; i < 1024; i++) {
            EQUAL(got[i][0], i % 256 / size);
            EQUAL(got[i][1], i % size);
            EQUAL(got[i][2], 256 / size);
            EQUAL(got[i][3], size);
        }
        free_kernel(kernel);
    }
    close_device();
}

CASE(operations_of_subgroups) {
    open_device();
    uint32_t* words = noise(COUNT, 9);
    for (uint32_t size = 32; size <= 64; size *= 2) {
        uint32_t* want = malloc(BYTES * 8);
        for (uint32_t first = 0; first < COUNT; first += size) {
            uint32_t sum = 0, product = 1, most = 0, least = UINT32_MAX, odd = 0, any = 0, mixed = 0;
            int elected = -1;
            for (uint32_t lane = 0; lane < size; lane++) {
                uint32_t word = words[first + lane], *row = want + (first + lane) * 8;
                sum += word;
                row[1] = sum;
                row[2] = product;
                product *= word | 1;
                if (word > most) most = word;
                if (word < least) least = word;
                odd += word & 1;
                any |= word > 0xf0000000u;
                if (word & 2) {
                    mixed ^= word;
                    if (elected < 0) elected = (int)lane;
                }
            }
            for (uint32_t lane = 0; lane < size; lane++) {
                uint32_t* row = want + (first + lane) * 8;
                row[0] = sum;
                row[3] = most ^ least;
                row[4] = odd;
                row[5] = words[first + (lane ^ 5)];
                row[6] = words[first + 3] + any;
                row[7] = words[first + lane] & 2 ? mixed + ((int)lane == elected) : 0;
            }
        }
        struct buffer out = host_buffer(BYTES * 8, NULL);
        run_two(KERNEL_WITH(lanes, 2, 0, .subgroup_size = size), host_buffer(BYTES, words), out, COUNT / 256);
        SAME((uint32_t*)out.at, want, COUNT * 8);
    }
    close_device();
}

CASE(branches_and_loops) {
    open_device();
    uint32_t* words = noise(COUNT, 10);
    struct buffer out = host_buffer(BYTES, words);
    struct kernel kernel = KERNEL(branches, 1, 0);
    bind(&kernel, 0, out);
    run(&kernel, NULL, COUNT / 64);
    for (int i = 0; i < COUNT; i++) {
        uint32_t steps = 0;
        for (uint32_t n = words[i] % 1000 + 1; n != 1; steps++) n = n & 1 ? n * 3 + 1 : n / 2;
        words[i] = steps;
    }
    SAME((uint32_t*)out.at, words, COUNT);
    close_device();
}

CASE(arrays_of_a_work_item) {
    open_device();
    uint32_t* words = noise(COUNT, 11);
    struct buffer out = host_buffer(BYTES, words);
    struct kernel kernel = KERNEL(private_array, 1, 0);
    bind(&kernel, 0, out);
    run(&kernel, NULL, COUNT / 64);
    for (int i = 0; i < COUNT; i++) {
        uint32_t table[96], total = 0, word = words[i];
        for (uint32_t n = 0; n < 96; n++) table[n] = word * (n + 1);
        for (uint32_t n = 0; n < 200; n++) {
            total += table[(word + n * 7) % 96];
            table[total % 96] ^= n;
        }
        words[i] = total;
    }
    SAME((uint32_t*)out.at, words, COUNT);
    close_device();
}

static uint32_t reversed_bits(uint32_t word) {
    uint32_t got = 0;
    for (int i = 0; i < 32; i++) got |= (word >> i & 1) << (31 - i);
    return got;
}

CASE(bits_and_division) {
    open_device();
    uint32_t *words = noise(COUNT, 12), *want = malloc(BYTES * 8);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t word = words[i] |= 1u << i % 32, *row = want + i * 8;
        uint64_t product = (uint64_t)word * 0x9E3779B9u;
        row[0] = (uint32_t)__builtin_popcount(word);
        row[1] = reversed_bits(word);
        row[2] = (uint32_t)__builtin_ctz(word) + (31 - (uint32_t)__builtin_clz(word)) * 100;
        row[3] = (word >> 5 & 0x7ff) ^ (uint32_t)((int32_t)(word << 20) >> 23);
        row[4] = (word & ~(0x1fffu << 4)) | (i & 0x1fff) << 4;
        row[5] = (uint32_t)(product >> 32) ^ (uint32_t)product;
        row[6] = (word & 0x3bff3bffu) + 0x6633ff00u;
        row[7] = word / (i + 1) + word % (i + 3) + (uint32_t)((int32_t)word / -7);
    }
    struct buffer out = host_buffer(BYTES * 8, NULL);
    run_two(KERNEL(bits, 2, 0), host_buffer(BYTES, words), out, COUNT / 64);
    uint32_t* got = out.at;
    // Denormal halves may be flushed: only normal ones and zeros are compared.
    for (uint32_t i = 0; i < COUNT; i++)
        if (!(words[i] & 0x38000000u) || !(words[i] & 0x3800u)) got[i * 8 + 6] = want[i * 8 + 6];
    SAME(got, want, COUNT * 8);
    close_device();
}

CASE(floats_of_32_bits) {
    open_device();
    uint32_t* words = noise(COUNT + 1, 13);
    float *values = malloc(BYTES + 4), *want = malloc(BYTES * 8);
    for (int i = 0; i <= COUNT; i++) values[i] = (float)(int32_t)words[i] / 65536.0f;
    for (int i = 0; i < COUNT; i++) {
        float a = values[i], b = values[i + 1], *row = want + i * 8;
        row[0] = a + b;
        row[1] = a * b;
        row[2] = floorf(a * 0.0625f) * floorf(b * 0.0625f) + 5;
        row[3] = floorf(a) + ceilf(b);
        row[4] = truncf(a) + (b - floorf(b));
        row[5] = rintf(a * 0.5f);
        row[6] = (float)(int)a + (float)(unsigned)fabsf(b);
        row[7] = ldexpf(a, i % 20 - 10);
    }
    struct buffer out = host_buffer(BYTES * 8, NULL);
    run_two(KERNEL(floats, 2, 0), host_buffer(BYTES + 4, values), out, COUNT / 64);
    SAME((uint32_t*)out.at, (uint32_t*)want, COUNT * 8);
    close_device();
}
