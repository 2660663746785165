//! The table of all options of ptxas 13.0: names, kind of value, and effect in Oriole.
//!
//! Long names take two dashes and short names one; names cannot be abbreviated. Options without a use in Oriole are accepted and
//! their values checked, so that existing command lines work, but they have no effect.

/// The kind of value that an option takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionKind {
    /// No value.
    Flag,
    /// `true` or `false`.
    Boolean,
    /// A 32-bit number.
    Number,
    /// A number that may directly follow the short name: `-m64`.
    AttachableNumber,
    /// A number that must directly follow the short name, or be absent: `-O2`, `-O`.
    AttachedNumber,
    /// Free text.
    Text,
    /// Free text; each use of the option adds a value.
    Texts,
    /// Names separated by commas; each use of the option adds to the list.
    List,
    /// One of a few words.
    OneOf(&'static [&'static str]),
    /// The name of an architecture.
    Arch,
}

/// One option.
#[derive(Debug)]
pub struct Spec {
    /// The name after two dashes.
    pub long: &'static str,
    /// The name after one dash; empty if there is none.
    pub short: &'static str,
    /// The kind of value.
    pub kind: OptionKind,
    /// The placeholder of the value in the help text.
    pub value: &'static str,
    /// The description in the help text; [`NO_EFFECT`] for options without effect.
    pub help: &'static str,
}

const fn spec(long: &'static str, short: &'static str, kind: OptionKind, value: &'static str, help: &'static str) -> Spec {
    Spec { long, short, kind, value, help }
}

use OptionKind::{Arch, AttachableNumber, AttachedNumber, Boolean, Flag, List, Number, OneOf, Text, Texts};

/// The help text of options without effect.
pub const NO_EFFECT: &str = "";

