// The shaders of compute.c, one for each macro.
#version 460
#extension GL_EXT_shader_explicit_arithmetic_types : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_atomic_int64 : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#extension GL_KHR_shader_subgroup_ballot : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require

#if defined(waves) || defined(lanes)
layout(local_size_x = 256) in;
#elif defined(reversed) || defined(histogram)
layout(local_size_x = 128) in;
#else
layout(local_size_x = 64) in;
#endif

#if defined(reversed)
layout(binding = 0) buffer Words { uint words[]; };
shared uint kept[128];
void main() {
    uint i = gl_LocalInvocationIndex, base = gl_WorkGroupID.x * 128;
    kept[i] = words[base + i];
    barrier();
    words[base + i] = kept[127 - i];
}
#elif defined(histogram)
layout(binding = 0) readonly buffer Words { uint words[]; };
layout(binding = 1) buffer Bins { uint bins[]; };
shared uint counts[256];
void main() {
    uint i = gl_LocalInvocationIndex;
    counts[i] = 0;
    counts[i + 128] = 0;
    barrier();
    uint word = words[gl_GlobalInvocationID.x];
    for (uint n = 0; n < 4; n++) atomicAdd(counts[word >> n * 8 & 255], 1);
    barrier();
    atomicAdd(bins[i], counts[i]);
    atomicAdd(bins[i + 128], counts[i + 128]);
}
#elif defined(big_shared)
layout(binding = 0) buffer Words { uint words[]; };
shared uint kept[8192];
void main() {
    uint i = gl_LocalInvocationIndex;
    for (uint n = i; n < 8192; n += 64) kept[n] = words[n] ^ n;
    barrier();
    for (uint n = i; n < 8192; n += 64) words[n] = kept[8191 - n];
}
#elif defined(atomics)
layout(binding = 0) buffer Words { uint words[]; };
layout(binding = 1) buffer Old { uint old[]; };
layout(binding = 2) buffer Signed { int ints[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    atomicAdd(words[0], i);
    atomicMin(words[1], i * 2654435761u);
    atomicMax(words[2], i * 2654435761u);
    atomicAnd(words[3], ~(1u << i % 20));
    atomicOr(words[4], 1u << i % 20);
    atomicXor(words[5], i);
    old[i] = atomicAdd(words[6], 1);
    // Each work-item that finds its turn passes it on.
    old[4096 + i] = atomicCompSwap(words[8 + i], i * 3, i + 7);
    old[8192 + i] = atomicExchange(words[8 + i], i + 9);
    atomicMin(ints[0], int(i) - 100);
    atomicMax(ints[1], 50 - int(i));
}
#elif defined(atomics_wide)
layout(binding = 0) buffer Words { uint64_t words[]; };
void main() {
    uint n = gl_GlobalInvocationID.x;
    uint64_t i = n;
    atomicAdd(words[0], i << 33 | 1);
    atomicMax(words[1], i * 0x9E3779B97F4A7C15ul);
    atomicMin(words[2], i * 0x9E3779B97F4A7C15ul | 1);
    atomicOr(words[3], 1ul << i % 64);
    atomicXor(words[4], i << 40 | i);
    atomicCompSwap(words[8 + n], i + (5ul << 40), 1ul << 63 | i);
}
#elif defined(wide)
layout(binding = 0) readonly buffer Words { uint64_t words[]; };
layout(binding = 1) buffer Out { uint64_t got[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    uint64_t a = words[i], b = words[i + 1] | 1;
    int64_t c = int64_t(a), d = int64_t(b);
    got[i * 8] = a * b + 3;
    got[i * 8 + 1] = a / b;
    got[i * 8 + 2] = a % b;
    got[i * 8 + 3] = uint64_t(c / (d >> 32 | 1));
    got[i * 8 + 4] = a << (b & 63) | a >> (63 - (b & 63));
    got[i * 8 + 5] = uint64_t(c >> (d & 63));
    got[i * 8 + 6] = min(a, b) ^ uint64_t(max(c, d));
    got[i * 8 + 7] = uint64_t(float(a >> 40)) + uint64_t(double(uint(a)));
}
#elif defined(narrow)
layout(binding = 0) readonly buffer Bytes { int8_t bytes[]; };
layout(binding = 1) readonly buffer Halves { uint16_t halves[]; };
layout(binding = 2) buffer OutBytes { uint8_t got_bytes[]; };
layout(binding = 3) buffer OutHalves { int16_t got_halves[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    int8_t byte = bytes[i];
    uint16_t word = halves[i];
    got_bytes[i] = uint8_t(byte * int8_t(3)) + uint8_t(word >> 9us);
    got_halves[i] = int16_t(byte) * int16_t(word) - int16_t(i);
}
#elif defined(doubles)
layout(binding = 0) readonly buffer In { double values[]; };
layout(binding = 1) buffer Out { double got[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    precise double a = values[i], b = values[i + 1];
    precise double total = a + b, product = a * b;
    got[i * 4] = total;
    got[i * 4 + 1] = product;
    // It may be a product and a sum: those of whole numbers are exact.
    got[i * 4 + 2] = fma(floor(a), floor(b), floor(a));
    got[i * 4 + 3] = double(int(a)) + max(abs(a), -b);
}
#elif defined(halves)
layout(binding = 0) readonly buffer In { float16_t values[]; };
layout(binding = 1) buffer Out { float16_t got[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    precise float16_t a = values[i], b = values[i + 1];
    // Whole numbers, whose sums and products are exact.
    got[i * 4] = a + b;
    got[i * 4 + 1] = a * b;
    got[i * 4 + 2] = float16_t(int(a) * 2);
    got[i * 4 + 3] = min(a, b) - max(a, float16_t(3));
}
#elif defined(waves)
layout(binding = 0) buffer Out { uvec4 got[]; };
void main() {
    got[gl_GlobalInvocationID.x] = uvec4(gl_SubgroupID, gl_SubgroupInvocationID, gl_NumSubgroups, gl_SubgroupSize);
}
#elif defined(lanes)
layout(binding = 0) readonly buffer Words { uint words[]; };
layout(binding = 1) buffer Out { uint got[]; };
void main() {
    uint i = gl_GlobalInvocationID.x, word = words[i], lane = gl_SubgroupInvocationID;
    got[i * 8] = subgroupAdd(word);
    got[i * 8 + 1] = subgroupInclusiveAdd(word);
    got[i * 8 + 2] = subgroupExclusiveMul(word | 1);
    got[i * 8 + 3] = subgroupMax(word) ^ subgroupMin(word);
    got[i * 8 + 4] = subgroupBallotBitCount(subgroupBallot((word & 1) != 0));
    got[i * 8 + 5] = subgroupShuffleXor(word, 5);
    got[i * 8 + 6] = subgroupBroadcast(word, 3) + uint(subgroupAny(word > 0xf0000000u));
    // Half of the lanes take part.
    uint partly = 0;
    if ((word & 2) != 0) partly = subgroupXor(word) + (subgroupElect() ? 1 : 0);
    got[i * 8 + 7] = partly;
}
#elif defined(branches)
layout(binding = 0) buffer Words { uint words[]; };
void main() {
    uint i = gl_GlobalInvocationID.x, steps = 0;
    for (uint n = words[i] % 1000 + 1; n != 1; steps++) n = (n & 1) != 0 ? n * 3 + 1 : n / 2;
    words[i] = steps;
}
#elif defined(private_array)
layout(binding = 0) buffer Words { uint words[]; };
void main() {
    uint i = gl_GlobalInvocationID.x, word = words[i];
    uint table[96];
    for (uint n = 0; n < 96; n++) table[n] = word * (n + 1);
    uint total = 0;
    for (uint n = 0; n < 200; n++) {
        total += table[(word + n * 7) % 96];
        table[total % 96] ^= n;
    }
    words[i] = total;
}
#elif defined(bits)
layout(binding = 0) readonly buffer Words { uint words[]; };
layout(binding = 1) buffer Out { uint got[]; };
void main() {
    uint i = gl_GlobalInvocationID.x, word = words[i], high, low;
    got[i * 8] = bitCount(word);
    got[i * 8 + 1] = bitfieldReverse(word);
    got[i * 8 + 2] = uint(findLSB(word)) + uint(findMSB(word)) * 100;
    got[i * 8 + 3] = bitfieldExtract(word, 5, 11) ^ uint(bitfieldExtract(int(word), 3, 9));
    got[i * 8 + 4] = bitfieldInsert(word, i, 4, 13);
    umulExtended(word, 0x9E3779B9u, high, low);
    got[i * 8 + 5] = high ^ low;
    got[i * 8 + 6] = packHalf2x16(unpackHalf2x16(word & 0x3bff3bffu)) + packUnorm4x8(vec4(0, 1, 0.2, 0.4));
    got[i * 8 + 7] = word / (i + 1) + word % (i + 3) + uint(int(word) / -7);
}
#elif defined(floats)
layout(binding = 0) readonly buffer In { float values[]; };
layout(binding = 1) buffer Out { float got[]; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    precise float a = values[i], b = values[i + 1];
    precise float total = a + b, product = a * b;
    got[i * 8] = total;
    got[i * 8 + 1] = product;
    // It may be a product and a sum: those of small whole numbers are exact.
    got[i * 8 + 2] = fma(floor(a * 0.0625), floor(b * 0.0625), 5);
    got[i * 8 + 3] = floor(a) + ceil(b);
    got[i * 8 + 4] = trunc(a) + fract(b);
    got[i * 8 + 5] = roundEven(a * 0.5);
    got[i * 8 + 6] = float(int(a)) + float(uint(abs(b)));
    got[i * 8 + 7] = ldexp(a, int(i % 20) - 10);
}
#endif
