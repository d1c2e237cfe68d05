//! Places in which the decoder puts what an encoding says and implies: the arrangement that `belfry_isa::inst`
//! documents.

use belfry_isa::decode::decode;
use belfry_isa::inst::{Arch, Dpp, Inst, Operand};

fn operand(operand: Operand) -> String {
    match operand {
        Operand::None => "-".to_owned(),
        Operand::Vgpr(number) => format!("v{number}"),
        Operand::Sgpr(number) => format!("s{number}"),
        Operand::InlineInt(value) => format!("#{value}"),
        Operand::Literal(value) => format!("{value:#x}"),
        other => format!("{other:?}"),
    }
}

/// `OP Format dst dst2 [src…] …` and all other fields that are not at their defaults.
fn shape(inst: &Inst) -> String {
    let list =
        |operands: &[Operand]| operands.iter().map(|&value| operand(value)).collect::<Vec<_>>().join(" ");
    let mut out = format!(
        "{:?} {:?} {} {} [{}]",
        inst.op,
        inst.format,
        operand(inst.dst),
        operand(inst.dst2),
        list(&inst.src)
    );
    let mods = inst.mods;
    let numbers = [
        ("neg", mods.neg, 0),
        ("abs", mods.abs, 0),
        ("neg_hi", mods.neg_hi, 0),
        ("op_sel", mods.op_sel, 0),
        ("op_sel_hi", mods.op_sel_hi, 7),
        ("omod", mods.omod, 0),
        ("offset1", inst.mem.offset1, 0),
    ];
    for (name, value, default) in numbers {
        if value != default {
            out += &format!(" {name}={value}");
        }
    }
    let mem = inst.mem;
    let bits = [
        ("clamp", mods.clamp),
        ("glc", mem.glc),
        ("slc", mem.slc),
        ("dlc", mem.dlc),
        ("gds", mem.gds),
        ("offen", mem.offen),
        ("idxen", mem.idxen),
    ];
    for (name, _) in bits.into_iter().filter(|(_, set)| *set) {
        out += &format!(" {name}");
    }
    if mem.offset != 0 {
        out += &format!(" offset={}", mem.offset);
    }
    if inst.imm != 0 {
        out += &format!(" imm={:#x}", inst.imm);
    }
    match inst.dpp {
        Some(Dpp::Dpp16(dpp)) => {
            let bound = u8::from(dpp.bound_ctrl);
            out += &format!(" dpp16={:#x}/{:x}{:x}{bound}", dpp.ctrl, dpp.row_mask, dpp.bank_mask);
        }
        Some(Dpp::Dpp8(dpp)) => {
            let lanes: String = (0..8).map(|lane| dpp.selector(lane).to_string()).collect();
            out += &format!(" dpp8={lanes}{}", if dpp.fetch_inactive { "fi" } else { "" });
        }
        None => {}
    }
    if let Some(dual) = inst.dual {
        out += &format!(" :: {:?} {} [{}]", dual.op, operand(dual.dst), list(&dual.src));
    }
    out
}

