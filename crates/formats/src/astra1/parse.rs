//! The parser of the grammar.

use super::tokens::{Token, Tokens};
use super::{Collective, Header, Layer, Pass, Policy, TextWorkload};
use crate::astra2::Source;
use std::path::Path;
use syncline_diagnostics::{Code, Diagnostic, Diagnostics, Result};

/// Most errors reported one by one.
const MAX_PROBLEMS: usize = 20;
/// Words in the header of SimAI's workloads. (aliyun/SimAI, `astra-sim-alibabacloud/astra-sim/workload/Workload.cc`.)
const SIMAI: [&str; 5] = ["ep:", "pp:", "vpp:", "ga:", "all_gpus:"];
/// The word for "no collective".
const NONE: &str = "NONE";

impl TextWorkload {
    /// Reads a file.
    ///
    /// # Errors
    /// [`Code::Unreadable`], or [`Code::BadAstraText`] for every error that can be found in one pass, with its place.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(Source::read(path)?)
    }

    /// Reads a text.
    ///
    /// # Errors
    /// [`Code::BadAstraText`].
    pub fn parse(source: Source) -> Result<Self> {
        let mut parser =
            Parser { tokens: Tokens::new(&source), problems: Diagnostics::new(), indices: Vec::new() };
        match parser.file() {
            Ok((policy, header, layers)) => {
                parser.problems.into_result()?;
                Ok(Self { policy, header, layers, source })
            }
            Err(error) => {
                parser.problems.push(*error);
                Err(parser.problems)
            }
        }
    }
}

/// An error after which parsing cannot continue.
type Parsed<T> = std::result::Result<T, Box<Diagnostic>>;

struct Parser<'a> {
    tokens: Tokens<'a>,
    /// Errors after which parsing continued.
    problems: Diagnostics,
    /// Layer indices in the header.
    indices: Vec<(&'static str, u32, Token<'a>)>,
}

impl<'a> Parser<'a> {
    fn file(&mut self) -> Parsed<(Policy, Header, Vec<Layer>)> {
        if self.tokens.peek().is_none() {
            // Skips trailing white space, to count its lines.
            self.tokens.next();
            let error = self.tokens.at_end("the file is empty").key("policy");
            return Err(Box::new(error.allowed("a policy such as DATA, the number of layers, the layers")));
        }
        if let Some(simai) = self.of_simai() {
            return Err(Box::new(simai));
        }
        let policy = self.policy()?;
        let header = self.header(policy)?;
        let (at, count) = (self.tokens.peek(), self.tokens.small("number of layers")?);
        if let (0, Some(at)) = (count, at) {
            return Err(Box::new(self.tokens.wrong(
                at,
                "number of layers",
                "a workload needs at least one layer",
            )));
        }
        for &(key, _, token) in self.indices.iter().filter(|&&(_, index, _)| index >= count) {
            let wrong = self.tokens.wrong(token, key, "there is no layer with this index");
            self.problems.push(wrong.allowed(format!("0 to {}", count - 1)));
        }
        let mut layers = Vec::new();
        for index in 0..count {
            if self.tokens.peek().is_none() {
                return Err(Box::new(self.too_few(index, count)));
            }
            layers.push(self.layer(index, policy)?);
            if self.problems.0.len() >= MAX_PROBLEMS {
                let last =
                    Diagnostic::error(Code::BadAstraText, "more errors may follow; the rest was not read");
                return Err(Box::new(last));
            }
        }
        self.nothing_more(count, policy)?;
        Ok((policy, header, layers))
    }

    /// The error for a workload of SimAI, whose header has degrees of parallelism and whose layers have collectives
    /// that ASTRA-sim 1 does not have.
    fn of_simai(&self) -> Option<Diagnostic> {
        let mut ahead = self.tokens.clone();
        let line = ahead.peek()?.line;
        let mut found: Option<Token<'a>> = None;
        while let Some(token) = ahead.next().filter(|token| token.line == line) {
            if SIMAI.contains(&token.text) {
                found = Some(token);
                break;
            }
        }
        Some(
            self.tokens
                .wrong(found?, "header", "the file is a workload of SimAI, as AICB writes it, and not one of ASTRA-sim 1")
                .allowed("a policy such as DATA, the number of layers, the layers")
                .note("its header and its collectives (ALLREDUCE_DP_EP, ALLTOALL_EP, ...) are specific to SimAI")
                .help(
                    "make a scenario of it: `syncline convert WORKLOAD job.yaml --fabric FABRIC`",
                ),
        )
    }

