//! Kernels of the code objects that queues have dispatched from.

use ratatui::buffer::Buffer;
use ratatui::crossterm::event::KeyCode;
use ratatui::layout::Rect;
use ratatui::text::Line;
use serde_json::Value;

use super::{Page, Replies, named, or_why};
use crate::inspect::ui::fields::{field, items};
use crate::inspect::ui::list::Split;

#[derive(Debug, Default)]
pub(super) struct Kernels {
    split: Split,
}

fn name(kernel: &Value) -> String {
    format!("{} {}", field(kernel, "pasid"), field(kernel, "descriptor"))
}

impl Page for Kernels {
    fn questions(&self, _: &Replies) -> Vec<String> {
        vec!["kernels".to_owned()]
    }

    fn key(&mut self, key: KeyCode, _: &Replies) {
        self.split.key(key);
    }

    fn breakpoint(&self, replies: &Replies) -> Option<String> {
        let kernel = items(replies.of("kernels")).nth(self.split.list.selected())?;
        Some(format!("kernel {}", field(kernel, "name")))
    }

    fn draw(&mut self, buffer: &mut Buffer, area: Rect, replies: &Replies) {
        let kernels = replies.of("kernels");
        let names: Vec<String> = items(kernels).map(name).collect();
        self.split.list.settle(&names);
        let row = |kernel: &Value| {
            Line::raw(format!("{} of PASID {}", field(kernel, "name"), field(kernel, "pasid")))
        };
        let rows =
            or_why(items(kernels).map(row).collect(), replies, "kernels", "no kernels were dispatched");
        let kernel = items(kernels).nth(self.split.list.selected()).unwrap_or(&Value::Null);
        let mut details = vec![
            Line::raw(format!("descriptor at {}", field(kernel, "descriptor"))),
            Line::raw(format!("code object at {}", field(kernel, "code_object"))),
        ];
        details.extend(named(&kernel["fields"]));
        let areas = self.split.areas(area, rows.len());
        self.split.draw(buffer, areas, (&rows, &field(kernel, "name"), &details));
    }
}
