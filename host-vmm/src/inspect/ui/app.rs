//! The state of the inspector: known answers, and the order of questions.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::fields::{field, is, items, plain, word};
use super::link::Reply;
use super::pages::{PageName, Pages};
use super::prompt::Prompt;

/// Time between two looks at a page.
const PERIOD: Duration = Duration::from_millis(250);
/// Time without an answer after which the user is told.
const SLOW: Duration = Duration::from_secs(2);
/// Largest number of commands that wait for their turn.
const MOST_COMMANDS: usize = 8;

/// Reason, in words for the user, why a question has no answer, or why a page cannot go to a place.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Refusal(pub(super) String);

/// The latest answers by their questions.
#[derive(Debug, Default)]
pub(super) struct Replies(BTreeMap<String, Result<Value, Refusal>>);

impl Replies {
    /// Returns the answer to a question; `null` if there is none.
    pub(super) fn of(&self, question: &str) -> &Value {
        self.0.get(question).and_then(|reply| reply.as_ref().ok()).unwrap_or(&Value::Null)
    }

    /// Returns the reason of a question that has no answer.
    pub(super) fn refusal(&self, question: &str) -> Option<&str> {
        self.0.get(question)?.as_ref().err().map(|refusal| refusal.0.as_str())
    }

    /// Returns true if a reply to the question has come.
    pub(super) fn has(&self, question: &str) -> bool {
        self.0.contains_key(question)
    }

    /// Lists the places of breakpoints for waves, as texts.
    pub(super) fn breaks(&self) -> impl Iterator<Item = String> + '_ {
        items(&self.of("status")["breakpoints"]).map(|one| word(&one[1]))
    }
}

/// Message to the user.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Notice {
    pub(super) text: String,
    /// True for an error.
    pub(super) wrong: bool,
}

/// The state of the user interface.
#[derive(Debug)]
pub(super) struct App {
    pub(super) pid: u32,
    pub(super) pages: Pages,
    pub(super) page: PageName,
    pub(super) replies: Replies,
    pub(super) notice: Option<Notice>,
    pub(super) prompt: Option<Prompt>,
    pub(super) help: bool,
    /// Reason for having no more answers.
    pub(super) over: Option<String>,
    pub(super) quit: bool,
    /// The question under way, and the time at which it was asked.
    asked: Option<(String, Instant)>,
    /// True if that question is a command.
    command: bool,
    commands: VecDeque<String>,
    /// Questions that remain in this look at the page.
    round: VecDeque<String>,
    looked: Option<Instant>,
    /// Wave and place at which the device was last seen halted.
    halted_at: Option<(String, String)>,
}

impl App {
    pub(super) fn new(pid: u32) -> Self {
        Self {
            pid,
            pages: Pages::default(),
            page: PageName::Overview,
            replies: Replies::default(),
            notice: None,
            prompt: None,
            help: false,
            over: None,
            quit: false,
            asked: None,
            command: false,
            commands: VecDeque::new(),
            round: VecDeque::new(),
            looked: None,
            halted_at: None,
        }
    }

    /// Returns true if the user has quit.
    pub(super) fn has_quit(&self) -> bool {
        self.quit
    }

    /// Returns the time by which an answer is overdue.
    pub(super) fn silent(&self, now: Instant) -> Option<Duration> {
        let (_, since) = self.asked.as_ref()?;
        Some(now.saturating_duration_since(*since)).filter(|silent| *silent >= SLOW && self.over.is_none())
    }

    /// Queues a command, which is sent as soon as the question under way is answered.
    pub(super) fn command(&mut self, command: String) {
        if self.over.is_some() {
            self.wrong("the process has ended");
        } else if self.commands.len() >= MOST_COMMANDS {
            self.wrong("no answer yet: not asked for");
        } else {
            self.commands.push_back(command);
        }
    }

