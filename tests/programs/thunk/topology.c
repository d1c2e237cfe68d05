// What the thunk tells of the nodes, compared with the files it has it from, and the clocks.
#include "thunk_cases.h"

#define TOPOLOGY "/sys/devices/virtual/kfd/kfd/topology/"

static char* file_text(const char* path) {
    FILE* file = fopen(path, "r");
    CHECK(file != NULL, "there is no %s", path);
    char* text = (char*)calloc(1, 16384);
    size_t length = fread(text, 1, 16383, file);
    text[length] = 0;
    fclose(file);
    return text;
}

// The value of `key` in a file of the GPU's node.
static uint64_t in_file(const char* file, const char* key) {
    char path[256], line[64];
    snprintf(path, sizeof path, TOPOLOGY "nodes/%u/%s", gpu_node, file);
    char* text = file_text(path);
    snprintf(line, sizeof line, "%s ", key);
    for (char* at = strtok(text, "\n"); at; at = strtok(NULL, "\n"))
        if (strncmp(at, line, strlen(line)) == 0) return strtoull(at + strlen(line), NULL, 10);
    FAIL("%s has no %s", path, key);
}

CASE(version_is_that_of_the_interface) {
    open_thunk();
    HsaVersionInfo version = {0};
    GOOD(hsaKmtGetVersion(&version));
    EQUAL(version.KernelInterfaceMajorVersion, 1);
    CHECK(version.KernelInterfaceMinorVersion >= 12, "1.%u", version.KernelInterfaceMinorVersion);
    close_thunk();
}

CASE(system_has_a_processor_and_a_gpu) {
    open_thunk();
    EQUAL(the_system.NumNodes, 2);
    HsaNodeProperties node = {0};
    GOOD(hsaKmtGetNodeProperties(0, &node));
    CHECK(node.NumCPUCores >= 1, "%u processors", node.NumCPUCores);
    EQUAL(node.NumFComputeCores, 0);
    EQUAL(node.KFDGpuID, 0);
    EQUAL(gpu_node, 1);
    EQUAL(the_gpu.NumCPUCores, 0);
}

CASE(gpu_is_what_its_files_say) {
    open_thunk();
    const struct {
        const char* key;
        uint64_t value;
    } rows[] = {
        {"simd_count", the_gpu.NumFComputeCores},
        {"caches_count", the_gpu.NumCaches},
        {"io_links_count", the_gpu.NumIOLinks},
        {"simd_id_base", the_gpu.FComputeIdLo},
        {"max_waves_per_simd", the_gpu.MaxWavesPerSIMD},
        {"lds_size_in_kb", the_gpu.LDSSizeInKB},
        {"gds_size_in_kb", the_gpu.GDSSizeInKB},
        {"num_gws", the_gpu.NumGws},
        {"wave_front_size", the_gpu.WaveFrontSize},
        {"array_count", the_gpu.NumShaderBanks * the_gpu.NumArrays},
        {"simd_arrays_per_engine", the_gpu.NumArrays},
        {"cu_per_simd_array", the_gpu.NumCUPerArray},
        {"simd_per_cu", the_gpu.NumSIMDPerCU},
        {"max_slots_scratch_cu", the_gpu.MaxSlotsScratchCU},
        {"vendor_id", the_gpu.VendorId},
        {"device_id", the_gpu.DeviceId},
        {"location_id", the_gpu.LocationId},
        {"domain", the_gpu.Domain},
        {"drm_render_minor", (uint64_t)the_gpu.DrmRenderMinor},
        {"hive_id", the_gpu.HiveID},
        {"num_sdma_engines", the_gpu.NumSdmaEngines},
        {"num_sdma_xgmi_engines", the_gpu.NumSdmaXgmiEngines},
        {"num_sdma_queues_per_engine", the_gpu.NumSdmaQueuesPerEngine},
        {"num_cp_queues", the_gpu.NumCpQueues},
        {"max_engine_clk_fcompute", the_gpu.MaxEngineClockMhzFCompute},
        {"local_mem_size", the_gpu.LocalMemSize},
        {"capability", the_gpu.Capability.Value},
        {"debug_prop", the_gpu.DebugProperties.Value},
        {"unique_id", the_gpu.UniqueID},
        {"num_xcc", the_gpu.NumXcc},
    };
    for (unsigned i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint64_t is = in_file("properties", rows[i].key);
        CHECK(is == rows[i].value, "%s is %llu in the file, and the thunk says %llu", rows[i].key, (unsigned long long)is,
              (unsigned long long)rows[i].value);
    }
}

