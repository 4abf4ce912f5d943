//! What the ten glyphs look like: strokes through points in a square from -1 to 1, y downwards.

use super::canvas::Point;

/// The strokes of one glyph.
type Glyph = &'static [&'static [Point]];

/// Points of the unit circle, 22.5 degrees apart.
const FAR: f64 = 0.923_88;
const MID: f64 = 0.707_11;
const NEAR: f64 = 0.382_68;

/// The glyphs by class. Several share strokes, so that no single pixel tells them apart.
pub(super) const GLYPHS: [Glyph; 10] = [
    // Ring.
    &[&[
        (1.0, 0.0),
        (FAR, NEAR),
        (MID, MID),
        (NEAR, FAR),
        (0.0, 1.0),
        (-NEAR, FAR),
        (-MID, MID),
        (-FAR, NEAR),
        (-1.0, 0.0),
        (-FAR, -NEAR),
        (-MID, -MID),
        (-NEAR, -FAR),
        (0.0, -1.0),
        (NEAR, -FAR),
        (MID, -MID),
        (FAR, -NEAR),
        (1.0, 0.0),
    ]],
    // Bow, open to the right.
    &[&[
        (MID, MID),
        (NEAR, FAR),
        (0.0, 1.0),
        (-NEAR, FAR),
        (-MID, MID),
        (-FAR, NEAR),
        (-1.0, 0.0),
        (-FAR, -NEAR),
        (-MID, -MID),
        (-NEAR, -FAR),
        (0.0, -1.0),
        (NEAR, -FAR),
        (MID, -MID),
    ]],
    // Square.
    &[&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9), (-0.9, -0.9)]],
    // Triangle.
    &[&[(0.0, -1.0), (1.0, 0.9), (-1.0, 0.9), (0.0, -1.0)]],
    // Upright cross.
    &[&[(0.0, -1.0), (0.0, 1.0)], &[(-1.0, 0.0), (1.0, 0.0)]],
    // Diagonal cross.
    &[&[(-0.9, -0.9), (0.9, 0.9)], &[(0.9, -0.9), (-0.9, 0.9)]],
    // Zigzag from left to right.
    &[&[(-0.9, -0.9), (0.9, -0.9), (-0.9, 0.9), (0.9, 0.9)]],
    // Zigzag from right to left.
    &[&[(0.9, -0.9), (-0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]],
    // Arrow upwards.
    &[&[(0.0, 1.0), (0.0, -1.0)], &[(-0.8, -0.2), (0.0, -1.0), (0.8, -0.2)]],
    // Two posts with a beam.
    &[&[(-0.8, -1.0), (-0.8, 1.0)], &[(0.8, -1.0), (0.8, 1.0)], &[(-0.8, 0.0), (0.8, 0.0)]],
];
