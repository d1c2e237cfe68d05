// The driver's trap handler for gfx9 of MI300X: saves and restores the context of a wave, and passes traps on to the handler that
// the program has set. `cargo xtask kernels` assembles it to trap_handler.bin.
//
// Entered at its first instruction for traps, exceptions and context saves, and four bytes behind it to restore a wave.
//
// A context save: TRAPSTS.SAVECTX is set, and MSG_SAVEWAVE is answered in EXEC with where to save to, once it is not 0. A wave
// to be restored has that answer in EXEC: bits 47:0 are the address, and bit 58 is set in the wave that has the LDS of its
// workgroup.
//
// Context of a wave, in this order, without gaps, as debuggers read it:
//   vector registers         256 bytes each: v0 and on, and from ACCV_OFFSET on a0 and on
//   scalar registers         112 words: s0 to s101, flat_scratch, 2 words of 0, vcc, 4 words of 0
//   hardware registers       16 words: m0, pc (2), exec (2), status, trapsts, xnack_mask (2), mode, 6 words of 0
//   trap temporaries         16 words: ttmp4 to ttmp11 and ttmp13 in their places, 0 in the others
//   LDS                      in the context of the first wave
//   16 words                 of nothing
//
// The trap memory (TMA) has the address of the program's handler at 0, that of its trap memory at 8, and at 16 whether a
// debugger is attached. The program's handler finds STATUS as it was in ttmp12, its trap memory in ttmp14 and ttmp15, and the
// debugger in bit 23 of ttmp13, where ROCr's handler looks for it from gfx940 on.

.set SAVECTX, 10
.set HALT, 13
.set FIRST_WAVE, 26
.set DEBUGGED, 23
.set HWREGS, 448
.set TTMPS, 512
.set LDS, 576
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
  s_getreg_b32 s10, hwreg(HW_REG_LDS_ALLOC, 12, 9)
  s_lshl_b32 s10, s10, 8
.endm

// Goes on elsewhere, by way of s[14:15].
.macro jump target
  s_getpc_b64 s[14:15]
.Lhere\@:
  s_add_u32 s14, s14, \target - .Lhere\@
  s_addc_u32 s15, s15, 0
  s_setpc_b64 s[14:15]
.endm

.text
.p2align 8
.globl trap_handler
trap_handler:
  s_branch .Ltrap
  s_branch .Lrestore

.Ltrap:
  s_getreg_b32 ttmp12, hwreg(HW_REG_STATUS)
  s_getreg_b32 ttmp15, hwreg(HW_REG_TRAPSTS)
  s_bitcmp1_b32 ttmp15, SAVECTX
  s_cbranch_scc1 .Lsave

  // The program's handler.
  s_getreg_b32 ttmp14, hwreg(18)
  s_getreg_b32 ttmp15, hwreg(19)
  s_lshl_b64 ttmp[14:15], ttmp[14:15], 8
  s_load_dword ttmp2, ttmp[14:15], 0x10 glc
  s_waitcnt lgkmcnt(0)
  s_lshl_b32 ttmp2, ttmp2, DEBUGGED
  s_andn2_b32 ttmp13, ttmp13, 1 << DEBUGGED
  s_or_b32 ttmp13, ttmp13, ttmp2
  s_load_dwordx2 ttmp[2:3], ttmp[14:15], 0x0 glc
  s_waitcnt lgkmcnt(0)
  s_load_dwordx2 ttmp[14:15], ttmp[14:15], 0x8 glc
  s_waitcnt lgkmcnt(0)
  s_cmp_eq_u64 ttmp[2:3], 0
  s_cbranch_scc1 .Lno_handler
  s_setpc_b64 ttmp[2:3]

  // There is none: s_trap does nothing, and a wave that cannot go on halts.
.Lno_handler:
  s_bfe_u32 ttmp2, ttmp1, 0x80010
  s_cbranch_scc0 .Lexception
  s_add_u32 ttmp0, ttmp0, 4
  s_addc_u32 ttmp1, ttmp1, 0
  s_branch .Lreturn
.Lexception:
  s_getreg_b32 ttmp15, hwreg(HW_REG_TRAPSTS)
  s_and_b32 ttmp15, ttmp15, 0x900
  s_cbranch_scc0 .Lreturn
  s_bitset1_b32 ttmp12, HALT
.Lreturn:
  s_and_b32 ttmp1, ttmp1, 0xffff
  s_and_b64 exec, exec, exec
  s_and_b64 vcc, vcc, vcc
  s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
  s_rfe_b64 ttmp[0:1]

