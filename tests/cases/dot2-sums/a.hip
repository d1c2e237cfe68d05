// v_dot2_f32_f16 and v_dot2_f32_bf16: results captured on a Radeon Pro W7900 (gfx1100) and a Radeon AI Pro R9700 (gfx1201), from
// ROCm/rocm-systems (emulation/rocjitsu/tests/fixtures/float_dot), and 60,000 sums as the model of model.h has them, which is held
// against the captured ones first.
#include "../t.h"
#include "model.h"

struct Record {
    uint32_t a, b, c, result;
};

static const std::vector<Record> HALVES_GFX1100{
    {0x48004200, 0x44004800, 0xbf800000, 0x425c0001}, {0x3c00bc00, 0x3c003c00, 0x3f800000, 0x3f7fffff},
    {0x3c003c00, 0x3c003c00, 0xc0000000, 0x34000000}, {0x4800c800, 0x48004800, 0x3f800000, 0x3f7fffc0},
    {0x3c003c00, 0x3c000000, 0x80000000, 0x3f800001}, {0x3c007e01, 0x3c003c00, 0x00000000, 0xffc00a3d},
    {0x00000001, 0x3c008001, 0x00000000, 0xa7880000}, {0xcd6c4d6c, 0x78af78af, 0x00000000, 0xbd000000},
    {0x058ef3f3, 0x2b241c4a, 0xb8eed486, 0xc2886106}};
static const std::vector<Record> HALVES_GFX1201{
    {0x48004200, 0x44004800, 0xbf800000, 0x425c0000}, {0x3c00bc00, 0x3c003c00, 0x3f800000, 0x3f800000},
    {0x3c003c00, 0x3c003c00, 0xc0000000, 0x00000000}, {0x3c007e01, 0x3c003c00, 0x00000000, 0xffc00a3d},
    {0x00000001, 0x3c008001, 0x00000000, 0xa7800000}, {0xcd6c4d6c, 0x78af78af, 0x00000000, 0x00000000},
    {0x058ef3f3, 0x2b241c4a, 0xb8eed486, 0xc2886106}};
static const std::vector<Record> BRAINS_GFX1100{
    {0xff7f7f7f, 0x7f7f7f7f, 0x00000000, 0xff800000}, {0xc395629b, 0xd9633359, 0xdc60025c, 0x5d504185},
    {0x35b3b5b3, 0xc398c398, 0x80000000, 0x2d800000}, {0x00000001, 0x3f804980, 0x00000000, 0x00000000}};
static const std::vector<Record> BRAINS_GFX1201{
    {0x00800000, 0x3f808000, 0x00000001, 0x00800001}, {0x2061bc39, 0x96b40093, 0x0056dd77, 0x00553463},
    {0x37d6ba90, 0x8901852c, 0x80800007, 0x81674c04}, {0x08e7393d, 0xb7d307aa, 0x80800005, 0x8006c205},
    {0x0364bc8c, 0x3c468385, 0x807ffffe, 0x0069a402}, {0xc395629b, 0xd9633359, 0xdc60025c, 0x5d504184},
    {0x0d040199, 0xb3fb3e6b, 0x807ffff8, 0x817c9e7c}};

__global__ void sums(const Record* records, int count, bool brains, uint32_t* results) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) return;
    const Record record = records[i];
    uint32_t result;
    if (brains) {
        asm volatile("v_dot2_f32_bf16 %0, %1, %2, %3" : "=v"(result) : "v"(record.a), "v"(record.b), "v"(record.c));
    } else {
        asm volatile("v_dot2_f32_f16 %0, %1, %2, %3" : "=v"(result) : "v"(record.a), "v"(record.b), "v"(record.c));
    }
    results[i] = result;
}

static uint32_t by_model(bool gfx12, bool brains, const Record& record) {
    const uint16_t a[2] = {(uint16_t)record.a, (uint16_t)(record.a >> 16)};
    const uint16_t b[2] = {(uint16_t)record.b, (uint16_t)(record.b >> 16)};
    return dot(gfx12, brains, 2, a, b, record.c);
}

static void name_of(char (&what)[80], const char* of, const Record& record) {
    snprintf(what, sizeof what, "%s %08x %08x %08x", of, record.a, record.b, record.c);
}

static void check_model(bool gfx12, bool brains, const std::vector<Record>& captured) {
    for (const Record& record : captured) {
        char what[80];
        name_of(what, "model", record);
        eq(what, record.result, by_model(gfx12, brains, record));
    }
}

// 40,000 sums of moderate halves, which cancel now and then, and 20,000 of any bits.
static std::vector<Record> arbitrary() {
    Random random;
    auto half = [&] { return (random.next() & 0x83ff) | (12 + random.next() % 8) << 10; };
    auto halves = [&] {
        const uint32_t low = half();
        return low | half() << 16;
    };
    std::vector<Record> records;
    for (int i = 0; i < 60000; i++) {
        Record record = {};
        record.a = i < 40000 ? halves() : random.next();
        record.b = i < 40000 ? halves() : random.next();
        record.c = random.next();
        if (i < 40000) record.c = (record.c & 0x807fffff) | (120 + random.next() % 14) << 23;
        records.push_back(record);
    }
    return records;
}

static void check(bool gfx12, bool brains, const std::vector<Record>& captured) {
    std::vector<Record> records = arbitrary();
    for (Record& record : records) record.result = by_model(gfx12, brains, record);
    records.insert(records.begin(), captured.begin(), captured.end());
    const int count = records.size();
    auto memory = dev<uint32_t>(count);
    sums<<<(count + 255) / 256, 256>>>(up(records), count, brains, memory);
    H(hipDeviceSynchronize());
    const auto results = host(memory, count);
    for (int i = 0; i < count; i++) {
        char what[80];
        name_of(what, brains ? "bf16" : "f16", records[i]);
        eq(what, records[i].result, results[i]);
    }
}

int main() {
    check_model(false, false, HALVES_GFX1100);
    check_model(true, false, HALVES_GFX1201);
    check_model(false, true, BRAINS_GFX1100);
    check_model(true, true, BRAINS_GFX1201);
    const bool gfx12 = family("gfx12");
    check(gfx12, false, gfx12 ? HALVES_GFX1201 : HALVES_GFX1100);
    check(gfx12, true, gfx12 ? BRAINS_GFX1201 : BRAINS_GFX1100);
    return done("dot2-sums");
}
