//! The pages over a running device's answers, and over answers that mean harm.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use belfry_device::GpuConfig;
use belfry_kfd_hosted::HostedGpu;
use belfry_runtime::{Completion, Queue, Runtime};
use belfry_runtime_hosted::HostedTransport;
use belfry_tools::inspect::Inspect as _;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::app::App;
use super::draw;
use super::link::Reply;
use super::pages::PageName;
use crate::inspect::answer;

const PATIENCE: Duration = Duration::from_secs(120);
const SIZES: [(u16, u16); 3] = [(20, 10), (80, 24), (200, 50)];

/// A hosted GPU that runs a kernel without an end.
struct Running {
    queue: Queue,
    completion: Completion,
    gpu: Arc<HostedGpu>,
    _runtime: Runtime,
}

impl Running {
    fn start() -> Self {
        let gpu = HostedGpu::new(GpuConfig::default()).unwrap();
        let runtime = Runtime::with_transport(HostedTransport::open(&gpu).unwrap()).unwrap();
        let (queue, completion) = {
            let gpu = runtime.gpu();
            let beats = gpu.gtt().buffer_from(&[0_u32]).unwrap();
            let code = belfry_examples::kernels::ENDLESS.on(gpu).unwrap();
            let kernel = gpu.load(code).unwrap().kernel("endless").unwrap();
            let queue = gpu.queue().unwrap();
            let completion = kernel.launch(&queue).grid(128).block(64).arg(&beats).submit().unwrap();
            let begun = Instant::now();
            while beats.get(0).unwrap() == 0 {
                assert!(begun.elapsed() < PATIENCE, "the kernel did not begin");
                std::thread::sleep(Duration::from_millis(1));
            }
            (queue, completion)
        };
        Self { queue, completion, gpu, _runtime: runtime }
    }

    fn ask(&self, question: &str) -> Result<Value, String> {
        answer(self.gpu.device(), question).map_err(|error| error.to_string())
    }

    fn end(self) {
        self.gpu.device().inspect().clear_breaks();
        self.gpu.device().inspect().proceed();
        self.queue.destroy().unwrap();
        assert!(self.completion.wait().is_err(), "it has ended by itself");
    }
}

/// The user interface, with a clock of its own.
struct Seat {
    app: App,
    now: Instant,
}

impl Seat {
    fn new() -> Self {
        Self { app: App::new(4711), now: Instant::now() }
    }

    fn press(&mut self, code: KeyCode) {
        self.app.key(KeyEvent::new(code, KeyModifiers::NONE));
    }

    fn type_in(&mut self, text: &str) {
        text.chars().for_each(|character| self.press(KeyCode::Char(character)));
        self.press(KeyCode::Enter);
    }

    /// Asks all questions that are due in some looks, and draws after each.
    fn look(
        &mut self,
        (width, height): (u16, u16),
        mut ask: impl FnMut(&str) -> Result<Value, String>,
    ) -> String {
        for _ in 0..3 {
            let reply =
                |question: &str| Ok::<_, ()>(ask(question).map_or_else(Reply::Refused, Reply::Answer));
            self.app.ask_all(self.now, reply).unwrap();
            self.picture((width, height));
            self.now += Duration::from_secs(1);
        }
        self.picture((width, height))
    }

    fn picture(&mut self, (width, height): (u16, u16)) -> String {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        let draw = |frame: &mut ratatui::Frame<'_>| {
            let area = frame.area();
            draw::draw(&mut self.app, self.now, frame.buffer_mut(), area);
        };
        terminal.draw(draw).unwrap();
        let buffer = terminal.backend().buffer();
        let row = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| row(y).trim_end().to_owned() + "\n").collect()
    }
}

