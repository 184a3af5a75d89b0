//! A strict reader of the `OpenMetrics` text format, written from its specification (version 1.0): what Prometheus lets pass
//! is refused here as well.

use std::collections::{BTreeMap, BTreeSet};

type Labels = Vec<(String, String)>;
/// Name, labels, value.
type Sample = (String, Labels, f64);

/// One metric family.
#[derive(Debug, Default)]
pub(crate) struct Family {
    pub(crate) kind: String,
    pub(crate) unit: Option<String>,
    pub(crate) help: Option<String>,
    /// By name and labels, in the text's order.
    pub(crate) samples: Vec<Sample>,
}

/// All families by name.
#[derive(Debug)]
pub(crate) struct Exposition(pub(crate) BTreeMap<String, Family>);

impl Exposition {
    /// The value of a sample; labels in any order.
    pub(crate) fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let wanted: BTreeSet<(&str, &str)> = labels.iter().copied().collect();
        self.0
            .values()
            .flat_map(|family| &family.samples)
            .find(|(found, has, _)| {
                found == name
                    && has
                        .iter()
                        .map(|(k, v)| (k.as_str(), v.as_str()))
                        .collect::<BTreeSet<_>>()
                        == wanted
            })
            .map(|(_, _, value)| *value)
    }

    /// Every sample name.
    pub(crate) fn names(&self) -> BTreeSet<String> {
        self.0
            .values()
            .flat_map(|family| family.samples.iter().map(|(name, ..)| name.clone()))
            .collect()
    }
}

/// Reads a whole exposition.
pub(crate) fn read(text: &str) -> Result<Exposition, String> {
    let body = text
        .strip_suffix("# EOF\n")
        .ok_or("it does not end with `# EOF` and a line feed")?;
    let mut families: BTreeMap<String, Family> = BTreeMap::new();
    let mut open: Option<String> = None;
    for line in body.split_terminator('\n') {
        let fault = |what: &str| Err(format!("{what}: `{line}`"));
        if line.is_empty() || line.contains('\r') {
            return fault("an empty line, or a carriage return");
        }
        if let Some(rest) = line.strip_prefix("# ") {
            let mut words = rest.splitn(3, ' ');
            let (Some(word), Some(name), Some(value)) = (words.next(), words.next(), words.next()) else {
                return fault("a descriptor without name or value");
            };
            if !is_name(name, ":") {
                return fault("no metric name");
            }
            if open.as_deref() != Some(name) {
                if families.contains_key(name) {
                    return fault("a family in two places");
                }
                open = Some(name.to_owned());
            }
            let family = families.entry(name.to_owned()).or_default();
            if !family.samples.is_empty() {
                return fault("a descriptor after its samples");
            }
            match word {
                "TYPE" if family.kind.is_empty() => value.clone_into(&mut family.kind),
                "UNIT" if family.unit.is_none() => family.unit = Some(value.to_owned()),
                "HELP" if family.help.is_none() => family.help = Some(unescape(value)?),
                _ => return fault("a descriptor that is unknown or there twice"),
            }
            continue;
        }
        if line.starts_with('#') {
            return fault("a comment, which the format does not have");
        }
        let (name, labels, value) = sample(line)?;
        let Some(family) = open.as_ref().and_then(|open| families.get_mut(open)) else {
            return fault("a sample without a family");
        };
        let base = open.clone().unwrap_or_default();
        if !suffixes(&family.kind)
            .iter()
            .any(|suffix| name == format!("{base}{suffix}"))
        {
            return fault("a sample that is none of its family's");
        }
        family.samples.push((name, labels, value));
    }
    for (name, family) in &families {
        check(name, family)?;
    }
    Ok(Exposition(families))
}

fn suffixes(kind: &str) -> &'static [&'static str] {
    match kind {
        "counter" => &["_total", "_created"],
        "gauge" | "unknown" => &[""],
        "info" => &["_info"],
        "histogram" => &["_bucket", "_sum", "_count", "_created"],
        _ => &[],
    }
}

/// `name{label="value",…} number`, and neither timestamp nor exemplar: we send none.
fn sample(line: &str) -> Result<Sample, String> {
    let fault = |what: &str| format!("{what}: `{line}`");
    let end = line.find(['{', ' ']).ok_or_else(|| fault("no value"))?;
    let (name, mut rest) = line.split_at(end);
    if !is_name(name, ":") {
        return Err(fault("no metric name"));
    }
    let mut labels = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        rest = inside;
        loop {
            let (key, after) = rest
                .split_once("=\"")
                .ok_or_else(|| fault("a label without value"))?;
            if !is_name(key, "") || labels.iter().any(|(other, _)| other == key) {
                return Err(fault("no label name, or one that is there twice"));
            }
            let close = closing(after).ok_or_else(|| fault("a label value without end"))?;
            labels.push((key.to_owned(), unescape(&after[..close])?));
            rest = &after[close + 1..];
            if let Some(more) = rest.strip_prefix(',') {
                rest = more;
                continue;
            }
            rest = rest
                .strip_prefix('}')
                .ok_or_else(|| fault("labels without end"))?;
            break;
        }
    }
    let number = rest
        .strip_prefix(' ')
        .ok_or_else(|| fault("no space before the value"))?;
    if number.is_empty() || number.contains(' ') {
        return Err(fault("a timestamp, an exemplar or no value"));
    }
    Ok((
        name.to_owned(),
        labels,
        number.parse().map_err(|_| fault("no number"))?,
    ))
}

/// Where the next quotation mark is that is not escaped.
fn closing(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, letter) in text.char_indices() {
        match letter {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(at),
            _ => {}
        }
    }
    None
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        out.push(match letter {
            '\\' => match letters.next() {
                Some('n') => '\n',
                Some(same @ ('\\' | '"')) => same,
                _ => return Err(format!("no escape: `{text}`")),
            },
            other => other,
        });
    }
    Ok(out)
}

