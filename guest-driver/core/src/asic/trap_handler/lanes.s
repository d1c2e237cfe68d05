// Contexts of gfx11 and gfx12, through addresses to which each lane adds its own.
//
// Context of a wave, in this order, without gaps:
//   vector registers         128 bytes each in a wave32, 256 in a wave64
//   shared vector registers  128 bytes each, on gfx11
//   scalar registers         128 words: s0 to s105, vcc, 20 words of 0
//   hardware registers       16 words. gfx11: m0, pc (2), exec (2), status, trapsts, 0, mode, flat_scratch (2), 5 words of 0.
//                            gfx12: m0, pc (2), exec (2), state_priv, excp_flag_priv, 0, mode, scratch_base (2),
//                            excp_flag_user, trap_ctrl, status, state of the workgroup's barrier, 0
//   trap temporaries         16 words: ttmp4 to ttmp11 and ttmp13 in their places, 0 in the others
//   LDS                      in the context of the first wave

.set SGPRS, 0
.set HWREGS, 512
.set TTMPS, 576
.set LDS, 640
// FLAT_SCR_LO and FLAT_SCR_HI of gfx11, SCRATCH_BASE_LO and SCRATCH_BASE_HI of gfx12.
.set SCRATCH_LO, 20
.set SCRATCH_HI, 21
.if GENERATION < 12
  // Bit 11 of IB_STS2: a wave64.
  .set SIZE, 28
  .set WAVE64, 11
  // log2 of the unit of LDS_ALLOC.
  .set LDS_UNIT, 8
.else
  // Bit 29 of STATUS.
  .set SIZE, 2
  .set WAVE64, 29
  .set LDS_UNIT, 9
  .set BARRIER_COMPLETE, 2
.endif

// Waits for all waves of the workgroup, beside its own barrier.
.macro barrier_of_handlers
  s_barrier_signal -2
  s_barrier_wait -2
.endm

// v0 to v3 from or to the beginning of the context, in a wave of 64 lanes or of 32.
.macro first_vectors operation, bytes
  \operation v0, ttmp[14:15]
  \operation v1, ttmp[14:15] offset:\bytes
  \operation v2, ttmp[14:15] offset:2*\bytes
  \operation v3, ttmp[14:15] offset:3*\bytes
.endm

// s0 vector registers, s2 log2 of the bytes of one, s3 bytes of all; on gfx11 s4 shared ones in units of eight, s5 bytes of them.
.macro sizes
  s_getreg_b32 s0, hwreg(HW_REG_GPR_ALLOC, 12, 8)
  s_add_u32 s0, s0, 1
  s_lshl_b32 s0, s0, 2
  s_getreg_b32 s2, hwreg(SIZE, WAVE64, 1)
  s_add_u32 s2, s2, 7
  s_lshl_b32 s3, s0, s2
  .if GENERATION < 12
    s_getreg_b32 s4, hwreg(HW_REG_LDS_ALLOC, 24, 4)
    s_lshl_b32 s5, s4, 10
  .endif
.endm

// s10 bytes of LDS.
.macro lds_size
  s_getreg_b32 s10, hwreg(HW_REG_LDS_ALLOC, 12, 9)
  s_lshl_b32 s10, s10, LDS_UNIT
.endm

// The LDS, s10 bytes, a dword of each lane at a time: v0 its address there, s[12:13] its place in the context.
.macro lds_next again
  v_add_nc_u32 v0, 0x80, v0
  s_add_u32 s12, s12, 0x80
  s_addc_u32 s13, s13, 0
  s_add_u32 s11, s11, 0x80
  s_cmp_lt_u32 s11, s10
  s_cbranch_scc1 \again
.endm

// v4 and on, s14 bytes apart: m0 names one, s[12:13] its place in the context.
.macro vectors_begin first
  s_lshl_b32 s14, 1, s2
  s_lshl_b32 s11, 4, s2
  s_add_u32 s12, ttmp14, s11
  s_addc_u32 s13, ttmp15, 0
  s_mov_b64 exec, -1
  s_mov_b32 m0, 4
  s_branch \first
