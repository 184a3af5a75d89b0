//! What a person sees while libtorch is being obtained: a bar on a terminal, a line per tenth elsewhere.

use std::cell::Cell;
use std::io::{IsTerminal as _, stderr};

use indicatif::{ProgressBar, ProgressStyle};

/// Progress of one file, in bytes.
#[derive(Debug)]
pub(crate) struct Progress {
    label: String,
    bar: Option<ProgressBar>,
    tenth: Cell<u64>,
}

impl Progress {
    /// Starts to show `label`.
    pub(crate) fn new(label: &str) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::no_length().with_message(label.to_owned());
            if let Ok(style) = ProgressStyle::with_template(
                "{msg} {wide_bar} {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left",
            ) {
                bar.set_style(style);
            }
            bar
        });
        Self {
            label: label.to_owned(),
            bar,
            tenth: Cell::new(0),
        }
    }

    /// `done` of `total` bytes are here; `total` 0 means unknown.
    pub(crate) fn at(&self, done: u64, total: u64) {
        if let Some(bar) = &self.bar {
            if total > 0 {
                bar.set_length(total);
            }
            bar.set_position(done);
        } else if let Some(tenth) = done.saturating_mul(10).checked_div(total) {
            // Small files come and go without a line.
            if tenth > self.tenth.replace(tenth) && total > 50_000_000 {
                eprintln!("{}: {} of {} MB", self.label, done / 1_000_000, total / 1_000_000);
            }
        }
    }

    /// A line above the bar.
    pub(crate) fn say(&self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
