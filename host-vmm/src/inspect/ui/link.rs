//! The connection, on a thread that may wait as long as the inspected process makes it.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use serde_json::Value;

use crate::inspect::{Client, InspectError};

/// Result of a question.
#[derive(Debug)]
pub(super) enum Reply {
    /// Its answer.
    Answer(Value),
    /// Refused; the text says why.
    Refused(String),
    /// The connection is over; the text says why.
    Over(String),
}

/// The thread that asks. It ends when this is dropped, even while it waits.
#[derive(Debug)]
pub(super) struct Link {
    questions: Option<Sender<String>>,
    replies: Receiver<(String, Reply)>,
    twin: UnixStream,
    thread: Option<JoinHandle<()>>,
}

impl Link {
    pub(super) fn start(mut client: Client) -> Result<Self, InspectError> {
        let twin = client.twin().map_err(InspectError::Thread)?;
        let (questions, asked) = channel::<String>();
        let (told, replies) = channel();
        let asks = move || {
            for question in asked {
                let reply = match client.ask(&question) {
                    Ok(answer) => Reply::Answer(answer),
                    Err(InspectError::Refused(why)) => Reply::Refused(why),
                    Err(error) => Reply::Over(error.to_string()),
                };
                let over = matches!(reply, Reply::Over(_));
                if told.send((question, reply)).is_err() || over {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("inspect-asks".into());
        let thread = Some(thread.spawn(asks).map_err(InspectError::Thread)?);
        Ok(Self { questions: Some(questions), replies, twin, thread })
    }

    /// Asks a question.
    pub(super) fn ask(&self, question: String) {
        if let Some(questions) = &self.questions {
            // If the thread has ended, its last reply has said so.
            let _ = questions.send(question);
        }
    }

    /// Returns a reply that has come.
    pub(super) fn reply(&self) -> Option<(String, Reply)> {
        self.replies.try_recv().ok()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.questions = None;
        let _ = self.twin.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader, Write as _};
    use std::os::unix::net::UnixListener;
    use std::time::{Duration, Instant};

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    fn pair() -> (Link, UnixStream) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        let link = Link::start(Client::at(&path).unwrap()).unwrap();
        (link, listener.accept().unwrap().0)
    }

    fn reply(link: &Link) -> Reply {
        let begun = Instant::now();
        loop {
            if let Some((_, reply)) = link.reply() {
                return reply;
            }
            assert!(begun.elapsed() < PATIENCE);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn replies_come_and_the_end_is_told() {
        let (link, mut server) = pair();
        link.ask("waves".to_owned());
        let mut asked = String::new();
        BufReader::new(&server).read_line(&mut asked).unwrap();
        assert_eq!(asked, "{\"query\":\"waves\"}\n");
        server.write_all(b"{\"answer\": 3}\n{\"error\": \"no\"}\n").unwrap();
        assert!(matches!(reply(&link), Reply::Answer(answer) if answer == 3));
        link.ask("more".to_owned());
        assert!(matches!(reply(&link), Reply::Refused(why) if why == "no"));
        drop(server);
        link.ask("gone".to_owned());
        assert!(matches!(reply(&link), Reply::Over(why) if why.contains("has ended")));
        link.ask("nobody".to_owned());
        assert!(link.reply().is_none());
    }

    #[test]
    fn foreign_answers_end_it_and_a_stalled_server_does_not_hold_it() {
        for foreign in [&b"\xff\xfe\n"[..], b"[]\n", b"{\"answer\"", b"{}\n", &[b'['; 4096]] {
            let (link, mut server) = pair();
            link.ask("waves".to_owned());
            BufReader::new(&server).read_line(&mut String::new()).unwrap();
            server.write_all(foreign).unwrap();
            drop(server);
            assert!(matches!(reply(&link), Reply::Over(why) if why.contains("this version")));
        }
        let (link, server) = pair();
        link.ask("waves".to_owned());
        assert!(link.reply().is_none());
        // Its thread waits for an answer; the drop joins it all the same.
        drop(link);
        drop(server);
    }
}
