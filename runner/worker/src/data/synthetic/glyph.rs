//! Shapes of the ten glyphs: strokes through points in a square from -1 to 1, y downwards.

use super::canvas::Point;

/// The strokes of one glyph.
pub(super) type Glyph = &'static [&'static [Point]];

/// Coordinates on the unit circle, 22.5 degrees apart.
const FAR: f64 = 0.923_88;
const MID: f64 = std::f64::consts::FRAC_1_SQRT_2;
const NEAR: f64 = 0.382_68;

/// The glyphs by class, each in its two forms.
///
/// Several share strokes, and the forms of some mirror each other: no weighted sum of pixels finds the class
/// where it takes one form as a reason for and the other as a reason against.
pub(super) const GLYPHS: [[Glyph; 2]; 10] = [
    // Ring; diagonal cross.
    [&[RING], &[&[(-0.9, -0.9), (0.9, 0.9)], &[(0.9, -0.9), (-0.9, 0.9)]]],
    // Bow, open to the right; to the left.
    [&[BOW_RIGHT], &[BOW_LEFT]],
    // Square; upright cross.
    [
        &[&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9), (-0.9, -0.9)]],
        &[&[(0.0, -1.0), (0.0, 1.0)], &[(-1.0, 0.0), (1.0, 0.0)]],
    ],
    // Triangle on its base; on its tip.
    [
        &[&[(0.0, -1.0), (1.0, 0.9), (-1.0, 0.9), (0.0, -1.0)]],
        &[&[(0.0, 1.0), (1.0, -0.9), (-1.0, -0.9), (0.0, 1.0)]],
    ],
    // Zigzag; its mirror image.
    [
        &[&[(-0.9, -0.9), (0.9, -0.9), (-0.9, 0.9), (0.9, 0.9)]],
        &[&[(0.9, -0.9), (-0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]],
    ],
    // Arrow upwards; downwards.
    [
        &[&[(0.0, 1.0), (0.0, -1.0)], &[(-0.8, -0.2), (0.0, -1.0), (0.8, -0.2)]],
        &[&[(0.0, 1.0), (0.0, -1.0)], &[(-0.8, 0.2), (0.0, 1.0), (0.8, 0.2)]],
    ],
    // Two posts with a beam between them; two beams with a post.
    [
        &[&[(-0.8, -1.0), (-0.8, 1.0)], &[(0.8, -1.0), (0.8, 1.0)], &[(-0.8, 0.0), (0.8, 0.0)]],
        &[&[(-1.0, -0.8), (1.0, -0.8)], &[(-1.0, 0.8), (1.0, 0.8)], &[(0.0, -0.8), (0.0, 0.8)]],
    ],
    // Post with a beam on top; at the bottom.
    [
        &[&[(0.0, -0.9), (0.0, 1.0)], &[(-1.0, -0.9), (1.0, -0.9)]],
        &[&[(0.0, -1.0), (0.0, 0.9)], &[(-1.0, 0.9), (1.0, 0.9)]],
    ],
    // Angle, open to the right; to the left.
    [&[&[(0.8, -1.0), (-0.8, 0.0), (0.8, 1.0)]], &[&[(-0.8, -1.0), (0.8, 0.0), (-0.8, 1.0)]]],
    // Cup; lid.
    [
        &[&[(-0.9, -1.0), (-0.9, 0.9), (0.9, 0.9), (0.9, -1.0)]],
        &[&[(-0.9, 1.0), (-0.9, -0.9), (0.9, -0.9), (0.9, 1.0)]],
    ],
];

const RING: &[Point] = &[
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
];

const BOW_RIGHT: &[Point] = &[
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
];

const BOW_LEFT: &[Point] = &[
    (-MID, -MID),
    (-NEAR, -FAR),
    (0.0, -1.0),
    (NEAR, -FAR),
    (MID, -MID),
    (FAR, -NEAR),
    (1.0, 0.0),
    (FAR, NEAR),
    (MID, MID),
    (NEAR, FAR),
    (0.0, 1.0),
    (-NEAR, FAR),
    (-MID, MID),
];