/// The options: first those with an effect, then those without; each part sorted by long name.
pub const OPTIONS: &[Spec] = &[
    spec("blocks-are-clusters", "blocks-are-clusters", Boolean, "true|false", "count the grid of every launch in clusters (from sm_90 on)"),
    spec("compile-as-tools-patch", "astoolspatch", Flag, "", "make functions that tools insert into other programs"),
    spec("compile-only", "c", Flag, "", "make a relocatable object for nvlink"),
    spec("def-load-cache", "dlcm", Text, "ca|cg|cs|lu|cv", "cache operator of loads from global memory that have none"),
    spec("def-store-cache", "dscm", Text, "wb|cg|cs|wt", "cache operator of stores to global memory that have none"),
    spec("device-debug", "g", Flag, "", "write debug information, and do not optimize"),
    spec(
        "device-function-maxrregcount",
        "func-maxrregcount",
        Text,
        "archmax|archmin|N",
        "with -c: registers for each thread at most, in device functions",
    ),
    spec("disable-optimizer-constants", "disable-optimizer-consts", Flag, "", "place no constants of the optimizer; Oriole never does"),
    spec("disable-smem-reservation", "disable-smem-reservation", Boolean, "true|false", "let shared variables start at address 0"),
    spec("disable-warnings", "w", Flag, "", "print no warnings"),
    spec("dry-run", "dry-run", Flag, "", "check only, whatever -o says (Oriole's own addition)"),
    spec("entry", "e", List, "KERNEL,...", "compile these kernels only"),
    spec("extensible-whole-program", "ewp", Flag, "", "make a relocatable object, for a program that lacks the device runtime only"),
    spec("fdevice-time-trace", "", Text, "FILE", "add the times of the compilation to this trace (JSON), which must exist"),
    spec("fmad", "fmad", Boolean, "true|false", "join floating-point mul and add without a rounding modifier (default: true)"),
    spec("force-load-cache", "flcm", Text, "ca|cg|cs|lu|cv", "cache operator of all loads from global memory"),
    spec("force-store-cache", "fscm", Text, "wb|cg|cs|wt", "cache operator of all stores to global memory"),
    spec("generate-line-info", "lineinfo", Flag, "", "write line tables"),
    spec("gpu-name", "arch", Arch, "NAME", "architecture to compile for; compute_NN and lto_NN check only (default: sm_75)"),
    spec("help", "h", Flag, "", "print this text"),
    spec("input-as-string", "ias", Texts, "PTX", "check this text, besides the files"),
    spec("list-version", "version-ls", Flag, "", "print the PTX versions that modules may be written in"),
    spec(
        "make-errors-visible-at-exit",
        "make-errors-visible-at-exit",
        Flag,
        "",
        "let threads wait at their exit until errors of their memory accesses are reported",
    ),
    spec("maxntid", "maxntid", List, "N,...", "threads of a block at most, for kernels that do not say so themselves"),
    spec("maxrregcount", "maxrregcount", Text, "archmax|archmin|N", "registers for each thread at most"),
    spec("minnctapersm", "minnctapersm", Number, "N", "blocks that must be resident, for kernels that do not say so themselves"),
    spec("opt-level", "O", AttachedNumber, "N", "optimization level, 0 to 3 (default: 3)"),
    spec("options-file", "optf", List, "FILE,...", "read more options and inputs from files"),
    spec("output-file", "o", Text, "FILE", "where the cubin goes"),
    spec(
        "override-directive-values",
        "override-directive-values",
        Flag,
        "",
        "let -maxrregcount, -maxntid and -minnctapersm win over directives",
    ),
    spec("split-compile", "split-compile", Number, "N", "threads at most; 0 for one per processor, which is the default"),
    spec("suppress-debug-info", "suppress-debug-info", Flag, "", "leave out the debug sections of -g and -lineinfo"),
    spec("tool-name", "tool-name", Text, "NAME", "the name that messages start with, instead of ptxas"),
    spec("verbose", "v", Flag, "", "print what each kernel needs"),
    spec("version", "V", Flag, "", "print the version"),
    spec("warn-on-double-precision-use", "warn-double-usage", Flag, "", "warn of instructions with double precision"),
    spec("warn-on-local-memory-usage", "warn-lmem-usage", Flag, "", "warn of functions with local memory"),
    spec("warn-on-spills", "warn-spills", Flag, "", "warn where registers are spilled to local memory"),
    spec("warning-as-error", "Werror", Flag, "", "treat warnings as errors"),
    // Without effect.
    spec("Ofast-compile", "Ofc", Text, "0|min|mid|max", NO_EFFECT),
    spec("allow-expensive-optimizations", "allow-expensive-optimizations", Boolean, "true|false", NO_EFFECT),
    spec("apply-controls", "apply-controls", Text, "FILE", NO_EFFECT),
    spec("assume-extern-functions-do-not-sync", "assume-extern-functions-do-not-sync", Boolean, "true|false", NO_EFFECT),
    spec("cimm", "cimm", Flag, "", NO_EFFECT),
    spec("cloning", "cloning", Text, "TEXT", NO_EFFECT),
    spec("compiler-annotations", "annotate", Flag, "", NO_EFFECT),
    spec("cuda-api-version", "cuda-api-version", Text, "VERSION", NO_EFFECT),
    spec("device-stack-protector", "device-stack-protector", Boolean, "true|false", NO_EFFECT),
    spec("dont-merge-basicblocks", "no-bb-merge", Flag, "", NO_EFFECT),
    spec("fastimul", "fastimul", Flag, "", NO_EFFECT),
    spec("force-externals", "", Flag, "", NO_EFFECT),
    spec("force-rela", "force-rela", Flag, "", NO_EFFECT),
    spec("g-tensor-memory-access-check", "g-tmem-access-check", Flag, "", NO_EFFECT),
    spec("gno-tensor-memory-access-check", "gno-tmem-access-check", Flag, "", NO_EFFECT),
    spec("jobserver", "jobserver", Flag, "", NO_EFFECT),
    spec("legacy-bar-warp-wide-behavior", "legacy-bar-warp-wide-behavior", Flag, "", NO_EFFECT),
    spec("limit-fold-fp", "limit-fold-fp", Boolean, "true|false", NO_EFFECT),
    spec("link-info", "link-info", Text, "TEXT", NO_EFFECT),
    spec("machine", "m", AttachableNumber, "64", NO_EFFECT),
    spec("membermask-overlap", "membermask-overlap", Boolean, "true|false", NO_EFFECT),
    spec("no-fastreg", "no-fastreg", Flag, "", NO_EFFECT),
    spec("no-membermask-overlap", "no-membermask-overlap", Boolean, "true|false", NO_EFFECT),
    spec("noFwdPrg", "noFwdPrg", Flag, "", NO_EFFECT),
    spec("nv-host", "nv-host", Text, "FILE", NO_EFFECT),
    spec("okey", "okey", Number, "N", NO_EFFECT),
    spec("opt-pointers", "", Flag, "", NO_EFFECT),
    spec("optimize-float-atomics", "opt-fp-atomics", Flag, "", NO_EFFECT),
    spec("position-independent-code", "pic", Boolean, "true|false", NO_EFFECT),
    spec("preserve-relocs", "preserve-relocs", Flag, "", NO_EFFECT),
    spec("ptx-length", "ptxlen", Number, "N", NO_EFFECT),
    spec("query-controls", "query-controls", Text, "FILE", NO_EFFECT),
    spec("regAllocOptLevel", "regAllocOptLevel", Number, "N", NO_EFFECT),
    spec("register-usage-level", "regUsageLevel", Number, "0..10", NO_EFFECT),
    spec("return-at-end", "ret-end", Flag, "", NO_EFFECT),
    spec("sanitize", "sanitize", OneOf(&["memcheck", "threadsteer"]), "memcheck|threadsteer", NO_EFFECT),
    spec("sp-bounds-check", "sp-bounds-check", Flag, "", NO_EFFECT),
    spec("suppress-async-bulk-multicast-advisory-warning", "suppress-async-bulk-multicast-advisory-warning", Flag, "", NO_EFFECT),
    spec("suppress-double-demote-warning", "suppress-double-demote-warning", Flag, "", NO_EFFECT),
    spec("suppress-sparse-mma-advisory-info", "suppress-sparse-mma-advisory-info", Flag, "", NO_EFFECT),
    spec("suppress-stack-size-warning", "suppress-stack-size-warning", Flag, "", NO_EFFECT),
    spec("sw200428197", "sw200428197", Boolean, "true|false", NO_EFFECT),
    spec("uumn", "uumn", Flag, "", NO_EFFECT),
    spec("verbose-tkinfo", "verbose-tkinfo", Boolean, "true|false", NO_EFFECT),
];

#[cfg(test)]
mod tests {
    use super::OPTIONS;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let long: BTreeSet<&str> = OPTIONS.iter().map(|option| option.long).collect();
        let short: Vec<&str> = OPTIONS.iter().map(|option| option.short).filter(|short| !short.is_empty()).collect();
        assert_eq!(long.len(), OPTIONS.len());
        assert_eq!(short.iter().collect::<BTreeSet<_>>().len(), short.len());
    }

    #[test]
    fn options_that_do_something_say_so() {
        let silent = OPTIONS.iter().position(|option| option.help.is_empty()).unwrap();
        assert!(OPTIONS[..silent].is_sorted_by_key(|option| option.long));
        assert!(OPTIONS[silent..].is_sorted_by_key(|option| option.long));
        assert!(OPTIONS[silent..].iter().all(|option| option.help.is_empty()));
    }
}
