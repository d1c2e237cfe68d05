// Contexts of gfx9 of MI300X, through a buffer of which each lane has a dword.
//
// Context of a wave, in this order, without gaps, as debuggers read it:
//   vector registers         256 bytes each: v0 and on, and from ACCV_OFFSET on a0 and on
//   scalar registers         112 words: s0 to s101, flat_scratch, 2 words of 0, vcc, 4 words of 0
//   hardware registers       16 words: m0, pc (2), exec (2), status, trapsts, xnack_mask (2), mode, 6 words of 0
//   trap temporaries         16 words: ttmp4 to ttmp11 and ttmp13 in their places, 0 in the others
//   LDS                      in the context of the first wave
//   16 words                 of nothing

.set HWREGS, 448
.set TTMPS, 512
.set LDS, 576
// Bits of LDS_SIZE: gfx950 has 640 units of 256 bytes.
.if .amdgcn.gfx_generation_minor < 5
  .set LDS_BITS, 9
.else
  .set LDS_BITS, 11
.endif
// A buffer of dwords, of which each lane has its own: a stride of 4, ADD_TID_ENABLE, 32-bit floats.
.set STRIDE, 0x40000
.set ALL_RECORDS, 0x7fffffff
.set BY_LANE, 0x807fac

// The registers that a wave has, s0 all, s1 v0 and on; s4 bytes of all, s10 bytes of LDS.
.macro sizes
  s_getreg_b32 s0, hwreg(HW_REG_GPR_ALLOC, 6, 6)
  s_add_u32 s0, s0, 1
  s_lshl_b32 s0, s0, 3
  s_getreg_b32 s1, hwreg(HW_REG_GPR_ALLOC, 12, 6)
  s_add_u32 s1, s1, 1
  s_lshl_b32 s1, s1, 2
  s_min_u32 s1, s1, s0
  s_lshl_b32 s4, s0, 8
  s_getreg_b32 s10, hwreg(HW_REG_LDS_ALLOC, 12, LDS_BITS)
  s_lshl_b32 s10, s10, 8
.endm

// Writes 0 into lanes of a vector register.
.macro zeros_to_lanes vector, count, lane
  .set register, \lane
  .rept \count
  v_writelane_b32 \vector, 0, register
  .set register, register + 1
  .endr
.endm

// v0 to v3 from or to the beginning of the context.
.macro first_vectors operation
  \operation v0, off, ttmp[12:15], 0
  \operation v1, off, ttmp[12:15], 0 offset:256
  \operation v2, off, ttmp[12:15], 0 offset:512
  \operation v3, off, ttmp[12:15], 0 offset:768
.endm

// The LDS, s10 bytes, a dword of each lane at a time: v0 its address there, s12 its place in the context.
.macro lds_begin
  s_add_u32 s12, s4, LDS
  s_mov_b32 s11, 0
  v_mbcnt_lo_u32_b32 v0, -1, 0
  v_mbcnt_hi_u32_b32 v0, -1, v0
  v_lshlrev_b32 v0, 2, v0
.endm
.macro lds_next again
  v_add_u32 v0, 0x100, v0
  s_add_u32 s12, s12, 0x100
  s_add_u32 s11, s11, 0x100
  s_cmp_lt_u32 s11, s10
  s_cbranch_scc1 \again
.endm

// The next register, which s11 names, at its place s12 in the context.
.macro register_next
  s_add_u32 s12, s12, 0x100
  s_add_u32 s11, s11, 1
.endm
.macro save_register operation, from
  s_set_gpr_idx_on s11, gpr_idx(SRC0)
  \operation v0, \from
  s_set_gpr_idx_off
  buffer_store_dword v0, off, ttmp[12:15], s12
  register_next
.endm
.macro restore_register operation, to
  buffer_load_dword v0, off, ttmp[12:15], s12
  s_waitcnt vmcnt(0)
  s_set_gpr_idx_on s11, gpr_idx(DST)
  \operation \to, v0
  s_set_gpr_idx_off
  register_next
.endm

// Goes on elsewhere, by way of s[14:15].
.macro jump target
  s_getpc_b64 s[14:15]
.Lhere\@:
  s_add_u32 s14, s14, \target - .Lhere\@
  s_addc_u32 s15, s15, 0
  s_setpc_b64 s[14:15]