/// Returns the text to type to go somewhere on a page, and the texts that the page then shows at 80x24.
fn expected(page: PageName, place: &Place) -> (Option<String>, Vec<String>) {
    let Place { pasid, object, memory } = place;
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
    match page {
        PageName::Overview => (None, texts(&["gfx1100  ", "wave instructions", "per second", "aql"])),
        PageName::Queues => {
            (None, texts(&["aql", "MQD 0x", "ring 0x", "mapped", "packets that are not retired"]))
        }
        PageName::Waves => {
            (None, texts(&["dispatch 0 endless: grid 128x1x1", "0:0,0,0:0 endless 0x", "> 0x", "s_"]))
        }
        PageName::Tables => (Some(format!("{pasid} {object}")), texts(&[object, "PTB", memory, "page at"])),
        PageName::Registers => (None, texts(&[" * OSSSYS IH_RB_CNTL ", "in BAR5", "< changed >"])),
        PageName::Interrupts => (None, texts(&["ring 0 on", "wptr"])),
        PageName::Doorbells => {
            (None, texts(&["doorbell", "process busy".split(' ').next().unwrap(), "kernel"]))
        }
        PageName::Memory => (
            Some(format!("{pasid} {object} 64 descriptors")),
            texts(&[object, "kernel_code_properties", "entry 0x"]),
        ),
        PageName::Kernels => (None, texts(&["endless of PASID", "descriptor at", "compute_pgm_rsrc1"])),
    }
}

/// Process and addresses of the kernel.
struct Place {
    pasid: u64,
    object: String,
    memory: String,
}

impl Place {
    fn of(running: &Running) -> Self {
        let queues = running.ask("queues").unwrap();
        let mine = queues.as_array().unwrap().iter().find(|queue| queue["packets"] == "aql").unwrap();
        let queue = running.ask(&format!("queue {}", mine["doorbell"])).unwrap();
        let object = queue["next"][0]["fields"]["kernel_object"].as_str().unwrap().to_owned();
        let pasid = mine["pasid"].as_u64().unwrap();
        let walk = running.ask(&format!("walk {pasid} {object}")).unwrap();
        Self { pasid, object, memory: walk["memory"].as_str().unwrap().to_owned() }
    }
}

#[test]
fn each_page_shows_a_running_kernel_at_each_size() {
    let running = Running::start();
    let place = Place::of(&running);
    for size in SIZES {
        let mut seat = Seat::new();
        for (page, key) in PageName::ALL.into_iter().zip('1'..) {
            seat.press(KeyCode::Char(key));
            let (go, texts) = expected(page, &place);
            if let Some(go) = go {
                seat.press(KeyCode::Char('g'));
                seat.type_in(&go);
            }
            let shown = seat.look(size, |question| running.ask(question));
            assert!(
                shown.contains("runs: process 4711") && shown.contains(page.short()),
                "{size:?} {page:?}:\n{shown}"
            );
            assert!(shown.lines().filter(|line| !line.is_empty()).count() > 3, "{size:?} {page:?}:\n{shown}");
            for text in texts.iter().filter(|_| size.0 >= 80) {
                assert!(shown.contains(text), "{size:?} {page:?} has no {text:?}:\n{shown}");
            }
            // The details alone, and each part of them.
            seat.press(KeyCode::Enter);
            for key in [
                KeyCode::Down,
                KeyCode::Right,
                KeyCode::PageDown,
                KeyCode::Right,
                KeyCode::End,
                KeyCode::Right,
            ] {
                seat.press(key);
                seat.look(size, |question| running.ask(question));
            }
            seat.press(KeyCode::Esc);
            seat.look(size, |question| running.ask(question));
            assert!(seat.app.notice.is_none(), "{size:?} {page:?}: {:?}", seat.app.notice);
        }
    }
    running.end();
}

