//! Compares the vector loops with the scalar reference, and tests what the documentation guarantees.

use half::{bf16, f16};
use proptest::prelude::*;
use rand::{Rng, RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use syncline_reduction::{
    Element, Reduction, Refusal, error_bound, fill_neutral, offered, reduce_into, reduce_tall, scalar,
    scale_into,
};

/// The bits of an element, as a number.
fn bits(element: &[u8]) -> u64 {
    let mut bits = [0; 8];
    bits[..element.len()].copy_from_slice(element);
    if cfg!(target_endian = "big") {
        bits[..element.len()].reverse();
    }
    u64::from_le_bytes(bits)
}

/// Writes an element with these bits.
fn put(bits: u64, element: &mut [u8]) {
    let bytes = element.len();
    element.copy_from_slice(&bits.to_le_bytes()[..bytes]);
    if cfg!(target_endian = "big") {
        element.reverse();
    }
}

/// The value of an element, if it is a float.
fn number(element: Element, bytes: &[u8]) -> Option<f64> {
    let bits = bits(bytes);
    match element {
        Element::F32 => Some(f32::from_bits(bits as u32).into()),
        Element::F64 => Some(f64::from_bits(bits)),
        Element::F16 => Some(f16::from_bits(bits as u16).to_f64()),
        Element::Bf16 => Some(bf16::from_bits(bits as u16).to_f64()),
        _ => None,
    }
}

fn is_nan(element: Element, bytes: &[u8]) -> bool {
    number(element, bytes).is_some_and(f64::is_nan)
}

/// Bits of special values: zeros, ones, subnormal numbers, infinities, NaNs, extremes of integers.
fn special(element: Element) -> Vec<u64> {
    // Bits of the exponent and of the fraction.
    let (exponent, fraction) = match element {
        Element::F32 => (8, 23),
        Element::F64 => (11, 52),
        Element::F16 => (5, 10),
        Element::Bf16 => (8, 7),
        Element::Bool => return vec![0, 1, 1, 0, 2, 0x80, 0xff],
        _ => {
            let sign = 1u64 << (8 * element.bytes() - 1);
            return vec![0, 1, 2, 3, sign, sign - 1, sign + 1, u64::MAX, u64::MAX - 1];
        }
    };
    let (one, infinity, sign) = (
        ((1u64 << (exponent - 1)) - 1) << fraction,
        ((1u64 << exponent) - 1) << fraction,
        1 << (exponent + fraction),
    );
    let least_normal = 1u64 << fraction;
    let nan = infinity | 1 << (fraction - 1);
    let positive = [
        0,
        1,
        2,
        3,
        least_normal - 1,
        least_normal,
        least_normal + 1,
        one - 1,
        one,
        one + 1,
        infinity - 1,
        infinity,
        nan,
        nan + 1,
        infinity + 1,
        sign - 1,
    ];
    positive.into_iter().flat_map(|bits| [bits, bits | sign]).collect()
}

/// Random elements, special ones, and ones that are close to each other.
fn fill(element: Element, random: &mut impl Rng, buffer: &mut [u8]) {
    let special = special(element);
    for each in buffer.chunks_exact_mut(element.bytes()) {
        let pick = special[random.random_range(0..special.len())];
        match random.random_range(0..4) {
            0 => put(pick, each),
            1 if element != Element::Bool => put(pick.wrapping_add(random.random_range(0..64)), each),
            _ => put(random.random(), each),
        }
    }
}

fn assert_same(element: Element, found: &[u8], expected: &[u8], what: &str) {
    assert_eq!(found.len(), expected.len());
    let bytes = element.bytes();
    for (at, (found, expected)) in found.chunks_exact(bytes).zip(expected.chunks_exact(bytes)).enumerate() {
        let same = found == expected || is_nan(element, found) && is_nan(element, expected);
        assert!(same, "{what} of {element}, element {at}: {:#x}, not {:#x}", bits(found), bits(expected));
    }
}

/// An element and a reduction that is offered for it.
fn pair() -> impl Strategy<Value = (Element, Reduction)> {
    let pairs: Vec<_> = Element::ALL
        .iter()
        .flat_map(|&element| Reduction::ALL.iter().map(move |&reduction| (element, reduction)))
        .filter(|&(element, reduction)| offered(element, reduction).is_ok())
        .collect();
    proptest::sample::select(pairs)
}

/// Numbers of elements: all small ones, and some beyond a tile.
fn length() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..200usize, 1 => 200..6000usize]
}

