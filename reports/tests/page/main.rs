//! Pages of ordinary and of broken sweeps: complete, escaped, self-contained, well-formed, small, repeatable.

#![expect(clippy::unwrap_used, reason = "a test may stop where it stands")]

mod anything;
mod broken;
mod checks;
mod conditions;
mod machine;
mod pace;
mod size;
mod waiting;
mod whole;