.endm

  // STATUS and ttmp13 make room for a buffer descriptor.
  s_mov_b32 ttmp2, ttmp12
  s_mov_b32 ttmp3, ttmp13
  s_mov_b64 ttmp[14:15], exec
  s_mov_b64 exec, 0
  // The answer is in EXEC once that is not 0.
  s_sendmsg sendmsg(MSG_SAVEWAVE)
.Lwait:
  s_sleep 2
  s_cbranch_execz .Lwait
  // The context is at ttmp12:13; whether the LDS belongs to it goes above the program counter.
  s_mov_b32 ttmp12, exec_lo
  s_and_b32 ttmp13, exec_hi, 0xffff
  s_or_b32 ttmp13, ttmp13, STRIDE
  s_and_b32 exec_hi, exec_hi, 1 << FIRST_WAVE
  s_or_b32 ttmp1, ttmp1, exec_hi
  s_mov_b64 exec, ttmp[14:15]
  s_mov_b32 ttmp14, ALL_RECORDS
  s_mov_b32 ttmp15, BY_LANE

  // v0 to v3 first, as all others have to go through them; EXEC is not free yet, therefore of its lanes and of the others.
  .rept 2
  first_vectors buffer_store_dword
  s_not_b64 exec, exec
  .endr

  scalars_to_lanes v1, s, 0, 64, 0
  scalars_to_lanes v2, s, 64, 38, 0
  v_writelane_b32 v2, flat_scratch_lo, 38
  v_writelane_b32 v2, flat_scratch_hi, 39
  zeros_to_lanes v2, 2, 40
  v_writelane_b32 v2, vcc_lo, 42
  v_writelane_b32 v2, vcc_hi, 43
  zeros_to_lanes v2, 20, 44
  v_writelane_b32 v0, m0, 0
  v_writelane_b32 v0, ttmp0, 1
  s_and_b32 m0, ttmp1, 0xffff
  v_writelane_b32 v0, m0, 2
  v_writelane_b32 v0, exec_lo, 3
  v_writelane_b32 v0, exec_hi, 4
  v_writelane_b32 v0, ttmp2, 5
  s_getreg_b32 m0, hwreg(FLAGS)
  v_writelane_b32 v0, m0, 6
  v_writelane_b32 v0, xnack_mask_lo, 7
  v_writelane_b32 v0, xnack_mask_hi, 8
  s_getreg_b32 m0, hwreg(HW_REG_MODE)
  v_writelane_b32 v0, m0, 9
  zeros_to_lanes v0, 10, 10
  scalars_to_lanes v0, ttmp, 4, 8, 20
  v_writelane_b32 v0, 0, 28
  v_writelane_b32 v0, ttmp3, 29
  zeros_to_lanes v0, 2, 30

  // All scalar registers are free now.
  sizes
  s_mov_b64 exec, -1
  buffer_store_dword v1, off, ttmp[12:15], s4
  // Its last 16 lanes lie where the hardware registers come then.
  buffer_store_dword v2, off, ttmp[12:15], s4 offset:256
  s_mov_b32 exec_hi, 0
  buffer_store_dword v0, off, ttmp[12:15], s4 offset:HWREGS
  s_mov_b64 exec, -1

  // Nobody changes the LDS any more when all waves of the workgroup are here.
  s_cmp_eq_u32 s10, 0
  s_cbranch_scc1 .Lsave_vectors
  s_barrier
  s_bitcmp1_b32 ttmp1, FIRST_WAVE
  s_cbranch_scc0 .Lsave_vectors
  lds_begin
.Lsave_lds:
  ds_read_b32 v1, v0
  wait_lds
  buffer_store_dword v1, off, ttmp[12:15], s12
  lds_next .Lsave_lds

  // v4 and on.
.Lsave_vectors:
  s_mov_b32 s11, 4
  s_mov_b32 s12, 0x400
  s_branch .Lsave_vectors_begin
.Lsave_vector:
  save_register v_mov_b32, v0
.Lsave_vectors_begin:
  s_cmp_lt_u32 s11, s1
  s_cbranch_scc1 .Lsave_vector
  s_sub_u32 s0, s0, s1
  s_cmp_eq_u32 s0, 0
  s_cbranch_scc1 .Lsaved
  jump .Lsave_accumulators
.Lsaved:
  wait_stores
  s_endpgm_saved

