//! `veilsum plan check`.

use std::fmt::Write as _;

use serde_json::{Value, json};
use veilsum_aggregation::cluster::{Reason, too_few_alike};
use veilsum_attestation::disclosure::{
    Cover, CrowdRule, Exposure, Membership, Verdict, check, clusters_you_can_have, crowd, leverages, parity,
};

use super::file::PlanFile;
use super::table::Table;
use super::{CheckArgs, RuleArgs, draw};
use crate::cli::{Format, print};
use crate::exit::{Exit, Failure};

pub(super) fn run(args: &CheckArgs) -> Result<Exit, Failure> {
    let config = |error| Failure::new(Exit::Config, error);
    let plan = PlanFile::read(&args.file).map_err(config)?;
    let rule = rule(args.rule, plan.organisations.is_some())?;
    let table = match &args.divergences {
        Some(path) => Some(Table::read(path).map_err(config)?),
        None => None,
    };
    if let Some(table) = &table
        && table.clients.len() != plan.clients.len()
    {
        return Err(Failure::say(
            Exit::Config,
            format!(
                "the divergences are of {} clients, the plan of {}: give those of the plan's clients, in its order",
                table.clients.len(),
                plan.clients.len()
            ),
        ));
    }
    let verdict = check(&plan.matrix, &plan.org_numbers(), &rule);
    let alone = too_few_alike(&plan.matrix, args.rule.blocks);
    let names = Names {
        clients: &plan.clients,
        organisations: plan.organisations.as_deref(),
    };
    let text = match args.format {
        Format::Json => as_json(&plan.matrix, names, &verdict, args.rule).to_string(),
        Format::Human => {
            let mut text = draw::membership(&plan.matrix, &plan.clients, plan.organisations.as_deref());
            if let Some(table) = &table {
                text.push('\n');
                let tau = plan
                    .record
                    .as_ref()
                    .and_then(|record| Some(record.made.as_ref()?.tau));
                text.push_str(&draw::divergences(&table.divergences, tau));
            }
            text.push('\n');
            text.push_str(&in_words(&plan.matrix, names, &verdict, args.rule));
            text.trim_end().to_owned()
        }
    };
    print(&text)?;
    Ok(if verdict.is_safe() && alone.is_none() {
        Exit::Ok
    } else {
        Exit::Refused
    })
}

/// What the plan must hold to, margin included.
pub(super) fn rule(args: RuleArgs, organisations: bool) -> Result<CrowdRule, Failure> {
    if args.orgs > 1 && !organisations {
        return Err(Failure::say(
            Exit::Config,
            "--orgs needs to know whose the clients are: add a line that starts with `org`, or --organisations to `make`",
        ));
    }
    Ok(CrowdRule {
        crowd: args.crowd.saturating_add(args.margin),
        crowd_orgs: args.orgs,
    })
}

/// What the numbers of a matrix are called.
#[derive(Clone, Copy)]
pub(super) struct Names<'a> {
    pub(super) clients: &'a [String],
    pub(super) organisations: Option<&'a [String]>,
}

impl Names<'_> {
    /// Why a plan was changed, in one line.
    pub(super) fn reason(self, reason: &Reason) -> String {
        match reason {
            Reason::Exposed(verdict) => self.verdict(verdict),
            Reason::Alone { clients, least } => self.too_few(clients, *least),
            other @ Reason::TooMany { .. } => other.to_string(),
        }
    }

    fn too_few(self, clients: &[usize], least: u32) -> String {
        format!(
            "only {} are in the same clusters, and {least} are counted together",
            self.clients(clients).join(", ")
        )
    }

    /// What is wrong with a plan, in one line.
    pub(super) fn verdict(self, verdict: &Verdict) -> String {
        match verdict {
            Verdict::Exposed(exposure) => {
                format!(
                    "{} where {} are required",
                    combination(exposure, self),
                    exposure.required
                )
            }
            other => other.to_string(),
        }
    }

    fn clients(&self, columns: &[usize]) -> Vec<String> {
        columns
            .iter()
            .filter_map(|column| self.clients.get(*column).cloned())
            .collect()
    }

    /// The organisations of some clients, each once, in order of the columns.
    fn organisations(&self, columns: &[usize]) -> Vec<String> {
        let mut names = Vec::new();
        for column in columns {
            let name = self.organisations.and_then(|orgs| orgs.get(*column));
            if let Some(name) = name.filter(|name| !names.contains(*name)) {
                names.push(name.clone());
            }
        }
        names
    }
}

