//! Frames there and back, and frames that are none.

use super::*;

fn round_trip<F: Frame + PartialEq + std::fmt::Debug>(messages: &[F]) {
    let mut bytes = Vec::new();
    for message in messages {
        send(&mut bytes, message).unwrap();
    }
    let mut stream = bytes.as_slice();
    for message in messages {
        assert_eq!(receive::<F>(&mut stream).unwrap().as_ref(), Some(message));
    }
    assert!(receive::<F>(&mut stream).unwrap().is_none());
    for message in messages {
        let (kind, payload) = message.encode();
        for length in 0..payload.len() {
            assert!(F::decode(kind, &payload[..length]).is_err(), "{message:?} cut to {length}");
        }
        let longer = [payload.as_slice(), &[0]].concat();
        assert!(F::decode(kind, &longer).is_err(), "{message:?} with a byte too many");
    }
}

#[test]
fn requests_round_trip_and_refuse_other_lengths() {
    round_trip(&[
        Request::PutFile { path: "/a/ü".into(), mode: 0o755, append: true, data: vec![0, 255] },
        Request::Run {
            id: 7,
            argv: vec!["/bin/x".into(), String::new()],
            env: vec!["A=b".into()],
            directory: "/".into(),
            terminal: None,
        },
        Request::Run {
            id: 8,
            argv: vec!["sh".into()],
            env: Vec::new(),
            directory: "/".into(),
            terminal: Some((24, 300)),
        },
        Request::Kill { id: 1, signal: 9 },
        Request::GetFile { path: "/b".into() },
        Request::LoadModules { paths: vec!["/m.ko".into()] },
        Request::UnloadModule { name: "amdgpu".into() },
        Request::PowerOff,
        Request::KernelLog,
        Request::TraceDriver { records: 1 << 17 },
        Request::EnterRoot { serial: "belfry-0".into() },
        Request::EnterSystem { serial: "belfry-1".into() },
        Request::MountShare { tag: "belfry-0".into(), path: "/a/b".into(), read_only: true },
        Request::Network(Network {
            address: [10, 0, 2, 15],
            mask: [255, 255, 255, 0],
            gateway: [10, 0, 2, 2],
            resolver: [10, 0, 2, 3],
        }),
    ]);
}

#[test]
fn events_round_trip_and_refuse_other_lengths() {
    round_trip(&[
        Event::Hello { version: VERSION, init_ns: 2_000_000_000, kernel: "6.12".into() },
        Event::Done { elapsed_ns: 1 },
        Event::Failed { text: "no".into(), errno: 2 },
        Event::Output { id: 1, stream: 2, data: b"text\n".to_vec() },
        Event::Exit { id: 1, status: -1, elapsed_ns: 9 },
        Event::File { last: true, data: vec![] },
        Event::DriverTrace { data: vec![1, 2, 3] },
    ]);
}

#[test]
fn bad_streams_are_errors() {
    let cases: [&[u8]; 5] = [
        &[65],
        &[65, 0xff, 0xff, 0xff, 0xff],
        &[200, 0, 0, 0, 0],
        &[66, 8, 0, 0, 0, 1],
        &[66, 4, 0, 0, 0, 1, 1, 1, 1],
    ];
    for case in cases {
        assert!(receive::<Event>(&mut &case[..]).is_err(), "{case:?}");
    }
    let lying_count = [5u8, 4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff];
    assert!(receive::<Request>(&mut &lying_count[..]).is_err());
}
