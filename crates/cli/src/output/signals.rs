//! Lets the program end by a signal only when no temporary file and no line about progress exists.
//!
//! SIGHUP, SIGINT and SIGTERM end the program at once unless there is an [`EndDelay`]. While there is one, the handler only records the
//! signal, and the program ends when the last delay is dropped: the file is then complete or removed. So no thread has to wait for signals,
//! whose start would take a tenth of the time to compile a small kernel.

#[cfg(unix)]
pub use handlers::EndDelay;
#[cfg(not(unix))]
pub use no_handlers::EndDelay;

#[cfg(unix)]
mod handlers {
    use std::fs::File;
    use std::io::Read;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::{Mutex, MutexGuard, Once, PoisonError};
    use std::thread;

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::flag::{register_conditional_default, register_usize};
    use signal_hook::low_level::emulate_default_handler;

    /// Size of the buffer for `/proc/self/status`, in bytes; the file is about half as long.
    const STATUS_BYTES: usize = 4096;

    static HANDLERS: Once = Once::new();
    /// The number of delays.
    static DELAYS: Mutex<usize> = Mutex::new(0);
    /// Whether there is no delay, so that a signal ends the program at once.
    static ENDS_AT_ONCE: AtomicBool = AtomicBool::new(true);
    /// The last signal that arrived; 0 for none.
    static ARRIVED: AtomicUsize = AtomicUsize::new(0);

    /// While a value of this type exists, signals do not end the program.
    pub struct EndDelay(());

    impl EndDelay {
        /// Keeps signals from ending the program until the value is dropped. If a signal has arrived already, this does not return: the
        /// program ends as soon as all other delays are dropped.
        pub fn new() -> EndDelay {
            HANDLERS.call_once(install_handlers);
            let mut delays = delays();
            *delays += 1;
            ENDS_AT_ONCE.store(false, Ordering::SeqCst);
            drop(delays);
            let delay = EndDelay(());
            if delay.is_end_requested() {
                drop(delay);
                loop {
                    thread::park();
                }
            }
            delay
        }

        /// Returns whether a signal has arrived, so that the program ends when the last delay is dropped.
        pub fn is_end_requested(&self) -> bool {
            ARRIVED.load(Ordering::SeqCst) != 0
        }
    }

    impl Drop for EndDelay {
        fn drop(&mut self) {
            let mut delays = delays();
            *delays -= 1;
            if *delays == 0 {
                // A signal that arrives from now on ends the program in its handler.
                ENDS_AT_ONCE.store(true, Ordering::SeqCst);
                if self.is_end_requested() {
                    let _ = emulate_default_handler(ARRIVED.load(Ordering::SeqCst) as i32);
                }
            }
        }
    }

    fn delays() -> MutexGuard<'static, usize> {
        DELAYS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Installs the handlers. Ignored signals (as with `nohup`) stay ignored. If a handler cannot be installed, its signal ends the program
    /// at once.
    fn install_handlers() {
        let ignored = ignored();
        for signal in [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0) {
            // The signal is recorded first, in case the last delay is dropped between the two actions.
            if register_usize(signal, &ARRIVED, signal as usize).is_ok() {
                let _ = register_conditional_default(signal, &ENDS_AT_ONCE);
            }
        }
    }

    /// Returns the signals that the program ignored at its start; bit `n` is signal `n + 1`.
    fn ignored() -> u64 {
        // One call gets the whole file.
        let mut buffer = [0; STATUS_BYTES];
        let length = File::open("/proc/self/status").and_then(|mut file| file.read(&mut buffer)).unwrap_or(0);
        let status = String::from_utf8_lossy(&buffer[..length]);
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    }
}

#[cfg(not(unix))]
mod no_handlers {
    /// Does nothing: the program handles no signals on systems other than Unix.
    pub struct EndDelay(());

    impl EndDelay {
        pub fn new() -> EndDelay {
            EndDelay(())
        }

        pub fn is_end_requested(&self) -> bool {
            false
        }
    }
}
