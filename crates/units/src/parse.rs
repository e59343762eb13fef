//! The grammar of quantities: a decimal number, optional spaces, a prefix and a unit.
//!
//! Case decides between bit (`b`) and byte (`B`). Decimal prefixes are powers of 1000 and binary ones
//! (`Ki`, `Mi`, `Gi`, `Ti`) powers of 1024. A number without a unit is refused: users of such
//! tools most often ask what a bare `50` means.

use std::fmt;

/// Why a quantity could not be read. Its text says what was found and shows a valid value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitError {
    /// The text that could not be read.
    pub found: String,
    /// Where that text begins in the input, in characters.
    pub at: usize,
    /// What is wrong with it, in one sentence.
    pub problem: String,
    /// How to fix it.
    pub help: String,
}

impl fmt::Display for UnitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}; {}", self.found, self.problem, self.help)
    }
}

impl std::error::Error for UnitError {}

/// Which prefixes a unit takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Prefixes {
    /// `ps` to `s`.
    Time,
    /// `k` to `E`.
    Si,
    /// `k` to `E` and `Ki` to `Ti`.
    SiAndBinary,
}

impl Prefixes {
    /// `(prefix, numerator, denominator)`.
    fn table(self) -> &'static [(&'static str, u64, u64)] {
        const DECIMAL: &[(&str, u64, u64)] = &[
            ("", 1, 1),
            ("k", 1_000, 1),
            ("K", 1_000, 1),
            ("M", 1_000_000, 1),
            ("G", 1_000_000_000, 1),
            ("T", 1_000_000_000_000, 1),
            ("P", 1_000_000_000_000_000, 1),
            ("E", 1_000_000_000_000_000_000, 1),
            ("Ki", 1 << 10, 1),
            ("Mi", 1 << 20, 1),
            ("Gi", 1 << 30, 1),
            ("Ti", 1 << 40, 1),
        ];
        const TIME: &[(&str, u64, u64)] = &[
            ("", 1, 1),
            ("m", 1, 1_000),
            ("u", 1, 1_000_000),
            // The micro sign and the Greek letter look the same.
            ("\u{b5}", 1, 1_000_000),
            ("\u{3bc}", 1, 1_000_000),
            ("n", 1, 1_000_000_000),
            ("p", 1, 1_000_000_000_000),
        ];
        match self {
            Self::Time => TIME,
            Self::Si => &DECIMAL[..8],
            Self::SiAndBinary => DECIMAL,
        }
    }
}

/// Read `text` as a whole number of base units. `units` are `(unit, base units in one)`.
pub(crate) fn quantity(
    text: &str,
    what: &str,
    units: &[(&str, u64)],
    prefixes: Prefixes,
    example: &str,
) -> Result<u64, UnitError> {
    let error = |problem: String, help: String| UnitError { found: text.to_owned(), at: 0, problem, help };
    let trimmed = text.trim();
    let split = trimmed
        .char_indices()
        .find(|&(at, c)| !(c.is_ascii_digit() || c == '.' || is_exponent(trimmed, at)))
        .map_or(trimmed.len(), |(at, _)| at);
    let (number, unit) = (&trimmed[..split], trimmed[split..].trim());
    if trimmed.starts_with('-') {
        return Err(error(
            format!("a {what} cannot be negative"),
            format!("write a positive {what} such as \"{example}\""),
        ));
    }
    if number.is_empty() {
        return Err(error(
            format!("not a {what}"),
            format!("write a number and a unit, such as \"{example}\""),
        ));
    }
    if unit.is_empty() {
        return Err(error(
            "a number without a unit".to_owned(),
            format!("add a unit, such as \"{number}{}\"", example_unit(example)),
        ));
    }
    let factor = find_unit(unit, units, prefixes).ok_or_else(|| {
        let help = match meant(unit, units, prefixes).as_slice() {
            [bits, bytes] => {
                format!("write \"{number}{bits}\" for bits, or \"{number}{bytes}\" for bytes: case matters")
            }
            [near, ..] if near.contains(['b', 'B']) => {
                format!("did you mean \"{number}{near}\"? (case matters: b is bit, B is byte)")
            }
            [near, ..] => format!("did you mean \"{number}{near}\"?"),
            [] => format!("write it like \"{example}\""),
        };
        error(format!("`{unit}` is not a unit of {what}"), help)
    })?;
    let like = || format!("write it like \"{example}\"");
    let (digits, scale) =
        decimal(number).ok_or_else(|| error(format!("`{number}` is not a number"), like()))?;
    to_base(&digits, scale, factor).map_err(|problem| match problem {
        NoWhole::TooLarge => {
            let help = format!("the largest {what} is {}{unit}", largest(factor));
            error(format!("too large for a {what}"), help)
        }
        NoWhole::TooFine => {
            error("finer than the smallest unit (1 ps, 1 B, 1 b/s, 1 FLOP)".to_owned(), like())
        }
    })
}

