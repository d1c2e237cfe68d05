// The driver's trap handler for gfx12: saves and restores the context of a wave, and passes traps on to the handler that the
// program has set. `cargo xtask kernels` assembles it to trap_handler.bin.
//
// Entered at its first instruction for traps, exceptions and context saves, and four bytes behind it to restore a wave.
//
// A context save: EXCP_FLAG_PRIV.SAVE_CONTEXT is set, and MSG_RTN_SAVE_WAVE answers with where to save to. A wave to be restored
// has that answer in EXEC: bits 47:0 are the address, and bit 58 is set in the wave that has the LDS of its workgroup.
//
// Context of a wave, in this order, without gaps:
//   vector registers         128 bytes each in a wave32, 256 in a wave64
//   scalar registers         128 words: s0 to s105, vcc, 20 words of 0
//   hardware registers       16 words: m0, pc (2), exec (2), state_priv, excp_flag_priv, 0, mode, scratch_base (2),
//                            excp_flag_user, trap_ctrl, status, state of the workgroup's barrier, 0
//   trap temporaries         16 words: ttmp4 to ttmp11 and ttmp13 in their places, 0 in the others
//   LDS                      in the context of the first wave
//
// The trap memory (TMA) has the address of the program's handler at 0, that of its trap memory at 8, and at 16 whether a
// debugger is attached. The program's handler finds STATE_PRIV as it was in ttmp12, its trap memory in ttmp14 and ttmp15, and
// the debugger in bit 23 of ttmp11.

.set SAVECTX, 5
.set HALT, 14
.set BARRIER_COMPLETE, 2
// The trap's number is in ttmp1 31:28.
.set TRAP_ID, 0xf0000000
// MEM_VIOL and ILLEGAL_INST.
.set FATAL, 0x50
.set FIRST_WAVE, 26
.set DEBUGGED, 23
.set SGPRS, 0
.set HWREGS, 512
.set TTMPS, 576
.set LDS, 640
// Bit 29 of STATUS: a wave64.
.set WAVE64, 29

.text
.p2align 8
.globl trap_handler
trap_handler:
  s_branch .Ltrap
  s_branch .Lrestore

.Ltrap:
  s_getreg_b32 ttmp12, hwreg(HW_REG_STATE_PRIV)
  s_getreg_b32 ttmp15, hwreg(HW_REG_EXCP_FLAG_PRIV)
  s_bitcmp1_b32 ttmp15, SAVECTX
  s_cbranch_scc1 .Lsave

  // The program's handler.
  s_sendmsg_rtn_b64 ttmp[14:15], sendmsg(MSG_RTN_GET_TMA)
  s_wait_kmcnt 0x0
  s_load_b32 ttmp2, ttmp[14:15], 0x10 scope:SCOPE_SYS
  s_wait_kmcnt 0x0
  s_lshl_b32 ttmp2, ttmp2, DEBUGGED
  s_and_not1_b32 ttmp11, ttmp11, 1 << DEBUGGED
  s_or_b32 ttmp11, ttmp11, ttmp2
  s_load_b64 ttmp[2:3], ttmp[14:15], 0x0 scope:SCOPE_SYS
  s_wait_kmcnt 0x0
  s_load_b64 ttmp[14:15], ttmp[14:15], 0x8 scope:SCOPE_SYS
  s_wait_kmcnt 0x0
  s_cmp_eq_u64 ttmp[2:3], 0
  s_cbranch_scc1 .Lno_handler
  s_setpc_b64 ttmp[2:3]

  // There is none: s_trap does nothing, and a wave that cannot go on halts.
.Lno_handler:
  s_and_b32 ttmp2, ttmp1, TRAP_ID
  s_cbranch_scc0 .Lexception
  s_add_co_u32 ttmp0, ttmp0, 4
  s_add_co_ci_u32 ttmp1, ttmp1, 0
  s_branch .Lreturn
