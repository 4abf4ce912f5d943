//! The state of a lane between two steps: everything that the next step depends on and that does not follow from recipe, seed
//! and step number. Samplers and the dice of codecs are pure functions of these, so that no random stream is in it.
//!
//! A part of the state is described once, by a method that visits its values; the same visit saves and loads them, so that
//! nothing can be saved that is not loaded.

use crate::Vector;
use std::collections::BTreeMap;

/// Named values. Two states are equal if all bits are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    values: BTreeMap<String, Value>,
}

/// A value of a state.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    /// The bits of 32-bit floats.
    Floats(Vec<u32>),
    Number(u64),
}

/// Why a state does not fit the lane that loads it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the message of each variant says what its fields are")]
pub enum StateError {
    /// A value that the lane needs.
    #[error("the state has no `{name}`")]
    Missing { name: String },
    /// A number in the place of a vector, or a vector in that of a number.
    #[error("`{name}` of the state is of another type")]
    Type { name: String },
    /// A vector of another length.
    #[error("`{name}` of the state has {found} elements instead of {expected}")]
    Length { name: String, expected: usize, found: usize },
    /// A number that it cannot be.
    #[error("`{name}` of the state cannot be {found}")]
    Range { name: String, found: u64 },
    /// A value that the lane does not know.
    #[error("the state has a value `{name}` that this lane does not know")]
    Unknown { name: String },
}

impl State {
    /// Saves what `visit` visits.
    ///
    /// # Errors
    /// The first error of `visit`.
    pub fn save<E>(visit: impl FnOnce(&mut StateVisitor<'_>) -> Result<(), E>) -> Result<Self, E> {
        let mut state = Self::default();
        visit(&mut StateVisitor { values: &mut state.values, mode: Mode::Save, prefix: String::new() })?;
        Ok(state)
    }

    /// Loads what `visit` visits.
    ///
    /// # Errors
    /// Those of `visit`, and a value that it did not visit.
    pub fn load<E: From<StateError>>(
        mut self,
        visit: impl FnOnce(&mut StateVisitor<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        visit(&mut StateVisitor { values: &mut self.values, mode: Mode::Load, prefix: String::new() })?;
        match self.values.into_keys().next() {
            Some(name) => Err(StateError::Unknown { name }.into()),
            None => Ok(()),
        }
    }

    /// Steps that the lane had taken.
    pub fn steps(&self) -> Option<u64> {
        match self.values.get("step") {
            Some(Value::Number(step)) => Some(*step),
            _ => None,
        }
    }

    /// Bytes of its values.
    pub fn size(&self) -> usize {
        let size = |value: &Value| match value {
            Value::Floats(bits) => 4 * bits.len(),
            Value::Number(_) => 8,
        };
        self.values.values().map(size).sum()
    }

    /// Its values by name.
    pub fn values(&self) -> impl Iterator<Item = (&str, Stored<'_>)> {
        self.values.iter().map(|(name, value)| {
            let stored = match value {
                Value::Floats(bits) => Stored::Floats(bits),
                Value::Number(number) => Stored::Number(*number),
            };
            (name.as_str(), stored)
        })
    }

    /// The same state with another value.
    #[must_use]
    pub fn with(mut self, name: &str, stored: Stored<'_>) -> Self {
        let value = match stored {
            Stored::Floats(bits) => Value::Floats(bits.to_vec()),
            Stored::Number(number) => Value::Number(number),
        };
        self.values.insert(name.to_owned(), value);
        self
    }
}

/// A value as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored<'a> {
    /// The bits of 32-bit floats.
    Floats(&'a [u32]),
    /// A count, or the bits of a number.
    Number(u64),
}

/// Saves or loads one value after the other.
pub struct StateVisitor<'a> {
    values: &'a mut BTreeMap<String, Value>,
    mode: Mode,
    prefix: String,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Save,
    Load,
}

impl StateVisitor<'_> {
    /// Visits values whose names begin with `name` and a slash.
    ///
    /// # Errors
    /// The first error of `visit`.
    pub fn within<T, E>(
        &mut self,
        name: &str,
        visit: impl FnOnce(&mut Self) -> Result<T, E>,
    ) -> Result<T, E> {
        let length = self.prefix.len();
        self.prefix.push_str(name);
        self.prefix.push('/');
        let visited = visit(self);
        self.prefix.truncate(length);
        visited
    }

    /// A vector whose length the lane knows.
    ///
    /// # Errors
    /// It is not in the state, or has another length there.
    pub fn vector(&mut self, name: &str, vector: &mut Vector) -> Result<(), StateError> {
        let expected = vector.len();
        let mut values = std::mem::take(vector).into_inner();
        let visited = self.list(name, &mut values);
        let found = values.len();
        *vector = values.into();
        visited?;
        if found == expected {
            return Ok(());
        }
        Err(StateError::Length { name: self.full(name), expected, found })
    }

    /// A vector that is either empty or of this length.
    ///
    /// # Errors
    /// It is not in the state, or has another length there.
    pub fn vector_if_any(
        &mut self,
        name: &str,
        vector: &mut Vector,
        expected: usize,
    ) -> Result<(), StateError> {
        let mut values = std::mem::take(vector).into_inner();
        let visited = self.list(name, &mut values);
        let found = values.len();
        *vector = values.into();
        visited?;
        if found == 0 || found == expected {
            return Ok(());
        }
        Err(StateError::Length { name: self.full(name), expected, found })
    }

