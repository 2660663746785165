//! The initial contents of variables with static storage.

/// The initial contents of a variable: bytes, and relocations for addresses that are not known yet.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Data {
    /// The bytes up to the last initialized one; 0 where an address goes. The remaining bytes of the variable are 0.
    pub bytes: Vec<u8>,
    /// The addresses to be filled in by the linker.
    pub addresses: Vec<DataAddress>,
}

/// An address in the initial contents of a variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DataAddress {
    /// Byte offset in the variable.
    pub offset: u64,
    /// Size of the address there, in bytes.
    pub bytes: u32,
    /// Name of the variable or function whose address it is.
    pub symbol: String,
    /// Number added to the address.
    pub addend: i64,
    /// Whether it is a generic address.
    pub is_generic: bool,
    /// If only one byte of the address is stored: its number, 0 for the lowest. `None` for the whole address.
    pub byte: Option<u8>,
}
