//! Runs named steps one after another, shows each while it runs, and sums up.
//!
//! A step that fails does not stop the ones after it: one run tells everything that is wrong.

mod listen;

use std::fs;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

use crate::tally::Counts;
use listen::listen;

/// How a step ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Everything in it passed; the text is a remark for the table.
    Passed(String),
    /// Something in it failed; the text says what.
    Failed(String),
    /// It was left out because the caller asked for that.
    Left(String),
}

/// A finished step.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    name: &'static str,
    counts: Counts,
    time: Duration,
    verdict: Verdict,
}

/// The steps of one command.
#[derive(Debug)]
pub(crate) struct Steps {
    logs: PathBuf,
    planned: usize,
    done: Vec<Outcome>,
    started: Instant,
}

impl Steps {
    /// Prepares for `planned` steps; the whole output of each is kept in `logs`.
    ///
    /// # Errors
    /// When the folder for the logs cannot be made.
    pub(crate) fn new(logs: PathBuf, planned: usize) -> Result<Self> {
        fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
        Ok(Self {
            logs,
            planned,
            done: Vec::new(),
            started: Instant::now(),
        })
    }

    /// Runs a command; it passes when it exits 0.
    pub(crate) fn command(&mut self, name: &'static str, command: Command) {
        self.run(name, command, |_| true);
    }

    /// Runs tests; they pass when the command exits 0, reports no failure, and did run some.
    pub(crate) fn tests(&mut self, name: &'static str, command: Command) {
        self.run(name, command, |counts| counts.failed == 0 && counts.passed > 0);
    }

    fn run(&mut self, name: &'static str, command: Command, enough: impl FnOnce(Counts) -> bool) {
        self.announce(name);
        let start = Instant::now();
        let log = self.logs.join(format!("{}.log", name.replace(' ', "-")));
        let outcome = match listen(self.label(name), command, &log) {
            Ok((status, digest)) => {
                let counts = digest.counts();
                let verdict = if status.success() && enough(counts) {
                    Verdict::Passed(String::new())
                } else {
                    Verdict::Failed(format!(
                        "{}\nthe whole output: {}",
                        digest.explain(status),
                        log.display()
                    ))
                };
                Outcome {
                    name,
                    counts,
                    time: start.elapsed(),
                    verdict,
                }
            }
            Err(error) => Outcome {
                name,
                counts: Counts::default(),
                time: start.elapsed(),
                verdict: Verdict::Failed(format!("{error:#}")),
            },
        };
        self.finish(outcome);
    }

    /// Runs a check of our own, which says in one line what it found.
    pub(crate) fn check<T>(
        &mut self,
        name: &'static str,
        check: impl FnOnce() -> Result<(String, T)>,
    ) -> Option<T> {
        self.announce(name);
        let start = Instant::now();
        let (verdict, value) = match check() {
            Ok((remark, value)) => (Verdict::Passed(remark), Some(value)),
            Err(error) => (Verdict::Failed(format!("{error:#}")), None),
        };
        self.finish(Outcome {
            name,
            counts: Counts::default(),
            time: start.elapsed(),
            verdict,
        });
        value
    }

    /// Records a step that cannot run because of an earlier failure.
    pub(crate) fn fail(&mut self, name: &'static str, why: &str) {
        self.announce(name);
        let verdict = Verdict::Failed(why.to_owned());
        self.finish(Outcome {
            name,
            counts: Counts::default(),
            time: Duration::ZERO,
            verdict,
        });
    }

    /// Records a step the caller asked to leave out.
    pub(crate) fn leave(&mut self, name: &'static str, why: &str) {
        self.announce(name);
        let verdict = Verdict::Left(why.to_owned());
        self.finish(Outcome {
            name,
            counts: Counts::default(),
            time: Duration::ZERO,
            verdict,
        });
    }

