//! Frames that lists name, a line each: picture, depth map or `None`, and what the benchmark adds.
//!
//! A client takes a list, or the sequences (drives, scenes) it names, or the lines of a list that belong to them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::data::folder::name_of;
use crate::data::split::{FrameFile, Plan, apart, client_name, few, read_pair};
use crate::data::{DataError, DepthDataset, DepthScale, Frame, ReadOptions, ReadReport};
use crate::metrics::DepthRange;

/// Which frames a split takes.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The list of frames; without one, everything that lies in the sequences' folders.
    pub list: Option<PathBuf>,
    /// Take only these sequences; with a list, none named means all of it.
    pub sequences: Vec<String>,
}

impl Selection {
    fn is_nothing(&self) -> bool {
        self.list.is_none() && self.sequences.is_empty()
    }
}

/// Which frames a client takes, and how they are read.
#[derive(Clone, Debug)]
pub struct ListOptions {
    /// Size, faults and limits.
    pub read: ReadOptions,
    /// Frames to train on.
    pub train: Selection,
    /// Frames to score on.
    pub test: Selection,
}

/// One of the two splits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Split {
    Train,
    Test,
}

impl Split {
    fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Test => "test",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Self::Train => "data.sequences",
            Self::Test => "data.test_sequences",
        }
    }
}

/// A line of a list, or what would stand there. Paths are relative and stay inside their folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// From 1; 0 where no list was read.
    pub(super) number: usize,
    pub(super) image: String,
    /// Without one the picture is not annotated.
    pub(super) depth: Option<String>,
    /// The in-painted depth map of NYU's longer list.
    pub(super) dense: Option<String>,
}

/// A benchmark's folders.
pub(super) trait Source: Sync {
    /// Where its pictures are.
    fn root(&self) -> &Path;
    /// What a depth unit means.
    fn scale(&self) -> DepthScale;
    /// Depths that count.
    fn range(&self) -> DepthRange;
    /// The sequence of a picture, from its path.
    fn sequence(&self, image: &str) -> Option<String>;
    /// What a client of one sequence or of one kind of sequences would be asked for.
    fn kind(&self, sequence: &str) -> String;
    /// Whether a sequence is the wanted one, or of the wanted kind.
    fn is(&self, sequence: &str, wanted: &str) -> bool;
    /// The sequences there are.
    fn present(&self) -> Result<Vec<String>, DataError>;
    /// What lies in a sequence's folder.
    fn frames(&self, sequence: &str) -> Result<Vec<Line>, DataError>;
    /// The files of a line, if both are there; else the one that is not.
    fn files(&self, line: &Line) -> Result<(PathBuf, PathBuf), PathBuf>;
    /// What to do about a file that is not there.
    fn hint(&self, line: &Line) -> String;
    /// Crops and masks.
    fn prepare(&self, split: Split, path: &Path, frame: Frame) -> Result<Frame, DataError>;
    /// Crops and masks, for people.
    fn notes(&self) -> Vec<String>;
    /// Whether a list's sequences must be in one split only.
    fn keeps_sequences_apart(&self) -> bool;
}

/// A frame to be read.
struct Job<'a, S> {
    source: &'a S,
    split: Split,
    sequence: String,
    name: String,
    image: PathBuf,
    /// Or why there is none.
    depth: Result<PathBuf, Absent>,
}

#[derive(Clone)]
struct Absent {
    path: PathBuf,
    listed: String,
    hint: String,
}

impl<S: Source> FrameFile for Job<'_, S> {
    fn path(&self) -> PathBuf {
        self.image.clone()
    }

    fn read(&self, scale: DepthScale, width: usize, height: usize) -> Result<Frame, DataError> {
        let depth = self.depth.as_ref().map_err(|absent| DataError::NotThere {
            path: absent.path.clone(),
            listed: absent.listed.clone(),
            hint: absent.hint.clone(),
        })?;
        let frame = read_pair(self.name.clone(), &self.image, depth, scale)?;
        self.source
            .prepare(self.split, &self.image, frame)?
            .resized(width, height)
    }
}

/// Reads what the selections take.
pub(super) fn read<S: Source>(
    source: &S,
    options: &ListOptions,
) -> Result<(DepthDataset, ReadReport), DataError> {
    if options.train.is_nothing() && options.test.is_nothing() {
        return Err(DataError::Settings {
            what: "no frames are asked for: set data.train_list, data.sequences, or both".to_owned(),
        });
    }
    let mut notes = source.notes();
    let train = jobs(source, Split::Train, &options.train, &mut notes)?;
    let test = jobs(source, Split::Test, &options.test, &mut notes)?;
    if source.keeps_sequences_apart() {
        apart(
            train.iter().map(|job| job.sequence.as_str()),
            test.iter().map(|job| job.sequence.as_str()),
        )?;
    }
    let split = |jobs, selection: &Selection| {
        let about = selection.list.as_deref().unwrap_or(source.root());
        (!selection.is_nothing()).then(|| (about.to_owned(), jobs))
    };
    let plan = Plan {
        client: client_name(&options.train.sequences, source.root()),
        root: source.root().to_owned(),
        scale: source.scale(),
        range: source.range(),
        notes,
        train: split(train, &options.train),
        test: split(test, &options.test),
    };
    plan.read(&options.read)
}

