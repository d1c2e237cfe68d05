// Whole divisions of single precision, as HIP compiles them, of numbers with every exponent: correctly rounded, as IEEE 754 has it. Held
// against the host's.
#include "../t.h"

#include <cmath>

__global__ void divide(const float* values, int count, float* quotients) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count * count) quotients[i] = values[i / count] / values[i % count];
}

int main() {
    std::vector<float> values;
    for (uint32_t exponent = 0; exponent < 256; exponent++) {
        for (uint32_t digits : {0x000000u, 0x000001u, 0x400000u, 0x7fffffu, 0x2aaaaau}) {
            values.push_back(single(exponent << 23 | digits));
        }
    }
    for (int i = 0; i < 40; i++) values.push_back(-values[i * 31]);
    const int count = values.size(), pairs = count * count;
    auto memory = dev<float>(pairs);
    divide<<<(pairs + 255) / 256, 256>>>(up(values), count, memory);
    H(hipDeviceSynchronize());
    const auto quotients = host(memory, pairs);
    for (int i = 0; i < pairs; i++) {
        const volatile float numerator = values[i / count], denominator = values[i % count];
        const float wanted = numerator / denominator;
        if (std::isnan(wanted) && std::isnan(quotients[i])) {
            good++;
            continue;
        }
        char what[64];
        snprintf(what, sizeof what, "%08x / %08x", bits(numerator), bits(denominator));
        eq(what, bits(wanted), bits(quotients[i]));
    }
    return done("special-values divisions");
}
