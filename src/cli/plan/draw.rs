//! Matrices as text.

use std::fmt::Write as _;

use veilsum_aggregation::cluster::{Divergences, Membership};
use veilsum_attestation::disclosure::clusters_you_can_have;

/// A row per cluster, `#` for a member; the columns numbered as `names` lists them.
pub(super) fn membership(matrix: &Membership, names: &[String], organisations: Option<&[String]>) -> String {
    let mut text = String::new();
    for from in (0..matrix.clients()).step_by(WIDTH) {
        let columns = from..(from + WIDTH).min(matrix.clients());
        text.push_str(&numbers(columns.clone()));
        for cluster in 0..matrix.clusters() {
            let bits: String = columns
                .clone()
                .map(|client| {
                    if matrix.contains(cluster, client) {
                        '#'
                    } else {
                        '.'
                    }
                })
                .collect();
            let _ = writeln!(text, "cluster {cluster:>4}  {bits}  {}", matrix.size(cluster));
        }
    }
    if names.len() <= LISTED
        && names
            .iter()
            .enumerate()
            .any(|(index, name)| *name != index.to_string())
    {
        for (index, name) in names.iter().enumerate() {
            let org = organisations.and_then(|orgs| orgs.get(index));
            let org = org.map_or(String::new(), |org| format!(" ({org})"));
            let _ = writeln!(text, "client {index:>5}  {name}{org}");
        }
    }
    text
}

/// A row per client, darker for closer: `#` within tau, then by how far beyond.
pub(super) fn divergences(matrix: &Divergences, tau: Option<f64>) -> String {
    let clients = matrix.clients();
    if clients > WIDTH {
        return format!("{clients} clients are too many to draw their divergences\n");
    }
    let mut sorted = matrix.pairs().to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let close = tau.map_or(0, |tau| sorted.partition_point(|value| *value <= tau));
    let far = sorted.get(close..).unwrap_or(&[]);
    let shade = |value: f64| {
        if tau.is_some_and(|tau| value <= tau) {
            return '#';
        }
        let rank = far.partition_point(|other| *other < value);
        let shades = SHADES.len();
        SHADES
            .get((rank * shades / far.len().max(1)).min(shades - 1))
            .copied()
            .unwrap_or(' ')
    };
    let mut text = numbers(0..clients);
    for row in 0..clients {
        let cells: String = (0..clients)
            .map(|column| {
                if row == column {
                    '\\'
                } else {
                    shade(matrix.at(row, column))
                }
            })
            .collect();
        let _ = writeln!(text, "client {row:>5}  {cells}");
    }
    let within = tau.map_or(String::new(), |tau| format!("`#` within tau {tau:.4}; "));
    let _ = writeln!(text, "{within}then by rank from `=` (near) to blank (far)");
    text
}

/// Tens and units above the columns.
fn numbers(columns: std::ops::Range<usize>) -> String {
    let line = |digit: fn(usize) -> String| columns.clone().map(digit).collect::<String>();
    let tens = line(|column| {
        if column % 10 == 0 {
            (column / 10 % 10).to_string()
        } else {
            " ".to_owned()
        }
    });
    let units = line(|column| (column % 10).to_string());
    format!("{:14}{}\n{:14}{units}\n", "", tens.trim_end(), "")
}

/// How many clusters so many clients can have, by crowd and margin.
pub(super) fn room(clients: usize, crowd: u32, margin: u32) -> String {
    let n = u32::try_from(clients).unwrap_or(u32::MAX);
    let mut margins = vec![0, 1, 2, 4, margin];
    margins.sort_unstable();
    margins.dedup();
    let mut crowds = vec![2, 3, 4, 5, 6, 8, 10, 12, crowd];
    crowds.sort_unstable();
    crowds.dedup();
    let mut text = format!(
        "clusters {n} clients can have with an effective crowd of crowd + margin, floor(N / (crowd + margin)):\n"
    );
    let _ = write!(text, "  crowd  margin");
    for margin in &margins {
        let _ = write!(text, " {margin:>4} ");
    }
    text.truncate(text.trim_end_matches(' ').len());
    text.push('\n');
    for one in crowds {
        let _ = write!(text, "  {one:>5}        ");
        for other in &margins {
            let asked = one == crowd && *other == margin;
            let most = clusters_you_can_have(n, one, *other, 0);
            let _ = write!(text, " {most:>4}{}", if asked { '*' } else { ' ' });
        }
        text.truncate(text.trim_end_matches(' ').len());
        text.push('\n');
    }
    text
}

/// Columns of a drawing.
const WIDTH: usize = 100;
/// Names are listed up to so many clients.
const LISTED: usize = 60;
const SHADES: [char; 5] = ['=', '-', ':', '.', ' '];
