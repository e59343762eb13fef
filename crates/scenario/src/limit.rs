//! Counts whose absence is written as a word, such as `unlimited`, in a scenario's text.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::num::NonZeroU32;

/// Defines a module for serde that writes `None` as a word, and reads the word, or zero, as `None`.
macro_rules! named_none {
    ($name:ident) => {
        pub(super) mod $name {
            use serde::{Deserializer, Serializer};
            use std::num::NonZeroU32;

            pub(crate) fn serialize<S: Serializer>(
                count: &Option<NonZeroU32>,
                serializer: S,
            ) -> Result<S::Ok, S::Error> {
                super::write(*count, stringify!($name), serializer)
            }
            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
                deserializer: D,
            ) -> Result<Option<NonZeroU32>, D::Error> {
                super::read(stringify!($name), deserializer)
            }
        }
    };
}

named_none!(unlimited);
named_none!(per_link);

fn write<S: Serializer>(count: Option<NonZeroU32>, word: &str, serializer: S) -> Result<S::Ok, S::Error> {
    match count {
        Some(count) => count.serialize(serializer),
        None => serializer.serialize_str(word),
    }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Count(u32),
    Word(String),
}

fn read<'de, D: Deserializer<'de>>(word: &str, deserializer: D) -> Result<Option<NonZeroU32>, D::Error> {
    match Given::deserialize(deserializer) {
        Ok(Given::Count(count)) => Ok(NonZeroU32::new(count)),
        Ok(Given::Word(found)) if found == word => Ok(None),
        _ => Err(serde::de::Error::custom(format!("expected `{word}` or a whole number"))),
    }
}

#[cfg(test)]
mod tests {
    use crate::Collectives;
    use std::num::NonZeroU32;

    #[test]
    fn an_absent_limit_is_written_as_a_word() {
        let text =
            r#"{"issue_threshold": "unlimited", "active_chunks": 0, "queues": "per_link", "concurrent": 3}"#;
        let read: Collectives = serde_json::from_str(text).unwrap();
        assert_eq!((read.issue_threshold, read.active_chunks, read.queues), (None, None, None));
        assert_eq!(read.concurrent, NonZeroU32::new(3));
        let written = serde_json::to_value(&read).unwrap();
        assert_eq!(
            (&written["active_chunks"], &written["queues"]),
            (&"unlimited".into(), &"per_link".into())
        );
        assert_eq!((&written["concurrent"], &written["issue_batch"]), (&3.into(), &16.into()));
        for wrong in [r#"{"queues": "unlimited"}"#, r#"{"outstanding": -1}"#, r#"{"concurrent": "per_link"}"#]
        {
            assert!(serde_json::from_str::<Collectives>(wrong).is_err(), "{wrong}");
        }
    }
}
