//! The statistics lines, in the format of a published description of ptxas.
//!
//! Existing tools parse these lines, so the spelling of the description is kept, `trancedental` included. Each line is a template:
//! `[name=%d]` or `[name = %f]` is filled with the figure called `name`. Some lines are printed only under a condition.

use std::fmt::Write;

use super::statistics::StatisticsFigure;
use crate::backend::AllocationStage;

/// The condition under which a statistics line is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum PrintCondition {
    /// Always printed.
    Always,
    /// Printed if the target has uniform registers.
    UniformRegisters,
    /// Printed if the figure of this name is not zero.
    NonZero(&'static str),
    /// Printed if the worst-case latency was requested ([`ExtraLatency::Worst`]).
    Worst,
    /// Printed if the average-case latency was requested ([`ExtraLatency::Average`]).
    Average,
}

/// Templates of the statistics lines before register allocation, each with the condition for printing the line.
const LINES_BEFORE_ALLOCATION: &[(&str, PrintCondition)] = &[
    ("# [inst=%d] [texInst=%d] [tepid=%d] [rregs=%d]", PrintCondition::Always),
    ("# [urregs=%d]", PrintCondition::UniformRegisters),
    ("# [_lat2inst=%.1f]", PrintCondition::Always),
    ("# [FP16 inst=%d] [FP16 VectInst=%d] [Percentage Vectorized=%.2f]", PrintCondition::Always),
    (
        "# [est latency = %d] [LSpillB=%d] [LRefillB=%d], [SSpillB=%d], [SRefillB=%d], [LowLmemSpillSize=%d] [FrameLmemSpillSize=%d]",
        PrintCondition::Always,
    ),
    ("# [LNonSpillB=%d] [LNonRefillB=%d], [NonSpillSize=%d]", PrintCondition::Always),
    ("# [Occupancy = %f], [est numDivergentBranches=%d] [attributeMemUsage=%d], [programSize=%d]", PrintCondition::Always),
    (
        "# [est fp=%d] [est half=%d], [est trancedental=%d], [est ipa=%d], [est shared=%d], [est controlFlow=%d], [est loadStore=%d]",
        PrintCondition::Always,
    ),
    ("# [est tex=%d] [est pairs=%d]", PrintCondition::Always),
    ("# [issue thru=%f] [fp thru=%f] [half thru=%f], [trancedental thru=%f], [ipa thru=%f]", PrintCondition::Always),
    ("# [shared thru=%f] [controlFlow thru=%f] [texLoadStore thru=%f], [reg thru=%f], [warp thru=%f]", PrintCondition::Always),
    ("# [SharedMem Alloc thru=%f]", PrintCondition::NonZero("SharedMem Alloc thru")),
    ("# [partially unrolled loops=%d] [non-unrolled loops=%d]", PrintCondition::Always),
    ("# [CB-Bound Tex=%d] [UR-Bound Tex=%d] [Bindless Tex=%d] [Partially Bound Tex=%d]", PrintCondition::Always),
    ("# [UDP inst=%d] [numVecToURConverts inst=%d]", PrintCondition::Always),
    ("# [maxNumLiveValuesAtSuspend=%d]", PrintCondition::Always),
    ("# [Precise inst=%d]", PrintCondition::Always),
    ("# [worstcaseLat=%f]", PrintCondition::Worst),
    ("# [avgcaseLat=%f]", PrintCondition::Average),
    ("# [instHint=%d] [instPairs=%d]", PrintCondition::NonZero("instPairs")),
];