.Lexception:
  s_getreg_b32 ttmp15, hwreg(HW_REG_EXCP_FLAG_PRIV)
  s_and_b32 ttmp15, ttmp15, FATAL
  s_cbranch_scc0 .Lreturn
  s_bitset1_b32 ttmp12, HALT
.Lreturn:
  s_and_b32 ttmp1, ttmp1, 0xffff
  s_and_b64 exec, exec, exec
  s_and_b64 vcc, vcc, vcc
  // SCC and what follows: BARRIER_COMPLETE below may have changed.
  s_lshr_b32 ttmp12, ttmp12, 9
  s_setreg_b32 hwreg(HW_REG_STATE_PRIV, 9, 6), ttmp12
  s_rfe_b64 ttmp[0:1]

.Lsave:
  s_setreg_imm32_b32 hwreg(HW_REG_EXCP_FLAG_PRIV, SAVECTX, 1), 0
  s_and_b32 ttmp1, ttmp1, 0xffff
  s_mov_b64 ttmp[2:3], exec
  s_sendmsg_rtn_b64 exec, sendmsg(MSG_RTN_SAVE_WAVE)
  s_wait_kmcnt 0x0
  // The context is at ttmp14:15; whether the LDS belongs to it goes above the program counter.
  s_mov_b32 ttmp14, exec_lo
  s_and_b32 ttmp15, exec_hi, 0xffff
  s_and_b32 exec_hi, exec_hi, 1 << FIRST_WAVE
  s_or_b32 ttmp1, ttmp1, exec_hi

  // v0 to v3 first: all others have to go through them.
  s_getreg_b32 exec_lo, hwreg(HW_REG_STATUS, WAVE64, 1)
  s_cmp_eq_u32 exec_lo, 0
  s_mov_b64 exec, -1
  s_cbranch_scc1 .Lsave_wave32
  global_store_addtid_b32 v0, ttmp[14:15]
  global_store_addtid_b32 v1, ttmp[14:15] offset:256
  global_store_addtid_b32 v2, ttmp[14:15] offset:512
  global_store_addtid_b32 v3, ttmp[14:15] offset:768
  s_branch .Lsave_scalars
.Lsave_wave32:
  global_store_addtid_b32 v0, ttmp[14:15]
  global_store_addtid_b32 v1, ttmp[14:15] offset:128
  global_store_addtid_b32 v2, ttmp[14:15] offset:256
  global_store_addtid_b32 v3, ttmp[14:15] offset:384