fn is_name(name: &str, more: &str) -> bool {
    let first = |letter: char| letter.is_ascii_alphabetic() || letter == '_' || more.contains(letter);
    let mut letters = name.chars();
    letters.next().is_some_and(first) && letters.all(|letter| first(letter) || letter.is_ascii_digit())
}

fn check(name: &str, family: &Family) -> Result<(), String> {
    let fault = |what: &str| Err(format!("{what}: {name}"));
    if suffixes(&family.kind).is_empty() {
        return fault("a family without a type we know");
    }
    if let Some(unit) = &family.unit
        && !name.ends_with(&format!("_{unit}"))
    {
        return fault("the name does not end with the unit");
    }
    if family.kind == "counter" && name.ends_with("_total") {
        return fault("`_total` belongs to the sample");
    }
    let mut seen = BTreeSet::new();
    for (sample, labels, value) in &family.samples {
        let mut labels = labels.clone();
        labels.sort();
        if !seen.insert((sample.clone(), labels)) {
            return fault("a series that is there twice");
        }
        let counts = family.kind == "counter" || family.kind == "histogram";
        if counts && !(value.is_finite() && *value >= 0.0) {
            return fault("a count below zero, or none");
        }
        if family.kind == "info" && *value != 1.0 {
            return fault("an info that is not 1");
        }
    }
    if family.kind == "histogram" {
        histogram(name, family)?;
    }
    Ok(())
}

/// Every series of a histogram: bounds rise, buckets add up, the last is `+Inf` and equals the count.
fn histogram(name: &str, family: &Family) -> Result<(), String> {
    let fault = |what: &str| Err(format!("{what}: {name}"));
    type Series = BTreeMap<Labels, Vec<(f64, f64)>>;
    let mut buckets = Series::new();
    let mut others: BTreeMap<(Labels, String), f64> = BTreeMap::new();
    for (sample, labels, value) in &family.samples {
        let mut rest = labels.clone();
        let bound = rest
            .iter()
            .position(|(key, _)| key == "le")
            .map(|at| rest.remove(at).1);
        match (sample.ends_with("_bucket"), bound) {
            (true, Some(bound)) => {
                let upper = if bound == "+Inf" {
                    f64::INFINITY
                } else {
                    bound.parse().map_err(|_| format!("no bound: {bound}"))?
                };
                buckets.entry(rest).or_default().push((upper, *value));
            }
            (false, None) => {
                others.insert((rest, sample.clone()), *value);
            }
            _ => return fault("`le` belongs to buckets, and only there"),
        }
    }
    for (labels, series) in buckets {
        let rises = series
            .windows(2)
            .all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1);
        if !rises {
            return fault("bounds or buckets that do not rise");
        }
        let count = others.get(&(labels.clone(), format!("{name}_count")));
        if series.last() != count.map(|count| (f64::INFINITY, *count)).as_ref() {
            return fault("the last bucket is not +Inf with the count");
        }
        if !others.contains_key(&(labels, format!("{name}_sum"))) {
            return fault("no sum");
        }
    }
    Ok(())
}

#[test]
fn the_reader_refuses_what_the_format_does_not_have() {
    let good = "# HELP a_seconds Help\\n.\n# TYPE a_seconds histogram\n# UNIT a_seconds seconds\n\
        a_seconds_bucket{p=\"x\",le=\"0.5\"} 1\na_seconds_bucket{p=\"x\",le=\"+Inf\"} 2\na_seconds_sum{p=\"x\"} 3.5\na_seconds_count{p=\"x\"} 2\n\
        # TYPE b counter\nb_total 1\nb_total{w=\"a\\\"},b\"} 2.0\n# EOF\n";
    let read_good = read(good).unwrap();
    assert_eq!(read_good.value("b_total", &[("w", "a\"},b")]), Some(2.0));
    for (old, new) in [
        ("# EOF\n", ""),
        ("# EOF\n", "# EOF"),
        ("# EOF\n", "# EOF\nb_total 2\n"),
        ("b_total 1\n", "b 1\n"),
        ("b_total 1\n", "b_total 1\n\n"),
        ("b_total 1\n", "b_total 1\nb_total 1\n"),
        ("b_total 1\n", "b_total -1\n"),
        ("b_total 1\n", "b_total 1 1234\n"),
        ("b_total 1\n", "# a comment\nb_total 1\n"),
        ("b_total 1\n", "#comment\nb_total 1\n"),
        ("# TYPE b counter", "# TYPE b meter"),
        ("# TYPE b counter\n", ""),
        ("# TYPE b counter", "# TYPE b counter\n# TYPE b counter"),
        (
            "# TYPE b counter\nb_total 1",
            "# TYPE b_total counter\nb_total_total 1",
        ),
        ("UNIT a_seconds seconds", "UNIT a_seconds bytes"),
        ("le=\"0.5\"} 1", "le=\"0.5\"} 3"),
        ("_count{p=\"x\"} 2", "_count{p=\"x\"} 3"),
        ("a_seconds_sum{p=\"x\"} 3.5\n", ""),
        (",le=\"+Inf\"", ",le=\"9\""),
        ("w=\"a\\\"},b\"", "w=\"a\"},b\""),
        ("w=\"a\\\"},b\"", "w=\"a\\q\""),
        ("p=\"x\",le=\"0.5\"", "1p=\"x\",le=\"0.5\""),
    ] {
        assert!(good.contains(old), "{old}");
        let bad = good.replacen(old, new, 1);
        assert!(read(&bad).is_err(), "{bad}");
    }
}
