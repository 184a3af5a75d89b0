//! Who is in which cluster, and whose update counts: a row for each cluster, a column for each client.

use super::super::verdict::RoundSummary;
use super::numbers;
use std::fmt::Write as _;
use veilsum_crypto::ClientId;

/// The picture of a round, with what its signs mean if that is to be said; none, and `false`, where it would be too large
/// to read.
pub(super) fn membership(out: &mut String, round: &RoundSummary, explain: bool) -> bool {
    let clients: Vec<ClientId> = round.courses.iter().map(|course| course.client).collect();
    if clients.is_empty() || clients.len() > MOST_CLIENTS || round.clusters.len() > MOST_CLUSTERS {
        return false;
    }
    let (width, height) = (
        LEFT + CELL * clients.len() + 4,
        TOP + CELL * round.clusters.len() + 4,
    );
    let _ = writeln!(
        out,
        "<figure>\n<div class=\"wide\"><svg role=\"img\" width=\"{width}\" height=\"{height}\" viewBox=\"0 0 {width} {height}\">"
    );
    out.push_str("<title>Clusters and clients</title>\n<desc>");
    for (cluster, members) in round.clusters.iter().enumerate() {
        let _ = write!(out, "cluster {cluster}: clients {}. ", numbers(members));
    }
    let _ = writeln!(out, "Counting: clients {}.</desc>", numbers(&round.survivors));
    for (column, client) in clients.iter().enumerate() {
        let x = LEFT + CELL * column + CELL / 2;
        let _ = writeln!(
            out,
            "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            TOP - 6,
            client.0
        );
    }
    for (row, members) in round.clusters.iter().enumerate() {
        let y = TOP + CELL * row + CELL / 2;
        let open = round.released.iter().any(|one| usize::from(one.cluster.0) == row);
        let _ = writeln!(out, "<text x=\"0\" y=\"{}\">cluster {row}</text>", y + 4);
        for (column, client) in clients.iter().enumerate() {
            let x = LEFT + CELL * column + CELL / 2;
            let counts = round.survivors.contains(client);
            let _ = if !members.contains(client) {
                writeln!(out, "<circle class=\"not\" cx=\"{x}\" cy=\"{y}\" r=\"1.5\"/>")
            } else if !counts {
                let (left, right, top, bottom) = (x - 5, x + 5, y - 5, y + 5);
                writeln!(
                    out,
                    "<path class=\"out\" d=\"M{left} {top}L{right} {bottom}M{right} {top}L{left} {bottom}\"/>"
                )
            } else if open {
                writeln!(out, "<circle class=\"in\" cx=\"{x}\" cy=\"{y}\" r=\"6\"/>")
            } else {
                writeln!(out, "<circle class=\"shut\" cx=\"{x}\" cy=\"{y}\" r=\"5\"/>")
            };
        }
    }
    out.push_str("</svg></div>\n");
    if explain {
        out.push_str(
            "<figcaption>A column for each client, a row for each cluster. Full circle: in a sum that was opened. Ring: its \
             update counts, and the sum stayed closed. Cross: its update does not count.</figcaption>\n",
        );
    }
    out.push_str("</figure>\n");
    true
}

const LEFT: usize = 64;
const TOP: usize = 20;
const CELL: usize = 22;
const MOST_CLIENTS: usize = 64;
const MOST_CLUSTERS: usize = 16;
