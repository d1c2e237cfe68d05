// clock64 counts at about the rate of hipDeviceAttributeClockRate, as delays written in clocks need it (ROCm/rocm-systems 1186,
// chipStar 1550, clock tests of hip-tests): a card below its highest clock counts a few times more slowly, not twenty times. Held
// against wall_clock64 (hipDeviceAttributeWallClockRate), so that the load of the host does not matter.
#include "../t.h"

#include <algorithm>

const int WINDOWS = 64;

// Clocks and ticks of the wall clock in short stretches of time.
__global__ void count(uint64_t* clocks, uint64_t* ticks) {
    for (int i = 0; i < WINDOWS; i++) {
        uint64_t tick = wall_clock64(), clock = clock64();
        while (wall_clock64() - tick < 1000) {
        }
        clocks[i] = clock64() - clock;
        ticks[i] = wall_clock64() - tick;
    }
}

int main() {
    int rate, wall_rate;
    H(hipDeviceGetAttribute(&rate, hipDeviceAttributeClockRate, 0));
    H(hipDeviceGetAttribute(&wall_rate, hipDeviceAttributeWallClockRate, 0));
    auto clocks = dev<uint64_t>(WINDOWS), ticks = dev<uint64_t>(WINDOWS);
    count<<<1, 1>>>(clocks, ticks);
    H(hipDeviceSynchronize());
    const auto counted = host(clocks, WINDOWS), passed = host(ticks, WINDOWS);
    std::vector<double> rates;
    for (int i = 0; i < WINDOWS; i++) {
        // gfx11 counts clocks modulo 2^20: a stretch in which the host has done something else says nothing.
        const uint64_t passing = family("gfx11") ? counted[i] & 0xfffff : counted[i];
        if (passed[i] < 20000) rates.push_back((double)passing / passed[i] * wall_rate);
    }
    ok("a stretch without a break", !rates.empty());
    if (!rates.empty()) {
        std::sort(rates.begin(), rates.end());
        const double median = rates[rates.size() / 2];
        printf("told %d kHz, counted %.0f kHz in %zu stretches\n", rate, median, rates.size());
        ok("at least a sixth of what is told", median > rate / 6.0);
        ok("no more than a fifth above what is told", median < rate * 1.2);
    }
    return done("clock-rate");
}