.Lsave:
  s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, SAVECTX, 1), 0
  s_and_b32 ttmp1, ttmp1, 0xffff
  // STATUS and ttmp13 make room for a buffer descriptor.
  s_mov_b32 ttmp2, ttmp12
  s_mov_b32 ttmp3, ttmp13
  s_mov_b64 ttmp[14:15], exec
  s_mov_b64 exec, 0
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
  buffer_store_dword v0, off, ttmp[12:15], 0
  buffer_store_dword v1, off, ttmp[12:15], 0 offset:256
  buffer_store_dword v2, off, ttmp[12:15], 0 offset:512
  buffer_store_dword v3, off, ttmp[12:15], 0 offset:768
  s_not_b64 exec, exec
  .endr

  .set register, 0
  .rept 64
  v_writelane_b32 v1, s[register], register
  .set register, register + 1
  .endr
  .set register, 64
  .rept 38
  v_writelane_b32 v2, s[register], register - 64
  .set register, register + 1
  .endr
  v_writelane_b32 v2, flat_scratch_lo, 38
  v_writelane_b32 v2, flat_scratch_hi, 39
  v_writelane_b32 v2, 0, 40
  v_writelane_b32 v2, 0, 41
  v_writelane_b32 v2, vcc_lo, 42
  v_writelane_b32 v2, vcc_hi, 43
  .set register, 44
  .rept 20
  v_writelane_b32 v2, 0, register
  .set register, register + 1
  .endr
  v_writelane_b32 v0, m0, 0
  v_writelane_b32 v0, ttmp0, 1
  s_and_b32 m0, ttmp1, 0xffff
  v_writelane_b32 v0, m0, 2
  v_writelane_b32 v0, exec_lo, 3
  v_writelane_b32 v0, exec_hi, 4
  v_writelane_b32 v0, ttmp2, 5
  s_getreg_b32 m0, hwreg(HW_REG_TRAPSTS)
  v_writelane_b32 v0, m0, 6
  v_writelane_b32 v0, xnack_mask_lo, 7
  v_writelane_b32 v0, xnack_mask_hi, 8
  s_getreg_b32 m0, hwreg(HW_REG_MODE)
  v_writelane_b32 v0, m0, 9
  .set register, 10
  .rept 10
  v_writelane_b32 v0, 0, register
  .set register, register + 1
  .endr
  .set register, 4
  .rept 8
  v_writelane_b32 v0, ttmp[register], register + 16
  .set register, register + 1
  .endr
  v_writelane_b32 v0, 0, 28
  v_writelane_b32 v0, ttmp3, 29
  v_writelane_b32 v0, 0, 30
  v_writelane_b32 v0, 0, 31

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
  s_add_u32 s12, s4, LDS
  s_mov_b32 s11, 0
  v_mbcnt_lo_u32_b32 v0, -1, 0
  v_mbcnt_hi_u32_b32 v0, -1, v0
  v_lshlrev_b32 v0, 2, v0
.Lsave_lds:
  ds_read_b32 v1, v0
  s_waitcnt lgkmcnt(0)
  buffer_store_dword v1, off, ttmp[12:15], s12
  v_add_u32 v0, 0x100, v0
  s_add_u32 s12, s12, 0x100
  s_add_u32 s11, s11, 0x100
  s_cmp_lt_u32 s11, s10
  s_cbranch_scc1 .Lsave_lds

  // v4 and on.
.Lsave_vectors:
  s_mov_b32 s11, 4
  s_mov_b32 s12, 0x400
  s_branch .Lsave_vectors_begin
.Lsave_vector:
  s_set_gpr_idx_on s11, gpr_idx(SRC0)
  v_mov_b32 v0, v0
  s_set_gpr_idx_off
  buffer_store_dword v0, off, ttmp[12:15], s12
  s_add_u32 s12, s12, 0x100
  s_add_u32 s11, s11, 1
.Lsave_vectors_begin:
  s_cmp_lt_u32 s11, s1
  s_cbranch_scc1 .Lsave_vector
  s_sub_u32 s0, s0, s1
  s_cmp_eq_u32 s0, 0
  s_cbranch_scc1 .Lsaved
  jump .Lsave_accumulators
.Lsaved:
  s_waitcnt vmcnt(0)
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
  s_add_u32 s12, s4, LDS
  s_mov_b32 s11, 0
  v_mbcnt_lo_u32_b32 v0, -1, 0
  v_mbcnt_hi_u32_b32 v0, -1, v0
  v_lshlrev_b32 v0, 2, v0
.Lrestore_lds:
  buffer_load_dword v1, off, ttmp[12:15], s12
  s_waitcnt vmcnt(0)
  ds_write_b32 v0, v1
  v_add_u32 v0, 0x100, v0
  s_add_u32 s12, s12, 0x100
  s_add_u32 s11, s11, 0x100
  s_cmp_lt_u32 s11, s10
  s_cbranch_scc1 .Lrestore_lds
  s_waitcnt lgkmcnt(0)
.Lrestored_lds:
  // No wave of the workgroup goes on before the LDS is as it was.
  s_barrier

.Lrestore_vectors:
  s_mov_b32 s11, 4
  s_mov_b32 s12, 0x400
  s_branch .Lrestore_vectors_begin
