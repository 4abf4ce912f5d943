//! The loops over whole vectors, compiled twice: for every processor of the kind, and with wider registers for those that
//! have them, chosen at run time.
//!
//! Both are the same source. Each element is computed by itself, products and sums are rounded one by one (no fused
//! multiply-add is ever made of them), so both give the same bits. Only which bits a NaN carries is left open.

/// Makes two functions of each kernel, `fn chosen, plain(...)`: the loop for every machine, and one that runs the copy
/// which suits the processor.
macro_rules! kernels {
    ($($(#[$doc:meta])* fn $chosen:ident, $plain:ident $(<$E:ident: $Element:ident>)? (
        $($argument:ident: $type:ty),*
    ) $(-> $R:ty)? $body:block)*) => {
        $(
            $(#[$doc])*
            pub(crate) fn $chosen$(<$E: $Element>)?($($argument: $type),*) $(-> $R)? {
                #[cfg(target_arch = "x86_64")]
                {
                    #[target_feature(enable = "avx2")]
                    fn wide$(<$E: $Element>)?($($argument: $type),*) $(-> $R)? {
                        $plain$(::<$E>)?($($argument),*)
                    }
                    if std::arch::is_x86_feature_detected!("avx2") {
                        #[expect(unsafe_code, reason = "what the processor can do is known only here")]
                        // SAFETY: the processor has just said that it can do AVX2.
                        return unsafe { wide$(::<$E>)?($($argument),*) };
                    }
                }
                $plain$(::<$E>)?($($argument),*)
            }

            $(#[$doc])*
            ///
            /// The loop for every machine.
            #[inline(always)]
            fn $plain$(<$E: $Element>)?($($argument: $type),*) $(-> $R)? $body
        )*
    };
}

pub(crate) use kernels;

kernels! {
    /// `into[i] += x[i]`.
    fn add, add_plain(into: &mut [f32], x: &[f32]) {
        for (sum, value) in into.iter_mut().zip(x) {
            *sum += value;
        }
    }

    /// `into[i] += x[i]`, where `x` is as it travels: little endian, at any address.
    fn add_bytes, add_bytes_plain(into: &mut [f32], x: &[u8]) {
        for (sum, four) in into.iter_mut().zip(x.chunks_exact(4)) {
            *sum += f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
        }
    }

    /// `into[i] = x[i] + y[i]`, where `y` and `into` are as they travel: little endian, at any address.
    fn sum_bytes, sum_bytes_plain(into: &mut [u8], x: &[f32], y: &[u8]) {
        for ((sum, value), four) in into.chunks_exact_mut(4).zip(x).zip(y.chunks_exact(4)) {
            let other = f32::from_le_bytes([four[0], four[1], four[2], four[3]]);
            sum.copy_from_slice(&(value + other).to_le_bytes());
        }
    }

    /// `into[i] += factor * x[i]`.
    fn add_scaled, add_scaled_plain(into: &mut [f32], factor: f32, x: &[f32]) {
        for (sum, value) in into.iter_mut().zip(x) {
            *sum += factor * value;
        }
    }

    /// `x[i] *= factor`.
    fn scale, scale_plain(x: &mut [f32], factor: f32) {
        for value in x {
            *value *= factor;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn same(a: f32, b: f32) -> bool {
        a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
    }

    fn floats(bits: &[u32]) -> Vec<f32> {
        bits.iter().map(|bits| f32::from_bits(*bits)).collect()
    }

    proptest! {
        /// Any length, any bits, and packets at any address.
        #[test]
        fn loops_equal_one_element_at_a_time(
            pairs in prop::collection::vec((any::<u32>(), any::<u32>()), 0..150),
            offset in 0..5_usize,
            factor in any::<u32>(),
        ) {
            let (a, b): (Vec<u32>, Vec<u32>) = pairs.into_iter().unzip();
            let a = floats(&a);
            let b = floats(&b);
            let factor = f32::from_bits(factor);
            let mut sums = a.clone();
            add(&mut sums, &b);
            let mut bytes = vec![0; offset];
            bytes.extend(b.iter().flat_map(|value| value.to_le_bytes()));
            let mut of_bytes = a.clone();
            add_bytes(&mut of_bytes, &bytes[offset..]);
            let mut travelling = vec![0; bytes.len()];
            sum_bytes(&mut travelling[offset..], &a, &bytes[offset..]);
            let mut of_products = a.clone();
            add_scaled(&mut of_products, factor, &b);
            let mut scaled = a.clone();
            scale(&mut scaled, factor);
            for i in 0..a.len() {
                let sum = std::hint::black_box(a[i]) + std::hint::black_box(b[i]);
                prop_assert!(same(sums[i], sum) && same(of_bytes[i], sum), "{} + {}", a[i], b[i]);
                let four = travelling[offset + 4 * i..][..4].try_into().unwrap();
                prop_assert!(same(f32::from_le_bytes(four), sum), "{} + {}", a[i], b[i]);
                let product = std::hint::black_box(factor) * std::hint::black_box(b[i]);
                let sum = std::hint::black_box(a[i]) + std::hint::black_box(product);
                prop_assert!(same(of_products[i], sum), "{} + {factor} * {}", a[i], b[i]);
                let product = std::hint::black_box(a[i]) * std::hint::black_box(factor);
                prop_assert!(same(scaled[i], product), "{} * {factor}", a[i]);
            }
        }
    }
}