#[test]
fn wave_is_stopped_at_its_branch_looked_at_stepped_and_let_go_by_keys() {
    let running = Running::start();
    let size = (80, 24);
    let ask = |question: &str| running.ask(question);
    let mut seat = Seat::new();
    seat.press(KeyCode::Char('3'));
    seat.look(size, ask);
    let wave = seat.app.pages.waves.current().unwrap().to_owned();
    let code = running.ask(&format!("wave {wave}")).unwrap()["code"].clone();
    let back = |line: &&Value| {
        line["target"].as_str().is_some_and(|target| target <= line["address"].as_str().unwrap())
    };
    let branch = code.as_array().unwrap().iter().find(back).unwrap()["address"].as_str().unwrap().to_owned();

    seat.press(KeyCode::Char('b'));
    let offered = seat.app.prompt.as_ref().unwrap().text.clone();
    assert!(offered.starts_with("pc 0x"), "{offered:?}");
    (0..offered.len()).for_each(|_| seat.press(KeyCode::Backspace));
    seat.type_in(&format!("pc {branch}"));
    seat.look(size, ask);
    assert_eq!(running.ask("wait 60").unwrap()["halted"], true);
    let shown = seat.look(size, ask);
    assert!(shown.contains(&format!("HALTED at breakpoint 1: pc {branch}, wave ")), "{shown}");
    assert!(shown.contains(&format!("*> {branch} s_")), "{shown}");
    let stopped = running.ask("status").unwrap()["wave"].as_str().unwrap().to_owned();
    assert_eq!(seat.app.pages.waves.current(), Some(&*stopped));

    seat.press(KeyCode::Char('g'));
    seat.type_in("v0 3");
    let shown = seat.look(size, ask);
    let value =
        running.ask(&format!("wave {stopped} v0 3")).unwrap()["vgprs"][0][1][0].as_str().unwrap().to_owned();
    assert!(shown.contains(&format!("v0 lane 3 = {value}")), "{shown}");
    let lanes = shown.lines().find(|line| line.starts_with("v0    0 ")).unwrap();
    let lane = lanes.split_whitespace().nth(2 + 3).unwrap();
    assert_eq!(u64::from_str_radix(lane, 16).ok(), u64::from_str_radix(&value[2..], 16).ok(), "{shown}");

    seat.press(KeyCode::Left);
    seat.press(KeyCode::Char('s'));
    let shown = seat.look(size, ask);
    assert!(shown.contains("at 0x") && !shown.contains(&format!("*> {branch}")), "{shown}");
    seat.press(KeyCode::Char('d'));
    seat.type_in("7");
    assert!(seat.look(size, ask).contains("there is no such breakpoint"));
    seat.press(KeyCode::Char('d'));
    seat.type_in("all");
    assert!(seat.look(size, ask).contains("removed"));
    seat.press(KeyCode::Char('c'));
    let shown = seat.look(size, ask);
    assert!(shown.contains("goes on") && shown.contains("runs: process"), "{shown}");
    seat.press(KeyCode::Char('s'));
    assert!(seat.look(size, ask).contains("the device runs; `pause` halts it"));
    seat.press(KeyCode::Char('b'));
    seat.type_in(" nonsense");
    assert!(seat.look(size, ask).contains("break pc ADDRESS"));
    running.end();
}

/// Returns an answer with each of its values in another form.
fn twisted(value: &Value, how: &dyn Fn(&Value) -> Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(|item| twisted(item, how)).collect(),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| (name.clone(), twisted(value, how)))
            .collect::<serde_json::Map<_, _>>()
            .into(),
        leaf => how(leaf),
    }
}