    pub(super) fn say(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), wrong: false });
    }

    pub(super) fn wrong(&mut self, text: impl Into<String>) {
        self.notice = Some(Notice { text: text.into(), wrong: true });
    }

    /// Shows another page.
    pub(super) fn show(&mut self, page: PageName) {
        self.page = page;
        self.look_again();
    }

    /// Asks for the page at once.
    pub(super) fn look_again(&mut self) {
        self.round.clear();
        self.looked = None;
    }

    /// Returns the question to ask now, if there is one.
    pub(super) fn next_question(&mut self, now: Instant) -> Option<String> {
        if self.asked.is_some() || self.over.is_some() {
            return None;
        }
        let command = self.commands.pop_front();
        self.command = command.is_some();
        if command.is_none()
            && self.round.is_empty()
            && self.looked.is_none_or(|looked| now.saturating_duration_since(looked) >= PERIOD)
        {
            self.looked = Some(now);
            self.round.push_back("status".to_owned());
            self.round.extend(self.pages.at(self.page).questions(&self.replies));
            let wanted: Vec<String> = PageName::ALL
                .iter()
                .flat_map(|page| self.pages.at(*page).questions(&self.replies))
                .chain(["status".to_owned()])
                .collect();
            self.replies.0.retain(|question, _| wanted.contains(question));
        }
        let question = command.or_else(|| self.round.pop_front())?;
        self.asked = Some((question.clone(), now));
        Some(question)
    }

    /// Asks all questions that are due, one after the other.
    pub(super) fn ask_all<E>(
        &mut self,
        now: Instant,
        mut ask: impl FnMut(&str) -> Result<Reply, E>,
    ) -> Result<(), E> {
        while let Some(question) = self.next_question(now) {
            self.take(&question, ask(&question)?, now);
        }
        Ok(())
    }

    /// Takes the reply to a question.
    pub(super) fn take(&mut self, question: &str, reply: Reply, now: Instant) {
        let late = self.silent(now).is_some() && !self.commands.is_empty();
        self.asked = None;
        if late {
            // The user typed these commands for the older picture.
            self.commands.clear();
            self.wrong("the answer came late: what was typed meanwhile is not done");
        }
        let reply = match reply {
            Reply::Answer(answer) => Ok(answer),
            Reply::Refused(why) => Err(Refusal(plain(&why))),
            Reply::Over(why) => {
                self.over = Some(why);
                return;
            }
        };
        if std::mem::take(&mut self.command) {
            match &reply {
                Ok(answer) => self.say(told(question, answer)),
                Err(why) => self.wrong(why.to_string()),
            }
            self.look_again();
            return;
        }
        if question == "status" {
            self.notice_halt(reply.as_ref().unwrap_or(&Value::Null));
        }
        self.pages.at_mut(self.page).take(question, &reply);
        self.replies.0.insert(question.to_owned(), reply);
    }

    /// Selects the wave that has met a breakpoint.
    fn notice_halt(&mut self, status: &Value) {
        let at = is(status, "halted").then(|| (field(status, "why"), field(status, "wave")));
        if at != self.halted_at {
            self.halted_at = at;
            if let Some(wave) = status["wave"].as_str() {
                self.pages.waves.choose(&plain(wave));
            }
        }
    }
}

/// Describes the answer to a command in words.
fn told(command: &str, answer: &Value) -> String {
    match command.split(' ').next().unwrap_or_default() {
        "pause" => format!("halted: {}", field(answer, "why")),
        "continue" if is(answer, "was_halted") => "goes on".to_owned(),
        "continue" => "was not halted".to_owned(),
        "break" => format!("breakpoint {} is set", field(answer, "breakpoint")),
        "unbreak" if is(answer, "removed") => "removed".to_owned(),
        "unbreak" => "there is no such breakpoint".to_owned(),
        _ if answer.is_null() => "the wave has ended".to_owned(),
        _ => {
            format!("at {} {}: {}", field(answer, "pc"), field(answer, "instruction"), field(answer, "waits"))
        }
    }
}
