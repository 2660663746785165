//! The constant banks of a launch.

/// Size of a constant bank in bytes.
pub const BANK_BYTES: u32 = 0x1_0000;

/// Constant banks 0 to 31. Reads past the end of a bank return zero, as on a GPU inside the bank's window.
#[derive(Clone, Debug, Default)]
pub struct ConstantBanks {
    banks: Vec<Vec<u8>>,
}

impl ConstantBanks {
    /// Returns the bytes of a bank, for filling it.
    pub fn bank_mut(&mut self, bank: usize) -> &mut Vec<u8> {
        if self.banks.len() <= bank {
            self.banks.resize(bank + 1, Vec::new());
        }
        &mut self.banks[bank]
    }

    /// Returns the offset of an operand without an index register. Instructions encode offsets in the upper half of a bank as negative
    /// numbers.
    pub fn fixed_offset(stored: i64) -> u32 {
        stored as u32 & (BANK_BYTES - 1)
    }

    /// Returns up to 8 bytes at an offset, little endian.
    pub fn read(&self, bank: u32, offset: u32, bytes: u32) -> u64 {
        (0..bytes).fold(0, |value, at| value | u64::from(self.byte(bank, offset.wrapping_add(at))) << (8 * at))
    }

    /// Returns the byte at an offset.
    pub fn byte(&self, bank: u32, offset: u32) -> u8 {
        self.banks.get(bank as usize).and_then(|bank| bank.get(offset as usize)).copied().unwrap_or(0)
    }
}