.Lrestore_vector:
  buffer_load_dword v0, off, ttmp[12:15], s12
  s_waitcnt vmcnt(0)
  s_set_gpr_idx_on s11, gpr_idx(DST)
  v_mov_b32 v0, v0
  s_set_gpr_idx_off
  s_add_u32 s12, s12, 0x100
  s_add_u32 s11, s11, 1
.Lrestore_vectors_begin:
  s_cmp_lt_u32 s11, s1
  s_cbranch_scc1 .Lrestore_vector
  s_sub_u32 s0, s0, s1
  s_cmp_eq_u32 s0, 0
  s_cbranch_scc1 .Lrestore_first_vectors
  jump .Lrestore_accumulators
.Lrestore_first_vectors:
  buffer_load_dword v0, off, ttmp[12:15], 0
  buffer_load_dword v1, off, ttmp[12:15], 0 offset:256
  buffer_load_dword v2, off, ttmp[12:15], 0 offset:512
  buffer_load_dword v3, off, ttmp[12:15], 0 offset:768

  s_load_dwordx16 s[0:15], ttmp[2:3], 0x0 glc
  s_load_dwordx16 s[16:31], ttmp[2:3], 0x40 glc
  s_load_dwordx16 s[32:47], ttmp[2:3], 0x80 glc
  s_load_dwordx16 s[48:63], ttmp[2:3], 0xc0 glc
  s_load_dwordx16 s[64:79], ttmp[2:3], 0x100 glc
  s_load_dwordx16 s[80:95], ttmp[2:3], 0x140 glc
  s_load_dwordx4 s[96:99], ttmp[2:3], 0x180 glc
  s_load_dwordx2 s[100:101], ttmp[2:3], 0x190 glc
  s_load_dwordx2 flat_scratch, ttmp[2:3], 0x198 glc
  s_load_dwordx2 xnack_mask, ttmp[2:3], HWREGS + 28 glc
  s_load_dwordx2 vcc, ttmp[2:3], 0x1a8 glc
  s_load_dword ttmp8, ttmp[2:3], HWREGS glc
  s_load_dwordx2 ttmp[0:1], ttmp[2:3], HWREGS + 4 glc
  s_load_dwordx4 ttmp[4:7], ttmp[2:3], HWREGS + 12 glc
  s_load_dword ttmp9, ttmp[2:3], HWREGS + 36 glc
  s_waitcnt vmcnt(0) lgkmcnt(0)
  s_mov_b32 m0, ttmp8
  s_and_b32 ttmp1, ttmp1, 0xffff
  s_mov_b64 exec, ttmp[4:5]
  s_mov_b32 ttmp12, ttmp6
  s_setreg_b32 hwreg(HW_REG_TRAPSTS), ttmp7
  s_setreg_imm32_b32 hwreg(HW_REG_TRAPSTS, SAVECTX, 1), 0
  s_setreg_b32 hwreg(HW_REG_MODE), ttmp9
  s_load_dwordx4 ttmp[4:7], ttmp[2:3], TTMPS + 16 glc
  s_load_dwordx4 ttmp[8:11], ttmp[2:3], TTMPS + 32 glc
  s_load_dword ttmp13, ttmp[2:3], TTMPS + 52 glc
  s_waitcnt lgkmcnt(0)
  s_setreg_b32 hwreg(HW_REG_STATUS), ttmp12
  s_rfe_b64 ttmp[0:1]

  // Behind all else, so that waves without accumulation registers never come near an instruction that names one: saves a0 and
  // on, s0 of them.
.Lsave_accumulators:
  s_mov_b32 s11, 0
.Lsave_accumulator:
  s_set_gpr_idx_on s11, gpr_idx(SRC0)
  v_accvgpr_read_b32 v0, a0
  s_set_gpr_idx_off
  buffer_store_dword v0, off, ttmp[12:15], s12
  s_add_u32 s12, s12, 0x100
  s_add_u32 s11, s11, 1
  s_cmp_lt_u32 s11, s0
  s_cbranch_scc1 .Lsave_accumulator
  s_waitcnt vmcnt(0)
  s_endpgm_saved

  // Restores a0 and on, s0 of them.
.Lrestore_accumulators:
  s_mov_b32 s11, 0
.Lrestore_accumulator:
  buffer_load_dword v0, off, ttmp[12:15], s12
  s_waitcnt vmcnt(0)
  s_set_gpr_idx_on s11, gpr_idx(DST)
  v_accvgpr_write_b32 a0, v0
  s_set_gpr_idx_off
  s_add_u32 s12, s12, 0x100
  s_add_u32 s11, s11, 1
  s_cmp_lt_u32 s11, s0
  s_cbranch_scc1 .Lrestore_accumulator
  s_branch .Lrestore_first_vectors

  .p2align 6
  .rept 16
  s_nop 0
  .endr
