// Data-parallel training in miniature: each rank has a replica of the parameters, in buckets. A step computes gradients,
// sums them over all ranks by RCCL on a second stream while the next bucket's are computed, and updates the parameters.
//
// All numbers are small whole ones, so that every order of additions gives the same sums. At the end each replica is
// compared bit for bit with the parameters that the processor computes.
#include <hip/hip_runtime.h>
#include <errno.h>
#include <rccl/rccl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

static const char USAGE[] =
    "usage: ddp-loop [STEPS] [OPTIONS]\n\n"
    "  STEPS            steps of training [default: 100]\n"
    "  --ranks N        ranks, each on a GPU of its own [default: as many as there are GPUs]\n"
    "  --processes      a process for each rank, instead of a thread\n"
    "  --floats A,B,..  numbers in each bucket [default: 65536,16384,1000,25]\n"
    "  --patience SECS  a run that takes so long on all processors without any rank going on is ended as stalled:\n"
    "                   what others take of the processors does not count, up to ten times as long [default: 120]\n";

enum { MOST_RANKS = 64, STEPS_AT_ONCE = 16 };

// What all ranks see, in one process or in several.
struct Shared {
    ncclUniqueId id;
    std::atomic<int> has_id;
    // Parts of the set-up of all ranks that are over.
    std::atomic<int> set_up;
    // Ranks that have set up, and those whose replica is compared.
    std::atomic<int> ready, done;
    std::atomic<uint64_t> steps[MOST_RANKS], wrong[MOST_RANKS];
    std::atomic<double> seconds[MOST_RANKS];
};

static Shared* shared;
static int ranks = 0;
static uint32_t steps = 100;
static std::vector<size_t> buckets = {65536, 16384, 1000, 25};
// The processor's parameters after the last step.
static std::vector<float> wanted;

[[noreturn]] static void fail(const char* what, const char* error) {
    fprintf(stderr, "ddp-loop: %s: %s\n", what, error);
    fflush(stderr);
    _exit(1);
}
static void check(const char* what, hipError_t error) {
    if (error != hipSuccess) fail(what, hipGetErrorName(error));
}
static void check(const char* what, ncclResult_t error) {
    if (error != ncclSuccess) fail(what, ncclGetErrorString(error));
}
#define OK(call) check(#call, (call))

__host__ __device__ inline uint32_t mixed(uint32_t word) {
    word = (word ^ word >> 16) * 0x7feb352du;
    word = (word ^ word >> 15) * 0x846ca68bu;
    return word ^ word >> 16;
}
__host__ __device__ inline float first_value(uint32_t at) { return float(mixed(at) & 4095u); }
// Below 1024, so that the sum of all ranks' is exact.
__host__ __device__ inline float gradient(float parameter, uint32_t at, uint32_t step, uint32_t rank) {
    return float((mixed(at * 64u + rank + step * 0x9e3779b9u) + uint32_t(parameter) * 7u) & 1023u);
}
__host__ __device__ inline float updated(float parameter, float sum) {
    return float((uint32_t(parameter) * 5u + uint32_t(sum)) & 4095u);
}

__global__ void set_parameters(float* parameters, uint32_t count) {
    uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) parameters[at] = first_value(at);
}
__global__ void compute_gradients(float* gradients, const float* parameters, uint32_t first, uint32_t count, uint32_t step,
                                  uint32_t rank) {
    uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) gradients[first + at] = gradient(parameters[first + at], first + at, step, rank);
}
__global__ void update_parameters(float* parameters, const float* sums, uint32_t first, uint32_t count) {
    uint32_t at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count) parameters[first + at] = updated(parameters[first + at], sums[first + at]);
}

static uint32_t all_floats() {
    size_t all = 0;
    for (size_t count : buckets) all += count;
    return uint32_t(all);
}

static unsigned groups(size_t count) { return unsigned((count + 255) / 256); }

// Does it all on the processor.
static void compute_wanted() {
    wanted.resize(all_floats());
    for (uint32_t at = 0; at < wanted.size(); at++) wanted[at] = first_value(at);
    for (uint32_t step = 0; step < steps; step++)
        for (uint32_t at = 0; at < wanted.size(); at++) {
            float sum = 0;
            for (int rank = 0; rank < ranks; rank++) sum += gradient(wanted[at], at, step, uint32_t(rank));
            wanted[at] = updated(wanted[at], sum);
        }
}

// One rank's training, from its first step to the last.
struct Trainer {
    uint32_t rank;
    ncclComm_t communicator;
    float *parameters = nullptr, *gradients = nullptr;
    hipStream_t computing, reducing;
    std::vector<hipEvent_t> computed, reduced;

    Trainer(int rank, ncclComm_t communicator) : rank(uint32_t(rank)), communicator(communicator) {
        OK(hipMalloc((void**)&parameters, all_floats() * sizeof(float)));
        OK(hipMalloc((void**)&gradients, all_floats() * sizeof(float)));
        OK(hipStreamCreateWithFlags(&computing, hipStreamNonBlocking));
        OK(hipStreamCreateWithFlags(&reducing, hipStreamNonBlocking));
        for (size_t i = 0; i < buckets.size(); i++) {
            hipEvent_t events[2];
            for (hipEvent_t& event : events) OK(hipEventCreateWithFlags(&event, hipEventDisableTiming));
            computed.push_back(events[0]);
            reduced.push_back(events[1]);
        }
        set_parameters<<<groups(all_floats()), 256, 0, computing>>>(parameters, all_floats());
        OK(hipGetLastError());
    }