/// Buffers of any alignment.
struct Buffers {
    all: Vec<Vec<u8>>,
    from: Vec<usize>,
}

impl Buffers {
    fn new(element: Element, count: usize, elements: usize, random: &mut impl Rng) -> Self {
        let from: Vec<usize> = (0..count).map(|_| random.random_range(0..33)).collect();
        let bytes = elements * element.bytes();
        let all = from.iter().map(|from| {
            let mut buffer = vec![0; from + bytes];
            fill(element, random, &mut buffer[*from..]);
            buffer
        });
        Self { all: all.collect(), from }
    }

    fn slices(&self) -> Vec<&[u8]> {
        self.all.iter().zip(&self.from).map(|(buffer, &from)| &buffer[from..]).collect()
    }
}

proptest! {
    #[test]
    fn vectors_give_the_bits_of_the_reference(
        (element, reduction) in pair(), elements in length(), sources in 1..12usize, seed: u64,
    ) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let buffers = Buffers::new(element, sources + 1, elements, &mut random);
        let slices = buffers.slices();
        let (dst, srcs) = slices.split_first().unwrap();

        let (mut found, mut expected) = (dst.to_vec(), dst.to_vec());
        reduce_into(element, reduction, &mut found, srcs[0]).unwrap();
        scalar::reduce_into(element, reduction, &mut expected, srcs[0]).unwrap();
        assert_same(element, &found, &expected, reduction.name());

        // Neither the destination's old content nor its alignment has an effect.
        let from = random.random_range(0..33);
        let mut found = vec![0xa5; from + dst.len()];
        reduce_tall(element, reduction, &mut found[from..], srcs).unwrap();
        scalar::reduce_tall(element, reduction, &mut expected, srcs).unwrap();
        assert_same(element, &found[from..], &expected, reduction.name());
        prop_assert!(found[..from].iter().all(|&byte| byte == 0xa5));

        // One source at a time.
        let mut repeated = srcs[0].to_vec();
        for src in &srcs[1..] {
            reduce_into(element, reduction, &mut repeated, src).unwrap();
        }
        assert_same(element, &found[from..], &repeated, "one after the other");
    }

    #[test]
    fn the_neutral_element_changes_nothing((element, reduction) in pair(), elements in length(), seed: u64) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let buffers = Buffers::new(element, 1, elements, &mut random);
        let mut before = buffers.slices()[0].to_vec();
        if element == Element::Bool {
            before.iter_mut().for_each(|byte| *byte = u8::from(*byte != 0));
        }
        let mut neutral = vec![0xa5; before.len()];
        fill_neutral(element, reduction, &mut neutral).unwrap();
        let mut expected = vec![0x5a; before.len()];
        scalar::fill_neutral(element, reduction, &mut expected).unwrap();
        prop_assert_eq!(&neutral, &expected);

        let mut after = before.clone();
        reduce_into(element, reduction, &mut after, &neutral).unwrap();
        assert_same(element, &after, &before, "the neutral element from the right");
        reduce_into(element, reduction, &mut neutral, &before).unwrap();
        assert_same(element, &neutral, &before, "the neutral element from the left");
    }

    #[test]
    fn minima_and_maxima_do_not_depend_on_the_order((element, _) in pair(), least: bool, sources in 2..6usize, seed: u64) {
        let reduction = if least { Reduction::Min } else { Reduction::Max };
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let buffers = Buffers::new(element, sources, 300, &mut random);
        let mut slices = buffers.slices();
        let mut forward = vec![0; slices[0].len()];
        reduce_tall(element, reduction, &mut forward, &slices).unwrap();
        slices.reverse();
        let mut backward = vec![0; slices[0].len()];
        reduce_tall(element, reduction, &mut backward, &slices).unwrap();
        assert_same(element, &forward, &backward, reduction.name());
    }

    #[test]
    fn scaling_gives_the_bits_of_the_reference(
        element in proptest::sample::select(vec![Element::F32, Element::F64, Element::F16, Element::Bf16]),
        elements in length(),
        factor in prop_oneof![any::<f64>(), -4.0..4.0f64, (1..5000u32).prop_map(|n| 1.0 / f64::from(n)), Just(f64::NAN)],
        seed: u64,
    ) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let buffers = Buffers::new(element, 1, elements, &mut random);
        let (mut found, mut expected) = (buffers.slices()[0].to_vec(), buffers.slices()[0].to_vec());
        scale_into(element, &mut found, factor).unwrap();
        scalar::scale_into(element, &mut expected, factor).unwrap();
        assert_same(element, &found, &expected, "scaled");
    }

    #[test]
    fn averages_of_singles_are_quotients(numbers in prop::collection::vec(any::<f32>(), 1..100), n in 1..1u32 << 20) {
        let mut found: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
        scale_into(Element::F32, &mut found, 1.0 / f64::from(n)).unwrap();
        for (found, number) in found.as_chunks().0.iter().zip(numbers) {
            let quotient = number / n as f32;
            if quotient.is_normal() {
                prop_assert_eq!(f32::from_ne_bytes(*found).to_bits(), quotient.to_bits(), "{:e} / {}", number, n);
            }
        }
    }

    #[test]
    fn sums_in_two_orders_are_within_the_bound(
        element in proptest::sample::select(vec![Element::F32, Element::F64, Element::F16, Element::Bf16]),
        contributions in 1..64usize, elements in 1..50usize, seed: u64,
    ) {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // Both signs and many magnitudes, so that much cancels, but nothing overflows.
        let of = |number: f64, element: Element| match element {
            Element::F32 => u64::from((number as f32).to_bits()),
            Element::F64 => number.to_bits(),
            Element::F16 => f16::from_f64(number).to_bits().into(),
            _ => bf16::from_f64(number).to_bits().into(),
        };
        let mut buffers = vec![vec![0; elements * element.bytes()]; contributions];
        for each in buffers.iter_mut().flat_map(|buffer| buffer.chunks_exact_mut(element.bytes())) {
            let size = f64::from(random.random_range(-12..8i32)).exp2();
            put(of(size * (2.0 * random.random::<f64>() - 1.0), element), each);
        }
        let mut srcs: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
        let mut one = vec![0; srcs[0].len()];
        reduce_tall(element, Reduction::Sum, &mut one, &srcs).unwrap();
        for at in (1..srcs.len()).rev() {
            srcs.swap(at, random.random_range(0..=at));
        }
        let mut other = vec![0; one.len()];
        reduce_tall(element, Reduction::Sum, &mut other, &srcs).unwrap();
        // A tree: neighbours are combined until one is left.
        let mut tree: Vec<Vec<u8>> = buffers.clone();
        while tree.len() > 1 {
            tree = tree.chunks(2).map(|pair| {
                let mut sum = pair[0].clone();
                pair[1..].iter().for_each(|each| reduce_into(element, Reduction::Sum, &mut sum, each).unwrap());
                sum
            }).collect();
        }
        let bound = error_bound(element, contributions);
        for at in (0..one.len()).step_by(element.bytes()) {
            let read = |buffer: &[u8]| number(element, &buffer[at..at + element.bytes()]).unwrap();
            let absolute: f64 = buffers.iter().map(|buffer| read(buffer).abs()).sum();
            // Sums in doubles, which are exact enough for all element types but f64.
            let exact: f64 = buffers.iter().map(|buffer| read(buffer)).sum();
            let sums = [read(&one), read(&other), read(&tree[0])];
            for sum in sums {
                prop_assert!((sum - sums[0]).abs() <= bound * absolute, "{sums:?}, {bound:e}, {absolute}");
                prop_assert!(element == Element::F64 || (sum - exact).abs() <= bound / 2.0 * absolute * (1.0 + 1e-9));
            }
        }
    }
}

