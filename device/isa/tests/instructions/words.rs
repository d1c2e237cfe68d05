//! Programs of the instruction tests: llvm-mc-19 -mcpu=gfx1100 output of the lines above each.

// v_add_co_u32 v2, vcc_lo, v0, v1
// v_add_co_ci_u32_e32 v3, vcc_lo, 0, v1, vcc_lo
// v_sub_co_u32 v4, s2, v0, v1
// v_subrev_co_ci_u32_e64 v5, s3, v0, v1, s2
pub(crate) const CARRY_CHAIN: &[u32] =
    &[0xd700_6a02, 0x0002_0300, 0x4006_0280, 0xd701_0204, 0x0002_0300, 0xd522_0305, 0x000a_0300, 0xbfb0_0000];

// v_dual_mov_b32 v0, v1 :: v_dual_mov_b32 v1, v0
// v_dual_mov_b32 v2, v3 :: v_dual_add_f32 v3, v2, v2
pub(crate) const DUAL_SWAP: &[u32] = &[0xca10_0101, 0x0000_0100, 0xca08_0103, 0x0202_0502, 0xbfb0_0000];

// v_mov_b32_dpp v1, v0 row_shr:1 row_mask:0xf bank_mask:0xf
// v_mov_b32_dpp v2, v0 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1
// v_mov_b32_dpp v3, v0 quad_perm:[3,2,1,0] row_mask:0x1 bank_mask:0xf
// v_mov_b32_dpp v4, v0 dpp8:[7,6,5,4,3,2,1,0]
pub(crate) const DPP: &[u32] = &[
    0x7e02_02fa,
    0xff01_1100,
    0x7e04_02fa,
    0xff09_1100,
    0x7e06_02fa,
    0x1f00_1b00,
    0x7e08_02e9,
    0x0539_7700,
    0xbfb0_0000,
];

// v_add_f32_e64 v1, -|v0|, 2.0
// v_mul_f32_e64 v2, v0, v0 clamp
// v_add_f32_e64 v3, v0, v0 mul:4
// v_fma_f32 v4, -v0, v0, 1.0 div:2
// v_fma_f16 v5, v6, 1.0, v7 op_sel:[1,0,0,1]
// v_cndmask_b32_e64 v8, -v0, |v0|, vcc_lo
pub(crate) const MODIFIERS: &[u32] = &[
    0xd503_0101,
    0x2001_e900,
    0xd508_8002,
    0x0002_0100,
    0xd503_0003,
    0x1002_0100,
    0xd613_0004,
    0x3bca_0100,
    0xd648_4805,
    0x041d_e506,
    0xd501_0208,
    0x21aa_0100,
    0xbfb0_0000,
];

// v_lshlrev_b64 v[2:3], 33, v[0:1]
// v_lshlrev_b64 v[4:5], v6, v[0:1]
// v_mad_u64_u32 v[8:9], null, v0, v1, v[0:1]
// v_ashrrev_i64 v[10:11], 4, v[0:1]
// v_fma_f64 v[12:13], v[14:15], 2.0, 0.15915494309189532
pub(crate) const WIDE: &[u32] = &[
    0xd73c_0002,
    0x0002_00a1,
    0xd73c_0004,
    0x0002_0106,
    0xd6fe_7c08,
    0x0402_0300,
    0xd73e_000a,
    0x0002_0084,
    0xd614_000c,
    0x03e1_e90e,
    0xbfb0_0000,
];

// v_readfirstlane_b32 s4, v0
// v_readlane_b32 s5, v0, 7
// v_writelane_b32 v1, s4, 3
// v_mbcnt_lo_u32_b32 v2, -1, 0
// v_cmp_class_f32_e64 s6, v3, 3
// s_mov_b32 s7, exec_lo
// v_cmpx_gt_u32_e32 8, v0
// v_mov_b32_e32 v4, 5
// s_mov_b32 exec_lo, s7
pub(crate) const LANES: &[u32] = &[
    0x7e08_0500,
    0xd760_0005,
    0x0001_0f00,
    0xd761_0001,
    0x0001_0604,
    0xd71f_0002,
    0x0001_00c1,
    0xd47e_0006,
    0x0001_0703,
    0xbe87_007e,
    0x7d98_0088,
    0x7e08_0285,
    0xbefe_0007,
    0xbfb0_0000,
];