CASE(gpu_has_its_name_and_number) {
    open_thunk();
    char path[256];
    snprintf(path, sizeof path, TOPOLOGY "nodes/%u/gpu_id", gpu_node);
    EQUAL(strtoull(file_text(path), NULL, 10), the_gpu.KFDGpuID);
    CHECK(the_gpu.KFDGpuID > 0 && the_gpu.KFDGpuID < 65536, "%u", the_gpu.KFDGpuID);
    uint64_t target = in_file("properties", "gfx_target_version");
    EQUAL(target / 10000, the_gpu.EngineId.ui32.Major);
    EQUAL(target / 100 % 100, the_gpu.EngineId.ui32.Minor);
    EQUAL(target % 100, the_gpu.EngineId.ui32.Stepping);
    CHECK(strncmp((const char*)the_gpu.AMDName, "GFX", 3) == 0 || the_gpu.AMDName[0] == 'g' || the_gpu.AMDName[0] == 'N' ||
              the_gpu.AMDName[0] == 'n', "its name is %s", the_gpu.AMDName);
}

CASE(memory_banks_are_those_of_the_files) {
    open_thunk();
    HsaMemoryProperties banks[16];
    CHECK(the_gpu.NumMemoryBanks <= 16, "%u banks", the_gpu.NumMemoryBanks);
    GOOD(hsaKmtGetNodeMemoryProperties(gpu_node, the_gpu.NumMemoryBanks, banks));
    bool found = false;
    for (unsigned i = 0; i < the_gpu.NumMemoryBanks; i++) {
        if (banks[i].HeapType != HSA_HEAPTYPE_FRAME_BUFFER_PUBLIC) continue;
        found = true;
        EQUAL(banks[i].SizeInBytes, in_file("mem_banks/0/properties", "size_in_bytes"));
        EQUAL(banks[i].Width, in_file("mem_banks/0/properties", "width"));
        EQUAL(banks[i].MemoryClockMax, in_file("mem_banks/0/properties", "mem_clk_max"));
    }
    CHECK(found, "there is no VRAM");
    HSAuint64 available = 0;
    GOOD(hsaKmtAvailableMemory(gpu_node, &available));
    CHECK(available > 0 && available <= in_file("mem_banks/0/properties", "size_in_bytes"), "%llu bytes",
          (unsigned long long)available);
}

CASE(caches_are_those_of_the_files) {
    open_thunk();
    HsaCacheProperties* caches = (HsaCacheProperties*)calloc(the_gpu.NumCaches, sizeof *caches);
    GOOD(hsaKmtGetNodeCacheProperties(gpu_node, the_gpu.FComputeIdLo, the_gpu.NumCaches, caches));
    for (unsigned i = 0; i < the_gpu.NumCaches; i++) {
        char file[64];
        snprintf(file, sizeof file, "caches/%u/properties", i);
        EQUAL(caches[i].CacheLevel, in_file(file, "level"));
        EQUAL(caches[i].CacheSize, in_file(file, "size"));
        EQUAL(caches[i].CacheLineSize, in_file(file, "cache_line_size"));
        EQUAL(caches[i].CacheType.Value, in_file(file, "type"));
    }
    CHECK(the_gpu.NumCaches > 0, "no caches");
}

CASE(links_are_those_of_the_files) {
    open_thunk();
    HsaIoLinkProperties links[8];
    GOOD(hsaKmtGetNodeIoLinkProperties(gpu_node, the_gpu.NumIOLinks, links));
    EQUAL(the_gpu.NumIOLinks, 1);
    EQUAL(links[0].IoLinkType, in_file("io_links/0/properties", "type"));
    EQUAL(links[0].NodeFrom, gpu_node);
    EQUAL(links[0].NodeTo, 0);
    EQUAL(links[0].Weight, in_file("io_links/0/properties", "weight"));
}

CASE(snapshot_is_released_and_taken_again) {
    open_thunk();
    for (int round = 0; round < 5; round++) {
        GOOD(hsaKmtReleaseSystemProperties());
        GOOD(hsaKmtAcquireSystemProperties(&the_system));
        EQUAL(the_system.NumNodes, 2);
    }
}

CASE(thunk_is_opened_more_than_once) {
    GOOD(hsaKmtOpenKFD());
    GIVES(hsaKmtOpenKFD(), HSAKMT_STATUS_KERNEL_ALREADY_OPENED);
    GOOD(hsaKmtCloseKFD());
    GOOD(hsaKmtCloseKFD());
    GIVES(hsaKmtCloseKFD(), HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED);
    GOOD(hsaKmtOpenKFD());
    GOOD(hsaKmtCloseKFD());
}

