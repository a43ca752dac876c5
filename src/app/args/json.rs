//! How values are written in JSON.

use std::marker::PhantomData;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Number;

/// What JSON readers count exactly up to.
pub(in crate::app) const NUMBER_MAX: u64 = 1 << 53;

/// An object of JSON. A list of its values would do for serde, too. Read as it comes: a tree of values would need many times
/// the memory of the body.
#[derive(Debug)]
pub(in crate::app) struct Object<T>(pub T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Fields<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
            type Value = T;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<T, A::Error> {
                T::deserialize(MapAccessDeserializer::new(fields))
            }
        }
        reader.deserialize_map(Fields(PhantomData)).map(Self)
    }
}

/// A whole number that every JSON reader counts exactly. To JSON 17.0 is as whole as 17.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::app) struct Whole(pub u64);

impl<'de> Deserialize<'de> for Whole {
    fn deserialize<D: Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        let number = Number::deserialize(reader)?;
        let whole = number.as_u64().or_else(|| {
            let float = number.as_f64()?;
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "it is whole and small"
            )]
            (float.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&float)).then_some(float as u64)
        });
        let whole = whole.filter(|number| *number <= NUMBER_MAX);
        whole
            .map(Self)
            .ok_or_else(|| D::Error::custom("a number must be whole and at most 2^53"))
    }
}

/// Such a number, if one is given.
pub(in crate::app) fn counted<'de, D: Deserializer<'de>>(reader: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Whole>::deserialize(reader)?.map(|Whole(number)| number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct One {
        number: Whole,
    }

    #[test]
    fn numbers_are_whole_and_objects_are_objects() {
        let read = |text: &str| serde_json::from_str::<Whole>(text).map(|Whole(number)| number);
        assert_eq!(read("17").unwrap(), 17);
        assert_eq!(read("17.0").unwrap(), 17);
        assert_eq!(read("9007199254740992").unwrap(), NUMBER_MAX);
        for wrong in ["-1", "1.5", "9007199254740993", "1e300", "\"1\"", "null", "true"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
        let read = |text: &str| serde_json::from_str::<Object<One>>(text);
        assert_eq!(read(r#"{"number": 2}"#).unwrap().0.number, Whole(2));
        assert!(read("[2]").is_err() && read("2").is_err() && read("{").is_err());
    }
}
