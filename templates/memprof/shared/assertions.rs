//! Assertions about a [`Usage`]. A failure shows the figure, the limit, the place and the whole
//! usage. All pass silently where nothing is measured, and fail in a run that lacks the figure.

use std::fmt;

use crate::shared::bytes::Bytes;
use crate::shared::figure::Figure;
use crate::shared::usage::Usage;

/// Asserts that the heap rose at most this many bytes above its level at the beginning: what the
/// code needed, its result included.
///
/// A message may follow, with the arguments of `format!`.
///
/// ```
/// let (pixels, used) = memprof::measure("decode", || vec![0_u8; 64]);
/// memprof::assert_heap_peak!(used, 4 << 20);
/// memprof::assert_heap_peak!(used, 4 << 20, "{} pixels", pixels.len());
/// ```
#[macro_export]
macro_rules! assert_heap_peak {
    ($used:expr, $limit:expr $(,)?) => {
        $crate::assert_heap_peak!($used, $limit, "")
    };
    ($used:expr, $limit:expr, $($message:tt)+) => {
        match $crate::Broken::heap_peak(&$used, $limit) {
            ::core::option::Option::None => {}
            ::core::option::Option::Some(broken) => $crate::__memprof_fail!(broken, $($message)+),
        }
    };
}

/// Asserts that the code left no heap memory behind, or at most this many bytes.
///
/// Memory that the code returns counts as left behind: drop it inside.
///
/// ```
/// let ((), used) = memprof::measure("request", || drop(vec![0_u8; 64]));
/// memprof::assert_no_leak!(used);
/// memprof::assert_no_leak!(used, 4 << 10);
/// memprof::assert_no_leak!(used, 4 << 10, "the cache may grow by one page");
/// ```
#[macro_export]
macro_rules! assert_no_leak {
    ($used:expr $(,)?) => {
        $crate::assert_no_leak!($used, 0, "")
    };
    ($used:expr, $limit:expr $(,)?) => {
        $crate::assert_no_leak!($used, $limit, "")
    };
    ($used:expr, $limit:expr, $($message:tt)+) => {
        match $crate::Broken::leak(&$used, $limit) {
            ::core::option::Option::None => {}
            ::core::option::Option::Some(broken) => $crate::__memprof_fail!(broken, $($message)+),
        }
    };
}

/// Asserts that the code made at most this many heap allocations. With threads, those of all
/// threads count.
///
/// ```
/// let (sum, used) = memprof::measure("sum", || (1..=10).sum::<u32>());
/// memprof::assert_allocations!(used, 0);
/// memprof::assert_allocations!(used, 0, "the sum is {sum}");
/// ```
#[macro_export]
macro_rules! assert_allocations {
    ($used:expr, $limit:expr $(,)?) => {
        $crate::assert_allocations!($used, $limit, "")
    };
    ($used:expr, $limit:expr, $($message:tt)+) => {
        match $crate::Broken::allocations(&$used, $limit) {
            ::core::option::Option::None => {}
            ::core::option::Option::Some(broken) => $crate::__memprof_fail!(broken, $($message)+),
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __memprof_fail {
    ($broken:ident, $($message:tt)+) => {
        $broken.fail(
            ::core::concat!(::core::file!(), ":", ::core::line!()),
            ::core::format_args!($($message)+),
        )
    };
}

/// An assertion that does not hold.
#[doc(hidden)]
#[derive(Debug)]
pub struct Broken {
    assertion: &'static str,
    /// What was found, or why that is unknown.
    found: Result<Amount, &'static str>,
    limit: Amount,
    usage: Usage,
}

#[derive(Clone, Copy, Debug)]
enum Amount {
    /// Bytes, and what they did.
    Bytes(i128, &'static str),
    Allocations(u64),
}

impl Broken {
    pub fn heap_peak(usage: &Usage, limit: u64) -> Option<Self> {
        let amount = |bytes: u64| Amount::Bytes(bytes.into(), "the heap rose by ");
        Self::unless_within("assert_heap_peak!", usage, usage.heap.rise, limit, amount)
    }

    pub fn leak(usage: &Usage, limit: u64) -> Option<Self> {
        // A leak that the limit's type cannot hold does not exist.
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let amount = |bytes: i64| Amount::Bytes(bytes.into(), "the heap grew by ");
        Self::unless_within("assert_no_leak!", usage, usage.heap.kept, limit, amount)
    }

    pub fn allocations(usage: &Usage, limit: u64) -> Option<Self> {
        Self::unless_within("assert_allocations!", usage, usage.heap_count, limit, Amount::Allocations)
    }

    fn unless_within<T: Copy + PartialOrd>(
        assertion: &'static str,
        usage: &Usage,
        figure: Figure<T>,
        limit: T,
        amount: impl Fn(T) -> Amount,
    ) -> Option<Self> {
        if figure <= limit {
            return None;
        }
        let found = match figure.get() {
            Some(value) => Ok(amount(value)),
            None => Err(figure.why_unavailable().unwrap_or("for an unknown reason")),
        };
        Some(Self { assertion, found, limit: amount(limit), usage: usage.clone() })
    }

    /// Fails the test.
    ///
    /// # Panics
    ///
    /// Always.
    #[cold]
    #[track_caller]
    pub fn fail(&self, at: &str, message: fmt::Arguments<'_>) -> ! {
        let message = message.to_string();
        let separator = if message.is_empty() { "" } else { ": " };
        panic!("{} at {at}{separator}{message}: {self}\n{:#}", self.assertion, self.usage)
    }
}

impl fmt::Display for Broken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.found {
            Ok(found) => write!(formatter, "{found}, and the limit is {}", self.limit.alone()),
            Err(reason) => write!(
                formatter,
                "nobody knows whether the limit of {} holds, because the figure is unavailable: {reason}",
                self.limit.alone()
            ),
        }
    }
}

impl Amount {
    /// The same without what it did.
    fn alone(self) -> Self {
        match self {
            Self::Bytes(bytes, _) => Self::Bytes(bytes, ""),
            Self::Allocations(_) => self,
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Bytes(bytes, verb) if bytes.unsigned_abs() < 1024 => {
                write!(formatter, "{verb}{}", Bytes(bytes))
            }
            Self::Bytes(bytes, verb) => write!(formatter, "{verb}{} ({bytes} B)", Bytes(bytes)),
            Self::Allocations(1) => formatter.write_str("1 allocation"),
            Self::Allocations(count) => write!(formatter, "{count} allocations"),
        }
    }
}