.Lrestore:
  s_mov_b32 ttmp12, exec_lo
  s_and_b32 ttmp13, exec_hi, 0xffff
  s_and_b32 ttmp8, exec_hi, 1 << FIRST_WAVE
  sizes
  // ttmp2:3 where the scalar registers begin.
  s_add_u32 ttmp2, ttmp12, s4
  s_addc_u32 ttmp3, ttmp13, 0
  s_or_b32 ttmp13, ttmp13, STRIDE
  s_mov_b32 ttmp14, ALL_RECORDS
  s_mov_b32 ttmp15, BY_LANE
  s_mov_b64 exec, -1
  s_cmp_eq_u32 s10, 0
  s_cbranch_scc1 .Lrestore_vectors
  s_cmp_eq_u32 ttmp8, 0
  s_cbranch_scc1 .Lrestored_lds
  lds_begin
.Lrestore_lds:
  buffer_load_dword v1, off, ttmp[12:15], s12
  wait_loads
  ds_write_b32 v0, v1
  lds_next .Lrestore_lds
  wait_lds
.Lrestored_lds:
  // No wave of the workgroup goes on before the LDS is as it was.
  s_barrier

.Lrestore_vectors:
  s_mov_b32 s11, 4
  s_mov_b32 s12, 0x400
  s_branch .Lrestore_vectors_begin
.Lrestore_vector:
  restore_register v_mov_b32, v0
.Lrestore_vectors_begin:
  s_cmp_lt_u32 s11, s1
  s_cbranch_scc1 .Lrestore_vector
  s_sub_u32 s0, s0, s1
  s_cmp_eq_u32 s0, 0
  s_cbranch_scc1 .Lrestore_first_vectors
  jump .Lrestore_accumulators
.Lrestore_first_vectors:
  first_vectors buffer_load_dword

  load 16, s[0:15], ttmp[2:3], 0x0
  load 16, s[16:31], ttmp[2:3], 0x40
  load 16, s[32:47], ttmp[2:3], 0x80
  load 16, s[48:63], ttmp[2:3], 0xc0
  load 16, s[64:79], ttmp[2:3], 0x100
  load 16, s[80:95], ttmp[2:3], 0x140
  load 4, s[96:99], ttmp[2:3], 0x180
  load 2, s[100:101], ttmp[2:3], 0x190
  load 2, flat_scratch, ttmp[2:3], 0x198
  load 2, xnack_mask, ttmp[2:3], HWREGS+28
  load 2, vcc, ttmp[2:3], 0x1a8
  load 1, ttmp8, ttmp[2:3], HWREGS
  load 2, ttmp[0:1], ttmp[2:3], HWREGS+4
  load 4, ttmp[4:7], ttmp[2:3], HWREGS+12
  load 1, ttmp9, ttmp[2:3], HWREGS+36
  s_waitcnt vmcnt(0) lgkmcnt(0)
  s_mov_b32 m0, ttmp8
  s_and_b32 ttmp1, ttmp1, 0xffff
  s_mov_b64 exec, ttmp[4:5]
  s_mov_b32 ttmp12, ttmp6
  s_setreg_b32 hwreg(FLAGS), ttmp7
  s_setreg_imm32_b32 hwreg(FLAGS, SAVECTX, 1), 0
  s_setreg_b32 hwreg(HW_REG_MODE), ttmp9
  load 4, ttmp[4:7], ttmp[2:3], TTMPS+16
  load 4, ttmp[8:11], ttmp[2:3], TTMPS+32
  load 1, ttmp13, ttmp[2:3], TTMPS+52
  wait_scalars
  s_setreg_b32 hwreg(STATE), ttmp12
  s_rfe_b64 ttmp[0:1]

  // Behind all else, so that waves without accumulation registers never come near an instruction that names one: saves a0 and
  // on, s0 of them.
.Lsave_accumulators:
  s_mov_b32 s11, 0
.Lsave_accumulator:
  save_register v_accvgpr_read_b32, a0
  s_cmp_lt_u32 s11, s0
  s_cbranch_scc1 .Lsave_accumulator
  wait_stores
  s_endpgm_saved

  // Restores a0 and on, s0 of them.
.Lrestore_accumulators:
  s_mov_b32 s11, 0
.Lrestore_accumulator:
  restore_register v_accvgpr_write_b32, a0
  s_cmp_lt_u32 s11, s0
  s_cbranch_scc1 .Lrestore_accumulator
  s_branch .Lrestore_first_vectors
