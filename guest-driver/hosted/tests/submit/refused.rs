//! Submissions that amdgpu refuses.

use super::*;

#[test]
fn submissions_are_refused_as_amdgpu_refuses_them() {
    let gpu = gpu();
    let file = File::open(&gpu);
    let [ib, page] = [(); 2].map(|()| file.memory(PAGE, GTT));
    let large = file.memory(2 * PAGE, GTT);
    File::fill(ib, &write(page.va, 1));
    let good = Work::default().ib(ib, 5, AMDGPU_HW_IP_COMPUTE);
    let with = |id, words: &[u32]| {
        let mut work = good.clone();
        work.chunks.push((id, words.to_vec()));
        work
    };
    let fence = |handle, offset| with(AMDGPU_CHUNK_ID_FENCE, &[handle, offset]);
    // Engine, instance, ring, context, number.
    let after = |words: [u32; 6]| with(AMDGPU_CHUNK_ID_DEPENDENCIES, &words);
    let (inval, context) = (Errno::EINVAL, file.context);
    let many = (0..126).fold(Work::default(), |work, _| work.ib(ib, 5, AMDGPU_HW_IP_COMPUTE));
    let five = (0..3).fold(Work::default(), |work, ring| work.ib_on(ib, 5, AMDGPU_HW_IP_COMPUTE, ring));
    let five = (0..2).fold(five, |work, ring| work.ib_on(ib, 5, AMDGPU_HW_IP_DMA, ring));
    for (what, work, errno) in [
        ("no chunks", Work::default(), inval),
        (
            "no indirect buffer",
            Work { chunks: vec![fence(page.handle, 0).chunks[1].clone()], list: 0 },
            inval,
        ),
        ("an unknown chunk", with(99, &[0]), inval),
        ("a syncobj that is not there", with(AMDGPU_CHUNK_ID_SYNCOBJ_IN, &[1]), Errno::ENOENT),
        ("a syncobj that is not there to get it", with(AMDGPU_CHUNK_ID_SYNCOBJ_OUT, &[1]), inval),
        ("a point of no syncobj", with(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_WAIT, &[1, 0, 1, 0]), Errno::ENOENT),
        ("a point of no syncobj to be", with(AMDGPU_CHUNK_ID_SYNCOBJ_TIMELINE_SIGNAL, &[1, 0, 1, 0]), inval),
        ("half an indirect buffer", with(AMDGPU_CHUNK_ID_IB, &[0; 4]), inval),
        ("graphics", Work::default().ib(ib, 5, AMDGPU_HW_IP_GFX), inval),
        ("a fifth ring of compute", Work::default().ib_on(ib, 5, AMDGPU_HW_IP_COMPUTE, 4), inval),
        ("a third copy engine", Work::default().ib_on(ib, 5, AMDGPU_HW_IP_DMA, 2), inval),
        ("five rings at once", five, inval),
        ("too many indirect buffers", many, inval),
        ("a fence past its page", fence(page.handle, 4090), inval),
        ("a fence off alignment", fence(page.handle, 4), inval),
        ("a fence in more than a page", fence(large.handle, 0), inval),
        ("a fence in no memory", fence(99, 0), inval),
        ("a list that is not there", Work { list: 99, ..good.clone() }, Errno::ENOENT),
        ("memory that is not there", with(AMDGPU_CHUNK_ID_BO_HANDLES, &[0, 0, 1, 8, 8, 0]), Errno::EFAULT),
        ("too much memory", with(AMDGPU_CHUNK_ID_BO_HANDLES, &[0, 0, 1 << 20, 8, 8, 0]), inval),
        ("after a ring that is not there", after([0, 0, 0, context, 0, 0]), inval),
        ("after no context", after([1, 0, 0, 99, 0, 0]), inval),
        ("after what is not there yet", after([1, 0, 0, context, 7, 0]), inval),
    ] {
        assert_eq!(file.submit(&work), Err(errno), "{what}");
    }
    let mut args = CsIn { ctx_id: 99, num_chunks: 1, chunks: 8, ..Default::default() };
    assert_eq!(file.call(CS, &mut args), Err(inval), "no context");
    args = CsIn { ctx_id: context, num_chunks: 1, chunks: 8, ..Default::default() };
    assert_eq!(file.call(CS, &mut args), Err(Errno::EFAULT));
    for (what, number, ring, errno) in [
        ("what is not there yet", 1, (AMDGPU_HW_IP_COMPUTE, 0), inval),
        ("a ring that is not there", 0, (AMDGPU_HW_IP_COMPUTE, 4), inval),
        ("an engine that is not there", 0, (77, 0), inval),
    ] {
        assert_eq!(file.wait_on(number, ring, FOREVER), Err(errno), "{what}");
    }
    for (what, args, errno) in [
        ("a context that is not there", CtxIn { op: 2, ctx_id: 99, ..Default::default() }, inval),
        ("its state", CtxIn { op: 3, ctx_id: 99, ..Default::default() }, inval),
        ("no operation", CtxIn::default(), inval),
        ("a high priority", CtxIn { op: 1, priority: 512, ..Default::default() }, Errno::EACCES),
        ("a state of clocks", CtxIn { op: 6, ctx_id: context, flags: 5, ..Default::default() }, inval),
    ] {
        let mut args = args;
        assert_eq!(file.call(CTX, &mut args), Err(errno), "{what}");
    }
    let mut state = CtxIn { op: 6, ctx_id: context, flags: 4, ..Default::default() };
    file.call(CTX, &mut state).unwrap();
    state = CtxIn { op: 5, ctx_id: context, ..Default::default() };
    file.call(CTX, &mut state).unwrap();
    assert_eq!(state.op, 4);
    for (op, flags, answer) in [(1, 0, Ok(0)), (2, 0, Ok(0)), (3, 0, Err(inval)), (1, 1, Err(inval))] {
        assert_eq!(file.call(VM, &mut VmIn { op, flags }), answer, "VM {op} {flags}");
    }
    assert_eq!(file.submit(&good), Ok(1), "none of these was taken");
    assert_eq!(file.wait(1, AMDGPU_HW_IP_COMPUTE), Ok(0));
    assert_eq!(page.words[0].load(Ordering::Acquire), 1);
}
