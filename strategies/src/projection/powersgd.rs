//! PowerSGD: of each matrix of weights two thin factors of rank r, by one step of subspace iteration from where the last
//! one ended. Guarantee: the sum becomes P P^T of itself, the projection to a basis P of r columns, so that the squared
//! error is at most the squared length; of a matrix that does not change, the best approximation of rank r in the
//! end. Biased. Linear, once P is agreed on. Sent: all-reduces of r n and of r m elements for each matrix of n rows and m
//! columns.
//!
//! With M_w the matrix on worker w: P = sum M_w Q; P becomes orthonormal; Q = sum M_w^T P; the sum of all M_w becomes
//! P Q^T, and what worker w itself has contributed to it is P (M_w^T P)^T. Q is where the next step begins.
//!
//! A weight of more than two dimensions is a matrix of as many rows as outputs. Biases, and matrices that are not larger
//! than their factors, travel as they are, together with P. A column of Q that has vanished (as of a gradient
//! of zeros) or is no number is drawn anew. A NaN or an infinity makes the whole matrix NaN.
//!
//! Source: Vogels, Karimireddy and Jaggi, "PowerSGD: Practical Low-Rank Gradient Compression for Distributed
//! Optimization", NeurIPS 2019, Algorithm 1, with warm start; error feedback as in Algorithm 2. Departure: columns that
//! depend on others become zeros instead of noise.

use super::{Projection, ProjectionAdder};
use crate::compress::dot;
use crate::matrices::Matrix;
use crate::{StateError, StateVisitor, StepError, Vector, arithmetic, rng};
use rand_chacha::ChaCha8Rng;
use std::ops::Range;
use std::sync::Arc;

/// Up to this share of its length, the remainder of a column that depends on others is rounding.
const DEPENDENT: f64 = 1e-6;

/// Sends two factors of each matrix.
#[derive(Debug)]
pub struct Powersgd {
    rank: usize,
    seed: u64,
    /// Those that are larger than their factors.
    matrices: Vec<Matrix>,
    /// Of each matrix, column after column: where the next step begins.
    q: Vec<Vec<f32>>,
    redrawn: u64,
}

impl Powersgd {
    /// Factors of `rank` columns; 0 counts as 1.
    pub fn new(rank: usize, matrices: Arc<[Matrix]>, seed: u64) -> Self {
        let rank = rank.max(1);
        let larger = |matrix: &&Matrix| rank * (matrix.rows + matrix.columns) < matrix.rows * matrix.columns;
        let matrices: Vec<Matrix> = matrices.iter().filter(larger).copied().collect();
        let q = matrices.iter().map(|matrix| vec![0.0; rank * matrix.columns]).collect();
        Self { rank, seed, matrices, q, redrawn: 0 }
    }

    /// Spans of the elements that travel as they are, because they are in no matrix of the list.
    fn rest(&self, n: usize) -> Vec<Range<usize>> {
        let ends = self.matrices.iter().map(|matrix| matrix.span().start).chain([n]);
        let begins = [0].into_iter().chain(self.matrices.iter().map(|matrix| matrix.span().end));
        begins.zip(ends).map(|(begin, end)| begin..end).collect()
    }

    /// Draws the columns of Q that cannot be used. All ranks hold the same Q.
    fn redraw(&mut self) {
        for (number, (matrix, q)) in self.matrices.iter().zip(&mut self.q).enumerate() {
            for (c, column) in q.chunks_mut(matrix.columns).enumerate() {
                let length = dot(column, column);
                if !(length.is_finite() && length > 0.0) {
                    self.redrawn += 1;
                    let keys = [number as u64, c as u64, self.redrawn];
                    let mut random = rng::keyed(self.seed, "powersgd", &keys);
                    for value in column.iter_mut() {
                        *value = normal(&mut random);
                    }
                }
            }
        }
    }

    /// P = M Q of every matrix, and then the rest.
    fn left(&self, x: &[f32]) -> Vec<f32> {
        let mut p = Vec::new();
        for (matrix, q) in self.matrices.iter().zip(&self.q) {
            for column in q.chunks(matrix.columns) {
                p.extend(x[matrix.span()].chunks(matrix.columns).map(|row| dot(row, column) as f32));
            }
        }
        self.rest(x.len()).into_iter().for_each(|rest| p.extend_from_slice(&x[rest]));
        p
    }

    /// Q = M^T P of every matrix.
    fn right(&self, x: &[f32], p: &[f32]) -> Vec<f32> {
        let mut all = Vec::new();
        for (matrix, p) in self.matrices.iter().zip(self.parts(p, |matrix| matrix.rows)) {
            for column in p.chunks(matrix.rows) {
                let begin = all.len();
                all.resize(begin + matrix.columns, 0.0);
                for (row, factor) in x[matrix.span()].chunks(matrix.columns).zip(column) {
                    arithmetic::add_scaled(&mut all[begin..], *factor, row);
                }
            }
        }
        all
    }