.Lsave_scalars:
  // Nobody changes the LDS and the barrier of the workgroup any more when all of its waves are here.
  s_barrier_signal -2
  s_barrier_wait -2
  s_getreg_b32 exec_lo, hwreg(HW_REG_STATE_PRIV, BARRIER_COMPLETE, 1)
  s_lshl_b32 exec_lo, exec_lo, BARRIER_COMPLETE
  s_bitset0_b32 ttmp12, BARRIER_COMPLETE
  s_or_b32 ttmp12, ttmp12, exec_lo
  s_mov_b32 exec_lo, -1
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
  s_getreg_b32 m0, hwreg(HW_REG_EXCP_FLAG_PRIV)
  v_writelane_b32 v0, m0, 6
  s_getreg_b32 m0, hwreg(HW_REG_MODE)
  v_writelane_b32 v0, m0, 8
  s_getreg_b32 m0, hwreg(HW_REG_SCRATCH_BASE_LO)
  v_writelane_b32 v0, m0, 9
  s_getreg_b32 m0, hwreg(HW_REG_SCRATCH_BASE_HI)
  v_writelane_b32 v0, m0, 10
  s_getreg_b32 m0, hwreg(HW_REG_EXCP_FLAG_USER)
  v_writelane_b32 v0, m0, 11
  s_getreg_b32 m0, hwreg(HW_REG_TRAP_CTRL)
  v_writelane_b32 v0, m0, 12
  s_getreg_b32 m0, hwreg(HW_REG_STATUS)
  v_writelane_b32 v0, m0, 13
  s_get_barrier_state m0, -1
  s_wait_kmcnt 0x0
  v_writelane_b32 v0, m0, 14
  .set register, 4
  .rept 8
  v_writelane_b32 v0, ttmp[register], register + 16
  .set register, register + 1
  .endr
  v_writelane_b32 v0, ttmp13, 29

  // s0 to s95 are free now: s0 vector registers, s2 log2 of the bytes of one, s[8:9] where the scalar registers begin,
  // s10 bytes of LDS.
  s_getreg_b32 s0, hwreg(HW_REG_GPR_ALLOC, 12, 8)
  s_add_co_u32 s0, s0, 1
  s_lshl_b32 s0, s0, 2
  s_getreg_b32 s2, hwreg(HW_REG_STATUS, WAVE64, 1)
  s_add_co_u32 s2, s2, 7
  s_lshl_b32 s3, s0, s2
  s_add_co_u32 s8, ttmp14, s3
  s_add_co_ci_u32 s9, ttmp15, 0
  s_getreg_b32 s10, hwreg(HW_REG_LDS_ALLOC, 12, 9)
  s_lshl_b32 s10, s10, 9
  s_mov_b32 exec_hi, 0
  global_store_addtid_b32 v1, s[8:9]
  global_store_addtid_b32 v2, s[8:9] offset:128
  global_store_addtid_b32 v3, s[8:9] offset:256
  global_store_addtid_b32 v0, s[8:9] offset:HWREGS
  v_mov_b32 v0, 0
  .set register, 0
  .rept 10
  v_writelane_b32 v0, s[register + 96], register
  .set register, register + 1
  .endr
  v_writelane_b32 v0, vcc_lo, 10
  v_writelane_b32 v0, vcc_hi, 11
  global_store_addtid_b32 v0, s[8:9] offset:384

  s_cmp_eq_u32 s10, 0
  s_cbranch_scc1 .Lsave_vectors
  s_bitcmp1_b32 ttmp1, FIRST_WAVE
  s_cbranch_scc0 .Lsave_vectors
  s_add_co_u32 s12, s8, LDS
  s_add_co_ci_u32 s13, s9, 0
  s_mov_b32 s11, 0
  v_mbcnt_lo_u32_b32 v0, -1, 0
  v_lshlrev_b32 v0, 2, v0
.Lsave_lds:
  ds_load_b32 v1, v0
  s_wait_dscnt 0x0
  global_store_addtid_b32 v1, s[12:13]
  v_add_nc_u32 v0, 0x80, v0
  s_add_co_u32 s12, s12, 0x80
  s_add_co_ci_u32 s13, s13, 0
  s_add_co_u32 s11, s11, 0x80
  s_cmp_lt_u32 s11, s10
  s_cbranch_scc1 .Lsave_lds

  // v4 and on, s14 bytes apart.
.Lsave_vectors:
  s_lshl_b32 s14, 1, s2
  s_lshl_b32 s11, 4, s2
  s_add_co_u32 s12, ttmp14, s11
  s_add_co_ci_u32 s13, ttmp15, 0
  s_mov_b64 exec, -1
  s_mov_b32 m0, 4
  s_branch .Lsave_vectors_begin
.Lsave_vector:
  v_movrels_b32 v0, v0
  global_store_addtid_b32 v0, s[12:13]
  s_add_co_u32 s12, s12, s14
  s_add_co_ci_u32 s13, s13, 0
  s_add_co_u32 m0, m0, 1
.Lsave_vectors_begin:
  s_cmp_lt_u32 m0, s0
  s_cbranch_scc1 .Lsave_vector
  s_wait_storecnt 0x0
  // No wave of the workgroup leaves before the state of its barrier is saved.
  s_barrier_signal -2
  s_barrier_wait -2
  s_endpgm_saved

