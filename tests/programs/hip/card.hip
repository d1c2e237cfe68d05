// The card's figures in sysfs and in ROCm's tools: they follow what programs do with the card.
#include "hip_cases.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <string>

// The PCI device's directory, by its render node.
static std::string device_file(const char* name) {
    static std::string directory;
    for (int minor = 128; directory.empty() && minor < 192; minor++) {
        std::string place = "/sys/class/drm/renderD" + std::to_string(minor) + "/device";
        if (access((place + "/mem_info_vram_used").c_str(), R_OK) == 0) directory = place;
    }
    CHECK(!directory.empty(), "no card with mem_info_vram_used");
    return directory + "/" + name;
}

static std::string contents(const std::string& path) {
    FILE* file = fopen(path.c_str(), "r");
    CHECK(file, "%s cannot be opened", path.c_str());
    static char text[1 << 14];
    size_t length = fread(text, 1, sizeof text, file);
    fclose(file);
    CHECK(length > 0, "%s is empty", path.c_str());
    return std::string(text, length);
}

static long long number(const char* name) { return atoll(contents(device_file(name)).c_str()); }

// What a command says, and no error.
static std::string says(const char* command) {
    FILE* pipe = popen(command, "r");
    CHECK(pipe, "%s cannot be started", command);
    static char text[1 << 14];
    size_t length = fread(text, 1, sizeof text, pipe);
    int status = pclose(pipe);
    CHECK(status == 0, "%s ended with status %#x", command, status);
    return std::string(text, length);
}

// The number behind a key of a tool's JSON, without quotes around it.
static long long figure(const std::string& text, const char* key) {
    size_t at = text.find(key);
    CHECK(at != std::string::npos, "no \"%s\" in %s", key, text.c_str());
    at = text.find_first_of("0123456789-", at + strlen(key));
    CHECK(at != std::string::npos, "no number behind \"%s\" in %s", key, text.c_str());
    return atoll(text.c_str() + at);
}

// Memory that the GPU's programs get: VRAM, or of an APU the machine's own.
static std::string kind_of_memory() {
    int integrated = 0;
    HIP(hipDeviceGetAttribute(&integrated, hipDeviceAttributeIntegrated, 0));
    return integrated ? "gtt" : "vram";
}

static const char* const USE = "rocm-smi --showuse --json 2>/dev/null";

__global__ void until(uint32_t* flag) {
    while (__hip_atomic_load(flag, __ATOMIC_RELAXED, __HIP_MEMORY_SCOPE_SYSTEM) == 0) {}
}

CASE(card_memory_in_use_grows_by_what_a_program_holds) {
    const long long size = 96 << 20;
    // The first allocation brings what the runtime needs for itself.
    void* first = nullptr;
    HIP(hipMalloc(&first, 4096));
    const std::string kind = kind_of_memory(), tool = "rocm-smi --showmeminfo " + kind + " --json 2>/dev/null";
    const std::string file_total = "mem_info_" + kind + "_total", file_used = "mem_info_" + kind + "_used";
    long long total = number(file_total.c_str()), before = number(file_used.c_str());
    long long tool_before = figure(says(tool.c_str()), "Used Memory (B)");
    // Under exec, the tool has a device of its own, whose driver uses some memory.
    CHECK(tool_before >= before && tool_before < before + (1 << 20), "rocm-smi says %lld bytes, the file %lld",
          tool_before, before);
    void* memory = nullptr;
    HIP(hipMalloc(&memory, size));
    long long held = number(file_used.c_str()), tool_held = figure(says(tool.c_str()), "Used Memory (B)");
    CHECK(held >= before + size && held < before + size + (8 << 20) && held <= total,
          "%lld bytes of %lld in use, %lld before", held, total, before);
    CHECK(tool_held >= held && tool_held < held + (1 << 20), "rocm-smi says %lld bytes, the file %lld", tool_held, held);
    HIP(hipFree(memory));
    // Linux's driver clears what is freed before it counts it as free, and so do its files a moment later.
    long long after = held;
    for (int i = 0; i < 5000 && after >= held - size + (8 << 20); i++, usleep(1000)) after = number(file_used.c_str());
    CHECK(after < held - size + (8 << 20), "%lld bytes in use after %lld were freed from %lld", after, size, held);
}

