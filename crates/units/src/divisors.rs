//! Common divisors and multiples of whole numbers.

/// The greatest common divisor (Euclid's algorithm). That of a number and 0 is the number.
pub const fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The least common multiple, at most [`u64::MAX`]; 0 if one number is 0.
pub const fn lcm(a: u64, b: u64) -> u64 {
    if a == 0 || b == 0 {
        return 0;
    }
    (a / gcd(a, b)).saturating_mul(b)
}

#[cfg(test)]
mod tests {
    use super::{gcd, lcm};

    #[test]
    fn gcd_and_lcm_include_zero_and_saturate() {
        assert_eq!((gcd(12, 18), gcd(7, 12), gcd(0, 5), gcd(0, 0)), (6, 1, 5, 0));
        assert_eq!((lcm(4, 6), lcm(7, 7), lcm(0, 5), lcm(0, 0)), (12, 7, 0, 0));
        assert_eq!(lcm(u64::MAX, 2), u64::MAX);
    }
}