.endm
.macro vectors_next
  s_add_u32 s12, s12, s14
  s_addc_u32 s13, s13, 0
  s_add_u32 m0, m0, 1
.endm
// Those that the halves of a wave64 share follow.
.macro shared_vectors next, done
  .if GENERATION < 12
    s_cmp_eq_u32 s4, 0
    s_cbranch_scc1 \done
    s_lshl_b32 s4, s4, 3
    s_add_u32 s0, s0, s4
    s_mov_b32 s4, 0
    s_mov_b32 s14, 0x80
    s_mov_b32 exec_hi, 0
    s_branch \next
  .endif
.endm

// A hardware register into a lane of v0, by way of m0.
.macro hardware_to_lane register, lane
  s_getreg_b32 m0, hwreg(\register)
  v_writelane_b32 v0, m0, \lane
.endm

  s_mov_b64 ttmp[2:3], exec
  s_sendmsg_rtn_b64 exec, sendmsg(MSG_RTN_SAVE_WAVE)
  wait_scalars
  // The context is at ttmp14:15; whether the LDS belongs to it goes above the program counter.
  s_mov_b32 ttmp14, exec_lo
  s_and_b32 ttmp15, exec_hi, 0xffff
  s_and_b32 exec_hi, exec_hi, 1 << FIRST_WAVE
  s_or_b32 ttmp1, ttmp1, exec_hi

  // v0 to v3 first: all others have to go through them.
  s_getreg_b32 exec_lo, hwreg(SIZE, WAVE64, 1)
  s_cmp_eq_u32 exec_lo, 0
  s_mov_b64 exec, -1
  s_cbranch_scc1 .Lsave_wave32
  first_vectors global_store_addtid_b32, 256
  s_branch .Lsave_scalars
.Lsave_wave32:
  first_vectors global_store_addtid_b32, 128

.Lsave_scalars:
  .if GENERATION >= 12
    // Nobody changes the LDS and the barrier of the workgroup any more when all of its waves are here.
    barrier_of_handlers
    s_getreg_b32 exec_lo, hwreg(STATE, BARRIER_COMPLETE, 1)
    s_lshl_b32 exec_lo, exec_lo, BARRIER_COMPLETE
    s_bitset0_b32 ttmp12, BARRIER_COMPLETE
    s_or_b32 ttmp12, ttmp12, exec_lo
    s_mov_b32 exec_lo, -1
  .endif
  .set register, 0
  .rept 32
  v_writelane_b32 v1, s[register], register
  v_writelane_b32 v2, s[register + 32], register
  v_writelane_b32 v3, s[register + 64], register
  .set register, register + 1
  .endr
  v_mov_b32 v0, 0
  v_writelane_b32 v0, m0, 0
  v_writelane_b32 v0, ttmp0, 1
  s_and_b32 m0, ttmp1, 0xffff
  v_writelane_b32 v0, m0, 2
  v_writelane_b32 v0, ttmp2, 3
  v_writelane_b32 v0, ttmp3, 4
  v_writelane_b32 v0, ttmp12, 5
  hardware_to_lane FLAGS, 6
  hardware_to_lane HW_REG_MODE, 8
  hardware_to_lane SCRATCH_LO, 9
  hardware_to_lane SCRATCH_HI, 10
  .if GENERATION >= 12
    hardware_to_lane HW_REG_EXCP_FLAG_USER, 11
    hardware_to_lane HW_REG_TRAP_CTRL, 12
    hardware_to_lane HW_REG_STATUS, 13
    s_get_barrier_state m0, -1
    wait_scalars
    v_writelane_b32 v0, m0, 14
  .endif
  scalars_to_lanes v0, ttmp, 4, 8, 20
  v_writelane_b32 v0, ttmp13, 29

  // s0 to s95 are free now: s[8:9] where the scalar registers begin; on gfx11 s[6:7] where the shared vector registers do.
  sizes
  .if GENERATION < 12
    s_add_u32 s6, ttmp14, s3
    s_addc_u32 s7, ttmp15, 0
    s_add_u32 s8, s6, s5
    s_addc_u32 s9, s7, 0
  .else
    s_add_u32 s8, ttmp14, s3
    s_addc_u32 s9, ttmp15, 0
  .endif
  lds_size
  s_mov_b32 exec_hi, 0
  global_store_addtid_b32 v1, s[8:9]
  global_store_addtid_b32 v2, s[8:9] offset:128
  global_store_addtid_b32 v3, s[8:9] offset:256
  global_store_addtid_b32 v0, s[8:9] offset:HWREGS
  v_mov_b32 v0, 0
  scalars_to_lanes v0, s, 96, 10, 0
  v_writelane_b32 v0, vcc_lo, 10
  v_writelane_b32 v0, vcc_hi, 11
  global_store_addtid_b32 v0, s[8:9] offset:384

  s_cmp_eq_u32 s10, 0
  s_cbranch_scc1 .Lsave_vectors
  .if GENERATION < 12
    // Nobody changes the LDS any more when all waves of the workgroup are here.
    s_barrier
  .endif
  s_bitcmp1_b32 ttmp1, FIRST_WAVE
  s_cbranch_scc0 .Lsave_vectors
  s_add_u32 s12, s8, LDS
  s_addc_u32 s13, s9, 0
  s_mov_b32 s11, 0
  v_mbcnt_lo_u32_b32 v0, -1, 0
  v_lshlrev_b32 v0, 2, v0
