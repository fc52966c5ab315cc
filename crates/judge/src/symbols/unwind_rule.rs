//! One rule of an unwind table: how to find the caller's frame from a place in a function.
//! x86-64 only.

/// A rule, in 32 bits:
///
/// | bits | meaning |
/// | --- | --- |
/// | 0 | the register that the canonical frame address (CFA) starts from: 0 `rsp`, 1 `rbp` |
/// | 1 to 16 | how far above that register the CFA is, in 8 bytes |
/// | 17 to 30 | how far below the CFA the caller's `rbp` is saved, in 8 bytes; 0: `rbp` is unchanged |
/// | 31 | set: the rule is one of the constants below |
///
/// The return address is 8 bytes below the CFA. The caller's `rsp` is the CFA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule(u32);

/// The largest numbers that fit.
const MOST_CFA: u64 = 0xFFFF;
const MOST_SAVED: u64 = 0x3FFF;

/// The register that the CFA starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The stack pointer.
    Rsp,
    /// The frame pointer.
    Rbp,
}

/// What a rule means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is a caller.
    Caller {
        /// Where the CFA starts from.
        base: Base,
        /// How many bytes above it the CFA is.
        cfa_offset: u64,
        /// How many bytes below the CFA the caller's `rbp` is saved, or `None` if it is unchanged.
        saved_rbp: Option<u64>,
    },
    /// The executable describes the frame in a way that a rule cannot.
    Inexpressible,
    /// The executable does not describe the frame.
    Undescribed,
    /// The function has no caller.
    Outermost,
}

impl Rule {
    /// The executable describes the frame in a way that a rule cannot. Its own unwinder can.
    pub const INEXPRESSIBLE: Self = Self(1 << 31);
    /// The executable does not describe frames here.
    pub const UNDESCRIBED: Self = Self(u32::MAX);
    /// The function has no caller, as `_start`.
    pub const OUTERMOST: Self = Self(u32::MAX - 1);

    /// Makes the rule for a frame whose CFA is `cfa_offset` bytes from a register. The caller's
    /// `rbp` is saved `saved_rbp` bytes from the CFA, or unchanged.
    ///
    /// Returns [`Self::INEXPRESSIBLE`] if a number does not fit.
    pub fn caller(base: Base, cfa_offset: i64, saved_rbp: Option<i64>) -> Self {
        let (Some(cfa), Some(saved)) = (words(cfa_offset, MOST_CFA), saved_words(saved_rbp)) else {
            return Self::INEXPRESSIBLE;
        };
        let base = u32::from(base == Base::Rbp);
        Self(base | cfa << 1 | saved << 17)
    }

    /// Returns the rule's 32 bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Returns the rule with these bits.
    pub(crate) const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Returns what the rule means.
    pub fn step(self) -> Step {
        match self {
            Self::UNDESCRIBED => Step::Undescribed,
            Self::OUTERMOST => Step::Outermost,
            Self(bits) if bits >> 31 == 1 => Step::Inexpressible,
            Self(bits) => {
                let saved = u64::from(bits >> 17) & MOST_SAVED;
                Step::Caller {
                    base: if bits & 1 == 0 { Base::Rsp } else { Base::Rbp },
                    cfa_offset: (u64::from(bits >> 1) & MOST_CFA) * 8,
                    saved_rbp: (saved != 0).then_some(saved * 8),
                }
            }
        }
    }
}

/// Returns the number of 8 bytes in an offset that is not negative.
fn words(offset: i64, most: u64) -> Option<u32> {
    let offset = u64::try_from(offset).ok().filter(|offset| offset % 8 == 0 && offset / 8 <= most)?;
    u32::try_from(offset / 8).ok()
}

/// Returns the number of 8 bytes that `rbp` is saved below the CFA, or 0 if it is not saved.
fn saved_words(offset: Option<i64>) -> Option<u32> {
    let Some(offset) = offset else { return Some(0) };
    words(offset.checked_neg()?, MOST_SAVED).filter(|words| *words != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_has_the_bits_that_the_shim_reads() {
        assert_eq!(Rule::caller(Base::Rsp, 8, None).bits(), 1 << 1);
        assert_eq!(Rule::caller(Base::Rbp, 16, Some(-16)).bits(), 1 | 2 << 1 | 2 << 17);
        assert_eq!(Rule::caller(Base::Rsp, 0xFFFF * 8, Some(-0x3FFF * 8)).bits(), 0x7FFF_FFFE);
        assert_eq!(Rule::INEXPRESSIBLE.bits(), 0x8000_0000);
        assert_eq!(Rule::OUTERMOST.bits(), 0xFFFF_FFFE);
        assert_eq!(Rule::UNDESCRIBED.bits(), 0xFFFF_FFFF);
    }

    #[test]
    fn what_a_rule_was_made_from_can_be_read_back() {
        for base in [Base::Rsp, Base::Rbp] {
            for cfa_offset in [0, 8, 0x1230, 0xFFFF * 8] {
                for saved in [None, Some(8), Some(0x3FFF * 8)] {
                    let rule = Rule::caller(base, cfa_offset, saved.map(i64::wrapping_neg));
                    let step = Step::Caller {
                        base,
                        cfa_offset: cfa_offset.cast_unsigned(),
                        saved_rbp: saved.map(i64::cast_unsigned),
                    };
                    assert_eq!(rule.step(), step);
                }
            }
        }
        assert_eq!(Rule::INEXPRESSIBLE.step(), Step::Inexpressible);
        assert_eq!(Rule::OUTERMOST.step(), Step::Outermost);
        assert_eq!(Rule::UNDESCRIBED.step(), Step::Undescribed);
    }

    #[test]
    fn numbers_that_do_not_fit_are_inexpressible() {
        for cfa_offset in [-8, 4, 0x1_0000 * 8, i64::MIN, i64::MAX] {
            assert_eq!(Rule::caller(Base::Rsp, cfa_offset, None), Rule::INEXPRESSIBLE, "{cfa_offset}");
        }
        for saved in [0, 8, -4, -0x4000 * 8, i64::MIN, i64::MAX] {
            assert_eq!(Rule::caller(Base::Rbp, 16, Some(saved)), Rule::INEXPRESSIBLE, "{saved}");
        }
    }
}
