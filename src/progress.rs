//! Progress for people, on standard error: a line per phase, and who is where.
//!
//! On a terminal the lines are redrawn in place, with colours unless `NO_COLOR` is set. Elsewhere a line is printed once
//! per phase, so that a log stays short. Results never come this way: they go to standard output.

use std::fmt::Write as _;
use std::io::{self, IsTerminal as _, Write};
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Where the work stands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Step {
    /// What is under way, such as `round 2 of 5`.
    pub title: String,
    /// The phase of it, such as `mask`.
    pub phase: String,
    /// Parties that have answered.
    pub have: u32,
    /// Parties that are waited for.
    pub want: u32,
    /// Bytes received so far.
    pub bytes_in: u64,
    /// Bytes sent so far.
    pub bytes_out: u64,
    /// Until the phase ends without the missing ones.
    pub left: Option<Duration>,
}

/// What one party does, in a word or two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The party's number.
    pub id: u32,
    /// What it does.
    pub doing: String,
    /// How that looks.
    pub tone: Tone,
}

/// How something looks on a terminal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// Nothing to see.
    Calm,
    /// At work.
    Busy,
    /// Done.
    Good,
    /// Lost.
    Bad,
}

/// A display of progress.
pub struct Progress(Mode);

enum Mode {
    Terminal {
        bars: MultiProgress,
        board: ProgressBar,
        colours: bool,
    },
    Plain {
        out: Box<dyn Write + Send>,
        last: (String, String),
    },
}

impl Progress {
    /// Lines in place if standard error is a terminal, plain lines otherwise.
    #[must_use]
    pub fn stderr() -> Self {
        if !io::stderr().is_terminal() {
            return Self::plain(io::stderr());
        }
        let colours = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        Self::terminal(ProgressDrawTarget::stderr_with_hz(8), colours)
    }

    /// Plain lines.
    pub fn plain(out: impl Write + Send + 'static) -> Self {
        Self(Mode::Plain {
            out: Box::new(out),
            last: (String::new(), String::new()),
        })
    }

    fn terminal(target: ProgressDrawTarget, colours: bool) -> Self {
        let bars = MultiProgress::with_draw_target(target);
        let board = bars.add(ProgressBar::no_length());
        // Without a template there is the default one, which shows less but works.
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            board.set_style(style);
        }
        board.enable_steady_tick(Duration::from_millis(250));
        Self(Mode::Terminal { bars, board, colours })
    }

    /// Shows where the work stands.
    pub fn show(&mut self, step: &Step, cells: &[Cell]) {
        match &mut self.0 {
            Mode::Terminal { board, colours, .. } => {
                let mut text = line(step);
                for row in rows(cells, *colours) {
                    text.push_str("\n  ");
                    text.push_str(&row);
                }
                board.set_message(text);
            }
            Mode::Plain { out, last } => {
                if last.0 != step.title || last.1 != step.phase {
                    *last = (step.title.clone(), step.phase.clone());
                    // A display nobody reads must not end the work.
                    let _ = writeln!(out, "{}", log_line(step));
                }
            }
        }
    }

    /// A line that stays.
    pub fn note(&mut self, text: &str) {
        let _ = match &mut self.0 {
            Mode::Terminal { bars, .. } => bars.println(text),
            Mode::Plain { out, .. } => writeln!(out, "{text}"),
        };
    }

    /// Takes the moving lines away; what was noted stays.
    pub fn clear(&mut self) {
        if let Mode::Terminal { bars, board, .. } = &mut self.0 {
            board.finish_and_clear();
            let _ = bars.clear();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

/// `round 2 of 5 · mask  6 of 8  ██████░░  4.2 MB in  1.0 MB out  18 s left`.
fn line(step: &Step) -> String {
    let mut text = named(step);
    if step.want > 0 {
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "  {} of {}  {}",
            step.have,
            step.want,
            bar(step.have, step.want)
        );
    }
    if step.bytes_in + step.bytes_out > 0 {
        let _ = write!(text, "  {} in  {} out", size(step.bytes_in), size(step.bytes_out));
    }
    if let Some(left) = step.left {
        let _ = write!(text, "  at most {} s left", left.as_secs());
    }
    text
}

/// `round 2 of 5 · mask (8 wanted)`.
fn log_line(step: &Step) -> String {
    let mut text = named(step);
    if step.want > 0 {
        let _ = write!(text, " ({} wanted)", step.want);
    }
    text
}

fn named(step: &Step) -> String {
    let mut text = step.title.clone();
    if !step.phase.is_empty() {
        text.push_str(" · ");
        text.push_str(&step.phase);
    }
    text
}

/// A bar of at most [`BAR`] blocks.
fn bar(have: u32, want: u32) -> String {
    let width = want.clamp(1, BAR);
    let full = u64::from(have.min(want)) * u64::from(width) / u64::from(want.max(1));
    let full = usize::try_from(full).unwrap_or(0);
    let width = usize::try_from(width).unwrap_or(0);
    "█".repeat(full) + &"░".repeat(width.saturating_sub(full))
}

/// Cells side by side, a few in a row, so that rows fit into 80 columns.
fn rows(cells: &[Cell], colours: bool) -> Vec<String> {
    cells
        .chunks(PER_ROW)
        .map(|row| {
            let texts: Vec<String> = row
                .iter()
                .map(|cell| {
                    let text = format!("{:02} {:<CELL$.CELL$}", cell.id, cell.doing);
                    if colours { paint(cell.tone, &text) } else { text }
                })
                .collect();
            texts.join(" ")
        })
        .collect()
}

/// ANSI colours of the terminal's own palette.
fn paint(tone: Tone, text: &str) -> String {
    let code = match tone {
        Tone::Calm => "2",
        Tone::Busy => "36",
        Tone::Good => "32",
        Tone::Bad => "31",
    };
    format!("\u{1b}[{code}m{text}\u{1b}[0m")
}

#[expect(clippy::cast_precision_loss, reason = "one decimal is shown")]
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes} B"),
        1_000..999_950 => format!("{:.1} kB", bytes as f64 / 1e3),
        999_950..999_950_000 => format!("{:.1} MB", bytes as f64 / 1e6),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