CASE(card_is_busy_while_a_kernel_runs) {
    uint32_t* flag = nullptr;
    HIP(hipHostMalloc((void**)&flag, 4, hipHostMallocCoherent));
    *flag = 1;
    until<<<1, 64>>>(flag);
    LAUNCHED();
    HIP(hipDeviceSynchronize());
    // The figure is of the time since the last look, which may have been before the kernel.
    auto comes = [](bool busy) {
        for (int i = 0; i < 5000; i++, usleep(1000))
            if (busy ? number("gpu_busy_percent") > 50 : number("gpu_busy_percent") == 0) return true;
        return false;
    };
    CHECK(comes(false), "busy before the kernel");
    *flag = 0;
    until<<<1, 64>>>(flag);
    LAUNCHED();
    // It takes a while to begin.
    CHECK(comes(true), "not busy while a kernel runs");
    // On a machine whose processors are busy with something else, a single look may fall into a moment without a wave.
    auto highest = [](auto look) {
        long long most = 0;
        for (int i = 0; i < 20 && most <= 50; i++) most = std::max<long long>(most, look());
        return most;
    };
    long long busy = highest([] { return number("gpu_busy_percent"); });
    long long tool_busy = highest([] { return figure(says(USE), "GPU use (%)"); });
    CHECK(busy > 50 && busy <= 100, "%lld percent busy while a kernel runs", busy);
    CHECK(tool_busy > 50 && tool_busy <= 100, "rocm-smi says %lld percent", tool_busy);
    long long activity = highest([] {
        std::string metrics = contents(device_file("gpu_metrics"));
        CHECK(metrics.size() == 120 && metrics[2] == 1 && metrics[3] == 3, "metrics of %zu bytes", metrics.size());
        uint16_t percent;
        memcpy(&percent, metrics.data() + 16, 2);
        return percent;
    });
    CHECK(activity > 50 && activity <= 100, "metrics say %lld percent", activity);
    *flag = 1;
    HIP(hipDeviceSynchronize());
    CHECK(comes(false), "%lld percent busy after the kernel", number("gpu_busy_percent"));
    CHECK(figure(says(USE), "GPU use (%)") == 0, "rocm-smi says it is busy after the kernel");
}

CASE(card_files_are_the_same_however_they_are_opened) {
    std::string total = contents(device_file("mem_info_vram_total"));
    std::string used = contents(device_file("mem_info_vram_used"));
    CHECK(atoll(total.c_str()) > atoll(used.c_str()), "%s bytes of %s in use", used.c_str(), total.c_str());
    char text[64] = {0};
    int directory = open(device_file("").c_str(), O_RDONLY | O_DIRECTORY);
    CHECK(directory >= 0, "the directory cannot be opened");
    int file = openat(directory, "mem_info_vram_used", O_RDONLY | O_CLOEXEC);
    CHECK(file >= 0, "the file cannot be opened below its directory");
    CHECK(fcntl(file, F_GETFD) == FD_CLOEXEC, "the descriptor is not closed by exec");
    CHECK(read(file, text, sizeof text - 1) > 0 && used == text, "\"%s\" below the directory, not \"%s\"", text,
          used.c_str());
    close(file);
    close(directory);
    CHECK(says(("cat " + device_file("mem_info_vram_used")).c_str()) == used, "cat says something else");
}

CASE(card_blocks_are_those_of_the_discovery_table) {
    std::string die = device_file("ip_discovery/die/0/");
    CHECK(atoll(contents(die + "num_ips").c_str()) > 10, "%s blocks", contents(die + "num_ips").c_str());
    CHECK(contents(die + "GC/0/major") == std::to_string(GPU_MAJOR) + "\n", "graphics core %s", contents(die + "GC/0/major").c_str());
    CHECK(contents(die + "GC/0/hw_id") == contents(die + "11/0/hw_id"), "GC is not block 11");
    std::string bases = contents(die + "GC/0/base_addr");
    long long lines = 0;
    for (char c : bases) lines += c == '\n';
    CHECK(lines == atoll(contents(die + "GC/0/num_base_addresses").c_str()), "bases: %s", bases.c_str());
    CHECK(contents(die + "UVD/0/harvest") == "0x1\n", "video is said to be there");
    CHECK(contents(die + "GC/0/harvest") == "0x0\n", "the graphics core is said to be fused off");
}

CASE(card_descriptor_says_what_its_client_holds) {
    // Under exec, descriptors of the nodes are files of the machine's, as /proc says.
    if (getenv("BELFRY_EXEC")) return;
    void* memory = nullptr;
    HIP(hipMalloc(&memory, 64 << 20));
    long long most = -1;
    for (int fd = 0; fd < 256; fd++) {
        FILE* file = fopen(("/proc/self/fdinfo/" + std::to_string(fd)).c_str(), "r");
        if (!file) continue;
        char line[256];
        bool ours = false;
        long long kib;
        while (fgets(line, sizeof line, file)) {
            if (strcmp(line, "drm-driver:\tamdgpu\n") == 0) ours = true;
            if (ours && sscanf(line, "drm-memory-vram: %lld KiB", &kib) == 1 && kib > most) most = kib;
        }
        fclose(file);
    }
    CHECK(most >= 64 << 10, "%lld KiB of VRAM behind the descriptors", most);
}

CASE(card_monitor_has_sensors_with_names) {
    std::string directory = device_file("hwmon"), monitor;
    DIR* entries = opendir(directory.c_str());
    CHECK(entries, "no directory %s", directory.c_str());
    while (dirent* entry = readdir(entries))
        if (strncmp(entry->d_name, "hwmon", 5) == 0) monitor = directory + "/" + entry->d_name + "/";
    closedir(entries);
    CHECK(!monitor.empty(), "no monitor in %s", directory.c_str());
    CHECK(contents(monitor + "name") == "amdgpu\n", "it is called %s", contents(monitor + "name").c_str());
    CHECK(contents(monitor + "temp2_label") == "junction\n", "no junction temperature");
    CHECK(contents(monitor + "freq1_label") == "sclk\n", "no clock");
    long long limit = atoll(contents(monitor + "power1_cap").c_str());
    long long power = atoll(contents(monitor + "power1_average").c_str());
    CHECK(power > 0 && power <= limit, "%lld of %lld microwatts", power, limit);
}
