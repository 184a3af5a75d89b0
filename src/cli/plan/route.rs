//! `veilsum plan route`: which clusters' models serve a sequence that belongs to no client.

use std::path::PathBuf;

use serde_json::json;
use veilsum_aggregation::cluster::route;

use super::RouteArgs;
use super::file::PlanFile;
use super::table::Table;
use crate::cli::{Format, print};
use crate::exit::{Exit, Failure};

pub(super) fn run(args: &RouteArgs) -> Result<Exit, Failure> {
    let config = |error| Failure::new(Exit::Config, error);
    let plan = PlanFile::read(&args.file).map_err(config)?;
    let made = plan.record.as_ref().and_then(|record| record.made.as_ref());
    let Some(tau) = args.tau.or(made.map(|made| made.tau)) else {
        return Err(Failure::say(
            Exit::Usage,
            format!(
                "{} does not say its threshold: give --tau, or the JSON that `veilsum plan make` wrote",
                args.file.display()
            ),
        ));
    };
    let files: Vec<PathBuf> = args.descriptors.iter().chain(&args.unseen).cloned().collect();
    let table = Table::from_descriptors(&files).map_err(config)?;
    let place = |name: &str| table.clients.iter().position(|client| client == name);
    let columns = plan
        .clients
        .iter()
        .map(|client| {
            place(client).ok_or_else(|| {
                Failure::say(
                    Exit::Config,
                    format!("there is no descriptor of client `{client}`: give a file of that name with --descriptors"),
                )
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut routes = Vec::new();
    // The files are in the order given, the unseen ones last.
    for row in args.descriptors.len()..files.len() {
        let distances: Vec<f64> = columns
            .iter()
            .map(|column| table.divergences.at(row, *column))
            .collect();
        let name = table.clients.get(row).cloned().unwrap_or_default();
        routes.push((name, route(&distances, &plan.matrix, tau)));
    }
    print(&match args.format {
        Format::Json => json!({
            "schema": "veilsum-plan-route/1",
            "tau": tau,
            "routes": routes
                .iter()
                .map(|(name, route)| {
                    json!({"sequence": name, "clusters": route.clusters, "divergences": route.means, "within_tau": route.within})
                })
                .collect::<Vec<_>>(),
        })
        .to_string(),
        Format::Human => routes
            .iter()
            .map(|(name, route)| {
                let divergences: Vec<String> = route.means.iter().map(|mean| format!("{mean:.3}")).collect();
                let why = if route.within {
                    format!("within tau {tau:.4}")
                } else {
                    format!("the nearest; none is within tau {tau:.4}")
                };
                format!(
                    "{name}: clusters {:?}, {why} (mean divergences {})",
                    route.clusters,
                    divergences.join(", ")
                )
            })
            .collect::<Vec<_>>()
            .join("\n"),
    })?;
    Ok(Exit::Ok)
}