    /// Prints the table and the closing line; 1 when anything failed.
    pub(crate) fn conclude(self) -> ExitCode {
        println!("\n{}", self.table());
        let (passed, failed) = self.totals();
        for step in &self.done {
            if let Verdict::Left(why) = &step.verdict {
                println!("NOT RUN: {}; {why}", step.name);
            }
        }
        println!("{passed} passed, {failed} failed");
        if failed == 0 {
            ExitCode::SUCCESS
        } else {
            ExitCode::FAILURE
        }
    }

    /// Tests that passed and failed in all steps. A failed step in which no test failed (one that does not
    /// compile, say) counts as one failure.
    fn totals(&self) -> (u64, u64) {
        let passed = self.done.iter().map(|step| step.counts.passed).sum();
        let failed = self
            .done
            .iter()
            .map(|step| match step.verdict {
                Verdict::Failed(_) => step.counts.failed.max(1),
                Verdict::Passed(_) | Verdict::Left(_) => 0,
            })
            .sum();
        (passed, failed)
    }

    fn table(&self) -> String {
        let width = self
            .done
            .iter()
            .map(|step| step.name.len())
            .max()
            .unwrap_or(0)
            .max(4);
        let mut text = format!(
            "{:width$}  {:>8}  {:>7}  {:>7}  {:>7}  result",
            "step", "time", "passed", "failed", "ignored"
        );
        for step in &self.done {
            let Counts {
                passed,
                failed,
                ignored,
            } = step.counts;
            let (result, remark) = match &step.verdict {
                Verdict::Passed(remark) => ("ok", remark.as_str()),
                Verdict::Failed(_) => ("FAILED", ""),
                Verdict::Left(why) => ("not run", why.as_str()),
            };
            let line = format!(
                "\n{:width$}  {:>8}  {passed:>7}  {failed:>7}  {ignored:>7}  {result}  {remark}",
                step.name,
                seconds(step.time)
            );
            text.push_str(line.trim_end());
        }
        let all = seconds(self.started.elapsed());
        format!("{text}\n{:width$}  {all:>8}", "all")
    }

    fn label(&self, name: &str) -> String {
        format!("[{}/{}] {name}", self.done.len() + 1, self.planned)
    }

    /// The name alone first, so that a log tells which step is running.
    fn announce(&self, name: &str) {
        if !io::stderr().is_terminal() {
            println!("{} ...", self.label(name));
            flush();
        }
    }

    fn finish(&mut self, outcome: Outcome) {
        let Counts { passed, failed, .. } = outcome.counts;
        let tests = if passed + failed > 0 {
            format!(", {passed} passed, {failed} failed")
        } else {
            String::new()
        };
        let head = format!(
            "{} {{}} in {}{tests}",
            self.label(outcome.name),
            seconds(outcome.time)
        );
        match &outcome.verdict {
            Verdict::Passed(remark) if remark.is_empty() => println!("{}", head.replace("{}", &green("ok"))),
            Verdict::Passed(remark) => println!("{}: {remark}", head.replace("{}", &green("ok"))),
            Verdict::Failed(why) => println!("{}\n{}", head.replace("{}", &red("FAILED")), indent(why)),
            Verdict::Left(why) => println!("{} {}: {why}", self.label(outcome.name), red("NOT RUN")),
        }
        flush();
        self.done.push(outcome);
    }
}

fn seconds(time: Duration) -> String {
    let tenths = time.as_millis() / 100;
    if tenths < 6000 {
        format!("{}.{} s", tenths / 10, tenths % 10)
    } else {
        format!("{} min {} s", tenths / 600, tenths / 10 % 60)
    }
}

fn indent(text: &str) -> String {
    text.lines()
        .map(|line| format!("    {line}"))
        .collect::<Vec<_>>()
        .join("\n")
}

fn green(text: &str) -> String {
    colour(text, "32")
}

fn red(text: &str) -> String {
    colour(text, "1;31")
}

/// Colour only where a person looks at it and did not ask for none.
fn colour(text: &str, code: &str) -> String {
    if io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) {
        format!("\u{1b}[{code}m{text}\u{1b}[0m")
    } else {
        text.to_owned()
    }
}