/// The verdict and everything a reader may want beside it.
pub(super) fn in_words(matrix: &Membership, names: Names<'_>, verdict: &Verdict, rule: RuleArgs) -> String {
    let mut text = String::new();
    let demand = format!(
        "{} client(s) and {} organisation(s)",
        rule.crowd.saturating_add(rule.margin),
        rule.orgs
    );
    match verdict {
        Verdict::Safe(certificate) => {
            let _ = writeln!(
                text,
                "SAFE: every combination of the sums covers at least {demand}."
            );
            let _ = writeln!(text, "certificate: {certificate}");
        }
        Verdict::Exposed(exposure) => {
            let _ = writeln!(text, "NOT SAFE: at least {demand} must be covered, and");
            let _ = writeln!(text, "  {}", combination(exposure, names));
        }
        Verdict::Undecided(reason) => {
            let _ = writeln!(text, "NOT SAFE, because not decided: {reason}");
        }
    }
    if let Some(clients) = too_few_alike(matrix, rule.blocks) {
        let _ = writeln!(text, "NO GROUPS: {}", names.too_few(&clients, rule.blocks));
    }
    let leverages = leverages(matrix);
    let worst = leverages
        .iter()
        .enumerate()
        .max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(&a.0)));
    if let Some((client, leverage)) = worst.filter(|(_, leverage)| **leverage > 0.0) {
        let _ = writeln!(
            text,
            "effective crowd {:.2}: the sums tell most about client {}, {:.0} % of its variance",
            crowd(matrix),
            names.clients.get(client).map_or("", String::as_str),
            100.0 * leverage
        );
    }
    if let Some(found) = parity(matrix) {
        let _ = writeln!(
            text,
            "modulo 2 the least cover is {} (sums {:?}); integer noise hides parities",
            found.clients.len(),
            found.clusters
        );
    }
    let _ = write!(
        text,
        "\n{}",
        draw::room(matrix.clients(), rule.crowd, rule.margin)
    );
    text
}

/// `sum[0] - 2*sum[3] = what clients a, b sent, in some multiple`.
fn combination(exposure: &Exposure, names: Names<'_>) -> String {
    let mut text = String::new();
    for (index, (cluster, factor)) in exposure.coefficients.iter().enumerate() {
        let sign = match (*factor < 0, index) {
            (true, 0) => "-",
            (true, _) => " - ",
            (false, 0) => "",
            (false, _) => " + ",
        };
        let times = match factor.unsigned_abs() {
            1 => String::new(),
            times => format!("{times}*"),
        };
        let _ = write!(text, "{sign}{times}sum[{cluster}]");
    }
    let what = match exposure.cover {
        Cover::Clients => "client(s)",
        Cover::Organisations => "organisation(s)",
    };
    let organisations = names.organisations(&exposure.clients);
    let of = if organisations.is_empty() {
        String::new()
    } else {
        format!(" of {}", organisations.join(", "))
    };
    format!(
        "{text} covers {} {what}: {}{of}",
        exposure.covered,
        names.clients(&exposure.clients).join(", ")
    )
}

/// The same for programs.
pub(super) fn as_json(matrix: &Membership, names: Names<'_>, verdict: &Verdict, rule: RuleArgs) -> Value {
    let (word, detail) = match verdict {
        Verdict::Safe(certificate) => ("safe", json!({ "certificate": certificate.to_string() })),
        Verdict::Exposed(exposure) => (
            "exposed",
            json!({
                "cover": match exposure.cover { Cover::Clients => "clients", Cover::Organisations => "organisations" },
                "covered": exposure.covered,
                "required": exposure.required,
                "clients": names.clients(&exposure.clients),
                "organisations": names.organisations(&exposure.clients),
                "coefficients": exposure.coefficients.iter()
                    .map(|(cluster, factor)| json!({ "cluster": cluster, "factor": factor }))
                    .collect::<Vec<_>>(),
            }),
        ),
        Verdict::Undecided(reason) => ("undecided", json!({ "reason": reason.to_string() })),
    };
    let crowd = crowd(matrix);
    json!({
        "schema": "veilsum-plan-check/1",
        "clients": matrix.clients(),
        "clusters": matrix.clusters(),
        "rule": { "crowd": rule.crowd, "margin": rule.margin, "orgs": rule.orgs, "blocks": rule.blocks },
        "too_few_alike": too_few_alike(matrix, rule.blocks).map(|clients| names.clients(&clients)),
        "verdict": word,
        "detail": detail,
        "effective_crowd": crowd.is_finite().then_some(crowd),
        "parity_cover": parity(matrix).map(|found| found.clients.len()),
        "clusters_you_can_have": clusters_you_can_have(
            u32::try_from(matrix.clients()).unwrap_or(u32::MAX),
            rule.crowd,
            rule.margin,
            0,
        ),
    })
}
