//! Ranks that divide heads, experts and tokens evenly. A remedy is the nearest number that divides all that the axis
//! divides, so that none leads to another error of the same axis.

use crate::job::{ContextMethod, Job};
use crate::model::{Attention, Model};
use syncline_diagnostics::{Code, Diagnostic};

/// Axes whose ranks do not divide what they must, each once.
pub(super) fn axes(model: &Model, job: &Job) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    found.extend(tensor(model, job));
    found.extend(context(model, job));
    found.extend(expert(model, job));
    found
}

fn tensor(model: &Model, job: &Job) -> Option<Diagnostic> {
    let ranks = u64::from(job.tensor);
    let kv_heads = match model.attention {
        Attention::Latent(_) => 0,
        Attention::Full | Attention::Window { .. } => model.kv_heads.max(1),
    };
    // More ranks than heads of keys have copies of these.
    let able = |ranks: u64| kv_heads.is_multiple_of(ranks) || ranks.is_multiple_of(kv_heads);
    let divided = [(model.heads, "attention heads"), (model.ffn, "size of the feed-forward block")];
    let wrong = undivided(ranks, &divided).or((!able(ranks)).then_some((kv_heads, "key-value heads")))?;
    let nearest = nearest(&divided, ranks, able);
    Some(problem("tensor", ranks, wrong, format!("write tensor: {nearest}")))
}

fn context(model: &Model, job: &Job) -> Option<Diagnostic> {
    let ranks = u64::from(job.context);
    let mut divided = vec![(job.sequence, "tokens of a sequence")];
    let exchanges = job.context > 1 && job.context_method == ContextMethod::Ulysses;
    if exchanges {
        let latent = matches!(model.attention, Attention::Latent(_));
        let heads = if latent { model.heads } else { model.kv_heads };
        divided.push((
            (heads / u64::from(job.tensor)).max(1),
            "key-value heads of a tensor-parallel rank, which Ulysses exchanges",
        ));
    }
    let wrong = undivided(ranks, &divided)?;
    let help = match nearest(&divided, ranks, |_| true) {
        1 if exchanges => "write context_method: ring".to_owned(),
        ranks => format!("write context: {ranks}"),
    };
    Some(problem("context", ranks, wrong, help))
}

fn expert(model: &Model, job: &Job) -> Option<Diagnostic> {
    let (ranks, parts) = (u64::from(job.expert), u64::from(job.expert_tensor));
    let Some(experts) = model.experts else {
        return (ranks > 1).then(|| {
            Diagnostic::error(Code::BadValue, "the model has no experts")
                .key("expert")
                .found(ranks.to_string())
                .help("write expert: 1")
        });
    };
    let stage = u64::from(job.stage_ranks());
    let divided = [(experts.ffn, "size of an expert"), (stage, "ranks of a stage")];
    if let Some(wrong) = undivided(parts, &divided) {
        let nearest = nearest(&divided, parts, |_| true);
        return Some(problem("expert_tensor", parts, wrong, format!("write expert_tensor: {nearest}")));
    }
    let places = if parts > 1 { "ranks of a stage / expert_tensor" } else { "ranks of a stage" };
    let divided = [(experts.count, "experts"), (stage / parts, places)];
    let wrong = undivided(ranks, &divided)?;
    let nearest = nearest(&divided, ranks, |_| true);
    Some(problem("expert", ranks, wrong, format!("write expert: {nearest}")))
}

/// A number, and what it counts.
type Counted = (u64, &'static str);

/// The first number that `ranks` do not divide.
fn undivided(ranks: u64, divided: &[Counted]) -> Option<Counted> {
    divided.iter().copied().find(|(whole, _)| !whole.is_multiple_of(ranks))
}

fn problem(key: &str, ranks: u64, (whole, what): Counted, help: String) -> Diagnostic {
    Diagnostic::error(Code::BadValue, format!("these ranks do not divide the {what} evenly"))
        .key(key)
        .found(ranks.to_string())
        .allowed(format!("divisors of {whole}"))
        .help(help)
}

/// The number nearest to `wanted` that divides all of `divided` and is `able`, the smaller one of two.
fn nearest(divided: &[Counted], wanted: u64, able: impl Fn(u64) -> bool) -> u64 {
    let whole = divided.iter().fold(0, |common, (whole, _)| gcd(common, *whole));
    (1..)
        .take_while(|each| each * each <= whole)
        .filter(|each| whole.is_multiple_of(*each))
        .flat_map(|each| [each, whole / each])
        .filter(|each| able(*each))
        .min_by_key(|each| (each.abs_diff(wanted), *each))
        .unwrap_or(1)
}

const fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
