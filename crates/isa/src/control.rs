//! The control word of an instruction: stall cycles, the scoreboards it sets and the scoreboards it waits for.
//!
//! From Volta on, each 128-bit instruction carries its own 21 control bits. Text form, as `oriole disasm --control` prints it:
//!
//! ```text
//! B0-2---:R1:W-:Y:S04
//! │       │  │  │ └ stall cycles before the next instruction of the warp may issue
//! │       │  │  └ Y: the warp scheduler may switch to another warp
//! │       │  └ write barrier: scoreboard released when the result is written
//! │       └ read barrier: scoreboard released when the source operands have been read
//! └ wait mask: scoreboards that must be released before this instruction issues
//! ```

use std::fmt;

/// The control word of one instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Control {
    /// Cycles until the next instruction of the warp may issue, 0 to 15.
    pub stall: u8,
    /// Whether the warp scheduler stays with this warp (bit 109 set; the opposite of yield). Reuse flags take effect only if it does.
    pub stay: bool,
    /// Scoreboard released when the result is written, 0 to 5; `None` sets no scoreboard.
    pub write_barrier: Option<u8>,
    /// Scoreboard released when the source operands have been read, 0 to 5; `None` sets no scoreboard.
    pub read_barrier: Option<u8>,
    /// Wait mask: bit `n` is set if the instruction waits for scoreboard `n` before it issues.
    pub wait: u8,
    /// Reuse-cache flags that belong to no operand. The flag of an operand is [`crate::Operand::reuse`].
    pub reuse: u8,
}

impl Default for Control {
    fn default() -> Self {
        Control { stall: 1, stay: true, write_barrier: None, read_barrier: None, wait: 0, reuse: 0 }
    }
}

// Lowest bit of each field in the 128-bit instruction.
const STALL: u32 = 105;
const STAY: u32 = 109;
const WRITE_BARRIER: u32 = 110;
const READ_BARRIER: u32 = 113;
const WAIT: u32 = 116;
const REUSE: u32 = 122;
/// Stored barrier index that means "no scoreboard".
const NO_BARRIER: u8 = 7;

impl Control {
    /// All control bits zero. A placeholder for words whose control word is set later.
    pub const BLANK: Control = Control { stall: 0, stay: false, write_barrier: Some(0), read_barrier: Some(0), wait: 0, reuse: 0 };

    /// Mask of the control bits in an instruction word.
    pub const MASK: u128 = ((1 << 21) - 1) << STALL;

    /// Extracts the control word from an instruction word.
    pub fn of(word: u128) -> Control {
        let bits = |low: u32, width: u32| (word >> low) as u8 & ((1 << width) - 1);
        let barrier = |low| Some(bits(low, 3)).filter(|&index| index != NO_BARRIER);
        Control {
            stall: bits(STALL, 4),
            stay: bits(STAY, 1) == 1,
            write_barrier: barrier(WRITE_BARRIER),
            read_barrier: barrier(READ_BARRIER),
            wait: bits(WAIT, 6),
            reuse: bits(REUSE, 4),
        }
    }

    /// Returns the control bits at their position in an instruction word; all other bits are zero.
    pub fn bits(self) -> u128 {
        let put = |value: u8, low: u32| u128::from(value) << low;
        put(self.stall & 15, STALL)
            | put(u8::from(self.stay), STAY)
            | put(self.write_barrier.unwrap_or(NO_BARRIER) & 7, WRITE_BARRIER)
            | put(self.read_barrier.unwrap_or(NO_BARRIER) & 7, READ_BARRIER)
            | put(self.wait & 63, WAIT)
            | put(self.reuse & 15, REUSE)
    }

    /// Parses the text form. Returns `None` if the text is malformed. Reuse flags are written at the operands and are not part of this
    /// text.
    pub fn parse(text: &str) -> Option<Control> {
        let mut columns = text.split(':');
        let wait_text = columns.next()?.strip_prefix('B')?;
        let read_text = columns.next()?.strip_prefix('R')?;
        let write_text = columns.next()?.strip_prefix('W')?;
        let yield_text = columns.next()?;
        let stall: u8 = columns.next()?.strip_prefix('S')?.parse().ok()?;
        let barrier = |text: &str| match text {
            "-" => Some(None),
            _ => text.parse().ok().filter(|&index: &u8| index < NO_BARRIER).map(Some),
        };
        let mut wait = 0;
        for (position, letter) in wait_text.bytes().enumerate() {
            match letter {
                b'-' => {}
                digit if usize::from(digit.wrapping_sub(b'0')) == position => wait |= 1 << position,
                _ => return None,
            }
        }
        let stay = match yield_text {
            "Y" => false,
            "-" => true,
            _ => return None,
        };
        (wait_text.len() == 6 && stall < 16 && columns.next().is_none()).then_some(Control {
            stall,
            stay,
            write_barrier: barrier(write_text)?,
            read_barrier: barrier(read_text)?,
            wait,
            reuse: 0,
        })
    }
}

impl fmt::Display for Control {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("B")?;
        for index in 0..6 {
            if self.wait >> index & 1 == 1 { write!(f, "{index}")? } else { f.write_str("-")? }
        }
        for (letter, barrier) in [('R', self.read_barrier), ('W', self.write_barrier)] {
            match barrier {
                Some(index) => write!(f, ":{letter}{index}")?,
                None => write!(f, ":{letter}-")?,
            }
        }
        write!(f, ":{}:S{:02}", if self.stay { '-' } else { 'Y' }, self.stall)
    }
}