/// Sums 1 and many numbers of half a unit in its last place: each is lost if it is added to 1 alone, but not if they are summed
/// first. The difference is at least half of the bound.
#[test]
fn the_bound_is_at_most_twice_the_largest_difference() {
    let n = 100usize;
    let halves: [(Element, u64, u64); 4] = [
        (Element::F32, 1f32.to_bits().into(), (f32::EPSILON / 2.0).to_bits().into()),
        (Element::F64, 1f64.to_bits(), (f64::EPSILON / 2.0).to_bits()),
        (
            Element::F16,
            f16::ONE.to_bits().into(),
            f16::from_f64(f16::EPSILON.to_f64() / 2.0).to_bits().into(),
        ),
        (
            Element::Bf16,
            bf16::ONE.to_bits().into(),
            bf16::from_f64(bf16::EPSILON.to_f64() / 2.0).to_bits().into(),
        ),
    ];
    for (element, one, half) in halves {
        let mut buffers = vec![vec![0; element.bytes()]; n];
        buffers.iter_mut().enumerate().for_each(|(at, buffer)| put(if at == 0 { one } else { half }, buffer));
        let mut srcs: Vec<&[u8]> = buffers.iter().map(Vec::as_slice).collect();
        let mut sum = || {
            let mut sum = vec![0; element.bytes()];
            reduce_tall(element, Reduction::Sum, &mut sum, &srcs).unwrap();
            srcs.reverse();
            number(element, &sum).unwrap()
        };
        let (forward, backward) = (sum(), sum());
        let absolute = 1.0 + (n - 1) as f64 * number(element, &buffers[1]).unwrap();
        let bound = error_bound(element, n) * absolute;
        assert_eq!(forward, 1.0, "{element}");
        assert!(backward - forward <= bound, "{element}: {backward} {bound}");
        assert!(backward - forward >= 0.25 * bound, "{element}: {backward} {bound}");
    }
}