/// Whether the character at `at` belongs to an exponent such as `1e-3`, rather than to a unit that starts with E.
fn is_exponent(text: &str, at: usize) -> bool {
    let bytes = text.as_bytes();
    let after_number = at > 0 && (bytes[at - 1].is_ascii_digit() || bytes[at - 1] == b'.');
    match bytes[at] {
        b'e' => {
            after_number && bytes.get(at + 1).is_some_and(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+'))
        }
        b'-' | b'+' => at > 1 && bytes[at - 1] == b'e',
        _ => false,
    }
}

fn example_unit(example: &str) -> &str {
    example.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.')
}

/// The factor of `unit` as a fraction of base units.
fn find_unit(unit: &str, units: &[(&str, u64)], prefixes: Prefixes) -> Option<(u128, u128)> {
    units.iter().find_map(|&(name, base)| {
        let prefix = unit.strip_suffix(name)?;
        let &(_, num, den) = prefixes.table().iter().find(|&&(p, _, _)| p == prefix)?;
        Some((u128::from(num) * u128::from(base), u128::from(den)))
    })
}

/// The units that `unit` may be another spelling of: one, or two (bits, then bytes) where it may mean either.
fn meant(unit: &str, units: &[(&str, u64)], prefixes: Prefixes) -> Vec<String> {
    const SPELLINGS: [(&str, &str); 6] = [
        ("bits/s", "b/s"),
        ("bit/s", "b/s"),
        ("bytes/s", "b/s"),
        ("byte/s", "b/s"),
        ("bps", "b/s"),
        ("flops", "flop/s"),
    ];
    let lower = unit.to_lowercase();
    let folded = SPELLINGS
        .iter()
        .find_map(|&(ending, usual)| Some(format!("{}{usual}", lower.strip_suffix(ending)?)))
        .filter(|_| units.iter().any(|(name, _)| name.contains('/')))
        .unwrap_or_else(|| lower.clone());
    let mut found: Vec<String> = units
        .iter()
        .rev()
        .filter_map(|&(name, _)| {
            let spelt = prefixes.table().iter().map(|&(prefix, _, _)| format!("{prefix}{name}"));
            spelt.into_iter().find(|known| known.to_lowercase() == folded)
        })
        .collect();
    if let (Some(letter), 2) = (bit_or_byte(unit, &lower), found.len()) {
        found.retain(|known| known.contains(letter));
    }
    found
}

/// Whether `unit` means bits or bytes. The word `bit` or `byte`, the suffix `bps`, or mixed case decides: someone who
/// mixes case means the case. `gb/s` and `GBPS` are ambiguous.
fn bit_or_byte(unit: &str, lower: &str) -> Option<char> {
    if lower.contains("bit") {
        return Some('b');
    }
    if lower.contains("byte") {
        return Some('B');
    }
    let cases =
        unit.contains(|c: char| c.is_ascii_uppercase()) && unit.contains(|c: char| c.is_ascii_lowercase());
    if cases || unit.ends_with("bps") { unit.chars().rfind(|c| matches!(c, 'b' | 'B')) } else { None }
}

/// Parses `"12.5e3"` to `("125", 2)`: the digits without zeros around them, and the power of ten that multiplies
/// them.
fn decimal(text: &str) -> Option<(String, i64)> {
    let (mantissa, exponent) = match text.split_once('e') {
        Some((mantissa, exponent)) => (mantissa, power(exponent)?),
        None => (text, 0),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    let shorter = digits.trim_end_matches('0');
    let zeros = digits.len() - shorter.len();
    Some((shorter.trim_start_matches('0').to_owned(), exponent - fraction.len() as i64 + zeros as i64))
}

/// Parses an exponent of ten. An exponent that does not fit is replaced by a million, which is out of range too.
fn power(text: &str) -> Option<i64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => (-1, digits),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    if digits.is_empty() || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    Some(sign * digits.parse().unwrap_or(i64::MAX).min(1_000_000))
}

/// Why a quantity is not a whole number of base units.
enum NoWhole {
    TooLarge,
    TooFine,
}

/// `digits * 10^scale * num/den` as a whole number of base units.
fn to_base(digits: &str, scale: i64, (num, den): (u128, u128)) -> Result<u64, NoWhole> {
    if digits.is_empty() {
        return Ok(0);
    }
    let exact = || {
        let product = digits.parse::<u128>().ok()?.checked_mul(num)?;
        let ten = 10u128.checked_pow(u32::try_from(scale.unsigned_abs()).ok()?)?;
        if scale >= 0 {
            Some((product.checked_mul(ten)?, den))
        } else {
            Some((product, den.checked_mul(ten)?))
        }
    };
    match exact() {
        Some((product, den)) if product / den > u128::from(u64::MAX) => Err(NoWhole::TooLarge),
        Some((product, den)) if product % den != 0 => Err(NoWhole::TooFine),
        Some((product, den)) => u64::try_from(product / den).map_err(|_| NoWhole::TooLarge),
        // There are more digits than a number of base units can have: the value is too large, or too fine.
        None => {
            let magnitude = (digits.len() as i64 + scale) as f64 + (num as f64 / den as f64).log10();
            Err(if magnitude > 19.0 { NoWhole::TooLarge } else { NoWhole::TooFine })
        }
    }
}

/// The largest number of units that fits, to four digits, rounded down.
fn largest((num, den): (u128, u128)) -> String {
    let most = u128::from(u64::MAX) * den / num;
    let cut = most.checked_ilog10().unwrap_or(0).saturating_sub(3);
    let digits = most / 10u128.pow(cut);
    if cut == 0 {
        return digits.to_string();
    }
    let text = format!("{}.{:03}", digits / 1000, digits % 1000);
    format!("{}e{}", text.trim_end_matches('0').trim_end_matches('.'), cut + 3)
}

#[cfg(test)]
mod tests {
    use crate::{Bytes, FlopRate, Flops, Rate, Time};

    fn error(text: &str) -> String {
        text.parse::<Rate>().unwrap_err().to_string()
    }

    #[test]
    fn common_spellings_are_read() {
        assert_eq!("100Gb/s".parse(), Ok(Rate(100_000_000_000)));
        assert_eq!("25 GB/s".parse(), Ok(Rate(200_000_000_000)));
        assert_eq!("0.5us".parse(), Ok(Time(500_000)));
        assert_eq!("0.5\u{b5}s".parse(), Ok(Time(500_000)));
        assert_eq!("0.5\u{3bc}s".parse(), Ok(Time(500_000)));
        assert_eq!("64MiB".parse(), Ok(Bytes(64 << 20)));
        assert_eq!("1GB".parse(), Ok(Bytes(1_000_000_000)));
        assert_eq!("1e3B".parse(), Ok(Bytes(1_000)));
        assert_eq!("1EFLOP".parse(), Ok(Flops(1_000_000_000_000_000_000)));
        assert_eq!("2e-6s".parse(), Ok(Time(2_000_000)));
        assert_eq!("0s".parse(), Ok(Time(0)));
    }

    #[test]
    fn errors_suggest_a_valid_value() {
        assert_eq!(error("50"), "`50`: a number without a unit; add a unit, such as \"50Gb/s\"");
        assert_eq!(
            error("50GiBps"),
            "`50GiBps`: `GiBps` is not a unit of rate; did you mean \"50GiB/s\"? (case matters: b is bit, B is byte)"
        );
        assert_eq!(
            error("50gb/s"),
            "`50gb/s`: `gb/s` is not a unit of rate; write \"50Gb/s\" for bits, or \"50GB/s\" for bytes: case matters"
        );
        assert_eq!(
            error("-1Gb/s"),
            "`-1Gb/s`: a rate cannot be negative; write a positive rate such as \"100Gb/s\""
        );
        assert_eq!(error("NaN"), "`NaN`: not a rate; write a number and a unit, such as \"100Gb/s\"");
        assert_eq!(error("1.2.3Gb/s"), "`1.2.3Gb/s`: `1.2.3` is not a number; write it like \"100Gb/s\"");
        let too_large = "too large for a rate; the largest rate is";
        assert_eq!(error("999999999999Tb/s"), format!("`999999999999Tb/s`: {too_large} 1.844e7Tb/s"));
        assert_eq!(error("1e40GB/s"), format!("`1e40GB/s`: {too_large} 2.305e9GB/s"));
        assert_eq!(
            error("1e99999999999999999999b/s"),
            format!("`1e99999999999999999999b/s`: {too_large} 1.844e19b/s")
        );
        assert!("0.1ps".parse::<Time>().unwrap_err().to_string().contains("finer than"));
        for (text, most) in [("1e99s", "1.844e7s"), ("40000000s", "1.844e7s"), ("1e20ps", "1.844e19ps")] {
            let problem = text.parse::<Time>().unwrap_err().to_string();
            assert_eq!(problem, format!("`{text}`: too large for a time; the largest time is {most}"));
            assert!(most.parse::<Time>().is_ok());
        }
        let long = format!("{}GB", "9".repeat(60));
        assert!(long.parse::<Bytes>().unwrap_err().to_string().contains("the largest size is 1.844e10GB"));
        assert!("30EB".parse::<Bytes>().unwrap_err().to_string().ends_with("the largest size is 18EB"));
        for fine in ["1e-99s", "1.0000000000000000000000000000000000001s", "1e-99999999999999999999s"] {
            let problem = fine.parse::<Time>().unwrap_err().to_string();
            assert!(problem.contains("finer than"), "{problem}");
        }
        assert_eq!("0e99s".parse(), Ok(Time(0)));
        assert_eq!("100000000000000000000000000000000000000e-35s".parse(), Ok(Time(1_000_000_000_000_000)));
        assert!("1e+s".parse::<Time>().is_err());
        assert!("".parse::<Time>().is_err());
        assert!("µ".parse::<Time>().is_err());
    }
    #[test]
    fn hints_do_not_confuse_bits_and_bytes() {
        let bits = ["100Gbps", "100 Gbps", "100gbps", "100Gbit/s", "100gbits/s", "100Gb/S", "100GBit/s"];
        let bytes = ["100GBps", "100gBps", "100Gbyte/s", "100GBytes/s", "100gB/s"];
        let either = ["100gb/s", "100GB/S", "100GBPS"];
        let single = |unit| format!("did you mean \"100{unit}\"? (case matters: b is bit, B is byte)");
        let both = "write \"100Gb/s\" for bits, or \"100GB/s\" for bytes: case matters".to_owned();
        let help = |text: &str| text.parse::<Rate>().unwrap_err().help;
        for text in bits {
            assert_eq!(help(text), single("Gb/s"), "{text}");
        }
        for text in bytes {
            assert_eq!(help(text), single("GB/s"), "{text}");
        }
        for text in either {
            assert_eq!(help(text), both, "{text}");
        }
        assert_eq!("1US".parse::<Time>().unwrap_err().help, "did you mean \"1us\"?");
        assert_eq!("312TFLOPS".parse::<FlopRate>().unwrap_err().help, "did you mean \"312TFLOP/s\"?");
        assert_eq!(
            "64mb".parse::<Bytes>().unwrap_err().help,
            "did you mean \"64MB\"? (case matters: b is bit, B is byte)"
        );
    }
}
