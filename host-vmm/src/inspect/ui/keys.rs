//! Keys, and their effects.

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::app::App;
use super::pages::PageName;
use super::prompt::{Prompt, Purpose, Typed};

/// All keys.
pub(super) const HELP: &str = "\
1 .. 9      the pages: overview, queues, waves, page
            tables, registers, interrupts, doorbells,
            memory, kernels
Tab, S-Tab  next page, the one before
Up, Down, PgUp, PgDn, Home, End
            select, scroll
Enter, Esc  into the details, back to the list
Left, Right another block, kind or part of the details
g           go to: an address, a wave, a register
b           add a breakpoint
d           remove a breakpoint, or all
p           pause: halt the device
c           continue
s, S        step the selected wave by one
            instruction, by 16
n           run its workgroup to the next barrier
?           this list
q, Ctrl-C   quit";

const BREAK: &str = "break at pc ADDRESS | kernel NAME | packet KIND | register NAME | fault: ";

impl App {
    /// Carries out a key.
    pub(super) fn key(&mut self, key: KeyEvent) {
        self.notice = None;
        if let Some(prompt) = &mut self.prompt {
            let purpose = prompt.purpose;
            match prompt.key(key) {
                Typed::More => return,
                Typed::Nothing => {}
                Typed::Line(line) => self.typed(purpose, &line),
            }
            self.prompt = None;
            return;
        }
        if key.code == KeyCode::Char('q')
            || key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL)
        {
            self.quit = true;
        } else if self.help {
            self.help = false;
        } else {
            self.act(key.code);
        }
    }

    fn act(&mut self, key: KeyCode) {
        match key {
            KeyCode::Char('?') => self.help = true,
            KeyCode::Char(digit @ '1'..='9') => {
                self.show(PageName::ALL[usize::from(digit as u8 - b'1')]);
            }
            KeyCode::Tab => self.show(self.page.beside(1)),
            KeyCode::BackTab => self.show(self.page.beside(PageName::ALL.len() - 1)),
            KeyCode::Char('p') => self.command("pause".to_owned()),
            KeyCode::Char('c') => self.command("continue".to_owned()),
            KeyCode::Char('s') => self.on_wave("step", ""),
            KeyCode::Char('S') => self.on_wave("step", " 16"),
            KeyCode::Char('n') => self.on_wave("barrier", ""),
            KeyCode::Char('b') => {
                let text = self.pages.at(self.page).breakpoint(&self.replies).unwrap_or_default();
                self.prompt = Some(Prompt { purpose: Purpose::Break, label: BREAK, text });
            }
            KeyCode::Char('d') => {
                let label = "remove the breakpoint of number, or all: ";
                self.prompt = Some(Prompt { purpose: Purpose::Unbreak, label, text: String::new() });
            }
            KeyCode::Char('g') => match self.pages.at(self.page).place() {
                Some((label, text)) => {
                    self.prompt = Some(Prompt { purpose: Purpose::Place, label, text });
                }
                None => self.wrong("this page has no places to go to"),
            },
            key => {
                let before = self.pages.at(self.page).questions(&self.replies);
                self.pages.at_mut(self.page).key(key, &self.replies);
                if before != self.pages.at(self.page).questions(&self.replies) {
                    self.look_again();
                }
            }
        }
    }

    fn on_wave(&mut self, what: &str, more: &str) {
        match self.pages.waves.current() {
            Some(wave) => self.command(format!("{what} {wave}{more}")),
            None => self.wrong("no wave is selected: page 3 has them"),
        }
    }

    fn typed(&mut self, purpose: Purpose, line: &str) {
        match purpose {
            Purpose::Break if !line.is_empty() => self.command(format!("break {line}")),
            Purpose::Unbreak if !line.is_empty() => self.command(format!("unbreak {line}")),
            Purpose::Break | Purpose::Unbreak => {}
            Purpose::Place => match self.pages.at_mut(self.page).go(line) {
                Ok(()) => self.look_again(),
                Err(why) => self.wrong(why.to_string()),
            },
        }
    }
}