.Lsave_lds:
  ds_load_b32 v1, v0
  wait_lds
  global_store_addtid_b32 v1, s[12:13]
  lds_next .Lsave_lds

.Lsave_vectors:
  vectors_begin .Lsave_vectors_begin
.Lsave_vector:
  v_movrels_b32 v0, v0
  global_store_addtid_b32 v0, s[12:13]
  vectors_next
.Lsave_vectors_begin:
  s_cmp_lt_u32 m0, s0
  s_cbranch_scc1 .Lsave_vector
  shared_vectors .Lsave_vector, .Lsaved
.Lsaved:
  wait_stores
  .if GENERATION >= 12
    // No wave of the workgroup leaves before the state of its barrier is saved.
    barrier_of_handlers
  .endif
  s_endpgm_saved

.Lrestore:
  s_mov_b32 ttmp14, exec_lo
  s_and_b32 ttmp15, exec_hi, 0xffff
  s_and_b32 ttmp12, exec_hi, 1 << FIRST_WAVE
  sizes
  .if GENERATION < 12
    s_add_u32 s3, s3, s5
  .endif
  // ttmp2:3 where the scalar registers begin.
  s_add_u32 ttmp2, ttmp14, s3
  s_addc_u32 ttmp3, ttmp15, 0
  lds_size
  .if GENERATION < 12
    s_cmp_eq_u32 s10, 0
    s_cbranch_scc1 .Lrestore_vectors
    s_cmp_eq_u32 ttmp12, 0
    s_cbranch_scc1 .Lrestored_lds
  .else
    s_cmp_eq_u32 ttmp12, 0
    s_cbranch_scc1 .Lrestore_vectors
    // The first wave restores the barrier of its workgroup, by signalling as often as it had been.
    load 1, s11, ttmp[2:3], HWREGS+56
    wait_scalars
    s_bitcmp1_b32 s11, 0
    s_cbranch_scc0 .Lrestored_barrier
    s_bfe_u32 s11, s11, 0x70010
.Lrestore_barrier:
    s_cmp_eq_u32 s11, 0
    s_cbranch_scc1 .Lrestored_barrier
    s_barrier_signal -1
    s_sub_u32 s11, s11, 1
    s_branch .Lrestore_barrier
.Lrestored_barrier:
    s_cmp_eq_u32 s10, 0
    s_cbranch_scc1 .Lrestore_vectors
  .endif
  s_add_u32 s12, ttmp2, LDS
  s_addc_u32 s13, ttmp3, 0
  s_mov_b32 s11, 0
  s_mov_b32 exec_lo, -1
  s_mov_b32 exec_hi, 0
  v_mbcnt_lo_u32_b32 v0, -1, 0
  v_lshlrev_b32 v0, 2, v0