/// The kinds of sequences that a selection holds, in the order of their names, and how many annotated frames each has.
pub(super) fn kinds<S: Source>(source: &S, selection: &Selection) -> Result<Vec<(String, usize)>, DataError> {
    let lines = match &selection.list {
        Some(list) => parse(list)?,
        None if selection.sequences.is_empty() => browse(source, Split::Train, &source.present()?)?,
        None => browse(source, Split::Train, &selection.sequences)?,
    };
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.depth.is_some()) {
        let sequence = source.sequence(&line.image).unwrap_or_else(|| line.image.clone());
        let wanted = selection.sequences.is_empty()
            || selection
                .sequences
                .iter()
                .any(|wanted| source.is(&sequence, wanted));
        if wanted {
            *counts.entry(source.kind(&sequence)).or_default() += 1;
        }
    }
    Ok(counts.into_iter().collect())
}

/// The frames of a split, in the order of the list, or of sequences and names.
fn jobs<'a, S: Source>(
    source: &'a S,
    split: Split,
    selection: &Selection,
    notes: &mut Vec<String>,
) -> Result<Vec<Job<'a, S>>, DataError> {
    if selection.is_nothing() {
        return Ok(Vec::new());
    }
    let lines = match &selection.list {
        Some(list) => parse(list)?,
        None => browse(source, split, &selection.sequences)?,
    };
    let all = lines.len();
    let (mut taken, mut bare, mut of_other) = (Vec::new(), 0, 0);
    let (mut sequences, mut known) = (BTreeSet::new(), BTreeSet::new());
    for line in lines {
        let sequence = source.sequence(&line.image).unwrap_or_else(|| line.image.clone());
        known.insert(sequence.clone());
        let wanted = selection.sequences.is_empty()
            || selection
                .sequences
                .iter()
                .any(|wanted| source.is(&sequence, wanted));
        match (wanted, &line.depth) {
            (false, _) => of_other += 1,
            (true, None) => bare += 1,
            (true, Some(_)) => {
                sequences.insert(sequence.clone());
                taken.push(job(source, split, selection, sequence, &line));
            }
        }
    }
    let about = selection.list.as_deref().unwrap_or(source.root());
    for wanted in &selection.sequences {
        if !known.iter().any(|sequence| source.is(sequence, wanted)) {
            return Err(no_sequence(split, wanted, about, &known));
        }
    }
    let what = selection.list.as_ref().map_or_else(
        || format!("{all} pictures in folders"),
        |list| format!("{all} lines of {}", name_of(list)),
    );
    notes.push(format!(
        "{}: {what}, {} of {} sequences taken, {of_other} of other sequences, {bare} without a depth map",
        split.name(),
        taken.len(),
        sequences.len()
    ));
    Ok(taken)
}

fn job<'a, S: Source>(
    source: &'a S,
    split: Split,
    selection: &Selection,
    sequence: String,
    line: &Line,
) -> Job<'a, S> {
    let stem = line
        .image
        .rsplit_once('.')
        .map_or(line.image.as_str(), |(stem, _)| stem);
    let (image, depth) = match source.files(line) {
        Ok((image, depth)) => (image, Ok(depth)),
        Err(path) => {
            let listed = selection.list.as_ref().map_or_else(
                || "its partner is there".to_owned(),
                |list| format!("line {} of {}", line.number, list.display()),
            );
            let absent = Absent {
                path,
                listed,
                hint: source.hint(line),
            };
            (source.root().join(&line.image), Err(absent))
        }
    };
    Job {
        source,
        split,
        sequence,
        name: format!("{}/{stem}", split.name()),
        image,
        depth,
    }
}

fn browse<S: Source>(source: &S, split: Split, wanted: &[String]) -> Result<Vec<Line>, DataError> {
    let present = source.present()?;
    let mut lines = Vec::new();
    for name in wanted {
        let mut any = false;
        for sequence in present.iter().filter(|sequence| source.is(sequence, name)) {
            any = true;
            lines.extend(source.frames(sequence)?);
        }
        if !any {
            let known = present.iter().cloned().collect();
            return Err(no_sequence(split, name, source.root(), &known));
        }
    }
    // Two names may stand for one sequence.
    let mut seen = BTreeSet::new();
    lines.retain(|line| seen.insert(line.image.clone()));
    Ok(lines)
}