CASE(nothing_works_before_the_thunk_is_opened) {
    HsaVersionInfo version;
    HsaSystemProperties system;
    HsaClockCounters counters;
    HSAuint64 available = 0;
    GIVES(hsaKmtGetVersion(&version), HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED);
    GIVES(hsaKmtAcquireSystemProperties(&system), HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED);
    GIVES(hsaKmtGetClockCounters(1, &counters), HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED);
    GIVES(hsaKmtAvailableMemory(1, &available), HSAKMT_STATUS_KERNEL_IO_CHANNEL_NOT_OPENED);
}

CASE(clocks_go_forward) {
    open_thunk();
    HsaClockCounters before = {0}, after = {0};
    GOOD(hsaKmtGetClockCounters(gpu_node, &before));
    usleep(20000);
    GOOD(hsaKmtGetClockCounters(gpu_node, &after));
    CHECK(after.GPUClockCounter > before.GPUClockCounter, "the GPU's clock stands");
    CHECK(after.CPUClockCounter >= before.CPUClockCounter + 20000000, "the processor's clock is no count of nanoseconds");
    CHECK(after.SystemClockCounter >= before.SystemClockCounter + 20000000, "nor is the system's");
    EQUAL(after.SystemClockFrequencyHz, 1000000000);
}

CASE(processor_has_no_gpu_clock) {
    open_thunk();
    HsaClockCounters counters = {0};
    GOOD(hsaKmtGetClockCounters(0, &counters));
    EQUAL(counters.GPUClockCounter, 0);
    CHECK(counters.CPUClockCounter > 0, "no clock");
}

CASE(tiles_of_the_memory_are_told) {
    open_thunk();
    HSAuint32 tiles[32] = {0}, macro_tiles[16] = {0};
    HsaGpuTileConfig config = {.TileConfig = tiles, .MacroTileConfig = macro_tiles, .NumTileConfigs = 32,
                               .NumMacroTileConfigs = 16};
    GOOD(hsaKmtGetTileConfig(gpu_node, &config));
    CHECK(config.GbAddrConfig != 0, "no GB_ADDR_CONFIG");
}

CASE(retries_of_faults_are_off_and_on_where_the_chip_has_them) {
    open_thunk();
    const int has = GPU_MAJOR == 9;
    HSAint32 enabled = 5;
    GOOD(hsaKmtGetXNACKMode(&enabled));
    EQUAL(enabled, 0);
    CHECK((hsaKmtSetXNACKMode(1) == HSAKMT_STATUS_SUCCESS) == has, "retries that are%s there", has ? "" : " not");
    GOOD(hsaKmtGetXNACKMode(&enabled));
    EQUAL(enabled, has);
    GOOD(hsaKmtSetXNACKMode(0));
    GOOD(hsaKmtGetXNACKMode(&enabled));
    EQUAL(enabled, 0);
}

CASE(device_of_libdrm_is_given) {
    open_thunk();
    HsaAMDGPUDeviceHandle handle = NULL;
    GOOD(hsaKmtGetAMDGPUDeviceHandle(gpu_node, &handle));
    CHECK(handle != NULL, "none");
    CHECK(hsaKmtGetAMDGPUDeviceHandle(99, &handle) != HSAKMT_STATUS_SUCCESS, "node 99 has a device");
}

CASE(refused_questions) {
    open_thunk();
    HsaNodeProperties node;
    HsaClockCounters counters;
    HsaMemoryProperties banks[4];
    GIVES(hsaKmtGetNodeProperties(99, &node), HSAKMT_STATUS_INVALID_NODE_UNIT);
    GIVES(hsaKmtGetNodeProperties(gpu_node, NULL), HSAKMT_STATUS_INVALID_PARAMETER);
    GIVES(hsaKmtGetNodeMemoryProperties(99, 1, banks), HSAKMT_STATUS_INVALID_NODE_UNIT);
    GIVES(hsaKmtGetNodeMemoryProperties(gpu_node, 1, NULL), HSAKMT_STATUS_INVALID_PARAMETER);
    GIVES(hsaKmtGetClockCounters(99, &counters), HSAKMT_STATUS_INVALID_NODE_UNIT);
    GIVES(hsaKmtAcquireSystemProperties(NULL), HSAKMT_STATUS_INVALID_PARAMETER);
}