/// A closed pipe behind us is no reason to fail.
fn flush() {
    let _ = io::stdout().flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(folder: &tempfile::TempDir) -> Steps {
        Steps::new(folder.path().join("logs"), 3).unwrap()
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    const GOOD: &str = "echo 'test result: ok. 4 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out'";
    const BAD: &str = "echo 'test result: FAILED. 2 passed; 3 failed; 0 ignored; 0 measured; 0 filtered out'";

    #[test]
    fn totals_are_summed_over_all_runners() {
        let folder = tempfile::tempdir().unwrap();
        let mut steps = steps(&folder);
        steps.tests("good", shell(&format!("{GOOD}; {GOOD} >&2")));
        steps.tests("bad", shell(&format!("{GOOD}; {BAD}; exit 101")));
        assert_eq!(steps.totals(), (4 + 4 + 4 + 2, 3));
        let table = steps.table();
        assert!(table.contains("good") && table.contains("FAILED"), "{table}");
    }

    #[test]
    fn a_step_that_does_not_compile_is_one_failure_and_says_why() {
        let folder = tempfile::tempdir().unwrap();
        let mut steps = steps(&folder);
        steps.tests(
            "broken",
            shell("echo 'error[E0425]: cannot find value `x`' >&2; exit 101"),
        );
        assert_eq!(steps.totals(), (0, 1));
        let Verdict::Failed(why) = &steps.done[0].verdict else {
            panic!("passed")
        };
        assert!(why.contains("E0425") && why.contains("broken.log"), "{why}");
        let log = fs::read_to_string(folder.path().join("logs/broken.log")).unwrap();
        assert!(log.contains("E0425"));
    }

    #[test]
    fn a_runner_that_dies_without_a_word_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let mut steps = steps(&folder);
        steps.tests("killed", shell(&format!("{GOOD}; kill -9 $$")));
        assert_eq!(steps.totals(), (4, 1));
    }

    #[test]
    fn a_failing_test_in_a_runner_that_exits_0_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let mut steps = steps(&folder);
        steps.tests("liar", shell(BAD));
        assert_eq!(steps.totals(), (2, 3));
    }

    #[test]
    fn a_test_run_without_tests_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let mut steps = steps(&folder);
        steps.tests(
            "empty",
            shell("echo 'test result: ok. 0 passed; 0 failed; 0 ignored'"),
        );
        steps.command("no tests expected", shell("true"));
        assert_eq!(steps.totals(), (0, 1));
    }

    #[test]
    fn a_command_that_is_not_there_is_a_failure() {
        let folder = tempfile::tempdir().unwrap();
        let mut steps = steps(&folder);
        steps.command("absent", Command::new("/no/such/program"));
        assert_eq!(steps.totals(), (0, 1));
    }

    #[test]
    fn a_process_left_behind_does_not_hang_the_run() {
        let folder = tempfile::tempdir().unwrap();
        let mut steps = steps(&folder);
        let start = Instant::now();
        steps.tests("leaky", shell(&format!("sleep 60 & {GOOD}")));
        assert!(start.elapsed() < Duration::from_secs(30));
        assert_eq!(steps.totals(), (4, 0));
    }

    #[test]
    fn left_out_steps_are_neither_passed_nor_failed_but_shown() {
        let folder = tempfile::tempdir().unwrap();
        let mut steps = steps(&folder);
        steps.leave("torch", "--no-torch was given");
        steps.fail("other", "libtorch is not there");
        assert_eq!(steps.totals(), (0, 1));
        assert!(steps.table().contains("not run  --no-torch"), "{}", steps.table());
    }

    #[test]
    fn times_read_well() {
        assert_eq!(seconds(Duration::from_millis(1234)), "1.2 s");
        assert_eq!(seconds(Duration::from_secs(754)), "12 min 34 s");
    }
}