    /// The first word of the file.
    fn policy(&mut self) -> Parsed<Policy> {
        let first = self.tokens.need("policy", "a policy")?;
        if let Some(policy) = Policy::from_name(first.text) {
            return Ok(policy);
        }
        let mut ahead = self.tokens.clone();
        let (second, third) = (ahead.next(), ahead.next());
        if second.is_some_and(|token| token.text == "-1")
            && third.is_some_and(|token| token.text.parse::<u64>().is_ok())
        {
            return Err(Box::new(
                self.tokens
                    .wrong(first, "policy", "the file begins with a layer: its two header lines are missing")
                    .allowed("a policy, then the number of layers, then the layers")
                    .note("workload files of LIBRA have only layers, and no policy")
                    .help("write a policy such as `DATA` and the number of layers before the first layer"),
            ));
        }
        Err(Box::new(self.unknown_policy(first, "policy")))
    }

    fn unknown_policy(&self, token: Token<'_>, key: &str) -> Diagnostic {
        self.tokens
            .wrong(token, key, "unknown policy")
            .one_of(token.text, Policy::ALL.iter().map(|policy| policy.name()))
    }

    /// Parses what is between the policy and the number of layers.
    fn header(&mut self, policy: Policy) -> Parsed<Header> {
        let mut header = Header::default();
        match policy {
            // Files of July 2020 continue with the number of layers.
            Policy::HybridTransformer
                if self.tokens.peek().is_some_and(|t| t.text.parse::<u64>().is_err()) =>
            {
                header.model_group = Some(self.model_group()?);
            }
            Policy::HybridTransformerFwdInBckwd => {
                header.model_group = Some(self.model_group()?);
                header.checkpoints = self.indices("checkpoints")?;
                header.checkpoint_initiates = self.indices("checkpoint_initiates")?;
            }
            Policy::HybridDlrm | Policy::HybridDlrmEnhanced => {
                header.last_bottom = Some(self.index("last bottom layer")?);
            }
            _ => {}
        }
        Ok(header)
    }

    /// Parses `model_parallel_NPU_group: 4`.
    fn model_group(&mut self) -> Parsed<u32> {
        let key = "model_parallel_NPU_group";
        self.label(key)?;
        let (at, size) = (self.tokens.peek(), self.tokens.small(key)?);
        match at {
            Some(at) if size == 0 => {
                Err(Box::new(self.tokens.wrong(at, key, "a group has at least 1 NPU").allowed("1 or more")))
            }
            _ => Ok(size),
        }
    }

    /// Parses the word before a number; ASTRA-sim accepts any word.
    fn label(&mut self, key: &str) -> Parsed<()> {
        let word = self.tokens.need(key, &format!("{key}: and a number"))?;
        if word.text.parse::<i64>().is_ok() {
            return Err(Box::new(
                self.tokens
                    .wrong(word, key, "a word is expected here, then a number")
                    .allowed(format!("{key}: and a number")),
            ));
        }
        Ok(())
    }

    /// Parses the index of a layer.
    fn index(&mut self, key: &'static str) -> Parsed<u32> {
        let at = self.tokens.peek();
        let index = self.tokens.small(key)?;
        self.indices.extend(at.map(|token| (key, index, token)));
        Ok(index)
    }

    /// Parses `checkpoints: 2 2 11`: a word, the number of layers, and the layers.
    fn indices(&mut self, key: &'static str) -> Parsed<Vec<u32>> {
        self.label(key)?;
        let count = self.tokens.small(key)?;
        let mut indices = Vec::new();
        for _ in 0..count {
            indices.push(self.index(key)?);
        }
        Ok(indices)
    }