    /// A vector of any length.
    ///
    /// # Errors
    /// It is not in the state.
    pub fn list(&mut self, name: &str, list: &mut Vec<f32>) -> Result<(), StateError> {
        match self.mode {
            Mode::Save => {
                let bits = list.iter().map(|value| value.to_bits()).collect();
                self.values.insert(self.full(name), Value::Floats(bits));
            }
            Mode::Load => match self.take(name)? {
                Value::Floats(bits) => *list = bits.into_iter().map(f32::from_bits).collect(),
                Value::Number(_) => return Err(StateError::Type { name: self.full(name) }),
            },
        }
        Ok(())
    }

    /// An unsigned number of 64 bits.
    ///
    /// # Errors
    /// It is not in the state, or is a vector there.
    pub fn number(&mut self, name: &str, number: &mut u64) -> Result<(), StateError> {
        match self.mode {
            Mode::Save => drop(self.values.insert(self.full(name), Value::Number(*number))),
            Mode::Load => match self.take(name)? {
                Value::Number(found) => *number = found,
                Value::Floats(_) => return Err(StateError::Type { name: self.full(name) }),
            },
        }
        Ok(())
    }

    /// A count that is at most `most`.
    ///
    /// # Errors
    /// It is not in the state, or is larger there.
    pub fn count(&mut self, name: &str, count: usize, most: usize) -> Result<usize, StateError> {
        let mut number = count as u64;
        self.number(name, &mut number)?;
        let found = usize::try_from(number).ok().filter(|found| *found <= most);
        found.ok_or_else(|| StateError::Range { name: self.full(name), found: number })
    }

    /// A number in single precision.
    ///
    /// # Errors
    /// It is not in the state.
    pub fn float(&mut self, name: &str, value: &mut f32) -> Result<(), StateError> {
        let mut bits = u64::from(value.to_bits());
        self.number(name, &mut bits)?;
        let exact = u32::try_from(bits);
        *value = f32::from_bits(exact.map_err(|_| StateError::Range { name: self.full(name), found: bits })?);
        Ok(())
    }

    /// A number in double precision.
    ///
    /// # Errors
    /// It is not in the state.
    pub fn double(&mut self, name: &str, value: &mut f64) -> Result<(), StateError> {
        let mut bits = value.to_bits();
        self.number(name, &mut bits)?;
        *value = f64::from_bits(bits);
        Ok(())
    }

    fn take(&mut self, name: &str) -> Result<Value, StateError> {
        let name = self.full(name);
        self.values.remove(&name).ok_or(StateError::Missing { name })
    }

    fn full(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, Default, PartialEq)]
    struct Lane {
        weights: Vector,
        memory: Vec<f32>,
        step: u64,
        gamma: f32,
        lost: f64,
    }

    impl Lane {
        fn visit(&mut self, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
            state.vector("weights", &mut self.weights)?;
            state.within("codec", |state| {
                state.list("memory", &mut self.memory)?;
                state.double("lost", &mut self.lost)
            })?;
            state.number("step", &mut self.step)?;
            state.float("gamma", &mut self.gamma)
        }
    }

    fn lane() -> Lane {
        Lane {
            weights: vec![1.0, -0.0, f32::MIN_POSITIVE / 2.0].into(),
            memory: vec![f32::INFINITY],
            step: u64::MAX,
            gamma: 0.1,
            lost: -1e-300,
        }
    }

    #[test]
    fn what_is_saved_is_loaded_bit_for_bit() {
        let mut saved = lane();
        let state = State::save(|state| saved.visit(state)).unwrap();
        assert_eq!(saved, lane(), "saving changes nothing");
        let mut loaded = Lane { weights: Vector::zeros(3), ..Lane::default() };
        state.clone().load(|state| loaded.visit(state)).unwrap();
        assert_eq!(State::save(|state| loaded.visit(state)).unwrap(), state);
        assert_eq!(loaded.weights[1].to_bits(), (-0.0_f32).to_bits());
        assert_eq!(state.size(), 12 + 4 + 8 + 8 + 8);
    }

    #[test]
    fn a_state_of_another_lane_is_refused() {
        let state = State::save(|state| lane().visit(state)).unwrap();
        let load = |state: State, length| {
            let mut into = Lane { weights: Vector::zeros(length), ..Lane::default() };
            state.load(|state| into.visit(state)).unwrap_err().to_string()
        };
        assert_eq!(load(state.clone(), 4), "`weights` of the state has 3 elements instead of 4");
        assert_eq!(load(State::default(), 3), "the state has no `weights`");
        let more = state.clone().with("u", Stored::Number(1));
        assert_eq!(load(more, 3), "the state has a value `u` that this lane does not know");
        let other = state.clone().with("codec/memory", Stored::Number(1));
        assert_eq!(load(other, 3), "`codec/memory` of the state is of another type");
        let wide = state.with("gamma", Stored::Number(1 << 40));
        assert_eq!(load(wide, 3), "`gamma` of the state cannot be 1099511627776");
    }
}
