// Where waves run: HIP's __smid, the registers HW_ID and XCC_ID, and on gfx12 the message that returns the shader engine
// (MSG_RTN_GET_SE_AID_ID), which HIP's __smid uses there since ROCm/rocm-systems 3841: engine in bits 3:0, XCC in bits 19:16. Layouts
// of the registers are those of the ISA manuals and of HIP's amd_device_functions.h.
#include "../t.h"

#include <set>

struct Place {
    uint32_t id, xcc, message, smid, block;
};

__global__ void look(Place* places) {
    Place place = {0, 0, 0, __smid(), blockIdx.x};
#if defined(__gfx942__)
    asm volatile("s_getreg_b32 %0, hwreg(HW_REG_HW_ID)" : "=s"(place.id));
    asm volatile("s_getreg_b32 %0, hwreg(HW_REG_XCC_ID)" : "=s"(place.xcc));
#else
    asm volatile("s_getreg_b32 %0, hwreg(HW_REG_HW_ID1)" : "=s"(place.id));
#endif
#if defined(__gfx1201__)
    asm volatile("s_sendmsg_rtn_b32 %0, sendmsg(MSG_RTN_GET_SE_AID_ID)\n s_wait_kmcnt 0" : "=s"(place.message));
#endif
    for (int i = 0; i < 50; i++) __builtin_amdgcn_s_sleep(10);
    int wave = (blockIdx.x * blockDim.x + threadIdx.x) / warpSize;
    if (threadIdx.x % warpSize == 0) places[wave] = place;
}

// The compute unit, or the work group processor, as a number.
static uint32_t unit(const Place& place, bool compute_units) {
    if (!compute_units) return place.id >> 10 & 0xfff;
    return (place.id >> 8 & 0xff) | (place.id >> 13 & 7) << 8 | (place.xcc & 15) << 16;
}

int main() {
    const int blocks = 64, threads = 256;
    hipDeviceProp_t properties;
    H(hipGetDeviceProperties(&properties, 0));
    const size_t waves = blocks * threads / properties.warpSize, units = properties.multiProcessorCount;
    auto memory = dev<Place>(waves);
    look<<<blocks, threads>>>(memory);
    H(hipDeviceSynchronize());
    const auto places = host(memory, waves);
    const bool compute_units = family("gfx9");
    std::set<uint32_t> seen, smids;
    std::vector<int64_t> of_block(blocks, -1);
    bool together = true, engines = true;
    for (const Place& place : places) {
        const uint32_t at = unit(place, compute_units);
        seen.insert(at);
        smids.insert(place.smid);
        int64_t& others = of_block[place.block];
        together &= others < 0 || others == at;
        others = at;
        engines &= place.message == (place.id >> 18 & 7);
    }
    ok("waves of a workgroup share a unit", together);
    ok("no more places than units", seen.size() <= units);
    ok("no more than twice as many __smid as units", smids.size() <= units * (compute_units ? 1 : 2));
    ok("more than one place in use", seen.size() > 1);
    if (family("gfx12")) ok("the message names the shader engine of HW_ID1, and XCC 0", engines);
    return done("wave-places");
}