const BAR: u32 = 16;
const PER_ROW: usize = 4;
/// Columns of a cell after its number.
const CELL: usize = 14;

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Paper(Arc<Mutex<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Paper {
        fn text(&self) -> String {
            String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
        }
    }

    fn step(phase: &str, have: u32) -> Step {
        Step {
            title: "round 2 of 5".to_owned(),
            phase: phase.to_owned(),
            have,
            want: 8,
            bytes_in: 4_194_409,
            bytes_out: 65_536,
            left: Some(Duration::from_millis(18_900)),
        }
    }

    #[test]
    fn a_log_gets_one_line_per_phase() {
        let paper = Paper::default();
        let mut progress = Progress::plain(paper.clone());
        for have in 0..8 {
            progress.show(&step("mask", have), &[]);
        }
        progress.note("client 3 was killed");
        progress.show(&step("mask", 8), &[]);
        progress.show(&step("agree", 0), &[]);
        progress.show(
            &Step {
                title: "audit".to_owned(),
                ..Step::default()
            },
            &[],
        );
        progress.clear();
        let text = paper.text();
        assert_eq!(
            text,
            "round 2 of 5 · mask (8 wanted)\nclient 3 was killed\nround 2 of 5 · agree (8 wanted)\naudit\n"
        );
        assert!(!text.contains('\u{1b}'));
    }

    #[test]
    fn lines_for_a_terminal() {
        assert_eq!(
            line(&step("mask", 6)),
            "round 2 of 5 · mask  6 of 8  ██████░░  4.2 MB in  65.5 kB out  at most 18 s left"
        );
        assert_eq!(
            line(&Step {
                title: "audit".to_owned(),
                ..Step::default()
            }),
            "audit"
        );
        assert_eq!(bar(500, 1000), "████████░░░░░░░░");
        assert_eq!(bar(9, 8), "████████");
        assert_eq!(bar(0, 0), "░");
    }

    #[test]
    fn rows_fit_into_80_columns_and_colours_can_be_off() {
        let cells: Vec<Cell> = (0..10)
            .map(|id| Cell {
                id,
                doing: "uploading 1000 of very many".to_owned(),
                tone: Tone::Busy,
            })
            .collect();
        let plain = rows(&cells, false);
        assert_eq!(plain.len(), 3);
        assert!(plain.iter().all(|row| row.chars().count() <= 76), "{plain:?}");
        assert!(plain.iter().all(|row| !row.contains('\u{1b}')));
        assert!(plain[0].starts_with("00 uploading 1000 01 "), "{plain:?}");
        let painted = rows(&cells, true);
        assert_eq!(
            painted[0].replace("\u{1b}[36m", "").replace("\u{1b}[0m", ""),
            plain[0]
        );
    }

    #[test]
    fn a_terminal_that_is_not_there_is_no_error() {
        let mut progress = Progress::terminal(ProgressDrawTarget::hidden(), true);
        progress.show(&step("mask", 1), &[]);
        progress.note("x");
        progress.clear();
    }
}