/// Templates of the statistics lines after register allocation, each with the condition for printing the line.
const LINES_AFTER_ALLOCATION: &[(&str, PrintCondition)] = &[
    ("# [inst=%d] [texInst=%d] [tepid=%d] [rregs=%d]", PrintCondition::Always),
    ("# [urregs=%d]", PrintCondition::UniformRegisters),
    ("# [_lat2inst=%.1f]", PrintCondition::Always),
    ("# [FP16 inst=%d] [FP16 VectInst=%d] [Percentage Vectorized=%.2f]", PrintCondition::Always),
    ("# [est latency = %d] [LSpillB=%d] [LRefillB=%d] [SSpillB=%d] [SRefillB=%d] [SpillSize=%d]", PrintCondition::Always),
    ("# [LNonSpillB=%d] [LNonRefillB=%d] [NonSpillSize=%d]", PrintCondition::Always),
    ("# [Occupancy = %f] [est numDivergentBranches=%d] [attributeMemUsage=%d] [programSize=%d]", PrintCondition::Always),
    ("# [est adu=%d] [est alu=%d] [est cbu=%d] [est fma2x=%d] [est fma=%d] [est half=%d]", PrintCondition::Always),
    ("# [est trancedental=%d] [est ipa=%d] [est lsu=%d] [est redux=%d]", PrintCondition::Always),
    ("# [est schedDisp=%d] [est tex=%d] [est ttu=%d] [est udp=%d]", PrintCondition::Always),
    ("# [est imma16816=%d] [est imma16832=%d] [est immaSp8832=%d] [est immaSp16832=%d]", PrintCondition::Always),
    ("# [est dmma=%d] [est fma64=%d] [est hmma16816=%d] [est hmma16816f16=%d]", PrintCondition::Always),
    ("# [est hmma1688=%d] [est hmma1688f16=%d] [est hmmaSp1688=%d] [est hmmaSp1688f16=%d]", PrintCondition::Always),
    ("# [issue thru=%f] [adu thru=%f] [alu thru=%f] [cbu thru=%f] [fma2x thru=%f] [fma thru=%f]", PrintCondition::Always),
    ("# [trancedental thru=%f] [ipa thru=%f] [lsu thru=%f] [redux thru=%f]", PrintCondition::Always),
    ("# [schedDisp thru=%f] [tex thru=%f] [ttu thru=%f] [udp thru=%f]", PrintCondition::Always),
    ("# [imma16816 thru=%f] [imma16832 thru=%f] [immaSp8832 thru=%f] [immaSp16832 thru=%f]", PrintCondition::Always),
    ("# [dmma thru=%f] [fma64 thru=%f] [hmma16816 thru=%f] [hmma16816f16 thru=%f]", PrintCondition::Always),
    ("# [hmma1688 thru=%f] [hmma1688f16 thru=%f] [hmmaSp1688 thru=%f] [hmmaSp1688f16 thru=%f]", PrintCondition::Always),
    ("# [reg thru=%f] [warp thru=%f]", PrintCondition::Always),
    ("# [SharedMem Alloc thru=%f]", PrintCondition::NonZero("SharedMem Alloc thru")),
    ("# [partially unrolled loops=%d] [non-unrolled loops=%d]", PrintCondition::Always),
    ("# [CB-Bound Tex=%d] [UR-Bound Tex=%d] [Bindless Tex=%d] [Partially Bound Tex=%d]", PrintCondition::Always),
    ("# [UDP inst=%d] [numVecToURConverts inst=%d]", PrintCondition::Always),
    ("# [maxNumLiveValuesAtSuspend=%d]", PrintCondition::Always),
    ("# [Precise inst=%d]", PrintCondition::Always),
    ("# [worstcaseLat=%f]", PrintCondition::Worst),
    ("# [avgcaseLat=%f]", PrintCondition::Average),
    ("# [instHint=%d] [instPairs=%d]", PrintCondition::NonZero("instPairs")),
];

/// The additional latency to print on a line of its own. The format allows at most one.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum ExtraLatency {
    /// No additional latency.
    #[default]
    Neither,
    /// The worst-case latency, field `worstcaseLat`.
    Worst,
    /// The average-case latency, field `avgcaseLat`.
    Average,
}

/// Returns the value of the field with this name, or a count of zero if there is none.
fn figure_named(figures: &[(String, StatisticsFigure)], name: &str) -> StatisticsFigure {
    figures.iter().find(|(known, _)| known == name).map_or(StatisticsFigure::Count(0), |(_, figure)| *figure)
}

/// Returns the statistics lines before or after register allocation as text, with the values of `figures` filled in. Some lines depend on
/// the last two parameters.
pub fn text(stage: AllocationStage, figures: &[(String, StatisticsFigure)], has_uniform_registers: bool, case: ExtraLatency) -> String {
    let lines = match stage {
        AllocationStage::Pre => LINES_BEFORE_ALLOCATION,
        AllocationStage::Post => LINES_AFTER_ALLOCATION,
    };
    let (instructions, registers) = (figure_named(figures, "inst").number(), figure_named(figures, "rregs").number());
    let mut text = format!("# {instructions} instructions, {registers} R-regs\n");
    for (template, when) in lines {
        let is_there = match when {
            PrintCondition::Always => true,
            PrintCondition::UniformRegisters => has_uniform_registers,
            PrintCondition::NonZero(name) => figure_named(figures, name).number() != 0.0,
            PrintCondition::Worst => case == ExtraLatency::Worst,
            PrintCondition::Average => case == ExtraLatency::Average,
        };
        if is_there {
            append_line(&mut text, template, figures);
        }
    }
    text
}

