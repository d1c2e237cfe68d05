// Kernels for queues that are driven without a runtime: none needs more than its arguments and its place in the grid.
#define GLOBAL_ID (__builtin_amdgcn_workgroup_id_x() * 64u + __builtin_amdgcn_workitem_id_x())

// out[i] = first + i * i
__kernel void squares(__global uint* out, uint first) {
    uint id = GLOBAL_ID;
    out[id] = first + id * id;
}

// Every work-item counts once.
__kernel void count(__global volatile atomic_uint* counter) {
    __opencl_atomic_fetch_add(counter, 1u, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_ALL_SVM_DEVICES);
}

// Waits until another writes *flag, and answers at flag[1].
__kernel void wait_and_answer(__global volatile atomic_uint* flag) {
    while (__opencl_atomic_load(flag, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_ALL_SVM_DEVICES) == 0)
        __builtin_amdgcn_s_sleep(1);
    __opencl_atomic_store(flag + 1, 77u, __ATOMIC_RELAXED, __OPENCL_MEMORY_SCOPE_ALL_SVM_DEVICES);
}

// to[i] = from[i] + 1
__kernel void plus_one(__global uint* to, __global const uint* from) {
    uint id = GLOBAL_ID;
    to[id] = from[id] + 1;
}
