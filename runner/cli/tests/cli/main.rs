//! The program as its users meet it: command lines in, words, files and exit codes out. Nothing here trains.

mod kitchen;
mod planning;
mod results;
mod running;
mod words;