    /// P Q^T of every matrix.
    fn product(&self, p: &[f32], q: &[f32], into: &mut [f32]) {
        let factors = self.parts(p, |matrix| matrix.rows).zip(self.parts(q, |matrix| matrix.columns));
        for (matrix, (p, q)) in self.matrices.iter().zip(factors) {
            let into = &mut into[matrix.span()];
            into.fill(0.0);
            for (p, q) in p.chunks(matrix.rows).zip(q.chunks(matrix.columns)) {
                for (row, factor) in into.chunks_mut(matrix.columns).zip(p) {
                    arithmetic::add_scaled(row, *factor, q);
                }
            }
        }
    }

    /// The part of each matrix in factors that lie one after the other.
    fn parts<'a>(
        &'a self,
        factors: &'a [f32],
        side: impl Fn(&Matrix) -> usize + 'a,
    ) -> impl Iterator<Item = &'a [f32]> {
        let mut at = 0;
        self.matrices.iter().map(move |matrix| {
            let begin = at;
            at += self.rank * side(matrix);
            &factors[begin..at]
        })
    }

    fn orthonormalise(&self, p: &mut [f32]) {
        let mut at = 0;
        for matrix in &self.matrices {
            let end = at + self.rank * matrix.rows;
            orthonormalise(&mut p[at..end], matrix.rows);
            at = end;
        }
    }
}

impl Projection for Powersgd {
    fn state(&mut self, state: &mut StateVisitor<'_>) -> Result<(), StateError> {
        for (number, q) in self.q.iter_mut().enumerate() {
            let mut columns = Vector::from(std::mem::take(q));
            let visited = state.vector(&format!("q{number}"), &mut columns);
            *q = columns.into_inner();
            visited?;
        }
        state.number("redrawn", &mut self.redrawn)
    }

    fn reduce(
        &mut self,
        x: &mut [f32],
        own: Option<&mut [f32]>,
        adder: &mut ProjectionAdder<'_, '_>,
    ) -> Result<(), StepError> {
        let n = x.len();
        let end = self.matrices.last().map_or(0, |matrix| matrix.span().end);
        if end > n {
            return Err(StepError::Learner(format!("a gradient of {n} elements has no matrix up to {end}")));
        }
        let mut p = adder.encode(n, || {
            self.redraw();
            self.left(x)
        });
        adder.sum(&mut p)?;
        let mut q = adder.encode(n, || {
            self.orthonormalise(&mut p);
            let q = self.right(x, &p);
            if let Some(own) = own {
                own.copy_from_slice(x);
                self.product(&p, &q, own);
            }
            q
        });
        if !q.is_empty() {
            adder.sum(&mut q)?;
        }
        adder.decode(n, || {
            self.product(&p, &q, x);
            let mut rest = &p[self.rank * self.matrices.iter().map(|matrix| matrix.rows).sum::<usize>()..];
            for span in self.rest(n) {
                let (values, others) = rest.split_at(span.len());
                x[span].copy_from_slice(values);
                rest = others;
            }
            let columns: Vec<Vec<f32>> =
                self.parts(&q, |matrix| matrix.columns).map(<[f32]>::to_vec).collect();
            self.q = columns;
        });
        Ok(())
    }
}

/// Gram and Schmidt, column after column, twice each: once leaves what rounding has added. A column that depends on those
/// before it becomes zeros, one with a number that is none becomes NaN.
fn orthonormalise(p: &mut [f32], rows: usize) {
    for c in 0..p.len() / rows.max(1) {
        let (before, rest) = p.split_at_mut(c * rows);
        let column = &mut rest[..rows];
        let original = dot(column, column).sqrt();
        for _ in 0..2 {
            for other in before.chunks(rows) {
                let share = dot(other, column);
                arithmetic::add_scaled(column, -share as f32, other);
            }
        }
        let length = dot(column, column).sqrt();
        if !length.is_finite() {
            column.fill(f32::NAN);
        } else if length > DEPENDENT * original {
            for value in column.iter_mut() {
                *value = (f64::from(*value) / length) as f32;
            }
        } else {
            column.fill(0.0);
        }
    }
}

/// A draw from the standard normal distribution (Box and Muller, 1958).
fn normal(random: &mut ChaCha8Rng) -> f32 {
    let radius = (-2.0 * (1.0 - rng::unit(random)).ln()).sqrt();
    (radius * (2.0 * std::f64::consts::PI * rng::unit(random)).cos()) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Columns are seldom drawn anew, and a continued run must not draw the same ones again.
    #[test]
    fn a_continued_projection_draws_other_columns() {
        let mut before = Powersgd { redrawn: 3, ..Powersgd::new(1, Arc::new([]), 1) };
        let state = crate::State::save(|state| before.state(state)).unwrap();
        let mut after = Powersgd::new(1, Arc::new([]), 1);
        state.load::<StateError>(|state| after.state(state)).unwrap();
        assert_eq!(after.redrawn, 3);
    }

    /// Of nearly parallel columns, one pass would leave in the second what rounding has added.
    #[test]
    fn nearly_parallel_columns_become_orthonormal() {
        let mut p = [1.0, 1.0, 1.0, 1.0, 1.0, 1.0001];
        orthonormalise(&mut p, 3);
        let (a, b) = p.split_at(3);
        for (dot, expected) in [(dot(a, a), 1.0), (dot(b, b), 1.0), (dot(a, b), 0.0)] {
            assert!((dot - expected).abs() < 1e-6, "{dot} instead of {expected}: {p:?}");
        }
    }
}
