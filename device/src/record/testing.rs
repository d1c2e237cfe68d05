//! Records in memory, for tests.

use std::io::{self, Cursor, Write};
use std::sync::{Arc, Mutex, PoisonError};

use super::file::{Reader, Writer};
use super::{Entry, RecordError, Recording};

/// A file in memory.
#[derive(Clone, Default)]
pub(crate) struct File(Arc<Mutex<Vec<u8>>>);

impl File {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Write for File {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(data)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The head and all entries of a record, to its end.
pub(crate) fn entries(record: &[u8]) -> (Vec<u8>, Vec<Entry>) {
    let (mut reader, head) = Reader::open(Box::new(Cursor::new(record.to_vec()))).expect("a record");
    let mut entries = Vec::new();
    loop {
        match reader.next() {
            Ok(entry) => entries.push(entry),
            Err(RecordError::Short { .. }) => return (head, entries),
            Err(error) => panic!("{error}"),
        }
    }
}

/// A record of this head and these entries.
pub(crate) fn record_of(head: &[u8], entries: &[Entry]) -> Vec<u8> {
    let file = File::default();
    let mut writer = Writer::new(Box::new(file.clone()));
    writer.begin(head).expect("memory");
    entries.iter().for_each(|entry| writer.put(entry).expect("memory"));
    writer.flush().expect("memory");
    file.bytes()
}

/// A record that has begun, and the file that it goes to.
pub(crate) fn begun() -> (Recording, File) {
    let file = File::default();
    let recording = Recording::new(file.clone());
    assert_eq!(recording.journal().begin(&[]), Some(0));
    (recording, file)
}