    fn layer(&mut self, index: u32, policy: Policy) -> Parsed<Layer> {
        let name = self.tokens.need("layer", "a layer's name")?;
        let of = |field: &str| format!("layer {index} `{}`, {field}", shorten(name.text));
        let reserved = self.tokens.need(&of("reserved number"), "-1")?;
        if reserved.text.parse::<i64>().is_err() {
            return Err(Box::new(
                self.tokens
                    .wrong(reserved, &of("reserved number"), "a layer's second field is a number")
                    .allowed("-1")
                    .help("count the fields of this layer and of the one before"),
            ));
        }
        let mut pass = |name: &str| -> Parsed<Pass> {
            let cycles = self.tokens.number(&of(&format!("{name} cycles")))?;
            let collective = self.collective(&of(&format!("{name} collective")))?;
            let bytes = self.tokens.number(&of(&format!("{name} bytes")))?;
            Ok(Pass { cycles, exchange: collective.map(|collective| (collective, bytes)) })
        };
        let (forward, input_grad, weight_grad) =
            (pass("forward")?, pass("input-grad")?, pass("weight-grad")?);
        let update_cycles = self.tokens.number(&of("update cycles"))?;
        let own =
            if policy == Policy::HybridCustomized { Some(self.own_policy(&of("policy"))?) } else { None };
        Ok(Layer {
            name: name.text.to_owned(),
            forward,
            input_grad,
            weight_grad,
            update_cycles,
            policy: own,
            line: name.line,
        })
    }

    /// Parses a collective. An unknown word is reported, and parsing continues.
    fn collective(&mut self, key: &str) -> Parsed<Option<Collective>> {
        let names = || [NONE].into_iter().chain(Collective::ALL.iter().map(|collective| collective.name()));
        let token = self.tokens.need(key, &names().collect::<Vec<_>>().join(", "))?;
        if token.text == NONE {
            return Ok(None);
        }
        if let Some(collective) = Collective::from_name(token.text) {
            return Ok(Some(collective));
        }
        if token.text.parse::<f64>().is_ok() {
            let wrong = self.tokens.wrong(token, key, "a collective is expected here");
            return Err(Box::new(wrong.allowed(names().collect::<Vec<_>>().join(", ")).help(
                "a layer is: name, -1, then three times cycles, collective, bytes, then update cycles",
            )));
        }
        let wrong = self.tokens.wrong(token, key, "unknown collective").one_of(token.text, names());
        self.problems.push(wrong.note("ASTRA-sim silently reads every unknown word as NONE"));
        Ok(None)
    }

    /// Parses the policy at the end of a layer.
    fn own_policy(&mut self, key: &str) -> Parsed<Policy> {
        let token = self.tokens.need(key, "a policy such as DATA")?;
        if let Some(policy) = Policy::from_name(token.text) {
            return Ok(policy);
        }
        Err(Box::new(self.unknown_policy(token, key)))
    }

    fn too_few(&mut self, index: u32, count: u32) -> Diagnostic {
        self.tokens.next();
        self.tokens
            .at_end("the file has fewer layers than it says")
            .key("number of layers")
            .found(format!("{index} layers"))
            .allowed(format!("{count} layers"))
            .help(format!("write {index} as the number of layers, or add the layers that are missing"))
    }

    fn nothing_more(&mut self, count: u32, policy: Policy) -> Parsed<()> {
        let Some(extra) = self.tokens.peek() else { return Ok(()) };
        let fields = if policy == Policy::HybridCustomized { 13 } else { 12 };
        let left = self.tokens.clone().count();
        let wrong = self.tokens.wrong(extra, "number of layers", "the file has more layers than it says");
        Err(Box::new(if left.is_multiple_of(fields) {
            let layers = count as usize + left / fields;
            wrong
                .found(format!("{layers} layers"))
                .allowed(format!("{count} layers"))
                .help(format!("write {layers} as the number of layers"))
        } else {
            wrong
                .allowed(format!("nothing after {count} layers"))
                .note(format!("{left} fields are left over; a layer has {fields}"))
        }))
    }
}

/// The beginning of a name, which may be any text.
fn shorten(name: &str) -> String {
    name.chars().take(40).collect()
}
