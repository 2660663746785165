//! Measures time, where the platform has a clock.
//!
//! `std::time::Instant` panics on `wasm32-unknown-unknown`. There, all measurements are zero.

use std::time::Duration;

/// The start of a time measurement.
#[derive(Clone, Copy, Debug)]
pub struct Clock(#[cfg(not(all(target_family = "wasm", target_os = "unknown")))] std::time::Instant);

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
impl Clock {
    /// Starts a measurement.
    pub fn start() -> Clock {
        Clock(std::time::Instant::now())
    }

    /// Returns the time since [`Clock::start`].
    pub fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
impl Clock {
    /// Starts a measurement that is always zero.
    pub fn start() -> Clock {
        Clock()
    }

    /// Returns zero.
    pub fn elapsed(self) -> Duration {
        Duration::ZERO
    }
}
