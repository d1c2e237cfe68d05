//! `s_sendmsg_rtn` messages that are answered (`AMDGPU::SendMsg::Id`).

pub(crate) const GET_DOORBELL: u32 = 128;
pub(crate) const GET_DDID: u32 = 129;
pub(crate) const GET_TMA: u32 = 130;
pub(crate) const GET_REALTIME: u32 = 131;
pub(crate) const SAVE_WAVE: u32 = 132;
pub(crate) const GET_TBA: u32 = 133;
pub(crate) const GET_SE_AID_ID: u32 = 135;
pub(crate) const ANSWERED: [u32; 6] = [GET_DOORBELL, GET_DDID, GET_TMA, GET_REALTIME, SAVE_WAVE, GET_TBA];
/// Messages of gfx12, which also tells the shader engine.
pub(crate) const ANSWERED_BY_ENGINE: [u32; 7] =
    [GET_DOORBELL, GET_DDID, GET_TMA, GET_REALTIME, SAVE_WAVE, GET_TBA, GET_SE_AID_ID];