.Lrestore:
  s_mov_b32 ttmp14, exec_lo
  s_and_b32 ttmp15, exec_hi, 0xffff
  s_and_b32 ttmp12, exec_hi, 1 << FIRST_WAVE
  s_getreg_b32 s0, hwreg(HW_REG_GPR_ALLOC, 12, 8)
  s_add_co_u32 s0, s0, 1
  s_lshl_b32 s0, s0, 2
  s_getreg_b32 s2, hwreg(HW_REG_STATUS, WAVE64, 1)
  s_add_co_u32 s2, s2, 7
  s_lshl_b32 s3, s0, s2
  // ttmp2:3 where the scalar registers begin.
  s_add_co_u32 ttmp2, ttmp14, s3
  s_add_co_ci_u32 ttmp3, ttmp15, 0
  s_getreg_b32 s10, hwreg(HW_REG_LDS_ALLOC, 12, 9)
  s_lshl_b32 s10, s10, 9
  s_cmp_eq_u32 ttmp12, 0
  s_cbranch_scc1 .Lrestore_vectors
  // The first wave restores the barrier of its workgroup, by signalling as often as it had been.
  s_load_b32 s11, ttmp[2:3], HWREGS + 56 scope:SCOPE_SYS
  s_wait_kmcnt 0x0
  s_bitcmp1_b32 s11, 0
  s_cbranch_scc0 .Lrestored_barrier
  s_bfe_u32 s11, s11, 0x70010
.Lrestore_barrier:
  s_cmp_eq_u32 s11, 0
  s_cbranch_scc1 .Lrestored_barrier
  s_barrier_signal -1
  s_sub_co_u32 s11, s11, 1
  s_branch .Lrestore_barrier
.Lrestored_barrier:
  s_cmp_eq_u32 s10, 0
  s_cbranch_scc1 .Lrestore_vectors
  s_add_co_u32 s12, ttmp2, LDS
  s_add_co_ci_u32 s13, ttmp3, 0
  s_mov_b32 s11, 0
  s_mov_b32 exec_lo, -1
  s_mov_b32 exec_hi, 0
  v_mbcnt_lo_u32_b32 v0, -1, 0
  v_lshlrev_b32 v0, 2, v0
.Lrestore_lds:
  global_load_addtid_b32 v1, s[12:13]
  s_wait_loadcnt 0x0
  ds_store_b32 v0, v1
  v_add_nc_u32 v0, 0x80, v0
  s_add_co_u32 s12, s12, 0x80
  s_add_co_ci_u32 s13, s13, 0
  s_add_co_u32 s11, s11, 0x80
  s_cmp_lt_u32 s11, s10
  s_cbranch_scc1 .Lrestore_lds
  s_wait_dscnt 0x0

.Lrestore_vectors:
  s_lshl_b32 s14, 1, s2
  s_lshl_b32 s11, 4, s2
  s_add_co_u32 s12, ttmp14, s11
  s_add_co_ci_u32 s13, ttmp15, 0
  s_mov_b64 exec, -1
  s_mov_b32 m0, 4
  s_branch .Lrestore_vectors_begin
.Lrestore_vector:
  global_load_addtid_b32 v0, s[12:13]
  s_wait_loadcnt 0x0
  v_movreld_b32 v0, v0
  s_add_co_u32 s12, s12, s14
  s_add_co_ci_u32 s13, s13, 0
  s_add_co_u32 m0, m0, 1
.Lrestore_vectors_begin:
  s_cmp_lt_u32 m0, s0
  s_cbranch_scc1 .Lrestore_vector
  s_mov_b64 exec, -1
  s_cmp_eq_u32 s2, 7
  s_cbranch_scc1 .Lrestore_wave32
  global_load_addtid_b32 v0, ttmp[14:15]
  global_load_addtid_b32 v1, ttmp[14:15] offset:256
  global_load_addtid_b32 v2, ttmp[14:15] offset:512
  global_load_addtid_b32 v3, ttmp[14:15] offset:768
  s_branch .Lrestore_scalars