#[test]
fn a_nan_in_either_operand_gives_nan() {
    for element in [Element::F32, Element::F64, Element::F16, Element::Bf16] {
        let nan = special(element).into_iter().find(|bits| {
            let mut bytes = vec![0; element.bytes()];
            put(*bits, &mut bytes);
            is_nan(element, &bytes)
        });
        for reduction in [Reduction::Sum, Reduction::Product, Reduction::Min, Reduction::Max] {
            for first in [true, false] {
                let (mut dst, mut src) = (vec![0; 40 * element.bytes()], vec![0; 40 * element.bytes()]);
                let to = if first { &mut dst } else { &mut src };
                to.chunks_exact_mut(element.bytes()).for_each(|each| put(nan.unwrap(), each));
                reduce_into(element, reduction, &mut dst, &src).unwrap();
                assert!(
                    dst.chunks_exact(element.bytes()).all(|each| is_nan(element, each)),
                    "{element} {reduction}"
                );
            }
        }
    }
}

#[test]
fn truth_is_any_byte_but_zero() {
    let mut either = [0, 0, 2, 4];
    reduce_into(Element::Bool, Reduction::Sum, &mut either, &[0, 8, 0, 3]).unwrap();
    assert_eq!(either, [0, 1, 1, 1]);
    let mut both = [0, 0, 2, 4];
    reduce_into(Element::Bool, Reduction::BitAnd, &mut both, &[0, 8, 4, 3]).unwrap();
    assert_eq!(both, [0, 0, 1, 1]);
    let mut one = [0, 0, 2, 4];
    reduce_into(Element::Bool, Reduction::BitXor, &mut one, &[0, 8, 4, 0]).unwrap();
    assert_eq!(one, [0, 1, 0, 1]);
}

#[test]
fn a_refused_reduction_leaves_its_destination_unchanged() {
    let mut dst = [1; 8];
    let pair = reduce_into(Element::F32, Reduction::BitXor, &mut dst, &[2; 8]);
    assert_eq!(pair, Err(Refusal::Pair { element: Element::F32, reduction: Reduction::BitXor }));
    let lengths = reduce_tall(Element::F32, Reduction::Sum, &mut dst, &[&[2; 8], &[2; 4]]);
    assert_eq!(lengths, Err(Refusal::Lengths { source: 1, found: 4, expected: 8 }));
    assert_eq!(reduce_tall(Element::F32, Reduction::Sum, &mut dst, &[]), Err(Refusal::NoSources));
    let ragged = fill_neutral(Element::F32, Reduction::Sum, &mut dst[..7]);
    assert_eq!(ragged, Err(Refusal::Ragged { element: Element::F32, bytes: 7 }));
    assert_eq!(scale_into(Element::I32, &mut dst, 0.5), Err(Refusal::Scale { element: Element::I32 }));
    assert_eq!(dst, [1; 8]);
}
