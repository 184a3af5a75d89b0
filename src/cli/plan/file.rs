//! A plan on disk: CSV or JSON in, both out.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use veilsum_aggregation::cluster::Membership;

use super::input::{self, Fault, InputError};
use super::record::{Record, SCHEMA};
use super::sheet::Sheet;

/// Who is in which cluster, with names.
pub(super) struct PlanFile {
    pub(super) matrix: Membership,
    pub(super) clients: Vec<String>,
    /// By client; `None` where the file names none.
    pub(super) organisations: Option<Vec<String>>,
    /// What `make` wrote beside the matrix.
    pub(super) record: Option<Record>,
}

impl PlanFile {
    /// Reads a plan: JSON if it starts with a bracket, else CSV.
    pub(super) fn read(path: &Path) -> Result<Self, InputError> {
        let text = input::text(path)?;
        match text.trim_start().chars().next() {
            None => Err(InputError::at(
                path,
                Fault::new(1, 1, "the file is empty: give a row of 0 and 1 per cluster"),
            )),
            Some('{' | '[') => Self::json(path, &text),
            Some(_) => Self::csv(path, &text),
        }
    }

    fn csv(path: &Path, text: &str) -> Result<Self, InputError> {
        let sheet = Sheet::read(path, text)?;
        let mut rows = Vec::with_capacity(sheet.rows.len());
        for row in &sheet.rows {
            let mut bits = Vec::with_capacity(row.values.len());
            for (index, cell) in row.values.iter().enumerate() {
                bits.push(match cell.as_str() {
                    "0" => false,
                    "1" => true,
                    other => {
                        let what = format!("`{other}` is neither 0 nor 1");
                        return Err(InputError::at(path, Fault::new(row.line, row.from + index, what)));
                    }
                });
            }
            rows.push(bits);
        }
        Self::new(path, rows, sheet.clients, sheet.organisations, None)
    }

    fn json(path: &Path, text: &str) -> Result<Self, InputError> {
        let broken = |error: &serde_json::Error| {
            // serde_json adds the place at the end; it is said first here.
            let what = error.to_string();
            let what = what.split(" at line ").next().unwrap_or_default().to_owned();
            InputError::at(path, Fault::new(error.line(), error.column(), what))
        };
        let record = if text.trim_start().starts_with('[') {
            let matrix: Vec<Vec<u64>> = serde_json::from_str(text).map_err(|error| broken(&error))?;
            Record {
                matrix,
                ..Record::default()
            }
        } else {
            serde_json::from_str(text).map_err(|error| broken(&error))?
        };
        if record.schema.as_deref().is_some_and(|schema| schema != SCHEMA) {
            return Err(InputError::whole(
                path,
                format!("it is of another schema than `{SCHEMA}`: use the version of veilsum that wrote it"),
            ));
        }
        let width = record.matrix.first().map_or(0, Vec::len);
        let mut rows = Vec::with_capacity(record.matrix.len());
        for (cluster, row) in record.matrix.iter().enumerate() {
            if row.len() != width {
                let what = format!(
                    "matrix row {}: {} values where the first row has {width}",
                    cluster + 1,
                    row.len()
                );
                return Err(InputError::whole(path, what));
            }
            if let Some(column) = row.iter().position(|value| *value > 1) {
                let what = format!(
                    "matrix row {}, column {}: `{}` is neither 0 nor 1",
                    cluster + 1,
                    column + 1,
                    row.get(column).copied().unwrap_or(0)
                );
                return Err(InputError::whole(path, what));
            }
            rows.push(row.iter().map(|value| *value == 1).collect());
        }
        if width == 0 && record.made.is_none() {
            return Err(InputError::whole(
                path,
                "the matrix is empty: give a row of 0 and 1 per cluster",
            ));
        }
        let (clients, organisations) = (record.clients.clone(), record.organisations.clone());
        Self::new(path, rows, clients, organisations, Some(record))
    }

    fn new(
        path: &Path,
        rows: Vec<Vec<bool>>,
        clients: Option<Vec<String>>,
        organisations: Option<Vec<String>>,
        record: Option<Record>,
    ) -> Result<Self, InputError> {
        let width = rows
            .first()
            .map(Vec::len)
            .or(clients.as_ref().map(Vec::len))
            .unwrap_or(0);
        let clients = clients.unwrap_or_else(|| (0..width).map(|client| client.to_string()).collect());
        for (what, list) in [
            ("clients", Some(&clients)),
            ("organisations", organisations.as_ref()),
        ] {
            if let Some(list) = list.filter(|list| list.len() != width) {
                return Err(InputError::whole(
                    path,
                    format!("{} {what} for {width} columns", list.len()),
                ));
            }
        }
        let mut seen = BTreeMap::new();
        for (column, client) in clients.iter().enumerate() {
            if let Some(first) = seen.insert(client, column) {
                let what = format!(
                    "client `{client}` stands in columns {} and {}: ids must differ",
                    first + 1,
                    column + 1
                );
                return Err(InputError::whole(path, what));
            }
        }
        let matrix = if rows.is_empty() {
            Membership::from_bitsets(width, Vec::new())
        } else {
            Membership::new(rows)
        };
        Ok(Self {
            matrix: matrix.map_err(|error| InputError::whole(path, error))?,
            clients,
            organisations,
            record,
        })
    }

    /// A number per client that is the same for clients of one organisation; each its own where none are named.
    pub(super) fn org_numbers(&self) -> Vec<u32> {
        org_numbers(self.clients.len(), self.organisations.as_deref())
    }
}

/// See [`PlanFile::org_numbers`].
pub(super) fn org_numbers(clients: usize, organisations: Option<&[String]>) -> Vec<u32> {
    let mut numbers: BTreeMap<&str, u32> = BTreeMap::new();
    match organisations {
        Some(names) => names
            .iter()
            .map(|name| {
                let next = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
                *numbers.entry(name).or_insert(next)
            })
            .collect(),
        None => (0..clients)
            .map(|client| u32::try_from(client).unwrap_or(u32::MAX))
            .collect(),
    }
}

/// The plan as CSV: a header with a corner, the organisations if known, a row per cluster with its number.
pub(super) fn to_csv(matrix: &Membership, clients: &[String], organisations: Option<&[String]>) -> String {
    let mut text = format!("cluster,{}\n", clients.join(","));
    if let Some(names) = organisations {
        let _ = writeln!(text, "org,{}", names.join(","));
    }
    for cluster in 0..matrix.clusters() {
        let bits: Vec<&str> = (0..matrix.clients())
            .map(|client| {
                if matrix.contains(cluster, client) {
                    "1"
                } else {
                    "0"
                }
            })
            .collect();
        let _ = writeln!(text, "{cluster},{}", bits.join(","));
    }
    text
}