fn no_sequence(split: Split, name: &str, path: &Path, known: &BTreeSet<String>) -> DataError {
    DataError::NoSequence {
        key: split.key(),
        name: name.to_owned(),
        path: path.to_owned(),
        known: few(known.iter().map(String::as_str)),
    }
}

/// The lines of a list. Blank ones are passed over; a last one without a line's end counts.
fn parse(path: &Path) -> Result<Vec<Line>, DataError> {
    let text = std::fs::read_to_string(path).map_err(|source| DataError::Io {
        path: path.to_owned(),
        source,
    })?;
    let fault = |line: usize, reason: String| DataError::List {
        path: path.to_owned(),
        line,
        reason,
    };
    let mut lines = Vec::new();
    for (at, text) in text.lines().enumerate() {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (image, depth, rest) = match words.as_slice() {
            [] => continue,
            [image, depth, rest @ ..] if rest.len() <= 2 => (*image, *depth, rest),
            _ => {
                let reason = format!(
                    "{} columns; a line is PICTURE DEPTH, then the focal length or the in-painted depth map",
                    words.len()
                );
                return Err(fault(at + 1, reason));
            }
        };
        let inside = |name: &str| inside(name).map_err(|reason| fault(at + 1, reason));
        let mut dense = None;
        for word in rest {
            // Numbers are focal lengths, which no network here takes; they tell a list from a table of something else.
            match word.parse::<f32>() {
                Ok(focal) if focal.is_finite() && focal > 0.0 => {}
                Ok(_) => return Err(fault(at + 1, format!("{word} is no focal length in pixels"))),
                Err(_) => dense = Some(inside(word)?),
            }
        }
        lines.push(Line {
            number: at + 1,
            image: inside(image)?,
            depth: if depth == "None" {
                None
            } else {
                Some(inside(depth)?)
            },
            dense,
        });
    }
    if lines.is_empty() {
        return Err(fault(
            1,
            "the list is empty; a line is PICTURE DEPTH FOCAL".to_owned(),
        ));
    }
    Ok(lines)
}

/// A path of a list, which begins with a slash in some and is relative in all.
fn inside(name: &str) -> Result<String, String> {
    let relative = name.strip_prefix('/').unwrap_or(name);
    let stays = Path::new(relative)
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if relative.is_empty() || !stays {
        return Err(format!(
            "'{name}' leaves the data folder; paths are relative to it"
        ));
    }
    Ok(relative.to_owned())
}

/// Files of a folder whose names pass, sorted. A folder that is not there has none.
pub(super) fn files_of(dir: &Path, pass: impl Fn(&str) -> bool) -> Result<Vec<String>, DataError> {
    names_of(dir, |entry, name| !entry.is_dir() && pass(name))
}

/// Folders in a folder, sorted.
pub(super) fn folders_of(dir: &Path) -> Result<Vec<String>, DataError> {
    names_of(dir, |entry, _| entry.is_dir())
}

fn names_of(dir: &Path, pass: impl Fn(&Path, &str) -> bool) -> Result<Vec<String>, DataError> {
    let fault = |source| DataError::Io {
        path: dir.to_owned(),
        source,
    };
    let mut names = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(fault)? {
        let path = entry.map_err(fault)?.path();
        if let Some(name) = path.file_name().and_then(|name| name.to_str())
            && pass(&path, name)
        {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Vec<Line>, DataError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("list.txt");
        std::fs::write(&path, text).unwrap();
        parse(&path)
    }

    /// The last line of the published lists has no line's end, and training paths begin with a slash.
    #[test]
    fn every_line_counts_and_one_slash_is_stripped() {
        let lines =
            parsed("/a/1.jpg /a/1.png 518.8579\n\nb/2.jpg None 518.8579\nb/3.jpg b/3.png d/3.png 1").unwrap();
        let short: Vec<_> = lines
            .iter()
            .map(|l| (l.number, l.image.as_str(), l.depth.as_deref(), l.dense.as_deref()))
            .collect();
        assert_eq!(
            short,
            [
                (1, "a/1.jpg", Some("a/1.png"), None),
                (3, "b/2.jpg", None, None),
                (4, "b/3.jpg", Some("b/3.png"), Some("d/3.png")),
            ]
        );
    }

    #[test]
    fn a_wrong_line_is_named_by_its_number() {
        for (text, line, word) in [
            ("a.png b.png 1\na.png\n", 2, "1 columns"),
            ("a b c d e", 1, "5 columns"),
            ("../a.png b.png 1", 1, "leaves the data folder"),
            ("a.png //etc/shadow 1", 1, "leaves the data folder"),
            ("a.png b.png -1", 1, "focal"),
            ("a.png b.png inf", 1, "focal"),
            ("\n\n", 1, "empty"),
        ] {
            match parsed(text) {
                Err(DataError::List { line: at, reason, .. }) => {
                    assert!(at == line && reason.contains(word), "{text}: {at} {reason}");
                }
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}