#[test]
fn operands_are_where_the_documentation_says() {
    let cases: &[(&str, &str)] = &[
        // v_add_f32_e32 v1, s2, v3
        ("02060206", "V_ADD_F32 Vop2 v1 - [s2 v3 - -]"),
        // v_add_f32_e64 v1, -|s2|, v3 clamp mul:2
        ("018103d502060228", "V_ADD_F32 Vop3 v1 - [s2 v3 - -] neg=1 abs=1 omod=1 clamp"),
        // v_add_co_ci_u32_e32 v1, vcc_lo, v2, v3, vcc_lo
        ("02070240", "V_ADD_CO_CI_U32 Vop2 v1 s106 [v2 v3 s106 -]"),
        // v_add_co_ci_u32_e64 v1, s4, v2, v3, s5
        ("010420d502071600", "V_ADD_CO_CI_U32 Vop3Sd v1 s4 [v2 v3 s5 -]"),
        // v_add_co_u32 v1, s4, v2, v3
        ("010400d702070200", "V_ADD_CO_U32 Vop3Sd v1 s4 [v2 v3 - -]"),
        // v_cndmask_b32_e32 v1, v2, v3, vcc_lo
        ("02070202", "V_CNDMASK_B32 Vop2 v1 - [v2 v3 s106 -]"),
        // v_cndmask_b32_e64 v1, v2, v3, s4
        ("010001d502071200", "V_CNDMASK_B32 Vop3 v1 - [v2 v3 s4 -]"),
        // v_cmp_eq_u32_e32 vcc_lo, 1, v2
        ("8104947c", "V_CMP_EQ_U32 Vopc s106 - [#1 v2 - -]"),
        // v_cmp_eq_u32_e64 s3, 1, v2
        ("03004ad481040200", "V_CMP_EQ_U32 Vop3 s3 - [#1 v2 - -]"),
        // v_cmpx_eq_u32_e32 1, v2
        ("8104947d", "V_CMPX_EQ_U32 Vopc s126 - [#1 v2 - -]"),
        // v_cmpx_eq_u32_e64 1, v2
        ("7e00cad481040200", "V_CMPX_EQ_U32 Vop3 s126 - [#1 v2 - -]"),
        // v_fmac_f32_e32 v1, v2, v3
        ("02070256", "V_FMAC_F32 Vop2 v1 - [v2 v3 v1 -]"),
        // v_fmac_f32_e64 v1, v2, -v3
        ("01002bd502070240", "V_FMAC_F32 Vop3 v1 - [v2 v3 v1 -] neg=2"),
        // v_fmac_f32_dpp v1, v2, v3 row_shr:1 row_mask:0xf bank_mask:0xf bound_ctrl:1
        ("fa060256021109ff", "V_FMAC_F32 Vop2 v1 - [v2 v3 v1 -] dpp16=0x111/ff1"),
        // v_dot2acc_f32_f16 v1, v2, v3
        ("02070204", "V_DOT2ACC_F32_F16 Vop2 v1 - [v2 v3 v1 -]"),
        // v_fmamk_f32 v1, v2, 0x42280000, v3
        ("0207025800002842", "V_FMAMK_F32 Vop2 v1 - [v2 0x42280000 v3 -]"),
        // v_fmaak_f32 v1, v2, v3, 0x42280000
        ("0207025a00002842", "V_FMAAK_F32 Vop2 v1 - [v2 v3 0x42280000 -]"),
        // v_dual_fmac_f32 v1, v2, v3 :: v_dual_cndmask_b32 v4, v5, v6
        ("020712c8050d0401", "V_FMAC_F32 Vopd v1 - [v2 v3 v1 -] :: V_CNDMASK_B32 v4 [v5 v6 s106]"),
        // v_dual_cndmask_b32 v4, v5, v6 :: v_dual_fmamk_f32 v1, v2, 0x42280000, v3
        (
            "050d44ca0207000400002842",
            "V_CNDMASK_B32 Vopd v4 - [v5 v6 s106 -] :: V_FMAMK_F32 v1 [v2 0x42280000 v3]",
        ),
        // v_dual_mov_b32 v0, 0x1234 :: v_dual_add_f32 v1, 0x1234, v2
        ("ff0008caff04000034120000", "V_MOV_B32 Vopd v0 - [0x1234 - - -] :: V_ADD_F32 v1 [0x1234 v2 -]"),
        // v_div_scale_f32 v1, vcc_lo, v2, v3, v4
        ("016afcd602071204", "V_DIV_SCALE_F32 Vop3Sd v1 s106 [v2 v3 v4 -]"),
        // v_mad_u64_u32 v[1:2], null, v3, s4, v[5:6]
        ("017cfed603091404", "V_MAD_U64_U32 Vop3Sd v1 s124 [v3 s4 v5 -]"),
        // v_readfirstlane_b32 s1, v2
        ("0205027e", "V_READFIRSTLANE_B32 Vop1 s1 - [v2 - - -]"),
        // v_readlane_b32 s1, v2, s3
        ("010060d702070000", "V_READLANE_B32 Vop3 s1 - [v2 s3 - -]"),
        // v_writelane_b32 v1, s2, 3
        ("010061d702060100", "V_WRITELANE_B32 Vop3 v1 - [s2 #3 - -]"),
        // v_mov_b32_dpp v1, v2 dpp8:[7,6,5,4,3,2,1,0] fi:1
        ("ea02027e02773905", "V_MOV_B32 Vop1 v1 - [v2 - - -] dpp8=76543210fi"),
        // v_pk_fma_f16 v1, v2, v3, v4 op_sel:[1,0,0] op_sel_hi:[0,1,1] neg_lo:[0,1,0] neg_hi:[0,0,1]
        ("014c0ecc02071254", "V_PK_FMA_F16 Vop3P v1 - [v2 v3 v4 -] neg=2 neg_hi=4 op_sel=1 op_sel_hi=6"),
        // v_fma_mix_f32 v1, -|v2|, v3, v4 op_sel:[0,0,1] op_sel_hi:[1,0,0]
        ("012120cc0207122c", "V_FMA_MIX_F32 Vop3P v1 - [v2 v3 v4 -] neg=1 abs=1 op_sel=4 op_sel_hi=1"),
        // v_wmma_f32_16x16x16_f16 v[8:15], v[0:7], v[16:23], v[8:15]
        ("084040cc0021221c", "V_WMMA_F32_16X16X16_F16 Vop3P v8 - [v0 v16 v8 -]"),
        // v_fma_f64 v[0:1], v[2:3], 0x40280000, s[4:5]
        ("000014d602ff110000002840", "V_FMA_F64 Vop3 v0 - [v2 0x40280000 s4 -]"),
        // v_permlanex16_b32 v1, v2, s3, s4 op_sel:[1,0]
        ("01085cd602071000", "V_PERMLANEX16_B32 Vop3 v1 - [v2 s3 s4 -] op_sel=1"),
        // s_add_u32 s1, s2, 0x12345678
        ("02ff018078563412", "S_ADD_U32 Sop2 s1 - [s2 0x12345678 - -]"),
        // s_mov_b64 s[2:3], exec
        ("7e0182be", "S_MOV_B64 Sop1 s2 - [s126 - - -]"),
        // s_cmp_eq_u32 s1, -5
        ("01c506bf", "S_CMP_EQ_U32 Sopc - - [s1 #-5 - -]"),
        // s_addk_i32 s1, 0x8000
        ("008081b7", "S_ADDK_I32 Sopk s1 - [- - - -] imm=0x8000"),
        // s_cmpk_eq_u32 s1, 0xffff
        ("ffff81b4", "S_CMPK_EQ_U32 Sopk - - [s1 - - -] imm=0xffff"),
        // s_setreg_b32 hwreg(HW_REG_MODE, 0, 4), s5
        ("011805b9", "S_SETREG_B32 Sopk - - [s5 - - -] imm=0x1801"),
        // s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 4), 9
        ("011880b909000000", "S_SETREG_IMM32_B32 Sopk - - [0x9 - - -] imm=0x1801"),
        // s_getreg_b32 s5, hwreg(HW_REG_MODE, 0, 4)
        ("011885b8", "S_GETREG_B32 Sopk s5 - [- - - -] imm=0x1801"),
        // s_waitcnt_vscnt null, 0x3
        ("03007cbc", "S_WAITCNT_VSCNT Sopk - - [s124 - - -] imm=0x3"),
        // s_load_b128 s[4:7], s[0:1], 0x10
        ("000108f4100000f8", "S_LOAD_B128 Smem s4 - [s0 - - -] offset=16"),
        // s_load_b32 s4, s[0:1], s9 offset:-0x8 glc
        ("004100f4f8ff1f12", "S_LOAD_B32 Smem s4 - [s0 s9 - -] glc offset=-8"),
        // s_buffer_load_b64 s[4:5], s[8:11], null
        ("040124f4000000f8", "S_BUFFER_LOAD_B64 Smem s4 - [s8 s124 - -]"),
        // s_sendmsg_rtn_b32 s1, sendmsg(MSG_RTN_GET_REALTIME)
        ("834c81be", "S_SENDMSG_RTN_B32 Sop1 s1 - [- - - -] imm=0x83"),
        // s_cbranch_scc1 65532
        ("fcffa2bf", "S_CBRANCH_SCC1 Sopp - - [- - - -] imm=0xfffc"),
        // global_load_b64 v[1:2], v3, s[4:5] offset:-4096 slc
        ("009056dc03000401", "GLOBAL_LOAD_B64 Global v1 - [v3 - s4 -] slc offset=-4096"),
        // global_load_b32 v1, v[2:3], off offset:16
        ("100052dc02007c01", "GLOBAL_LOAD_B32 Global v1 - [v2 - - -] offset=16"),
        // global_store_b32 v3, v1, s[4:5]
        ("00006adc03010400", "GLOBAL_STORE_B32 Global - - [v3 v1 s4 -]"),
        // global_atomic_add_u32 v1, v2, v3, s[4:5] glc
        ("0040d6dc02030401", "GLOBAL_ATOMIC_ADD_U32 Global v1 - [v2 v3 s4 -] glc"),
        // flat_load_b32 v1, v[2:3] offset:2047
        ("ff0750dc02007c01", "FLAT_LOAD_B32 Flat v1 - [v2 - - -] offset=2047"),
        // scratch_store_b32 off, v1, s33 offset:8
        ("080069dc00012100", "SCRATCH_STORE_B32 Scratch - - [- v1 s33 -] offset=8"),
        // scratch_load_b32 v1, off, off offset:8
        ("080051dc00007c01", "SCRATCH_LOAD_B32 Scratch v1 - [- - - -] offset=8"),
        // buffer_load_b32 v1, v2, s[4:7], s8 offen offset:4095 dlc
        ("ff2f50e002014108", "BUFFER_LOAD_B32 Mubuf v1 - [v2 s4 s8 -] dlc offen offset=4095"),
        // buffer_store_b64 v[1:2], off, s[4:7], 0
        ("00006ce000010180", "BUFFER_STORE_B64 Mubuf - - [- s4 #0 v1]"),
        // buffer_atomic_add_u32 v1, v2, s[4:7], 0 idxen glc
        ("0040d4e002018180", "BUFFER_ATOMIC_ADD_U32 Mubuf v1 - [v2 s4 #0 v1] glc idxen"),
        // ds_load_b32 v1, v2 offset:65535
        ("ffffd8d802000001", "DS_LOAD_B32 Ds v1 - [v2 - - -] offset=65535"),
        // ds_store_2addr_b64 v1, v[2:3], v[4:5] offset0:1 offset1:255
        ("01ff38d901020400", "DS_STORE_2ADDR_B64 Ds - - [v1 v2 v4 -] offset1=255 offset=1"),
        // ds_load_2addr_stride64_b32 v[1:2], v3 offset0:4
        ("0400e0d803000001", "DS_LOAD_2ADDR_STRIDE64_B32 Ds v1 - [v3 - - -] offset=4"),
        // ds_cmpstore_rtn_b32 v1, v2, v3, v4 gds
        ("0000c2d802030401", "DS_CMPSTORE_RTN_B32 Ds v1 - [v2 v3 v4 -] glc gds"),
        // ds_bpermute_b32 v1, v2, v3
        ("0000ccda02030001", "DS_BPERMUTE_B32 Ds v1 - [v2 v3 - -]"),
        // ds_swizzle_b32 v1, v2 offset:swizzle(SWAP,1)
        ("1f04d4d802000001", "DS_SWIZZLE_B32 Ds v1 - [v2 - - -] offset=1055"),
        // v_fmac_f16_e32 v1, v2, v3
        ("0207026c", "V_FMAC_F16 Vop2 v1 - [v2 v3 v1 -]"),
        // v_mul_lo_u16 v1.l, v1.h, 3
        ("010805d701070100", "V_MUL_LO_U16 Vop3 v1 - [v1 #3 - -] op_sel=1"),
        // As LLVM 23 and Mesa's ACO write what an operation does not have: v_lshlrev_b64 v[8:9], 1, v[8:9]
        ("08003cd781100202", "V_LSHLREV_B64 Vop3 v8 - [#1 v8 - -]"),
        // v_pk_add_f16 v1, v2, v3
        ("01400fcc0207021a", "V_PK_ADD_F16 Vop3P v1 - [v2 v3 - -]"),
        // v_cmp_eq_u32_e64 s3, 1, v2
        ("03004ad481040202", "V_CMP_EQ_U32 Vop3 s3 - [#1 v2 - -]"),
        // v_add_co_u32 v1, s4, v2, v3
        ("010400d702070202", "V_ADD_CO_U32 Vop3Sd v1 s4 [v2 v3 - -]"),
        // v_readlane_b32 s1, v2, s3
        ("010060d702070002", "V_READLANE_B32 Vop3 s1 - [v2 s3 - -]"),
        // v_rcp_f32_e64 v1, v2
        ("0100aad502010102", "V_RCP_F32 Vop3 v1 - [v2 - - -]"),
        // v_nop_e64
        ("000080d580000102", "V_NOP Vop3 - - [- - - -]"),
        // v_mul_lo_u32 v1, v2, v3 with a third source that would be a literal, and all of its modifiers
        ("01242cd70207fe83", "V_MUL_LO_U32 Vop3 v1 - [v2 v3 - -]"),
        // v_dual_mov_b32 v0, 0 :: v_dual_mov_b32 v1, 0 with second sources
        ("80fe11ca80fe0100", "V_MOV_B32 Vopd v0 - [#0 - - -] :: V_MOV_B32 v1 [#0 - -]"),
        // v_fma_f16 v1, v2, v3, v4 op_sel:[0,1,0,1]
        ("015048d602071204", "V_FMA_F16 Vop3 v1 - [v2 v3 v4 -] op_sel=10"),
    ];
    let mut wrong = Vec::new();
    for (hex, expected) in cases {
        let code: Vec<u8> = (0..hex.len())
            .step_by(2)
            .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).expect("two hex digits"))
            .collect();
        let actual = decode(Arch::Gfx1100, &code).map_or_else(|error| error.to_string(), |inst| shape(&inst));
        if actual != *expected {
            wrong.push(format!("{hex}: {actual}\n    not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
