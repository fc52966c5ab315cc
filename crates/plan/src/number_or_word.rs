//! A number or a word, as files store `jobs` and `repeat`.

use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum NumberOrWord {
    Number(u32),
    Word(String),
}
