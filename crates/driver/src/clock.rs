//! Measures time, where the platform has a clock.
//!
//! `std::time::Instant` panics on `wasm32-unknown-unknown`. There, all measurements are zero.

use std::time::Duration;

/// The start of a time measurement.
#[derive(Clone, Copy, Debug)]
pub struct Stopwatch(#[cfg(not(all(target_family = "wasm", target_os = "unknown")))] std::time::Instant);

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
impl Stopwatch {
    /// Starts a measurement.
    pub fn start() -> Stopwatch {
        Stopwatch(std::time::Instant::now())
    }

    /// Returns the time since [`Stopwatch::start`].
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
impl Stopwatch {
    /// Starts a measurement that always gives zero, on a platform without a clock.
    pub fn start() -> Stopwatch {
        Stopwatch()
    }

    /// Returns zero, because the platform has no clock.
    pub fn elapsed(self) -> Duration {
        Duration::ZERO
    }
}