    void reduce(size_t bucket, uint32_t first) {
        float* sums = gradients + first;
        OK(ncclAllReduce(sums, sums, buckets[bucket], ncclFloat, ncclSum, communicator, reducing));
    }

    // Reduces each bucket once, as a communicator connects its ranks when it is first used.
    void connect() {
        uint32_t first = 0;
        OK(hipMemsetAsync(gradients, 0, all_floats() * sizeof(float), reducing));
        for (size_t i = 0; i < buckets.size(); first += uint32_t(buckets[i++])) {
            reduce(i, first);
            OK(hipStreamSynchronize(reducing));
            shared->set_up++;
        }
        OK(hipStreamSynchronize(computing));
    }

    void step(uint32_t number) {
        uint32_t first = 0;
        for (size_t i = 0; i < buckets.size(); first += uint32_t(buckets[i++])) {
            uint32_t count = uint32_t(buckets[i]);
            compute_gradients<<<groups(count), 256, 0, computing>>>(gradients, parameters, first, count, number, rank);
            OK(hipGetLastError());
            OK(hipEventRecord(computed[i], computing));
            OK(hipStreamWaitEvent(reducing, computed[i], 0));
            reduce(i, first);
            OK(hipEventRecord(reduced[i], reducing));
        }
        first = 0;
        for (size_t i = 0; i < buckets.size(); first += uint32_t(buckets[i++])) {
            uint32_t count = uint32_t(buckets[i]);
            OK(hipStreamWaitEvent(computing, reduced[i], 0));
            update_parameters<<<groups(count), 256, 0, computing>>>(parameters, gradients, first, count);
            OK(hipGetLastError());
        }
    }

    uint64_t wrong() {
        std::vector<uint32_t> replica(all_floats()), right(all_floats());
        OK(hipMemcpy(replica.data(), parameters, replica.size() * 4, hipMemcpyDeviceToHost));
        memcpy(right.data(), wanted.data(), right.size() * 4);
        uint64_t wrong = 0;
        for (size_t at = 0; at < right.size(); at++) wrong += replica[at] != right[at];
        return wrong;
    }

    ~Trainer() {
        for (hipEvent_t event : computed) OK(hipEventDestroy(event));
        for (hipEvent_t event : reduced) OK(hipEventDestroy(event));
        OK(hipStreamDestroy(computing));
        OK(hipStreamDestroy(reducing));
        OK(hipFree(parameters));
        OK(hipFree(gradients));
    }
};

static void run_rank(int rank) {
    OK(hipSetDevice(rank));
    if (rank == 0) {
        OK(ncclGetUniqueId(&shared->id));
        shared->has_id = 1;
    }
    shared->set_up++;
    while (!shared->has_id) usleep(100);
    ncclComm_t communicator;
    OK(ncclCommInitRank(&communicator, ranks, shared->id, rank));
    shared->set_up++;
    {
        Trainer trainer(rank, communicator);
        shared->set_up++;
        trainer.connect();
        shared->ready++;
        while (shared->ready < ranks) usleep(100);
        auto begin = std::chrono::steady_clock::now();
        for (uint32_t step = 0; step < steps; step++) {
            trainer.step(step);
            if ((step + 1) % STEPS_AT_ONCE != 0 && step + 1 < steps) continue;
            OK(hipStreamSynchronize(trainer.computing));
            shared->steps[rank] = step + 1;
        }
        shared->seconds[rank] = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        shared->wrong[rank] = trainer.wrong();
    }
    OK(ncclCommDestroy(communicator));
    shared->done++;
}

// Counts the GPUs in a child: a process that has used the runtime cannot fork ranks that use it.
static int count_gpus() {
    pid_t child = fork();
    if (child == 0) {
        int count = 0;
        _exit(hipGetDeviceCount(&count) == hipSuccess ? count : 0);
    }
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status)) fail("hipGetDeviceCount", "no answer");
    return WEXITSTATUS(status);
}

static uint64_t progress() {
    uint64_t all = uint64_t(shared->set_up) + uint64_t(shared->ready) + uint64_t(shared->done);
    for (int rank = 0; rank < ranks; rank++) all += shared->steps[rank];
    return all;
}

// Seconds of processors that this process and its children have taken.
static double processor_seconds(const std::vector<pid_t>& children) {
    double sum = 0;
    auto add = [&sum](clockid_t clock) {
        timespec time;
        if (clock_gettime(clock, &time) == 0) sum += double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
    };
    add(CLOCK_PROCESS_CPUTIME_ID);
    for (pid_t child : children) {
        clockid_t clock;
        if (clock_getcpuclockid(child, &clock) == 0) add(clock);
    }
    return sum;
}

