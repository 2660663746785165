//! Tests the hazard checks on correct, tightly scheduled assembler kernels and on faults injected into them (`tests/faults`). The static
//! and the dynamic check must both find every fault, as the right problem and at the right pair of instructions. The kernels without a
//! fault must be clean and compute the right results.

#[path = "support/faults.rs"]
mod faults;

use std::fmt::Write as _;

use faults::{Kernel, kernels, kind_of, target};
use oriole_hardware::Model;
use oriole_isa::Instruction;
use oriole_sim::hazard::{HazardObserver, HazardSeverity, check_function};
use oriole_sim::sass::GridOptions;
use oriole_sim::sass::kernel_test::run;

const LIMIT: GridOptions = GridOptions::limited(1 << 20);
const INSTRUCTION_BYTES: u64 = 16;

/// Kernels with instructions that are not simulated.
const NOT_SIMULATED: [&str; 1] = ["matrix"];

/// Problem, and indices of the first and the second instruction.
type Found = (String, usize, usize);

/// Returns the hazards of the static check.
fn on_all_paths(instructions: &[Instruction]) -> Vec<Found> {
    let findings = check_function(instructions, &[0], &|_| Vec::new(), Model::of(target()));
    let hazards = findings.iter().filter(|finding| finding.problem.severity() == HazardSeverity::Hazard);
    hazards.map(|finding| (kind_of(&finding.problem), finding.first, finding.second)).collect()
}

/// Returns the hazards of the dynamic check.
fn while_running(kernel: &Kernel, cubin: &[u8]) -> Result<Vec<Found>, String> {
    let mut watch = HazardObserver::new();
    run(&kernel.test, cubin, &LIMIT, &mut watch)?;
    let number = |offset: u64| (offset / INSTRUCTION_BYTES) as usize;
    let found = watch.findings().iter().map(|sighting| {
        let second = number(sighting.second.offset);
        (kind_of(&sighting.problem), sighting.first.as_ref().map_or(second, |first| number(first.offset)), second)
    });
    Ok(found.collect())
}

#[test]
fn kernels_without_faults_are_clean_and_right() {
    let mut wrong = String::new();
    let all = kernels();
    for kernel in &all {
        let name = &kernel.name;
        match kernel.assemble(None) {
            Err(error) => writeln!(wrong, "{name}: {error}").unwrap(),
            Ok(code) => {
                for finding in on_all_paths(&code.instructions) {
                    writeln!(wrong, "{name}: on some path: {finding:?}").unwrap();
                }
                match while_running(kernel, &code.cubin) {
                    Err(_) if NOT_SIMULATED.contains(&name.as_str()) => {}
                    Ok(found) => found.iter().for_each(|finding| writeln!(wrong, "{name}: while running: {finding:?}").unwrap()),
                    Err(error) => writeln!(wrong, "{name}: {error}").unwrap(),
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(all.len() >= 50, "only {} kernels", all.len());
}

#[test]
fn every_fault_is_found() {
    let mut wrong = String::new();
    let (mut count, mut visible) = (0, 0);
    for kernel in &kernels() {
        for fault in &kernel.faults {
            let name = format!("{}, {}", kernel.name, fault.name);
            let wanted = (fault.kind.clone(), fault.first, fault.second);
            let code = match kernel.assemble(Some(fault)) {
                Ok(code) => code,
                Err(error) => {
                    writeln!(wrong, "{name}: {error}").unwrap();
                    continue;
                }
            };
            let paths = on_all_paths(&code.instructions);
            if !paths.contains(&wanted) {
                writeln!(wrong, "{name}: {wanted:?} is not among {paths:?}").unwrap();
            }
            match while_running(kernel, &code.cubin) {
                Ok(found) if found.contains(&wanted) => {}
                Err(_) if NOT_SIMULATED.contains(&kernel.name.as_str()) => {}
                Ok(found) => writeln!(wrong, "{name}: while running: {wanted:?} is not among {found:?}").unwrap(),
                Err(error) => writeln!(wrong, "{name}: {error}").unwrap(),
            }
            count += 1;
            visible += usize::from(fault.breaks_h200);
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(count >= 80, "only {count} faults");
    println!("{count} faults found; an H200 computes something wrong for {visible} of them");
}

#[test]
fn a_watch_with_a_limit_stops_there_and_says_where() {
    let all = kernels();
    let kernel = all.iter().find(|kernel| kernel.name == "predicate_guard").expect("the kernel");
    let code = kernel.assemble(kernel.faults.iter().find(|fault| fault.name == "no_yield")).expect("it can be assembled");
    let mut watch = HazardObserver::new().limit(1);
    run(&kernel.test, &code.cubin, &LIMIT, &mut watch).expect("the simulator is not disturbed by faults");
    let [sighting] = watch.findings() else { panic!("{} findings", watch.findings().len()) };
    assert_eq!((sighting.block, sighting.warp, sighting.lanes), (0, 0, !0));
    assert!(sighting.to_string().contains("ISETP.NE.AND P0, PT, R4, RZ, PT"), "{sighting}");
}
