use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use tempfile::TempDir;

use super::*;

fn key(number: u8) -> CodeKey {
    CodeKey([number; 32])
}

/// Messages to the user, in their order.
type Said = Arc<Mutex<Vec<String>>>;

fn folder(path: &Path) -> (Folder, Said) {
    let said = Said::default();
    let to = Arc::clone(&said);
    let folder = Folder::open(path, move |text| to.lock().unwrap().push(text.to_string())).unwrap();
    (folder, said)
}

fn temporary() -> TempDir {
    tempfile::tempdir().unwrap()
}

fn names(path: &Path) -> Vec<String> {
    let names = fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn code_is_found_by_another_process_under_its_key_alone() {
    let place = temporary();
    let path = place.path().join("not/yet");
    let (first, _) = folder(&path);
    assert_eq!(first.find(&key(1)), Found::Nothing);
    assert!(first.keep(&key(1), b"code") && first.keep(&key(2), b"other code"));
    let (second, said) = folder(&path);
    assert_eq!(second.find(&key(1)), Found::Code(b"code".to_vec()));
    assert_eq!(second.find(&key(2)), Found::Code(b"other code".to_vec()));
    assert_eq!(second.find(&key(3)), Found::Nothing);
    assert!(second.keep(&key(1), b"newer"), "what is there is replaced");
    assert_eq!(first.find(&key(1)), Found::Code(b"newer".to_vec()));
    // Only this user reads or writes any of it.
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!((mode(&path), mode(&first.file(&key(1)))), (0o700, 0o600));
    assert_eq!(names(&path).len(), 2, "nothing else is left");
    assert!(said.lock().unwrap().is_empty());
}

#[test]
fn folders_that_others_write_to_are_refused() {
    let place = temporary();
    for mode in [0o720, 0o702, 0o777] {
        set_mode(place.path(), mode);
        let error = Folder::open(place.path(), |_| {}).unwrap_err();
        assert!(matches!(error, FolderError::Mode { mode: is, .. } if is == mode), "{error}");
    }
    set_mode(place.path(), 0o755);
    Folder::open(place.path(), |_| {}).expect("others may read it");
    let file = place.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Folder::open(&file, |_| {}).unwrap_err();
    assert!(matches!(error, FolderError::Io { .. } | FolderError::Kind(..)), "{error}");
    assert!(fs::exists(&file).unwrap());
}

#[test]
fn folders_and_files_of_somebody_else_are_refused() {
    if user() != 0 {
        // A user that cannot give files away takes a folder of root here.
        let error = Folder::open("/usr", |_| {}).unwrap_err();
        assert!(matches!(error, FolderError::Owner(_)), "{error}");
        return;
    }
    let place = temporary();
    let (kept, said) = folder(place.path());
    assert!(kept.keep(&key(1), b"code"));
    chown(kept.file(&key(1)), Some(65534), None).unwrap();
    assert_eq!(kept.find(&key(1)), Found::Refused);
    assert!(fs::exists(kept.file(&key(1))).unwrap(), "it is not this user's to remove");
    assert!(said.lock().unwrap()[0].contains("belongs to somebody else"), "{said:?}");
    assert!(kept.keep(&key(1), b"code"), "its place is");
    assert_eq!(kept.find(&key(1)), Found::Code(b"code".to_vec()));
    chown(place.path(), Some(65534), None).unwrap();
    assert!(matches!(Folder::open(place.path(), |_| {}), Err(FolderError::Owner(_))));
}

#[test]
fn files_that_others_write_to_are_refused_and_removed() {
    let place = temporary();
    let (kept, said) = folder(place.path());
    for (number, mode) in [(1, 0o620), (2, 0o602), (3, 0o666)] {
        assert!(kept.keep(&key(number), b"code"));
        set_mode(&kept.file(&key(number)), mode);
        assert_eq!(kept.find(&key(number)), Found::Refused, "{mode:o}");
        assert_eq!(kept.find(&key(number)), Found::Nothing, "{mode:o}");
    }
    let said = said.lock().unwrap();
    assert!(said.len() == 1 && said[0].contains("mode is 620"), "once: {said:?}");
}

#[test]
fn what_is_no_file_is_refused() {
    let place = temporary();
    let (kept, _) = folder(place.path());
    let target = place.path().join("target");
    fs::write(&target, "code").unwrap();
    symlink(&target, kept.file(&key(1))).unwrap();
    // No process ever writes to it.
    let pipe = kept.file(&key(2));
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    fs::create_dir(kept.file(&key(3))).unwrap();
    for number in 1..=3 {
        assert_eq!(kept.find(&key(number)), Found::Refused, "{number}");
    }
    assert_eq!(fs::read(&target).unwrap(), b"code", "what a link leads to is left alone");
    assert_eq!(names(place.path()), [format!("{}.code", key(3)), "target".into()]);
    // A folder in the place of a file: nothing is kept any more, and the user is told.
    assert!(!kept.keep(&key(3), b"code") && !kept.keep(&key(4), b"code"));
    assert_eq!(names(place.path()).len(), 2, "what could not be finished is gone");
}

#[test]
fn what_the_engine_refuses_is_removed_and_said_once() {
    let place = temporary();
    let (kept, said) = folder(place.path());
    for number in [1, 2] {
        assert!(kept.keep(&key(number), b"code"));
        kept.discard(&key(number), &io::Error::other("it is no code"));
        assert_eq!(kept.find(&key(number)), Found::Nothing);
    }
    let said = said.lock().unwrap();
    assert!(said.len() == 1 && said[0].ends_with("code: it is no code"), "{said:?}");
}

#[test]
fn runs_go_on_where_nothing_can_be_written() {
    let place = temporary();
    let path = place.path().join("folder");
    let (kept, said) = folder(&path);
    fs::remove_dir(&path).unwrap();
    assert!(!kept.keep(&key(1), b"code") && !kept.keep(&key(2), b"code"));
    assert_eq!(kept.find(&key(1)), Found::Nothing);
    let said = said.lock().unwrap();
    assert!(said.len() == 1 && said[0].starts_with("no more code is kept"), "{said:?}");
}

#[test]
fn folder_over_its_limit_loses_its_oldest_files() {
    let place = temporary();
    let (kept, said) = folder(place.path());
    let kept = kept.with_limit(16 << 10);
    fs::write(place.path().join("notes.txt"), [0; 64 << 10]).unwrap();
    let age = |path: &Path, seconds| {
        let file = OpenOptions::new().write(true).open(path).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
    };
    let (stale, recent) = (place.path().join("0123.part"), place.path().join("4567.part"));
    for (path, seconds) in [(&stale, 7200), (&recent, 60)] {
        fs::write(path, "half").unwrap();
        age(path, seconds);
    }
    for number in 0..40 {
        assert!(kept.keep(&key(number), &[number; 1 << 10]));
        age(&kept.file(&key(number)), 3600 - u64::from(number));
        let bytes = names(place.path()).iter().filter(|name| name.ends_with(".code")).count() << 10;
        assert!(bytes <= 17 << 10, "{bytes} bytes with file {number}");
    }
    assert_eq!(kept.find(&key(39)), Found::Code(vec![39; 1 << 10]), "the newest is there");
    assert_eq!(kept.find(&key(30)), Found::Code(vec![30; 1 << 10]));
    assert_eq!(kept.find(&key(0)), Found::Nothing, "the oldest is not");
    assert!(!kept.keep(&key(50), &[0; 5 << 10]), "one file is not to take the place of all");
    assert!(!stale.exists() && recent.exists());
    assert!(place.path().join("notes.txt").exists(), "what is not of the folder stays");
    assert!(said.lock().unwrap().is_empty());
}

#[test]
fn several_writers_and_readers_see_whole_files_alone() {
    let place = temporary();
    let code = |number: u8, writer: u8| vec![number ^ writer; 3000 + usize::from(writer) * 1000];
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = place.path();
            scope.spawn(move || {
                // Each as a process of its own has it, with little room.
                let (kept, said) = folder(path);
                let kept = kept.with_limit(64 << 10);
                for round in 0..200_u32 {
                    let number = (round % 16) as u8;
                    kept.keep(&key(number), &code(number, writer));
                    match kept.find(&key(number)) {
                        Found::Code(found) => {
                            assert!((0..4).any(|writer| found == code(number, writer)), "{number}");
                        }
                        // Another one has made room.
                        Found::Nothing => {}
                        Found::Refused => panic!("{said:?}"),
                    }
                }
                assert!(said.lock().unwrap().is_empty(), "{said:?}");
            });
        }
    });
    assert!(names(place.path()).iter().all(|name| name.ends_with(".code")), "nothing is unfinished");
}

#[test]
fn who_has_no_folder_is_told_so_and_keeps_nothing() {
    let place = temporary();
    let said = Said::default();
    let to = Arc::clone(&said);
    let tell = move |text: fmt::Arguments<'_>| to.lock().unwrap().push(text.to_string());
    assert!(keep_in(&place.path().join("folder"), tell.clone()).is_some());
    assert!(said.lock().unwrap().is_empty());
    set_mode(place.path(), 0o777);
    assert!(keep_in(place.path(), tell).is_none());
    let said = said.lock().unwrap();
    assert!(said.len() == 1 && said[0].starts_with("no code is kept: "), "{said:?}");
}
