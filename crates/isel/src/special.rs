//! Special registers.
//!
//! Some are hardware registers, read with `S2R` or `CS2R`. Others are words of constant bank 0 that the CUDA driver fills at launch
//! ([`oriole_isa::LaunchLayout`]). A few are computed from these.

use oriole_ir::{Class, MemoryAccess, Operand, Space, Symbol};
use oriole_isa::{LaunchLayout, LaunchWord, Opcode, ReservedShared};
use oriole_ptx::table::{Component, SpecialRegister};

use crate::context::Select;
use crate::error::Unsupported;

/// PTX special registers that `S2R` reads directly, with their hardware names.
const READ: &[(&str, &str)] = &[
    ("%laneid", "SR_LANEID"),
    ("%smid", "SR_VIRTUALSMID"),
    ("%lanemask_eq", "SR_EQMASK"),
    ("%lanemask_le", "SR_LEMASK"),
    ("%lanemask_lt", "SR_LTMASK"),
    ("%lanemask_ge", "SR_GEMASK"),
    ("%lanemask_gt", "SR_GTMASK"),
    ("%cluster_ctarank", "SR_CgaCtaId"),
];

/// PTX special registers that `CS2R` reads: clocks and timers.
const CLOCKS: &[(&str, &str)] = &[
    ("%clock", "SR_CLOCKLO"),
    ("%clock_hi", "SR_CLOCKHI"),
    ("%globaltimer_lo", "SR_GLOBALTIMERLO"),
    ("%globaltimer_hi", "SR_GLOBALTIMERHI"),
    ("%clock64", "SR_CLOCKLO"),
    ("%globaltimer", "SR_GLOBALTIMERLO"),
];

