// Kernels for queues of ROCr: only builtins of the compiler, no library of device functions.
#define X __builtin_amdgcn_workitem_id_x()
#define GROUP __builtin_amdgcn_workgroup_id_x()
#define SYSTEM __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_ALL_SVM_DEVICES

__constant uint primes[8] = {2, 3, 5, 7, 11, 13, 17, 19};
__attribute__((visibility("default"))) __global uint table[64];

// out[i] = first + i * i, in groups of 64
__kernel void squares(__global uint* out, uint first) {
    uint id = GROUP * 64u + X;
    out[id] = first + id * id;
}

// In groups of 4 x 4 x 4: each work-item writes where it is.
__kernel void places(__global uint* out, uint width, uint height) {
    uint x = GROUP * 4u + X;
    uint y = __builtin_amdgcn_workgroup_id_y() * 4u + __builtin_amdgcn_workitem_id_y();
    uint z = __builtin_amdgcn_workgroup_id_z() * 4u + __builtin_amdgcn_workitem_id_z();
    out[(z * height + y) * width + x] = z << 16 | y << 8 | x;
}

#define BARRIER                                               \
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup");    \
    __builtin_amdgcn_s_barrier();                             \
    __builtin_amdgcn_fence(__ATOMIC_SEQ_CST, "workgroup")

// Reverses each group of 256 in memory of the group.
__kernel void reverse(__global uint* out, __global const uint* in) {
    __local uint group[256];
    group[X] = in[GROUP * 256u + X];
    BARRIER;
    out[GROUP * 256u + X] = group[255u - X];
}

// The same with memory that the packet asks for.
__kernel void reverse_in(__global uint* out, __global const uint* in, __local uint* group) {
    group[X] = in[GROUP * 256u + X];
    BARRIER;
    out[GROUP * 256u + X] = group[255u - X];
}

// Sums through an array that does not fit in registers.
__kernel void private_sums(__global uint* out, uint seed) {
    volatile uint array[256];
    uint id = GROUP * 64u + X;
    for (uint at = 0; at < 256; at++)
        array[(at * 7u + id) % 256u] = at * seed + id;
    uint sum = 0;
    for (uint at = 0; at < 256; at++)
        sum = sum * 31u + array[at];
    out[id] = sum;
}

__kernel void count(__global volatile atomic_uint* counter) { __opencl_atomic_fetch_add(counter, 1u, SYSTEM); }

// Waits until another writes *flag, and answers at flag[1].
__kernel void wait_and_answer(__global volatile atomic_uint* flag) {
    while (__opencl_atomic_load(flag, SYSTEM) == 0)
        __builtin_amdgcn_s_sleep(1);
    __opencl_atomic_store(flag + 1, 77u, SYSTEM);
}

// Reads what the program put into `table`, and leaves something there.
__kernel void use_table(__global uint* out) {
    out[X] = table[X] + primes[X % 8u];
    table[X] = out[X] * 2u;
}

__kernel void store_at(ulong address, uint value) { *(volatile __global uint*)address = value; }

__kernel void copy_at(ulong to, ulong from) { *(volatile __global uint*)to = *(volatile __global uint*)from; }

// An operation that no gfx11 has.
__kernel void illegal(__global uint* out) {
    out[0] = 1;
    __asm__ volatile(".long 0xbfffffff");
    out[1] = 2;
}