.Lrestore_lds:
  global_load_addtid_b32 v1, s[12:13]
  wait_loads
  ds_store_b32 v0, v1
  lds_next .Lrestore_lds
  wait_lds
  .if GENERATION < 12
.Lrestored_lds:
    // No wave of the workgroup goes on before the LDS is as it was.
    s_barrier
  .endif

.Lrestore_vectors:
  vectors_begin .Lrestore_vectors_begin
.Lrestore_vector:
  global_load_addtid_b32 v0, s[12:13]
  wait_loads
  v_movreld_b32 v0, v0
  vectors_next
.Lrestore_vectors_begin:
  s_cmp_lt_u32 m0, s0
  s_cbranch_scc1 .Lrestore_vector
  shared_vectors .Lrestore_vector, .Lrestore_first_vectors
.Lrestore_first_vectors:
  s_mov_b64 exec, -1
  s_cmp_eq_u32 s2, 7
  s_cbranch_scc1 .Lrestore_wave32
  first_vectors global_load_addtid_b32, 256
  s_branch .Lrestore_scalars
.Lrestore_wave32:
  first_vectors global_load_addtid_b32, 128

.Lrestore_scalars:
  load 16, s[0:15], ttmp[2:3], SGPRS
  load 16, s[16:31], ttmp[2:3], SGPRS+64
  load 16, s[32:47], ttmp[2:3], SGPRS+128
  load 16, s[48:63], ttmp[2:3], SGPRS+192
  load 16, s[64:79], ttmp[2:3], SGPRS+256
  load 16, s[80:95], ttmp[2:3], SGPRS+320
  load 8, s[96:103], ttmp[2:3], SGPRS+384
  load 2, s[104:105], ttmp[2:3], SGPRS+416
  load 2, vcc, ttmp[2:3], SGPRS+424
  load 1, ttmp8, ttmp[2:3], HWREGS
  load 2, ttmp[0:1], ttmp[2:3], HWREGS+4
  load 4, ttmp[4:7], ttmp[2:3], HWREGS+12
  .if GENERATION < 12
    load 1, ttmp9, ttmp[2:3], HWREGS+32
    load 2, ttmp[10:11], ttmp[2:3], HWREGS+36
    s_waitcnt vmcnt(0) lgkmcnt(0)
  .else
    wait_loads
    wait_scalars
  .endif
  s_mov_b32 m0, ttmp8
  s_and_b32 ttmp1, ttmp1, 0xffff
  s_mov_b64 exec, ttmp[4:5]
  s_mov_b32 ttmp12, ttmp6
  s_setreg_b32 hwreg(FLAGS), ttmp7
  s_setreg_imm32_b32 hwreg(FLAGS, SAVECTX, 1), 0
  .if GENERATION < 12
    s_setreg_b32 hwreg(HW_REG_MODE), ttmp9
    s_setreg_b32 hwreg(SCRATCH_LO), ttmp10
    s_setreg_b32 hwreg(SCRATCH_HI), ttmp11
  .else
    load 1, ttmp4, ttmp[2:3], HWREGS+32
    load 4, ttmp[8:11], ttmp[2:3], HWREGS+36
    wait_scalars
    s_setreg_b32 hwreg(HW_REG_MODE), ttmp4
    s_setreg_b32 hwreg(SCRATCH_LO), ttmp8
    s_setreg_b32 hwreg(SCRATCH_HI), ttmp9
    s_setreg_b32 hwreg(HW_REG_EXCP_FLAG_USER), ttmp10
    s_setreg_b32 hwreg(HW_REG_TRAP_CTRL), ttmp11
  .endif
  load 4, ttmp[4:7], ttmp[2:3], TTMPS+16
  load 4, ttmp[8:11], ttmp[2:3], TTMPS+32
  load 1, ttmp13, ttmp[2:3], TTMPS+52
  wait_scalars
  s_setreg_b32 hwreg(STATE), ttmp12
  .if GENERATION >= 12
    // No wave of the workgroup goes on before its LDS and its barrier are as they were.
    barrier_of_handlers
  .endif
  s_rfe_b64 ttmp[0:1]
