//! Counts whose zero is written as a word, such as `unlimited`, in a scenario's text.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Defines a module for serde that writes zero as a word, and reads the word or any number.
macro_rules! named_zero {
    ($name:ident) => {
        pub(super) mod $name {
            use serde::{Deserializer, Serializer};

            pub(crate) fn serialize<S: Serializer>(count: &u32, serializer: S) -> Result<S::Ok, S::Error> {
                super::write(*count, stringify!($name), serializer)
            }
            pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u32, D::Error> {
                super::read(stringify!($name), deserializer)
            }
        }
    };
}

named_zero!(unlimited);
named_zero!(per_link);

fn write<S: Serializer>(count: u32, word: &str, serializer: S) -> Result<S::Ok, S::Error> {
    if count == 0 { serializer.serialize_str(word) } else { count.serialize(serializer) }
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Count(u32),
    Word(String),
}

fn read<'de, D: Deserializer<'de>>(word: &str, deserializer: D) -> Result<u32, D::Error> {
    match Given::deserialize(deserializer) {
        Ok(Given::Count(count)) => Ok(count),
        Ok(Given::Word(found)) if found == word => Ok(0),
        _ => Err(serde::de::Error::custom(format!("expected `{word}` or a whole number"))),
    }
}

#[cfg(test)]
mod tests {
    use crate::Collectives;

    #[test]
    fn zero_is_a_word() {
        let text =
            r#"{"issue_threshold": "unlimited", "active_chunks": 0, "queues": "per_link", "concurrent": 3}"#;
        let read: Collectives = serde_json::from_str(text).unwrap();
        assert_eq!((read.issue_threshold, read.active_chunks, read.queues, read.concurrent), (0, 0, 0, 3));
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
