// Adds two vectors. For debuggers: it is compiled with debug information and without optimisation.
__kernel void vecadd(__global const float* a, __global const float* b, __global float* c, unsigned n) {
  unsigned i = __builtin_amdgcn_workgroup_id_x() * 64 + __builtin_amdgcn_workitem_id_x();
  float sum = 0.0f;
  if (i < n) {
    sum = a[i] + b[i];
    c[i] = sum;
  }
}