// Waits until all ranks are done. Says false if none goes on for too long, or a child has failed. Too long is by the processors' time: a run
// that others leave few processors goes on slowly, and has not stalled. One whose ranks all sleep takes none, and has a limit by the clock.
static bool watch(unsigned patience, std::vector<pid_t> children) {
    using Clock = std::chrono::steady_clock;
    const bool has_children = !children.empty();
    const double processors = double(std::max(1u, std::thread::hardware_concurrency()));
    uint64_t before = progress();
    double taken = processor_seconds(children);
    auto moved = Clock::now();
    auto goes_on = [&] {
        before = progress();
        taken = processor_seconds(children);
        moved = Clock::now();
    };
    while (shared->done < ranks || !children.empty()) {
        usleep(10000);
        int status = 0;
        pid_t ended = has_children ? waitpid(-1, &status, WNOHANG) : 0;
        if (ended > 0) {
            if (status != 0) {
                fprintf(stderr, "ddp-loop: process %d ended with status %#x\n", ended, status);
                return false;
            }
            children.erase(std::remove(children.begin(), children.end(), ended), children.end());
            // Its time is no longer in the sum.
            goes_on();
        }
        if (progress() != before) {
            goes_on();
            continue;
        }
        double seconds = std::chrono::duration<double>(Clock::now() - moved).count();
        // The clock first: most looks end here.
        if (seconds < patience) continue;
        double share = (processor_seconds(children) - taken) / processors;
        if (share > patience || seconds > 10.0 * patience) {
            fprintf(stderr, "ddp-loop: stalled: no rank has gone on for %.0f s, with %.0f s of %.0f processors; steps that are over:",
                    seconds, share, processors);
            for (int rank = 0; rank < ranks; rank++) fprintf(stderr, " %lu", (unsigned long)shared->steps[rank].load());
            fprintf(stderr, "\n");
            return false;
        }
    }
    return true;
}

static void run_all(bool processes, unsigned patience) {
    std::vector<pid_t> children;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; rank++) {
        if (!processes) {
            threads.emplace_back(run_rank, rank);
            continue;
        }
        pid_t child = fork();
        if (child < 0) fail("fork", strerror(errno));
        if (child == 0) {
            run_rank(rank);
            fflush(stdout);
            _exit(0);
        }
        children.push_back(child);
    }
    if (!watch(patience, children)) {
        for (pid_t child : children) kill(child, SIGKILL);
        // Threads that wait for each other do not end.
        fflush(stderr);
        _exit(1);
    }
    for (std::thread& thread : threads) thread.join();
}

static unsigned number(const char* text, unsigned most) {
    char* end = nullptr;
    unsigned long value = text ? strtoul(text, &end, 10) : 0;
    if (!text || end == text || *end || value < 1 || value > most) {
        fputs(USAGE, stderr);
        exit(2);
    }
    return unsigned(value);
}

int main(int, char** words) {
    bool processes = false;
    unsigned patience = 120;
    for (words++; *words; words++) {
        std::string word = *words;
        auto value = [&words] { return *words && words[1] ? *++words : nullptr; };
        if (word == "--ranks") ranks = int(number(value(), MOST_RANKS));
        else if (word == "--processes") processes = true;
        else if (word == "--patience") patience = number(value(), 1u << 20);
        else if (word == "--floats") {
            buckets.clear();
            char* list = value();
            for (char* one = list ? strtok(list, ",") : nullptr; one; one = strtok(nullptr, ","))
                buckets.push_back(number(one, 1u << 26));
            if (buckets.empty() || buckets.size() > 16) number(nullptr, 0);
        } else if (word == "--help" || word == "-h") {
            fputs(USAGE, stdout);
            return 0;
        } else steps = number(words[0], 1u << 24);
    }
    int gpus = count_gpus();
    if (ranks == 0) ranks = gpus;
    if (ranks == 0 || ranks > gpus || ranks > MOST_RANKS) {
        fprintf(stderr, "ddp-loop: %d ranks need a GPU each, and there are %d GPUs\n", ranks, gpus);
        return 2;
    }
    void* place = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) fail("mmap", strerror(errno));
    shared = new (place) Shared();
    compute_wanted();
    auto begin = std::chrono::steady_clock::now();
    run_all(processes, patience);
    double all = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), most = 0;
    uint64_t wrong = 0;
    for (int rank = 0; rank < ranks; rank++) {
        if (shared->wrong[rank]) printf("rank %d: %lu parameters are wrong\n", rank, (unsigned long)shared->wrong[rank].load());
        wrong += shared->wrong[rank];
        if (shared->seconds[rank] > most) most = shared->seconds[rank];
    }
    printf("%u steps of %zu all-reduces, %u floats, %d ranks in %s: %.2f s, %.2f ms an all-reduce; %.2f s with the set-up\n", steps,
           buckets.size(), all_floats(), ranks, processes ? "processes" : "threads", most,
           most * 1000 / steps / double(buckets.size()), all);
    if (wrong) return 1;
    printf("%d replicas are equal bit for bit, and as the processor computes them\n", ranks);
    return 0;
}
