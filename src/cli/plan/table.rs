//! Divergences from files: a matrix as CSV, or a descriptor per client.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use veilsum_aggregation::cluster::{DivergenceError, Divergences, Gaussian, Noisy};
use veilsum_learner::Descriptor;

use super::input::{self, Fault, InputError};
use super::sheet::Sheet;
use crate::describe;

/// The divergences of named clients.
pub(super) struct Table {
    pub(super) divergences: Divergences,
    pub(super) clients: Vec<String>,
    pub(super) organisations: Option<Vec<String>>,
    /// What a reader should know about the numbers.
    pub(super) notes: Vec<String>,
}

impl Table {
    /// Reads a matrix.
    pub(super) fn read(path: &Path) -> Result<Self, InputError> {
        let text = input::text(path)?;
        let sheet = Sheet::read(path, &text)?;
        let mut rows = Vec::with_capacity(sheet.rows.len());
        for row in &sheet.rows {
            let mut values = Vec::with_capacity(row.values.len());
            for (index, cell) in row.values.iter().enumerate() {
                let value: f64 = cell.parse().map_err(|_| {
                    let what = format!("`{cell}` is no number");
                    InputError::at(path, Fault::new(row.line, row.from + index, what))
                })?;
                values.push(value);
            }
            rows.push(values);
        }
        let place = |row: usize, column: usize| {
            let at = sheet.rows.get(row);
            (at.map_or(1, |at| at.line), at.map_or(1, |at| at.from) + column)
        };
        let width = sheet.rows.first().map_or(0, |row| row.values.len());
        if rows.len() != width {
            let what = format!(
                "{} rows of {width} divergences: the matrix must be square",
                rows.len()
            );
            let (line, column) = place(rows.len().saturating_sub(1), 0);
            return Err(InputError::at(path, Fault::new(line, column, what)));
        }
        let divergences = Divergences::from_rows(&rows).map_err(|error| {
            let (row, column) = match error {
                DivergenceError::NotFinite { row, column }
                | DivergenceError::Negative { row, column, .. }
                | DivergenceError::Asymmetric { row, column, .. } => (row, column),
                DivergenceError::Diagonal { row, .. } => (row, row),
                _ => (0, 0),
            };
            let (line, column) = place(row, column);
            InputError::at(path, Fault::new(line, column, error.to_string()))
        })?;
        Ok(Self {
            clients: sheet
                .clients
                .unwrap_or_else(|| (0..width).map(|client| client.to_string()).collect()),
            organisations: sheet.organisations,
            divergences,
            notes: Vec::new(),
        })
    }

    /// Reads descriptors; a client is called what its file is, without the ending.
    pub(super) fn from_descriptors(paths: &[PathBuf]) -> Result<Self, InputError> {
        let mut clients: Vec<String> = Vec::new();
        let mut seen: BTreeMap<String, PathBuf> = BTreeMap::new();
        let mut descriptors = Vec::new();
        let mut first: Option<Descriptor> = None;
        for path in paths {
            let name = path
                .file_stem()
                .and_then(|name| name.to_str())
                .unwrap_or_default()
                .to_owned();
            if name.is_empty() || name.contains([',', '"']) || name.chars().any(char::is_control) {
                return Err(InputError::whole(
                    path,
                    "the file's name is the client's: it must be text without commas and quotation marks",
                ));
            }
            if let Some(other) = seen.insert(name.clone(), path.clone()) {
                let what = format!(
                    "{} has the same name, so the client would be there twice",
                    other.display()
                );
                return Err(InputError::whole(path, what));
            }
            let descriptor =
                Descriptor::decode(&input::bytes(path)?).map_err(|error| InputError::whole(path, error))?;
            let model = first.get_or_insert_with(|| descriptor.clone());
            if descriptor.source() != model.source() {
                return Err(InputError::whole(
                    path,
                    "its features are of another encoder than those of the first file",
                ));
            }
            if descriptor.noise() != model.noise() {
                return Err(InputError::whole(
                    path,
                    "its noise is of another size than that of the first file: all clients must follow one policy, with as many images",
                ));
            }
            let gaussian = describe::gaussian(&descriptor).map_err(|error| InputError::whole(path, error))?;
            descriptors.push(Noisy {
                gaussian,
                mean_sd: descriptor.noise().map_or(0.0, |noise| noise.mean_sd),
                log_variance_sd: descriptor.noise().map_or(0.0, |noise| noise.log_variance_sd),
            });
            clients.push(name);
        }
        let threads = std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
        let whole = |error: DivergenceError| {
            let path = match error {
                DivergenceError::Channels { client, .. } => paths.get(client),
                _ => paths.first(),
            };
            InputError::whole(path.map_or(Path::new(""), PathBuf::as_path), error)
        };
        let mut notes = Vec::new();
        let divergences = if let Some(sizes) = first.as_ref().and_then(Descriptor::noise) {
            let estimate = Noisy::estimate(&descriptors, threads).map_err(whole)?;
            notes.push(format!(
                "the descriptors are noised (standard deviation {:.4} on means, {:.4} on log variances); divergences are unbiased estimates",
                sizes.mean_sd, sizes.log_variance_sd
            ));
            if estimate.negative > 0 {
                notes.push(format!(
                    "{} estimate(s) were below 0, the least {:.3}; they count as 0",
                    estimate.negative, estimate.least
                ));
            }
            estimate.divergences
        } else {
            let plain: Vec<Gaussian> = descriptors.into_iter().map(|client| client.gaussian).collect();
            Divergences::jeffreys(&plain, threads).map_err(whole)?
        };
        Ok(Self {
            divergences,
            clients,
            organisations: None,
            notes,
        })
    }
}

/// The organisation of each client from lines `client,organisation`.
pub(super) fn organisations(path: &Path, clients: &[String]) -> Result<Vec<String>, InputError> {
    let text = input::text(path)?;
    let mut found: BTreeMap<&str, &str> = BTreeMap::new();
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        if line.trim().is_empty() {
            continue;
        }
        let fault = |column, what: String| Err(InputError::at(path, Fault::new(number + 1, column, what)));
        let mut cells = line.split(',').map(str::trim);
        let (Some(client), Some(organisation), None) = (cells.next(), cells.next(), cells.next()) else {
            return fault(
                1,
                "give a client and its organisation, with a comma between".to_owned(),
            );
        };
        if organisation.is_empty() || organisation.chars().any(|c| c.is_control() || c == '"') {
            return fault(2, "the organisation has no usable name".to_owned());
        }
        if !clients.iter().any(|known| known == client) {
            return fault(1, format!("there is no client `{client}` among the divergences"));
        }
        if found.insert(client, organisation).is_some() {
            return fault(1, format!("client `{client}` stands here twice"));
        }
    }
    clients
        .iter()
        .map(|client| {
            found
                .get(client.as_str())
                .map(|name| (*name).to_owned())
                .ok_or_else(|| InputError::whole(path, format!("client `{client}` has no line here")))
        })
        .collect()
}
