//! Decoded and scaled pictures beside those of Pillow.

use crate::samples::{
    GREY_DECODED, JPEG_BASELINE, JPEG_CMYK, JPEG_GREY, JPEG_PROGRESSIVE, PALETTE, PNG_GREY, PNG_GREY_16,
    PNG_PALETTE, PNG_RGB, PNG_RGBA, RGB, SMOOTH,
};
use pictures::{Offset, Picture, PictureFault, scaled_sides};
use sha2::{Digest, Sha256};

pub(crate) fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

fn decoded(hex: &str) -> Picture {
    Picture::decode(&bytes(hex)).unwrap()
}

#[test]
fn png_pictures_are_those_of_pillow_byte_for_byte() {
    let colours = Picture { width: 7, height: 5, pixels: RGB.to_vec() };
    assert_eq!(decoded(PNG_RGB), colours);
    assert_eq!(decoded(PNG_RGBA), colours, "alpha is left out");
    assert_eq!(decoded(PNG_PALETTE).pixels, PALETTE);
    let grey: Vec<u8> = RGB.chunks(3).flat_map(|pixel| [pixel[0]; 3]).collect();
    assert_eq!(decoded(PNG_GREY).pixels, grey);
    assert_eq!(decoded(PNG_GREY_16).pixels, grey, "16 bits become 8");
}

#[test]
fn jpeg_pictures_are_those_of_pillow_but_for_rounding() {
    let apart = |one: &[u8], other: &[u8]| {
        assert_eq!(one.len(), other.len());
        one.iter().zip(other).map(|(one, other)| one.abs_diff(*other)).max().unwrap()
    };
    // Lossy compression changes the values of a smooth picture by up to this.
    assert!(apart(&decoded(JPEG_BASELINE).pixels, SMOOTH) <= 24);
    assert!(apart(&decoded(JPEG_PROGRESSIVE).pixels, SMOOTH) <= 64);
    assert!(apart(&decoded(JPEG_CMYK).pixels, SMOOTH) <= 64);
    let grey: Vec<u8> = GREY_DECODED.iter().flat_map(|value| [*value; 3]).collect();
    assert!(apart(&decoded(JPEG_GREY).pixels, &grey) <= 1);
}

/// Pixels of no particular kind.
fn drawn(width: usize, height: usize) -> Picture {
    let mut state = (width * 1000 + height) as u32;
    let pixels = (0..3 * width * height).map(|_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    });
    Picture { width, height, pixels: pixels.collect() }
}

/// Sides of a picture; its scaled shorter side; the side and the corner of a window; SHA-256 of Pillow's
/// `resize(size, BILINEAR)` there, channel by channel.
type Window = ((usize, usize), usize, usize, (usize, usize), &'static str);

const WINDOWS: [Window; 7] = [
    ((61, 43), 16, 16, (3, 0), "43985be4313f5b568c6ad2759e2594a11d94ed1dc686685865340e83bba1e5c5"),
    ((61, 43), 43, 40, (9, 1), "bfbe2d7abdc1ce49fb4046a549a58b7b3261bc0ba2828c74d4573c9af8ba9077"),
    ((43, 61), 100, 90, (5, 31), "d0802d082df7ac138b74dac2c39095fef7511bd90b62fe340574aa08b78243b1"),
    ((500, 375), 256, 224, (58, 16), "dab90286698711f82f1f16d00a69746081d98d27361c0bb03280ce68c18cec34"),
    ((1000, 9), 8, 8, (400, 0), "9212a21dcd4b9196d77c7179ad65926962d62c9aabf115ac4220cb9b2a74d392"),
    ((1, 1), 8, 8, (0, 0), "ad39b4a5893606644571d6be4eedf53c1fac123efe431ece82f424cf06a99546"),
    ((300, 7), 30, 30, (700, 0), "a6d162d681e4cbcb1a92f41b5d7a3cd4fa932de3bb96af09f247860fb9cfd806"),
];

#[test]
fn windows_of_scaled_pictures_are_those_of_pillow_byte_for_byte() {
    for ((width, height), shorter, side, (across, down), expected) in WINDOWS {
        let window = drawn(width, height).window(shorter, side, Offset { across, down });
        assert_eq!(recipe::hex(&Sha256::digest(&window)), expected, "{width} x {height} to {shorter}");
    }
}

#[test]
fn the_longer_side_is_rounded_down() {
    for (sides, shorter, expected) in [
        ((500, 375), 256, (341, 256)),
        ((375, 500), 256, (256, 341)),
        ((8, 8), 32, (32, 32)),
        ((1, 100), 8, (8, 800)),
    ] {
        assert_eq!(scaled_sides(sides.0, sides.1, shorter), expected);
    }
}

#[test]
fn a_window_that_leaves_the_picture_is_black_there() {
    let white = Picture { width: 8, height: 8, pixels: vec![255; 192] };
    let window = white.window(8, 4, Offset { across: 6, down: 7 });
    let lit: Vec<bool> = window[..16].iter().map(|value| *value == 255).collect();
    let mut expected = [false; 16];
    expected[..2].fill(true);
    assert_eq!(lit, expected);
    assert_eq!(white.window(8, 4, Offset { across: 100, down: 0 }), [0; 48]);
}

#[test]
fn a_picture_that_is_written_is_read_again() {
    let picture = drawn(13, 9);
    assert_eq!(Picture::decode(&picture.png().unwrap()).unwrap(), picture);
}

#[test]
fn a_picture_is_refused_wherever_it_is_cut_and_never_panics_where_it_is_changed() {
    for hex in [PNG_RGB, PNG_PALETTE, PNG_GREY_16, JPEG_BASELINE, JPEG_PROGRESSIVE, JPEG_CMYK] {
        let whole = bytes(hex);
        for length in 0..whole.len() {
            let fault = Picture::decode(&whole[..length]).unwrap_err();
            let known = matches!(fault, PictureFault::Cut { .. } | PictureFault::NoPicture { .. });
            assert!(known, "{length}: {fault}");
        }
        for at in 0..whole.len() {
            for change in [0x00, 0xff, whole[at] ^ 0x40] {
                let mut changed = whole.clone();
                changed[at] = change;
                if let Ok(picture) = Picture::decode(&changed) {
                    assert_eq!(picture.pixels.len(), 3 * picture.width * picture.height);
                }
            }
        }
    }
}
