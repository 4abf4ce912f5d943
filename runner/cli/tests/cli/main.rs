//! The program as its users meet it: command lines in, words, files and exit codes out. Nothing here trains.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

mod data;
mod kitchen;
mod planning;
mod publish;
mod results;
mod running;
mod words;
