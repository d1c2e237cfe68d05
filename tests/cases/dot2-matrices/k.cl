// One product of matrices in one wave: all rows of A, all columns of B and all elements of C are the same, so all elements of D are.
// Lanes hold consecutive elements of a row: eight in a wave of 32, four in a wave of 64.
kernel void k(global const ushort *a, global const ushort *b, float c, global uint *results) {
    uint lane = get_local_id(0), group = lane / 16;
    if (__builtin_amdgcn_wavefrontsize() == 64) {
        ushort4 x = vload4(group, a), y = vload4(group, b);
        float4 d = c;
        __asm volatile("v_wmma_f32_16x16x16_f16 %0, %1, %2, %0\n s_nop 7" : "+v"(d) : "v"(x), "v"(y));
        vstore4(as_uint4(d), lane, results);
    } else {
        ushort8 x = vload8(group, a), y = vload8(group, b);
        float8 d = c;
        __asm volatile("v_wmma_f32_16x16x16_f16 %0, %1, %2, %0\n s_nop 7" : "+v"(d) : "v"(x), "v"(y));
        vstore8(as_uint8(d), lane, results);
    }
}
