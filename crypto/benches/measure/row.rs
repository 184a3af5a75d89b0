//! A bench's figures: processor time, medians, a table for people or rows for programs.

use rustix::time::{ClockId, clock_gettime};

/// One figure, beside what it is measured against.
pub struct Row {
    pub name: String,
    pub value: f64,
    pub unit: &'static str,
    /// What the value is compared with, measured in the same run or set by the design.
    pub reference: f64,
    /// What `value / reference` should be.
    pub target: Target,
}

/// Which ratios are good.
#[derive(Clone, Copy)]
pub enum Target {
    AtLeast(f64),
    AtMost(f64),
    /// Told, not judged.
    None,
}

impl Row {
    fn ratio(&self) -> f64 {
        self.value / self.reference
    }

    fn ok(&self) -> Option<bool> {
        match self.target {
            Target::AtLeast(least) => Some(self.ratio() >= least),
            Target::AtMost(most) => Some(self.ratio() <= most),
            Target::None => None,
        }
    }
}

/// Prints the rows: one JSON object a line after `--format json`, a table otherwise.
pub fn print(rows: &[Row]) {
    let mut arguments = std::env::args();
    let json =
        arguments.any(|argument| argument == "--format") && arguments.next().as_deref() == Some("json");
    if !json {
        println!("| what | value | unit | reference | ratio | target | ok |");
        println!("| --- | --- | --- | --- | --- | --- | --- |");
    }
    for row in rows {
        let Row {
            name,
            value,
            unit,
            reference,
            ..
        } = row;
        let ratio = row.ratio();
        if json {
            let target = match row.target {
                Target::AtLeast(bound) | Target::AtMost(bound) => bound.to_string(),
                Target::None => "null".to_owned(),
            };
            let ok = row.ok().map_or("null".to_owned(), |ok| ok.to_string());
            println!(
                r#"{{"name":"{name}","value":{value},"unit":"{unit}","reference":{reference},"ratio":{ratio},"target":{target},"ok":{ok}}}"#
            );
        } else {
            let target = match row.target {
                Target::AtLeast(bound) => format!("at least {bound}"),
                Target::AtMost(bound) => format!("at most {bound}"),
                Target::None => String::new(),
            };
            let ok = row.ok().map_or("", |ok| if ok { "yes" } else { "NO" });
            println!("| {name} | {value:.3} | {unit} | {reference:.3} | {ratio:.2} | {target} | {ok} |");
        }
    }
}

/// Seconds of processor time this process has had, all its threads together.
pub fn processor() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// Seconds of processor time `work` takes.
pub fn seconds(work: impl FnOnce()) -> f64 {
    let before = processor();
    work();
    processor() - before
}

/// The middle of the values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
