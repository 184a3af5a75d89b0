//! Reads what cargo and its test runners print: how many tests passed, and which lines a person needs to see.

use std::collections::VecDeque;
use std::process::ExitStatus;

/// Tests of one or more runners.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Ran and passed.
    pub(crate) passed: u64,
    /// Ran and failed.
    pub(crate) failed: u64,
    /// Marked `#[ignore]`.
    pub(crate) ignored: u64,
}

/// What is remembered of an output that may be long.
#[derive(Debug, Default)]
pub(crate) struct Digest {
    counts: Counts,
    /// Passed in the runner that has not reported yet.
    running: u64,
    telling: Vec<String>,
    inside: Inside,
    tail: VecDeque<String>,
}

/// Whether the current line belongs to something worth showing.
#[derive(Debug, Default, PartialEq, Eq)]
enum Inside {
    #[default]
    Nothing,
    /// A compiler error, until the next empty line.
    Error,
    /// The part of a runner's output that explains its failures.
    Failures,
}

impl Digest {
    /// Takes in the next line.
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(counts) = result_line(line) {
            self.counts.passed += counts.passed;
            self.counts.failed += counts.failed;
            self.counts.ignored += counts.ignored;
            self.running = 0;
            if self.inside == Inside::Failures {
                self.inside = Inside::Nothing;
            }
        } else if line.starts_with("test ") && line.ends_with(" ... ok") {
            self.running += 1;
        } else if line == "failures:" {
            self.inside = Inside::Failures;
        } else if self.inside == Inside::Nothing
            && (line.starts_with("error") || line.starts_with("Diff in "))
        {
            self.inside = Inside::Error;
        } else if self.inside == Inside::Error && line.is_empty() {
            self.inside = Inside::Nothing;
        }
        if self.inside != Inside::Nothing && self.telling.len() < SHOWN {
            self.telling.push(line.to_owned());
        }
        self.tail.push_back(line.to_owned());
        if self.tail.len() > TAIL {
            self.tail.pop_front();
        }
    }

    /// Tests counted so far.
    pub(crate) fn counts(&self) -> Counts {
        self.counts
    }

    /// Tests that passed until now, also those of a runner that has not finished.
    pub(crate) fn passed_so_far(&self) -> u64 {
        self.counts.passed + self.running
    }

    /// What to show of a failed run: its errors and failures, or its end when there are none.
    pub(crate) fn explain(&self, status: ExitStatus) -> String {
        let mut text = String::new();
        let shown: Vec<&String> = if self.telling.is_empty() {
            self.tail.iter().collect()
        } else {
            self.telling.iter().collect()
        };
        for line in shown {
            text.push_str(line);
            text.push('\n');
        }
        if self.telling.len() == SHOWN {
            text.push_str("... (more in the log)\n");
        }
        text.push_str(&status.to_string());
        text
    }
}

/// `test result: ok. 12 passed; 0 failed; 1 ignored; ...`
fn result_line(line: &str) -> Option<Counts> {
    let (_, numbers) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut counts = Counts::default();
    for part in numbers.split("; ") {
        match part.split_once(' ') {
            Some((number, "passed")) => counts.passed = number.parse().ok()?,
            Some((number, "failed")) => counts.failed = number.parse().ok()?,
            Some((number, "ignored")) => counts.ignored = number.parse().ok()?,
            _ => {}
        }
    }
    Some(counts)
}

/// Lines of errors and failures that are shown.
const SHOWN: usize = 150;

/// Lines of the end that are shown when nothing tells more.
const TAIL: usize = 40;

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    fn digest(text: &str) -> Digest {
        let mut digest = Digest::default();
        text.lines().for_each(|line| digest.line(line));
        digest
    }

    #[test]
    fn result_lines_are_added_up() {
        let digest = digest(
            "running 3 tests\n\
             test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 7 filtered out; finished in 0.01s\n\
             test result: FAILED. 10 passed; 4 failed; 1 ignored; 0 measured; 0 filtered out; finished in 9.00s\n\
             a test printed: test result: ok. 99 passed; 0 failed; 0 ignored",
        );
        assert_eq!(
            digest.counts(),
            Counts {
                passed: 13,
                failed: 4,
                ignored: 3
            }
        );
    }

    #[test]
    fn the_unfinished_runner_counts_for_the_view_only() {
        let half =
            "test result: ok. 3 passed; 0 failed; 0 ignored\ntest a ... ok\ntest b ... FAILED\ntest c ... ok";
        assert_eq!(digest(half).passed_so_far(), 5);
        assert_eq!(digest(half).counts().passed, 3);
        let whole = format!("{half}\ntest result: FAILED. 2 passed; 1 failed; 0 ignored");
        assert_eq!(digest(&whole).passed_so_far(), 5);
    }

    #[test]
    fn failures_are_shown_without_what_passed() {
        let text = digest(
            "test good ... ok\ntest bad ... FAILED\n\nfailures:\n\n---- bad stdout ----\nassertion failed: 1 == 2\n\
             \nfailures:\n    bad\n\n\
             test result: FAILED. 1 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n\
             test later ... ok",
        )
        .explain(ExitStatus::from_raw(101 << 8));
        assert!(text.contains("assertion failed: 1 == 2"), "{text}");
        assert!(!text.contains("good") && !text.contains("later"), "{text}");
        assert!(text.contains("101"), "{text}");
    }

    #[test]
    fn compiler_errors_are_shown_without_the_rest() {
        let text = digest(
            "   Compiling crypto\nerror[E0308]: mismatched types\n --> a.rs:1:1\n  |\n\nwarning: unused\n --> b.rs\n\n\
             error: could not compile",
        )
        .explain(ExitStatus::from_raw(101 << 8));
        assert!(text.contains("E0308") && text.contains("a.rs:1:1"), "{text}");
        assert!(!text.contains("b.rs") && !text.contains("Compiling"), "{text}");
    }

    #[test]
    fn an_output_without_errors_is_shown_by_its_end() {
        let long = (0..1000)
            .map(|index| format!("line {index}"))
            .collect::<Vec<_>>()
            .join("\n");
        let text = digest(&long).explain(ExitStatus::from_raw(9));
        assert!(
            text.contains("line 999") && !text.contains("line 900\n"),
            "{text}"
        );
        assert!(text.contains("signal: 9"), "{text}");
    }
}