/// Appends one statistics line: the template, with the value of each named field filled in.
fn append_line(text: &mut String, template: &str, figures: &[(String, StatisticsFigure)]) {
    for piece in template.split_inclusive(']') {
        let Some((head, conversion)) = piece.split_once('%') else {
            text.push_str(piece);
            continue;
        };
        let name = head.rsplit('[').next().unwrap_or_default().trim_end_matches(['=', ' ']);
        let value = figure_named(figures, name).number();
        text.push_str(head);
        let _ = match conversion {
            "d]" => write!(text, "{value:.0}"),
            ".1f]" => write!(text, "{value:.1}"),
            ".2f]" => write!(text, "{value:.2}"),
            _ => write!(text, "{value:.6}"),
        };
        text.push(']');
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::fields;

    /// The sample output in the published description of ptxas, with the lines of all conditions.
    const SAMPLE_OUTPUT: &str = "\
# 142 instructions, 24 R-regs
# [inst=142] [texInst=0] [tepid=0] [rregs=24]
# [urregs=8]
# [_lat2inst=0.0]
# [FP16 inst=0] [FP16 VectInst=0] [Percentage Vectorized=0.00]
# [est latency = 87] [LSpillB=0] [LRefillB=0], [SSpillB=0], [SRefillB=0], [LowLmemSpillSize=0] [FrameLmemSpillSize=0]
# [LNonSpillB=0] [LNonRefillB=0], [NonSpillSize=0]
# [Occupancy = 0.750000], [est numDivergentBranches=2] [attributeMemUsage=0], [programSize=1024]
# [est fp=12] [est half=0], [est trancedental=0], [est ipa=0], [est shared=0], [est controlFlow=8], [est loadStore=24]
# [est tex=0] [est pairs=4]
# [issue thru=0.888889] [fp thru=0.111111] [half thru=0.000000], [trancedental thru=0.000000], [ipa thru=0.000000]
# [shared thru=0.000000] [controlFlow thru=0.062500] [texLoadStore thru=0.187500], [reg thru=0.000000], [warp thru=0.000000]
# [SharedMem Alloc thru=0.125000]
# [partially unrolled loops=0] [non-unrolled loops=1]
# [CB-Bound Tex=0] [UR-Bound Tex=0] [Bindless Tex=0] [Partially Bound Tex=0]
# [UDP inst=0] [numVecToURConverts inst=0]
# [maxNumLiveValuesAtSuspend=0]
# [Precise inst=0]
# [worstcaseLat=87.000000]
# [instHint=142] [instPairs=4]
";

    /// Returns the figures of [`SAMPLE_OUTPUT`].
    fn sample_figures() -> Vec<(String, StatisticsFigure)> {
        let count = |name: &str, value| (name.to_owned(), StatisticsFigure::Count(value));
        let ratio = |name: &str, value| (name.to_owned(), StatisticsFigure::Ratio(value));
        vec![
            count("inst", 142),
            count("rregs", 24),
            count("urregs", 8),
            count("est latency", 87),
            ratio("Occupancy", 0.75),
            count("est numDivergentBranches", 2),
            count("programSize", 1024),
            count("est fp", 12),
            count("est controlFlow", 8),
            count("est loadStore", 24),
            count("est pairs", 4),
            ratio("issue thru", 8.0 / 9.0),
            ratio("fp thru", 1.0 / 9.0),
            ratio("controlFlow thru", 0.0625),
            ratio("texLoadStore thru", 0.1875),
            ratio("SharedMem Alloc thru", 0.125),
            count("non-unrolled loops", 1),
            ratio("worstcaseLat", 87.0),
            count("instHint", 142),
            count("instPairs", 4),
        ]
    }

    #[test]
    fn lines_match_the_sample_of_the_description() {
        assert_eq!(text(AllocationStage::Pre, &sample_figures(), true, ExtraLatency::Worst), SAMPLE_OUTPUT);
    }

    #[test]
    fn lines_are_omitted_by_condition() {
        let text = text(AllocationStage::Pre, &[], false, ExtraLatency::Average);
        for absent in ["urregs", "SharedMem Alloc", "worstcaseLat", "instPairs"] {
            assert!(!text.contains(absent), "{absent}");
        }
        assert!(text.contains("# [avgcaseLat=0.000000]\n"));
    }

    /// The rules of the published description of ptxas for the lines after register allocation: no commas, a single spill size, and
    /// hardware pipes instead of kinds of work.
    #[test]
    fn lines_after_allocation_have_pipes_and_no_commas() {
        let all = text(AllocationStage::Post, &[], true, ExtraLatency::Neither);
        assert!(all.lines().skip(1).all(|line| !line.contains(',')), "{all}");
        assert!(all.contains("[SRefillB=0] [SpillSize=0]\n") && !all.contains("LmemSpillSize"));
        for pipe in fields::FIELDS_AFTER_ALLOCATION {
            assert!(all.contains(&format!("[est {pipe}=0]")), "{pipe}");
            // The published lines have no throughput for `half`.
            assert_eq!(all.contains(&format!("[{pipe} thru=0.000000]")), pipe != "half", "{pipe}");
        }
    }
}