#[test]
fn answers_that_mean_harm_are_shown_or_left_out() {
    let running = Running::start();
    let place = Place::of(&running);
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    let mut real = |question: &str| {
        let answer =
            known.entry(question.to_owned()).or_insert_with(|| running.ask(question).unwrap_or_default());
        answer.clone()
    };
    let escape = "\x1b[2J\x1b]0;x\x07\u{202e}\u{200f}\u{1f980}a\u{301}\n".repeat(50);
    let items = |_: &Value| json!([[], {}, "0x", null]);
    let texts = |_: &Value| Value::from(escape.as_str());
    let numbers = |leaf: &Value| if leaf.is_string() { json!(u64::MAX) } else { json!(-1.5e300) };
    let objects = |_: &Value| json!({ "a": { "b": [] } });
    let null = |_: &Value| Value::Null;
    let twists: [&dyn Fn(&Value) -> Value; 5] = [&items, &texts, &numbers, &objects, &null];
    let one = json!({ "wave": "0:0,0,0:0", "doorbell": 1, "block": "GC", "name": escape, "fields": { "kernel": 3 } });
    let whole = [
        json!(null),
        json!([]),
        json!("text"),
        json!(vec![one; 9000]),
        json!(vec![vec![vec![json!({})]]; 300]),
        json!({ "waves": "x", "code": [1], "vgprs": [[1, 2], "v0"], "lds": "é".repeat(3000), "levels": {}, "mapped": [3] }),
    ];
    for case in 0..twists.len() + whole.len() {
        let mut seat = Seat::new();
        for (page, key) in PageName::ALL.into_iter().zip('1'..) {
            seat.press(KeyCode::Char(key));
            if let (Some(go), _) = expected(page, &place) {
                seat.press(KeyCode::Char('g'));
                seat.type_in(&go);
            }
            for size in [(0, 0), (1, 1), (3, 2), (20, 10), (80, 24), (200, 50)] {
                let shown = seat.look(size, |question: &str| match twists.get(case) {
                    Some(how) => Ok(twisted(&real(question), how)),
                    None => Ok(whole[case - twists.len()].clone()),
                });
                let harmful =
                    |character: char| character.is_control() && character != '\n' || character == '\u{202e}';
                assert!(!shown.contains(harmful), "{case} {page:?} {size:?}: {shown:?}");
                for key in [
                    KeyCode::Enter,
                    KeyCode::End,
                    KeyCode::Right,
                    KeyCode::PageUp,
                    KeyCode::Esc,
                    KeyCode::Char('b'),
                ] {
                    seat.press(key);
                    seat.picture(size);
                }
                seat.press(KeyCode::Esc);
            }
        }
    }
    running.end();
}

#[test]
fn server_that_does_not_answer_or_ends_is_told_and_the_user_can_quit() {
    let mut seat = Seat::new();
    assert_eq!(seat.app.next_question(seat.now).as_deref(), Some("status"));
    assert_eq!(seat.app.next_question(seat.now), None, "one at a time");
    seat.now += Duration::from_secs(1);
    assert!(!seat.picture((80, 24)).contains("no answer"));
    seat.now += Duration::from_secs(2);
    assert!(seat.picture((80, 24)).contains("no answer for 3 s by process 4711"));
    assert!(seat.picture((20, 10)).contains("no answer for 3 s"));
    // Keys still work, and their effect is bounded.
    seat.press(KeyCode::Char('?'));
    assert!(seat.picture((80, 24)).contains("remove a breakpoint, or all"));
    seat.press(KeyCode::Esc);
    (0..20).for_each(|_| seat.press(KeyCode::Char('p')));
    assert!(seat.picture((80, 24)).contains("no answer yet: not asked for"));
    // Commands that were typed meanwhile are dropped when the late answer comes.
    seat.app.take("status", Reply::Answer(json!({ "halted": false })), seat.now);
    let shown = seat.picture((80, 24));
    assert!(
        shown.contains("what was typed meanwhile is not done") && !shown.contains("no answer for"),
        "{shown}"
    );
    assert_eq!(seat.app.next_question(seat.now).as_deref(), Some("overview"));
    seat.app.take("overview", Reply::Over("the process has ended".to_owned()), seat.now);
    for size in SIZES {
        assert!(seat.picture(size).contains("NO MORE ANSWERS"));
    }
    assert!(seat.picture((80, 24)).contains("the process has ended; q quits"));
    seat.press(KeyCode::Char('p'));
    seat.now += Duration::from_secs(10);
    assert_eq!(seat.app.next_question(seat.now), None);
    assert!(!seat.app.has_quit());
    seat.press(KeyCode::Char('q'));
    assert!(seat.app.has_quit());
    let mut seat = Seat::new();
    seat.app.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL));
    assert!(seat.app.has_quit());
}
