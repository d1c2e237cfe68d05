// The driver's trap handler: saves and restores the context of a wave, and passes traps on to the handler that the program has
// set. `cargo xtask kernels` assembles it for each processor, to trap_handler.bin of the generation.
//
// Entered at its first instruction for traps, exceptions and context saves, and four bytes behind it to restore a wave.
//
// A context save: the flag SAVECTX is set. The hardware's answer to a message says where to save to: bits 47:0 are the
// address, and bit 58 is set in the wave that has the LDS of its workgroup. A wave to be restored has that answer in EXEC.
//
// The trap memory (TMA) has the address of the program's handler at 0, that of its trap memory at 8, and at 16 whether a
// debugger is attached. The program's handler finds STATE as it was in ttmp12, its trap memory in ttmp14 and ttmp15, and the
// debugger in bit 23 of ttmp11; from gfx940 to the end of gfx9, in bit 23 of ttmp13, where ROCr's handler looks for it.
//
// Contexts are in buffers.s for gfx9, and in lanes.s for what came later.

.set GENERATION, .amdgcn.gfx_generation_number

.set FIRST_WAVE, 26
.set DEBUGGED, 23
.if GENERATION < 12
  // STATUS and TRAPSTS.
  .set STATE, 2
  .set FLAGS, 3
  .set SAVECTX, 10
  .set HALT, 13
  // MEM_VIOL and ILLEGAL_INST.
  .set FATAL, 0x900
.else
  // STATE_PRIV and EXCP_FLAG_PRIV.
  .set STATE, 4
  .set FLAGS, 17
  .set SAVECTX, 5
  .set HALT, 14
  .set FATAL, 0x50
.endif

// Waits for scalar loads and answers to messages, for the LDS, for loads, and for stores.
.if GENERATION < 12
  .macro wait_scalars
    s_waitcnt lgkmcnt(0)
  .endm
  .macro wait_lds
    s_waitcnt lgkmcnt(0)
  .endm
  .macro wait_loads
    s_waitcnt vmcnt(0)
  .endm
.else
  .macro wait_scalars
    s_wait_kmcnt 0x0
  .endm
  .macro wait_lds
    s_wait_dscnt 0x0
  .endm
  .macro wait_loads
    s_wait_loadcnt 0x0
  .endm
.endif
.macro wait_stores
  .if GENERATION == 9
    s_waitcnt vmcnt(0)
  .elseif GENERATION < 12
    s_waitcnt_vscnt null, 0
  .else
    s_wait_storecnt 0x0
  .endif
.endm

// Loads dwords that no cache has.
.macro load dwords, to, from, offset
  .if GENERATION == 9
    .if \dwords == 1
      s_load_dword \to, \from, \offset glc
    .else
      s_load_dwordx\dwords \to, \from, \offset glc
    .endif
  .else
    .if \dwords == 1
      load_bits 32, \to, \from, \offset
    .elseif \dwords == 2
      load_bits 64, \to, \from, \offset
    .elseif \dwords == 4
      load_bits 128, \to, \from, \offset
    .elseif \dwords == 8
      load_bits 256, \to, \from, \offset
    .else
      load_bits 512, \to, \from, \offset
    .endif
  .endif
.endm
.macro load_bits bits, to, from, offset
  .if GENERATION < 12
    s_load_b\bits \to, \from, \offset glc
  .else
    s_load_b\bits \to, \from, \offset scope:SCOPE_SYS
  .endif
.endm

// Writes a register into consecutive lanes of a vector register: `count` scalar registers from `first` on, into `lane` and on.
.macro scalars_to_lanes vector, kind, first, count, lane
  .set register, 0
  .rept \count
  v_writelane_b32 \vector, \kind[register + \first], register + \lane
  .set register, register + 1
  .endr
.endm

.text
.p2align 8
.globl trap_handler
trap_handler:
  s_branch .Ltrap
  s_branch .Lrestore

.Ltrap:
  s_getreg_b32 ttmp12, hwreg(STATE)
  s_getreg_b32 ttmp15, hwreg(FLAGS)
  s_bitcmp1_b32 ttmp15, SAVECTX
  s_cbranch_scc1 .Lsave

  // The program's handler.
  .macro pass_on debugged
    load 1, ttmp2, ttmp[14:15], 0x10
    wait_scalars
    s_lshl_b32 ttmp2, ttmp2, DEBUGGED
    s_andn2_b32 \debugged, \debugged, 1 << DEBUGGED
    s_or_b32 \debugged, \debugged, ttmp2
  .endm
  .if GENERATION == 9
    s_getreg_b32 ttmp14, hwreg(18)
    s_getreg_b32 ttmp15, hwreg(19)
    s_lshl_b64 ttmp[14:15], ttmp[14:15], 8
    pass_on ttmp13
  .else
    s_sendmsg_rtn_b64 ttmp[14:15], sendmsg(MSG_RTN_GET_TMA)
    wait_scalars
    pass_on ttmp11
  .endif
  load 2, ttmp[2:3], ttmp[14:15], 0x0
  wait_scalars
  load 2, ttmp[14:15], ttmp[14:15], 0x8
  wait_scalars
  s_cmp_eq_u64 ttmp[2:3], 0
  s_cbranch_scc1 .Lno_handler
  s_setpc_b64 ttmp[2:3]

  // There is none: s_trap does nothing, and a wave that cannot go on halts.
.Lno_handler:
  // The number of the trap; 0 for an exception.
  .if GENERATION < 12
    s_bfe_u32 ttmp2, ttmp1, 0x80010
  .else
    s_and_b32 ttmp2, ttmp1, 0xf0000000
  .endif
  s_cbranch_scc0 .Lexception
  s_add_u32 ttmp0, ttmp0, 4
  s_addc_u32 ttmp1, ttmp1, 0
  s_branch .Lreturn
.Lexception:
  s_getreg_b32 ttmp15, hwreg(FLAGS)
  s_and_b32 ttmp15, ttmp15, FATAL
  s_cbranch_scc0 .Lreturn
  s_bitset1_b32 ttmp12, HALT
.Lreturn:
  s_and_b32 ttmp1, ttmp1, 0xffff
  s_and_b64 exec, exec, exec
  s_and_b64 vcc, vcc, vcc
  .if GENERATION < 12
    s_setreg_b32 hwreg(STATE), ttmp12
  .else
    // SCC and what follows: BARRIER_COMPLETE below may have changed.
    s_lshr_b32 ttmp12, ttmp12, 9
    s_setreg_b32 hwreg(STATE, 9, 6), ttmp12
  .endif
  s_rfe_b64 ttmp[0:1]

.Lsave:
  s_setreg_imm32_b32 hwreg(FLAGS, SAVECTX, 1), 0
  s_and_b32 ttmp1, ttmp1, 0xffff
  .if GENERATION == 9
    .include "buffers.s"
  .else
    .include "lanes.s"
  .endif

  .p2align 6
  .rept 16
  .if GENERATION == 9
  s_nop 0
  .else
  s_code_end
  .endif
  .endr
