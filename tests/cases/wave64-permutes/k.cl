// What the lanes of a wave of 64 get from one another, and the least about such waves; see a.hip.
#pragma OPENCL EXTENSION cl_khr_subgroups : enable

kernel void k(global uint *results) {
    uint lane = get_local_id(0), value = 1000 + lane;
    global uint *result = results + lane;
    result[0 * 64] = __builtin_amdgcn_ds_bpermute((lane ^ 32) * 4, value);
    result[1 * 64] = __builtin_amdgcn_ds_bpermute((lane ^ 5) * 4, value);
    result[2 * 64] = __builtin_amdgcn_ds_permute((lane ^ 32) * 4, value);
    result[3 * 64] = __builtin_amdgcn_readlane(value, 45);
    result[4 * 64] = __builtin_amdgcn_mbcnt_hi(-1, __builtin_amdgcn_mbcnt_lo(-1, 0));
    ulong ballot = __builtin_amdgcn_ballot_w64(lane % 3 == 0);
    result[5 * 64] = (uint)ballot;
    result[6 * 64] = ballot >> 32;
    result[7 * 64] = __builtin_amdgcn_update_dpp(7, value, 0x111, 0xf, 0xf, false);
#if defined(__GFX11__) || defined(__GFX12__)
    result[8 * 64] = __builtin_amdgcn_permlane64(value);
    result[9 * 64] = __builtin_amdgcn_permlanex16(7, value, 0x76543210, 0xfedcba98, false, false);
#endif
    result[10 * 64] = __builtin_amdgcn_ds_swizzle(value, 0x041f);
    result[11 * 64] = sub_group_reduce_add(value);
    result[12 * 64] = sub_group_scan_inclusive_add(value);
    result[13 * 64] = get_sub_group_size();
}