.Lrestore_wave32:
  global_load_addtid_b32 v0, ttmp[14:15]
  global_load_addtid_b32 v1, ttmp[14:15] offset:128
  global_load_addtid_b32 v2, ttmp[14:15] offset:256
  global_load_addtid_b32 v3, ttmp[14:15] offset:384

.Lrestore_scalars:
  s_load_b512 s[0:15], ttmp[2:3], SGPRS scope:SCOPE_SYS
  s_load_b512 s[16:31], ttmp[2:3], SGPRS + 64 scope:SCOPE_SYS
  s_load_b512 s[32:47], ttmp[2:3], SGPRS + 128 scope:SCOPE_SYS
  s_load_b512 s[48:63], ttmp[2:3], SGPRS + 192 scope:SCOPE_SYS
  s_load_b512 s[64:79], ttmp[2:3], SGPRS + 256 scope:SCOPE_SYS
  s_load_b512 s[80:95], ttmp[2:3], SGPRS + 320 scope:SCOPE_SYS
  s_load_b256 s[96:103], ttmp[2:3], SGPRS + 384 scope:SCOPE_SYS
  s_load_b64 s[104:105], ttmp[2:3], SGPRS + 416 scope:SCOPE_SYS
  s_load_b64 vcc, ttmp[2:3], SGPRS + 424 scope:SCOPE_SYS
  s_load_b32 ttmp8, ttmp[2:3], HWREGS scope:SCOPE_SYS
  s_load_b64 ttmp[0:1], ttmp[2:3], HWREGS + 4 scope:SCOPE_SYS
  s_load_b128 ttmp[4:7], ttmp[2:3], HWREGS + 12 scope:SCOPE_SYS
  s_wait_loadcnt 0x0
  s_wait_kmcnt 0x0
  s_mov_b32 m0, ttmp8
  s_and_b32 ttmp1, ttmp1, 0xffff
  s_mov_b64 exec, ttmp[4:5]
  s_mov_b32 ttmp12, ttmp6
  s_setreg_b32 hwreg(HW_REG_EXCP_FLAG_PRIV), ttmp7
  s_setreg_imm32_b32 hwreg(HW_REG_EXCP_FLAG_PRIV, SAVECTX, 1), 0
  s_load_b32 ttmp4, ttmp[2:3], HWREGS + 32 scope:SCOPE_SYS
  s_load_b128 ttmp[8:11], ttmp[2:3], HWREGS + 36 scope:SCOPE_SYS
  s_wait_kmcnt 0x0
  s_setreg_b32 hwreg(HW_REG_MODE), ttmp4
  s_setreg_b32 hwreg(HW_REG_SCRATCH_BASE_LO), ttmp8
  s_setreg_b32 hwreg(HW_REG_SCRATCH_BASE_HI), ttmp9
  s_setreg_b32 hwreg(HW_REG_EXCP_FLAG_USER), ttmp10
  s_setreg_b32 hwreg(HW_REG_TRAP_CTRL), ttmp11
  s_load_b128 ttmp[4:7], ttmp[2:3], TTMPS + 16 scope:SCOPE_SYS
  s_load_b128 ttmp[8:11], ttmp[2:3], TTMPS + 32 scope:SCOPE_SYS
  s_load_b32 ttmp13, ttmp[2:3], TTMPS + 52 scope:SCOPE_SYS
  s_wait_kmcnt 0x0
  s_setreg_b32 hwreg(HW_REG_STATE_PRIV), ttmp12
  // No wave of the workgroup goes on before its LDS and its barrier are as they were.
  s_barrier_signal -2
  s_barrier_wait -2
  s_rfe_b64 ttmp[0:1]

  .p2align 6
  .rept 16
  s_code_end
  .endr
