//! Plain data as JSON text in a column.

use crate::StoreError;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// `what` names the document in an error.
pub(crate) fn to_json(what: &'static str, value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|source| StoreError::Document { what, source })
}

/// `what` names the document in an error.
pub(crate) fn from_json<T: DeserializeOwned>(what: &'static str, text: &str) -> Result<T, StoreError> {
    serde_json::from_str(text).map_err(|source| StoreError::Document { what, source })
}
