//! Prefetches memory. The only `unsafe` code of this crate: the standard library has no safe prefetch yet.

/// Asks the processor to fetch every cache line of `value`, without waiting for it.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..size_of::<T>().div_ceil(LINE) {
        let at = std::ptr::from_ref(value).cast::<i8>().wrapping_add(line * LINE);
        // SAFETY: a prefetch reads nothing that the program sees, and faults at no address.
        #[allow(unsafe_code)]
        unsafe {
            std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at);
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    /// Miri reports an access outside `value`: the last lines of a value that is not aligned to lines, and a value
    /// without bytes.
    #[test]
    fn a_prefetch_changes_nothing() {
        let values: [[u8; 100]; 3] = std::array::from_fn(|at| [at as u8; 100]);
        for (at, value) in values.iter().enumerate() {
            prefetch(value);
            prefetch(&value[99]);
            assert_eq!(*value, [at as u8; 100]);
        }
        prefetch(&());
        prefetch(Box::<[u64; 9]>::default().as_ref());
    }
}