/// Returns the hardware name of a PTX special register in a table.
fn find(table: &[(&str, &'static str)], name: &str) -> Option<&'static str> {
    table.iter().find(|entry| entry.0 == name).map(|entry| entry.1)
}

impl Select<'_> {
    /// Emits a read of a special register. The result is as wide as the special register.
    pub(crate) fn special_register(&mut self, special: SpecialRegister) -> Result<Operand, Unsupported> {
        let row = special.row();
        let refused = || Unsupported::new(format!("the special register {special}"));
        if special.component == Component::W {
            return Ok(Operand::RZ);
        }
        let is_wide = row.ty.bits() == 64;
        if let Some(name) = find(READ, row.name) {
            return self.machine_register(name).ok_or_else(refused);
        }
        if let Some(name) = find(CLOCKS, row.name) {
            return self.counter(name, is_wide).ok_or_else(refused);
        }
        if let Some(counter) = row.name.strip_prefix("%pm") {
            let name = format!("SR_PM{}", counter.trim_end_matches("_64"));
            return self.counter(&name, is_wide).ok_or_else(refused);
        }
        if let Some(number) = row.name.strip_prefix("%envreg").and_then(|number| number.parse().ok()) {
            let word = LaunchLayout::of(self.target).environment(number);
            return Ok(self.launch_word(word));
        }
        self.reads_reserved_shared |= row.name.starts_with("%reserved_smem");
        self.computed_register(special).ok_or_else(refused)
    }

    /// Emits a read of a hardware register; `None` if the machine does not have it.
    fn machine_register(&mut self, name: &str) -> Option<Operand> {
        Some(self.b.define(Class::R, "S2R $, {}", &[Symbol::find(name)?.into()]))
    }

    /// Emits a read of a clock or counter; `None` if the machine does not have it.
    fn counter(&mut self, name: &str, is_wide: bool) -> Option<Operand> {
        let symbol = Symbol::find(name)?.into();
        Some(if is_wide { self.b.define(Class::R2, "CS2R $, {}", &[symbol]) } else { self.b.define(Class::R, "CS2R.32 $, {}", &[symbol]) })
    }

    /// Emits a read of a special register that is a word of constant bank 0, or that is computed.
    fn computed_register(&mut self, special: SpecialRegister) -> Option<Operand> {
        let launch = LaunchLayout::of(self.target);
        let component = special.component.index().unwrap_or(0);
        let offset = 4 * u32::from(component);
        let axis = ["X", "Y", "Z"][usize::from(component)];
        Some(match special.row().name {
            "%tid" => self.machine_register(&format!("SR_TID.{axis}"))?,
            "%ctaid" => self.machine_register(&format!("SR_CTAID.{axis}"))?,
            "%ntid" => self.constant_word(launch.block_size + offset),
            "%nctaid" => self.constant_word(launch.grid_size + offset),
            "%nsmid" => self.constant_word(launch.processor_count),
            "%gridid" => self.constant_pair(launch.grid_id),
            "%current_graph_exec" => self.constant_pair(launch.graph),
            "%dynamic_smem_size" => self.launch_word(launch.dynamic_shared),
            "%warpid" => {
                let id = self.machine_register("SR_VIRTID")?;
                self.bits_from_8(id, 7)
            }
            "%nwarpid" => match launch.warps {
                Some(count) => self.in_register(count.into()),
                None => {
                    let configuration = self.machine_register("SR_VIRTCFG")?;
                    self.bits_from_8(configuration, 8)
                }
            },
            "%total_smem_size" => self.total_shared()?,
            "%reserved_smem_offset_begin" | "%reserved_smem_offset_0" => match launch.reserved_shared? {
                ReservedShared::AtEnd { .. } => self.total_shared()?,
                ReservedShared::AtStart { first, .. } => {
                    let begin = if special.row().name.ends_with("begin") { 0 } else { first };
                    self.in_register(begin.into())
                }
            },
            "%reserved_smem_offset_end" => self.launch_word(launch.reserved_shared?.end()),
            "%reserved_smem_offset_1" => self.launch_word(launch.reserved_shared?.second()),
            "%reserved_smem_offset_cap" => match launch.reserved_shared? {
                ReservedShared::AtEnd { .. } => self.machine_register("SR_SMEMSZ")?,
                ReservedShared::AtStart { capacity, .. } => self.in_register(capacity.into()),
            },
            _ => return self.cluster_register(special.row().name, axis, offset),
        })
    }

    /// Emits a read of a special register that describes the thread block's cluster; `None` on targets without clusters.
    fn cluster_register(&mut self, name: &str, axis: &str, offset: u32) -> Option<Operand> {
        let cluster = LaunchLayout::of(self.target).cluster?;
        Some(match name {
            "%cluster_nctaid" => self.launch_word(cluster.size.plus(offset)),
            "%nclusterid" => self.launch_word(cluster.grid_size.plus(offset)),
            "%cluster_nctarank" => self.launch_word(cluster.block_count),
            "%aggr_smem_size" => {
                let own = self.machine_register("SR_SMEMSZ")?;
                let limit = self.launch_word(cluster.aggregate_shared);
                let is_less = self.compare_words("LT", false, own, limit);
                self.select_by_predicate(is_less, own, limit)
            }
            "%clusterid" => self.cluster_number(axis, cluster.reciprocal_size.plus(offset))?,
            "%cluster_ctaid" => {
                let number = self.cluster_number(axis, cluster.reciprocal_size.plus(offset))?;
                let block = self.machine_register(&format!("SR_CTAID.{axis}"))?;
                let size = self.launch_word(cluster.size.plus(offset));
                let before = self.difference(Operand::RZ, number);
                self.b.define(Class::R, "IMAD $, {}, {}, {}", &[size, before, block])
            }
            _ => return None,
        })
    }

    /// Returns the number of the cluster along an axis: the block number divided by the cluster size. The driver supplies the reciprocal
    /// of the size as a float.
    fn cluster_number(&mut self, axis: &str, reciprocal: LaunchWord) -> Option<Operand> {
        let block = self.machine_register(&format!("SR_CTAID.{axis}"))?;
        let reciprocal = self.launch_word(reciprocal);
        let number = self.b.define(Class::R, "I2FP.F32.U32 $, {}", &[block]);
        let quotient = self.b.define(Class::R, "FMUL $, {}, {}", &[number, reciprocal]);
        Some(self.b.define(Class::R, "F2I.U32.TRUNC.NTZ $, {}", &[quotient]))
    }

    /// Returns `%is_explicit_cluster`, the only special register that is a predicate.
    pub(crate) fn special_predicate(&mut self, special: SpecialRegister) -> Result<Operand, Unsupported> {
        let Some(cluster) = LaunchLayout::of(self.target).cluster.filter(|_| special.row().name == "%is_explicit_cluster") else {
            return Err(Unsupported::new(format!("the special register {special} as a predicate")));
        };
        let word = self.constant_word(cluster.is_explicit);
        Ok(self.compare_words("EQ", false, word, 1.into()))
    }

    /// Returns the size in bytes of the block's shared memory, without the part that the system reserves at its start or end.
    fn total_shared(&mut self) -> Option<Operand> {
        let all = self.machine_register("SR_SMEMSZ")?;
        Some(match LaunchLayout::of(self.target).reserved_shared_size {
            Some(offset) => {
                let reserved = self.constant_word(offset);
                self.difference(all, reserved)
            }
            None => all,
        })
    }

    /// Extracts `count` bits of a word, starting at bit 8.
    fn bits_from_8(&mut self, word: Operand, count: u32) -> Operand {
        let shifted = self.shift_right(word, 8.into(), false);
        self.b.define(Class::R, "SGXT.U32 $, {}, {}", &[shifted, count.into()])
    }

    /// Emits a read of a 32-bit word of constant bank 0.
    pub(crate) fn constant_word(&mut self, offset: u32) -> Operand {
        self.b.define(Class::R, "MOV $, {}", &[Operand::constant(0, offset)])
    }

    /// Emits a read of a 64-bit number in constant bank 0.
    fn constant_pair(&mut self, offset: u32) -> Operand {
        let words = [self.constant_word(offset), self.constant_word(offset + 4)];
        self.b.pack(Class::R2, &words)
    }

    /// Emits a read of a launch word, which is at a fixed offset of constant bank 0 or at one that depends on the cluster size.
    fn launch_word(&mut self, word: LaunchWord) -> Operand {
        match word {
            LaunchWord::At(offset) => self.constant_word(offset),
            LaunchWord::PerClusterSize { offset, step } => {
                debug_assert!(Opcode::CS2R.exists_on(self.target));
                let size = self.b.define(Class::R, "CS2R.32 $, SR_CgaSize", &[]);
                let before = self.b.define(Class::R, "IMAD $, {}, {}, RZ", &[size, Operand::from(-i64::from(step))]);
                let value = self.b.define(Class::R, "LDC $, c[0x0][{}+{}]", &[before, offset.into()]);
                self.b.describe(MemoryAccess { constant: true, ..MemoryAccess::weak(Space::Constant, 4) });
                value
            }
        }
    }
}
