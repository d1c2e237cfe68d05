// Multiplies each element of a buffer by a factor.
//
// get_global_id() is in AMD's device libraries; clang's own builtins need none.
kernel void scale(global float *data, float factor) {
    uint group = __builtin_amdgcn_workgroup_id_x(), size = __builtin_amdgcn_workgroup_size_x();
    data[group * size + __builtin_amdgcn_workitem_id_x()] *= factor;
}