// s_movk_i32 s0, 0xfffe
// s_addk_i32 s0, 5
// s_cselect_b32 s1, 1, 2
// s_bfe_i32 s2, s12, 0x80008
// s_and_saveexec_b32 s3, 0xff
// s_or_b32 exec_lo, exec_lo, s3
// s_mul_hi_u32 s4, 0x80000000, 6
// s_cmp_lg_u64 s[4:5], 0
// s_cbranch_scc0 1
// s_mov_b32 s6, 7
// s_bcnt1_i32_b64 s8, exec
// s_pack_lh_b32_b16 s9, s13, 0xabcd0000
// s_mov_b64 s[10:11], 1.0
pub(crate) const SCALAR: &[u32] = &[
    0xb000_fffe,
    0xb780_0005,
    0x9801_8281,
    0x9382_ff0c,
    0x0008_0008,
    0xbe83_20ff,
    0x0000_00ff,
    0x8c7e_037e,
    0x9684_86ff,
    0x8000_0000,
    0xbf11_8004,
    0xbfa1_0001,
    0xbe86_0087,
    0xbe88_197e,
    0x9989_ff0d,
    0xabcd_0000,
    0xbe8a_01f2,
    0xbfb0_0000,
];

// s_getpc_b64 s[0:1]
// s_add_u32 s0, s0, 20
// s_addc_u32 s1, s1, 0
// s_swappc_b64 s[2:3], s[0:1]
// s_mov_b32 s5, 2
// s_endpgm
// s_mov_b32 s4, 1
// s_setpc_b64 s[2:3]
pub(crate) const CALL: &[u32] =
    &[0xbe80_4700, 0x8000_9400, 0x8201_8001, 0xbe82_4900, 0xbe85_0082, 0xbfb0_0000, 0xbe84_0081, 0xbe80_4802];

// v_lshlrev_b32_e32 v1, 3, v0
// ds_store_2addr_b32 v1, v0, v2 offset1:1
// ds_load_2addr_b32 v[1:2], v1 offset1:1
// ds_add_rtn_u32 v3, v4, v0 offset:512
// ds_load_b64 v[5:6], v7
// ds_load_u8_d16_hi v8, v7
// ds_bpermute_b32 v9, v7, v0
// ds_swizzle_b32 v10, v0 offset:swizzle(SWAP,1)
pub(crate) const LDS: &[u32] = &[
    0x3002_0083,
    0xd838_0100,
    0x0002_0001,
    0xd8dc_0100,
    0x0100_0001,
    0xd880_0200,
    0x0300_0004,
    0xd9d8_0000,
    0x0500_0007,
    0xda8c_0000,
    0x0800_0007,
    0xdacc_0000,
    0x0900_0007,
    0xd8d4_041f,
    0x0a00_0000,
    0xbfb0_0000,
];

// scratch_store_b32 off, v0, off offset:4
// scratch_store_b8 v1, v0, off
// scratch_load_b32 v2, off, off offset:4
// scratch_load_u8 v3, v1, off
// flat_load_b32 v4, v[6:7]
// flat_store_b32 v[8:9], v0
// flat_load_b32 v5, v[8:9]
pub(crate) const SCRATCH: &[u32] = &[
    0xdc69_0004,
    0x007c_0000,
    0xdc61_0000,
    0x00fc_0001,
    0xdc51_0004,
    0x027c_0000,
    0xdc41_0000,
    0x03fc_0001,
    0xdc50_0000,
    0x047c_0006,
    0xdc68_0000,
    0x007c_0008,
    0xdc50_0000,
    0x057c_0008,
    0xbfb0_0000,
];

// global_atomic_add_u32 v2, v1, v0, s[0:1] glc
// global_load_b96 v[4:6], v3, s[0:1] offset:64
// global_store_b128 v7, v[4:7], s[0:1] offset:512
// global_load_d16_hi_b16 v8, v3, s[0:1] offset:66
// global_atomic_cmpswap_b64 v[10:11], v12, v[14:17], s[0:1] offset:1024 glc
pub(crate) const GLOBAL: &[u32] = &[
    0xdcd6_4000,
    0x0200_0001,
    0xdc5a_0040,
    0x0400_0003,
    0xdc76_0200,
    0x0000_0407,
    0xdc8e_0042,
    0x0800_0003,
    0xdd0a_4400,
    0x0a00_0e0c,
    0xbfb0_0000,
];

// v_cmp_gt_u32_e32 vcc, 40, v0
// s_and_saveexec_b64 s[0:1], vcc
// v_mov_b32_e32 v1, 9
// s_mov_b64 exec, s[0:1]
// v_add_co_u32 v2, s[2:3], v0, -8
// v_cndmask_b32_e64 v3, 1, 2, s[2:3]
// v_permlane64_b32 v4, v0
// v_readlane_b32 s4, v0, 63
pub(crate) const WAVE64: &[u32] = &[
    0x7c98_00a8,
    0xbe80_216a,
    0x7e02_0289,
    0xbefe_0100,
    0xd700_0202,
    0x0001_9100,
    0xd501_0003,
    0x0009_0481,
    0x7e08_cf00,
    0xd760_0004,
    0x0001_7f00,
    0xbfb0_0000,
];

