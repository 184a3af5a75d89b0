//! Comma-separated values with the place of each, and an optional header of clients and line of organisations.

use std::collections::BTreeMap;
use std::path::Path;

use super::input::{Fault, InputError};

/// A parsed file. Cells keep the line and column (counted in cells) they stood at, from 1.
pub(super) struct Sheet {
    /// Names of the columns, if a header gives them.
    pub(super) clients: Option<Vec<String>>,
    /// The organisation of each column, if an `org` line gives them.
    pub(super) organisations: Option<Vec<String>>,
    /// Everything else.
    pub(super) rows: Vec<Row>,
}

/// One line of values.
pub(super) struct Row {
    /// Line in the file.
    pub(super) line: usize,
    /// Column of the first value.
    pub(super) from: usize,
    pub(super) values: Vec<String>,
}

impl Sheet {
    /// Reads a file.
    pub(super) fn read(path: &Path, text: &str) -> Result<Self, InputError> {
        Self::parse(text).map_err(|fault| InputError::at(path, fault))
    }

    fn parse(text: &str) -> Result<Self, Fault> {
        let mut lines: Vec<(usize, Vec<&str>)> = Vec::new();
        for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
            if line.contains('"') {
                let column = line.split(',').position(|cell| cell.contains('"')).unwrap_or(0) + 1;
                return Err(Fault::new(
                    number + 1,
                    column,
                    "quoted cells are not read: remove the quotation marks",
                ));
            }
            if !line.trim().is_empty() {
                lines.push((number + 1, line.split(',').map(str::trim).collect()));
            }
        }
        let mut rest = lines.into_iter().peekable();
        let mut header = None;
        if let Some((number, cells)) = rest.next_if(|(_, cells)| is_header(cells)) {
            let labelled = cells.first().is_some_and(|cell| CORNERS.contains(cell));
            let names: Vec<&str> = cells.into_iter().skip(usize::from(labelled)).collect();
            header = Some((number, labelled, names));
        }
        let labelled = header.as_ref().is_some_and(|(_, labelled, _)| *labelled);
        let clients = match &header {
            Some((number, labelled, names)) => Some(names_of(*number, usize::from(*labelled), names, true)?),
            None => None,
        };
        let mut organisations = None;
        let mut organisations_line = 0;
        if let Some((number, cells)) = rest.next_if(|(_, cells)| is_organisations(cells)) {
            let names: Vec<&str> = cells.into_iter().skip(1).collect();
            organisations = Some(names_of(number, 1, &names, false)?);
            organisations_line = number;
        }
        let skip = usize::from(labelled);
        let rows: Vec<Row> = rest
            .map(|(line, cells)| Row {
                line,
                from: skip + 1,
                values: cells.into_iter().skip(skip).map(str::to_owned).collect(),
            })
            .collect();
        let width = clients
            .as_ref()
            .map(Vec::len)
            .or_else(|| organisations.as_ref().map(Vec::len))
            .or_else(|| rows.first().map(|row| row.values.len()))
            .unwrap_or(0);
        if width == 0 || rows.is_empty() {
            return Err(Fault::new(
                1,
                1,
                "there is nothing in it: give a row of values per line",
            ));
        }
        if organisations.as_ref().is_some_and(|names| names.len() != width) {
            let got = organisations.as_ref().map_or(0, Vec::len);
            return Err(Fault::new(
                organisations_line,
                got.min(width) + 2,
                format!("{got} organisations for {width} clients: give one per client"),
            ));
        }
        for row in &rows {
            if row.values.len() != width {
                return Err(Fault::new(
                    row.line,
                    row.from + row.values.len().min(width),
                    format!(
                        "{} values where there are {width} clients: give one per client",
                        row.values.len()
                    ),
                ));
            }
        }
        Ok(Self {
            clients,
            organisations,
            rows,
        })
    }
}

/// Cells of a line that names columns.
fn names_of(line: usize, skipped: usize, cells: &[&str], unique: bool) -> Result<Vec<String>, Fault> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, cell) in cells.iter().enumerate() {
        let column = skipped + index + 1;
        if cell.is_empty() || cell.chars().count() > MAX_NAME || cell.chars().any(char::is_control) {
            return Err(Fault::new(
                line,
                column,
                format!("a name has 1 to {MAX_NAME} printable characters"),
            ));
        }
        if let Some(first) = seen.insert(cell, column).filter(|_| unique) {
            return Err(Fault::new(
                line,
                column,
                format!("`{cell}` stands in column {first} already: client ids must differ"),
            ));
        }
    }
    Ok(cells.iter().map(|cell| (*cell).to_owned()).collect())
}

fn is_organisations(cells: &[&str]) -> bool {
    cells
        .first()
        .is_some_and(|cell| matches!(*cell, "org" | "orgs" | "organisation" | "organisations"))
}

/// Names only, or a corner. A row of values with a bad one among them must not pass for a header.
fn is_header(cells: &[&str]) -> bool {
    let corner = cells.first().is_some_and(|cell| CORNERS.contains(cell));
    !is_organisations(cells) && (corner || cells.iter().all(|cell| cell.parse::<f64>().is_err()))
}

/// First cells of a header whose rows begin with a name of their own.
const CORNERS: [&str; 3] = ["", "cluster", "client"];
const MAX_NAME: usize = 128;
