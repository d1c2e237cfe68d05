//! Programs of one sample, load or store each.

/// Programs of both architectures: addresses in `v0` and those that follow, an image in `s[0:7]`, a sampler in `s[8:11]`, and the
/// result in `v16` and those that follow.
pub(super) struct Program {
    pub(super) gfx11: &'static [u32],
    pub(super) gfx12: &'static [u32],
}

const END: u32 = 0xbfb0_0000;

// image_sample_d v[16:19], v[0:5], s[0:7], s[8:11] dmask:0xf dim:SQ_RSRC_IMG_2D
pub(super) const GRADIENTS: Program =
    Program { gfx11: &[0xf070_0f04, 0x0800_1000, END], gfx12: &[0xe7c7_0001, 0x0400_0010, 0x0302_0100, END] };
// image_sample_d_g16 v[16:19], v[0:3], s[0:7], s[8:11] dmask:0xf dim:SQ_RSRC_IMG_2D
pub(super) const SHORT_GRADIENTS: Program =
    Program { gfx11: &[0xf0e4_0f04, 0x0800_1000, END], gfx12: &[0xe7ce_4001, 0x0400_0010, 0x0302_0100, END] };
// image_sample v[16:19], v[0:1], s[0:7], s[8:11] dmask:0xf dim:SQ_RSRC_IMG_2D
pub(super) const IMPLICIT: Program =
    Program { gfx11: &[0xf06c_0f04, 0x0800_1000, END], gfx12: &[0xe7c6_c001, 0x0400_0010, 0x0100, END] };
// image_sample_b v[16:19], v[0:2], s[0:7], s[8:11] dmask:0xf dim:SQ_RSRC_IMG_2D
pub(super) const BIAS: Program =
    Program { gfx11: &[0xf078_0f04, 0x0800_1000, END], gfx12: &[0xe7c7_8001, 0x0400_0010, 0x0002_0100, END] };
// image_sample_cl v[16:19], v[0:2], s[0:7], s[8:11] dmask:0xf dim:SQ_RSRC_IMG_2D
pub(super) const LEAST: Program =
    Program { gfx11: &[0xf100_0f04, 0x0800_1000, END], gfx12: &[0xe7d0_0001, 0x0400_0010, 0x0002_0100, END] };
// image_sample_lz_o v[16:19], v[0:2], s[0:7], s[8:11] dmask:0xf dim:SQ_RSRC_IMG_2D
pub(super) const OFFSET: Program =
    Program { gfx11: &[0xf0a4_0f04, 0x0800_1000, END], gfx12: &[0xe7ca_4001, 0x0400_0010, 0x0002_0100, END] };
// image_sample_c_lz v16, v[0:2], s[0:7], s[8:11] dmask:0x1 dim:SQ_RSRC_IMG_2D
pub(super) const COMPARE: Program =
    Program { gfx11: &[0xf090_0104, 0x0800_1000, END], gfx12: &[0xe449_0001, 0x0400_0010, 0x0002_0100, END] };
// image_sample_c_d_cl_o v16, v[0:8], s[0:7], s[8:11] dmask:0x1 dim:SQ_RSRC_IMG_2D
pub(super) const ALL: Program =
    Program { gfx11: &[0xf128_0104, 0x0800_1000, END], gfx12: &[0xe452_8001, 0x0400_0010, 0x0302_0100, END] };
// image_sample_c_b_cl_o v16, v[0:4], s[0:7], s[8:11] dmask:0x1 dim:SQ_RSRC_IMG_2D a16
pub(super) const SHORT_ALL: Program =
    Program { gfx11: &[0xf12d_0104, 0x0800_1000, END], gfx12: &[0xe452_c041, 0x0400_0010, 0x0302_0100, END] };
// image_gather4_c_lz v[16:19], v[0:2], s[0:7], s[8:11] dmask:0x1 dim:SQ_RSRC_IMG_2D
pub(super) const GATHER_COMPARED: Program =
    Program { gfx11: &[0xf0d0_0104, 0x0800_1000, END], gfx12: &[0xe44d_0001, 0x0400_0010, 0x0002_0100, END] };
// image_gather4h v[16:19], v[0:1], s[0:7], s[8:11] dmask:0x1 dim:SQ_RSRC_IMG_2D
pub(super) const GATHER_ROW: Program =
    Program { gfx11: &[0xf240_0104, 0x0800_1000, END], gfx12: &[0xe464_0001, 0x0400_0010, 0x0100, END] };
// image_get_lod v[16:17], v[0:1], s[0:7], s[8:11] dmask:0x3 dim:SQ_RSRC_IMG_2D
pub(super) const ASKED: Program =
    Program { gfx11: &[0xf0e0_0304, 0x0800_1000, END], gfx12: &[0xe4ce_0001, 0x0400_0010, 0x0100, END] };
// image_sample_lz v[16:19], v[0:2], s[0:7], s[8:11] dmask:0xf dim:SQ_RSRC_IMG_CUBE
pub(super) const CUBE: Program =
    Program { gfx11: &[0xf07c_0f0c, 0x0800_1000, END], gfx12: &[0xe7c7_c003, 0x0400_0010, 0x0002_0100, END] };
// image_sample_lz v[16:19], v[0:1], s[0:7], s[8:11] dmask:0xf dim:SQ_RSRC_IMG_2D
pub(super) const PLAIN: Program =
    Program { gfx11: &[0xf07c_0f04, 0x0800_1000, END], gfx12: &[0xe7c7_c001, 0x0400_0010, 0x0100, END] };
// image_load_pck v[16:17], v[0:1], s[0:7] dmask:0x3 dim:SQ_RSRC_IMG_2D unorm
pub(super) const BITS: Program =
    Program { gfx11: &[0xf008_0384, 0x1000, END], gfx12: &[0xd0c0_8001, 0x0010, 0x0100, END] };
// image_load_pck_sgn v[16:17], v[0:1], s[0:7] dmask:0x3 dim:SQ_RSRC_IMG_2D unorm
pub(super) const SIGNED_BITS: Program =
    Program { gfx11: &[0xf00c_0384, 0x1000, END], gfx12: &[0xd0c0_c001, 0x0010, 0x0100, END] };
// image_store_pck v[2:3], v[0:1], s[0:7] dmask:0x3 dim:SQ_RSRC_IMG_2D unorm
pub(super) const STORE_BITS: Program =
    Program { gfx11: &[0xf020_0384, 0x0200, END], gfx12: &[0xd0c2_0001, 0x0002, 0x0100, END] };
// image_load v[16:19], v[0:1], s[0:7] dmask:0xf dim:SQ_RSRC_IMG_2D unorm
pub(super) const LOAD: Program =
    Program { gfx11: &[0xf000_0f84, 0x1000, END], gfx12: &[0xd3c0_0001, 0x0010, 0x0100, END] };

/// All of these.
pub(super) const PROGRAMS: [&Program; 18] = [
    &GRADIENTS,
    &SHORT_GRADIENTS,
    &IMPLICIT,
    &BIAS,
    &LEAST,
    &OFFSET,
    &COMPARE,
    &ALL,
    &SHORT_ALL,
    &GATHER_COMPARED,
    &GATHER_ROW,
    &ASKED,
    &CUBE,
    &PLAIN,
    &BITS,
    &SIGNED_BITS,
    &STORE_BITS,
    &LOAD,
];