// v_pk_add_f16 v1, v0, 1.0 op_sel_hi:[1,0]
// v_pk_mul_lo_u16 v2, v0, v0 op_sel:[0,1] op_sel_hi:[1,0]
// v_pk_fma_f16 v3, v0, v0, v0 neg_lo:[1,0,0] neg_hi:[0,1,0]
// v_fma_mix_f32 v4, v0, v5, v0 op_sel:[1,0,0] op_sel_hi:[1,0,1]
// v_dot2_f32_f16 v6, v0, v0, 1.0
// v_perm_b32 v7, v0, v8, s0
pub(crate) const PACKED: &[u32] = &[
    0xcc0f_4001,
    0x0801_e500,
    0xcc01_5002,
    0x0802_0100,
    0xcc0e_4203,
    0x3c02_0100,
    0xcc20_4804,
    0x0c02_0b00,
    0xcc13_4006,
    0x1bca_0100,
    0xd644_0007,
    0x0002_1100,
    0xbfb0_0000,
];

// s_denorm_mode 0
// v_add_f32_e32 v1, v0, v0
// s_denorm_mode 15
// v_add_f32_e32 v2, v0, v0
// s_getreg_b32 s0, hwreg(HW_REG_MODE, 4, 4)
// v_div_scale_f32 v3, vcc_lo, v4, v4, v5
pub(crate) const MODE: &[u32] =
    &[0xbf92_0000, 0x0602_0100, 0xbf92_000f, 0x0604_0100, 0xb880_1901, 0xd6fc_6a03, 0x0416_0904, 0xbfb0_0000];

// v_mov_b32_e32 v0, 0
// v_mov_b32_e32 v1, 1
// global_load_b32 v2, v[0:1], off
pub(crate) const BAD_GLOBAL: &[u32] = &[0x7e00_0280, 0x7e02_0281, 0xdc52_0000, 0x027c_0000, 0xbfb0_0000];

// scratch_load_b32 v0, off, off offset:64
pub(crate) const BAD_SCRATCH: &[u32] = &[0xdc51_0040, 0x007c_0000, 0xbfb0_0000];

// v_mov_b32_e32 v40, 0
pub(crate) const BAD_VGPR: &[u32] = &[0x7e50_0280, 0xbfb0_0000];

// image_msaa_load v[1:4], v[5:7], s[8:15] dmask:0x1 dim:SQ_RSRC_IMG_2D_MSAA
pub(crate) const UNKNOWN: &[u32] = &[0xf060_0118, 0x0002_0105, 0xbfb0_0000];

// global_load_b32 v2, v[0:1], off
pub(crate) const LOAD_B32: &[u32] = &[0xdc52_0000, 0x027c_0000, 0xbfb0_0000];
// global_load_b64 v[2:3], v[0:1], off
pub(crate) const LOAD_B64: &[u32] = &[0xdc56_0000, 0x027c_0000, 0xbfb0_0000];
// global_load_u8 v2, v[0:1], off
pub(crate) const LOAD_U8: &[u32] = &[0xdc42_0000, 0x027c_0000, 0xbfb0_0000];
// global_store_b32 v[0:1], v2, off
pub(crate) const STORE_B32: &[u32] = &[0xdc6a_0000, 0x007c_0200, 0xbfb0_0000];
// global_atomic_add_u32 v[0:1], v2, off
pub(crate) const ATOMIC_ADD: &[u32] = &[0xdcd6_0000, 0x007c_0200, 0xbfb0_0000];

// s_getpc_b64 s[8:9]
// v_mov_b32_e32 v1, 0xbe800082 ; s_mov_b32 s0, 2
// v_mov_b32_e32 v0, 0
// global_store_b32 v0, v1, s[8:9] offset:24
// s_icache_inv
// s_mov_b32 s0, 1
pub(crate) const SELF_MODIFYING: &[u32] = &[
    0xbe88_4700,
    0x7e02_02ff,
    0xbe80_0082,
    0x7e00_0280,
    0xdc6a_0018,
    0x0008_0100,
    0xbfbc_0000,
    0xbe80_0081,
    0xbfb0_0000,
];

// v_add_f16_e32 v2, v0, v1
// v_pk_mul_f16 v3, v0, v1
// v_cvt_f16_f32_e32 v4, v5
// v_rcp_f16_e32 v6, 0
// v_add_f16_e32 v7, v8, v1
pub(crate) const HALF_OVERFLOWS: &[u32] =
    &[0x6404_0300, 0xcc10_4003, 0x1802_0300, 0x7e08_1505, 0x7e0c_a880, 0x640e_0308, 0xbfb0_0000];
