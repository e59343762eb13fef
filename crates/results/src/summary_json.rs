//! Converts the summary to JSON and back.

use crate::error::internal;
use syncline_diagnostics::{Code, Diagnostic, Result};
use syncline_timeline::Summary;

/// The summary as JSON for people and tools: one key a line, ending in a line break.
///
/// # Errors
/// [`Code::Internal`] if a number is not finite, which JSON cannot express.
pub fn summary_to_json(summary: &Summary) -> Result<String> {
    let mut text = serde_json::to_string_pretty(summary).map_err(|error| internal("the summary", error))?;
    text.push('\n');
    // A number that is not finite becomes `null`. Parsing the text again finds it.
    match serde_json::from_str::<Summary>(&text) {
        Ok(_) => Ok(text),
        Err(error) => {
            let line = text.lines().nth(error.line().saturating_sub(1)).unwrap_or_default();
            Err(internal("the summary", format!("{}: {error}", line.trim())))
        }
    }
}

/// Reads a summary that [`summary_to_json`] wrote.
///
/// # Errors
/// [`Code::BadResults`] if the text is not a summary.
pub fn summary_from_json(text: &str) -> Result<Summary> {
    serde_json::from_str(text).map_err(|error| {
        Diagnostic::error(Code::BadResults, "the summary is corrupt").found(error.to_string()).into()
    })
}

#[cfg(test)]
mod tests {
    use super::{summary_from_json, summary_to_json};
    use proptest::prelude::*;
    use syncline_diagnostics::Code;
    use syncline_timeline::Summary;

    #[test]
    fn a_number_that_is_not_finite_is_named() {
        let summary = Summary { compute_s: f64::NAN, ..Summary::default() };
        let errors = summary_to_json(&summary).unwrap_err();
        assert_eq!(errors.0[0].code, Code::Internal);
        assert!(errors.0[0].found.as_deref().unwrap().contains("compute_s"), "{errors}");
    }

    #[test]
    fn text_that_is_not_a_summary_is_refused() {
        for text in ["", "{}", "[]", "null", "{\"ended\":\"never\"}"] {
            assert_eq!(summary_from_json(text).unwrap_err().0[0].code, Code::BadResults);
        }
    }

    proptest! {
        #[test]
        fn numbers_read_back_to_the_last_bit(
            time in proptest::num::f64::NORMAL | proptest::num::f64::SUBNORMAL | proptest::num::f64::ZERO,
            bytes: u64,
            reason: String,
        ) {
            let summary = Summary { total_time_s: time, bytes, reason, ..Summary::default() };
            let text = summary_to_json(&summary).unwrap();
            let back = summary_from_json(&text).unwrap();
            prop_assert_eq!(back.total_time_s.to_bits(), time.to_bits());
            prop_assert_eq!(back, summary);
        }
    }
}
