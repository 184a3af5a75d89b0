//! Figures on a page, each with the pointer and the value it came from.

use std::fmt::Write as _;

use serde_json::Value;

use crate::report::Report;

/// A report and its JSON, from which all figures are looked up.
pub(super) struct Facts<'a> {
    pub(super) report: &'a Report,
    json: Value,
}

impl<'a> Facts<'a> {
    pub(super) fn new(report: &'a Report) -> Result<Self, serde_json::Error> {
        Ok(Self {
            report,
            json: serde_json::to_value(report)?,
        })
    }

    /// A count, with thin spaces between thousands.
    pub(super) fn count(&self, path: &str) -> String {
        self.show(path, "count", |value| value.as_u64().map(grouped))
    }

    /// Bytes, in kB or MB (powers of ten).
    pub(super) fn bytes(&self, path: &str) -> String {
        self.show(path, "bytes", |value| value.as_u64().map(bytes))
    }

    /// Milliseconds, as seconds or minutes.
    pub(super) fn time(&self, path: &str) -> String {
        self.show(path, "ms", |value| value.as_u64().map(time))
    }

    /// A score with three decimals.
    pub(super) fn score(&self, path: &str) -> String {
        self.show(path, "score", |value| {
            value.as_f64().map(|score| format!("{score:.3}"))
        })
    }

    /// A change as per cent with its sign.
    pub(super) fn change(&self, path: &str) -> String {
        self.show(path, "change", |value| {
            value.as_f64().map(|change| {
                let per_cent = format!("{:+.1} %", 100.0 * change);
                per_cent.replace('-', "\u{2212}")
            })
        })
    }

    /// A list of numbers of clients or clusters; runs of three and more are drawn together.
    pub(super) fn ids(&self, path: &str) -> String {
        self.show(path, "ids", |value| {
            let ids: Option<Vec<u64>> = value.as_array()?.iter().map(Value::as_u64).collect();
            Some(ranges(&ids?))
        })
    }

    /// A list of counts.
    pub(super) fn counts(&self, path: &str) -> String {
        self.show(path, "counts", |value| {
            let counts: Option<Vec<u64>> = value.as_array()?.iter().map(Value::as_u64).collect();
            Some(counts?.into_iter().map(grouped).collect::<Vec<_>>().join(", "))
        })
    }

    /// A text.
    pub(super) fn text(&self, path: &str) -> String {
        self.show(path, "text", |value| value.as_str().map(escape))
    }

    /// A text of which only the beginning is shown.
    pub(super) fn stem(&self, path: &str, characters: usize) -> String {
        self.show(path, "stem", |value| {
            value.as_str().map(|text| {
                let stem: String = text.chars().take(characters).collect();
                let rest = if stem.len() < text.len() { "…" } else { "" };
                format!(r#"<code title="{}">{}{rest}</code>"#, escape(text), escape(&stem))
            })
        })
    }

    /// `html` must be escaped already. What is not there shows as a dash.
    fn show(&self, path: &str, unit: &str, html: impl Fn(&Value) -> Option<String>) -> String {
        let found = self.json.pointer(path);
        match found.and_then(|value| html(value).map(|shown| (value, shown))) {
            Some((value, shown)) => {
                let raw = match value {
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                format!(
                    r#"<span class="n" data-path="{}" data-unit="{unit}" data-value="{}">{shown}</span>"#,
                    escape(path),
                    escape(&raw)
                )
            }
            None => r#"<span class="none">–</span>"#.to_owned(),
        }
    }
}

/// Text for an element or a quoted attribute.
pub(in crate::report) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Control characters have no place in HTML; a line break in a name would be harmless but ugly.
            control if control.is_control() => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

/// `1 234 567` with thin spaces that do not break.
fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut out = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    out
}

#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
fn bytes(bytes: u64) -> String {
    match bytes {
        0..1_000 => format!("{bytes}\u{a0}B"),
        1_000..999_950 => format!("{:.1}\u{a0}kB", bytes as f64 / 1e3),
        999_950..999_995_000 => format!("{:.2}\u{a0}MB", bytes as f64 / 1e6),
        _ => format!("{:.2}\u{a0}GB", bytes as f64 / 1e9),
    }
}

#[expect(clippy::cast_precision_loss, reason = "a tenth of a second is shown")]
fn time(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms}\u{a0}ms"),
        1_000..59_950 => format!("{:.1}\u{a0}s", ms as f64 / 1e3),
        _ => {
            let seconds = (ms + 500) / 1_000;
            format!("{}\u{a0}min {:02}\u{a0}s", seconds / 60, seconds % 60)
        }
    }
}

/// `0–3, 5` of 0, 1, 2, 3, 5; `none` of nothing.
fn ranges(ids: &[u64]) -> String {
    let mut out = String::new();
    let mut rest = ids;
    while let Some((&first, _)) = rest.split_first() {
        let run = rest
            .iter()
            .zip(first..)
            .take_while(|(id, expected)| **id == *expected)
            .count();
        let run = if run < 3 { 1 } else { run };
        let comma = if out.is_empty() { "" } else { ", " };
        let (taken, left) = rest.split_at(run.min(rest.len()));
        // Writing to a String cannot fail.
        let _ = match taken {
            [only] => write!(out, "{comma}{only}"),
            [start, .., end] => write!(out, "{comma}{start}–{end}"),
            [] => Ok(()),
        };
        rest = left;
    }
    if out.is_empty() { "none".to_owned() } else { out }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_as_people_write_them() {
        assert_eq!(
            [grouped(0), grouped(999), grouped(1_000), grouped(1_234_567)],
            ["0", "999", "1\u{202f}000", "1\u{202f}234\u{202f}567"]
        );
        let nbsp = |text: String| text.replace('\u{a0}', " ");
        let shown: Vec<String> = [
            999,
            1_000,
            65_536,
            999_949,
            999_950,
            4_194_409,
            999_994_999,
            999_995_000,
        ]
        .into_iter()
        .map(|count| nbsp(bytes(count)))
        .collect();
        assert_eq!(
            shown,
            [
                "999 B",
                "1.0 kB",
                "65.5 kB",
                "999.9 kB",
                "1.00 MB",
                "4.19 MB",
                "999.99 MB",
                "1.00 GB"
            ]
        );
        let shown: Vec<String> = [999, 1_000, 59_949, 59_950, 61_499, 61_500, 3_600_000]
            .into_iter()
            .map(|ms| nbsp(time(ms)))
            .collect();
        assert_eq!(
            shown,
            [
                "999 ms",
                "1.0 s",
                "59.9 s",
                "1 min 00 s",
                "1 min 01 s",
                "1 min 02 s",
                "60 min 00 s"
            ]
        );
        assert_eq!(
            [
                ranges(&[]),
                ranges(&[4]),
                ranges(&[0, 1]),
                ranges(&[0, 1, 2, 5, 7, 8, 9]),
                ranges(&[3, 2, 1])
            ],
            ["none", "4", "0, 1", "0–2, 5, 7–9", "3, 2, 1"]
        );
    }

    #[test]
    fn escaping_leaves_no_way_out() {
        assert_eq!(
            escape("<b a=\"x\" c='y'>&\u{1b}\n</b>"),
            "&lt;b a=&quot;x&quot; c=&#39;y&#39;&gt;&amp;  &lt;/b&gt;"
        );
    }
}
