//! Fuzz target for hardware profile files.
//!
//! Conditions: no panic; every error has a message; a profile is unchanged after writing and reading it; compiling with it gives no
//! internal error and the same bytes each time.

use std::sync::Arc;

use oriole_driver::{ErrorCause, Options};
use oriole_hardware::Profile;
use oriole_isa::Target;

use crate::CaseOutcome;
use crate::damage_text::{damage_number, damage_text};
use crate::numbers::Numbers;

/// A kernel with loads, stores, a loop, a branch and a barrier, so that latencies of several kinds are used.
const KERNEL: &[u8] = b".version 7.0\n.target sm_70\n.address_size 64
.visible .entry k(.param .u64 p, .param .u32 n) {
    .reg .pred %p<3>; .reg .b32 %r<6>; .reg .b64 %rd<4>; .reg .f32 %f<4>; .shared .align 4 .b8 s[128];
    ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;
    mul.wide.u32 %rd2, %r2, 4; add.s64 %rd3, %rd1, %rd2; mov.f32 %f1, 0f00000000; mov.u32 %r3, 0;
L:  ld.global.f32 %f2, [%rd3]; fma.rn.f32 %f1, %f2, %f2, %f1; sqrt.approx.f32 %f1, %f1;
    add.u32 %r3, %r3, 1; setp.lt.u32 %p1, %r3, %r1; @%p1 bra L;
    st.shared.f32 [s], %f1; bar.sync 0; ld.shared.f32 %f3, [s]; setp.gt.f32 %p2, %f3, %f1; @%p2 bra E;
    atom.global.add.u32 %r4, [%rd3], %r3; st.global.u32 [%rd3], %r4;
E:  ret;
}\n";

/// Judges a case.
pub fn check(case: &[u8]) -> CaseOutcome {
    let text = String::from_utf8_lossy(case);
    let profile = match Profile::from_text("case", &text) {
        Ok(profile) => profile,
        Err(error) => {
            assert!(!error.to_string().is_empty(), "refused without a reason");
            return CaseOutcome::Refused;
        }
    };
    let written = profile.to_text();
    match Profile::from_text("written", &written) {
        Ok(again) => assert!(again == profile, "a profile changes when it is written"),
        Err(error) => panic!("a profile that was written cannot be read: {error}"),
    }
    check_compile(profile);
    CaseOutcome::Accepted
}

fn check_compile(profile: Profile) {
    let checked = oriole_ptx::check(KERNEL, &oriole_ptx::Options::default());
    let (target, profile) = (profile.target, Some(Arc::new(profile)));
    for level in [0, 3] {
        let options = Options { level, profile: profile.clone(), ..Options::new(target) };
        let bytes = || match oriole_driver::compile(&[&checked.module], &options) {
            Ok(compiled) => Some(compiled.cubin),
            Err(errors) => {
                for error in &errors {
                    assert!(!matches!(error.fault, ErrorCause::Internal(_)), "{error}");
                }
                None
            }
        };
        assert!(bytes() == bytes(), "the same profile gives different bytes");
    }
}

/// Returns the profiles of some targets.
pub fn seeds() -> Vec<Vec<u8>> {
    let targets = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"];
    let profiles = targets.iter().filter_map(|name| Target::parse(name)).map(Profile::of);
    profiles.map(|profile| profile.to_text().into_bytes()).collect()
}

/// Changes a number most of the time. The file contains the number of its records, so most other changes are rejected immediately.
pub fn damage(case: &mut Vec<u8>, numbers: &mut Numbers) {
    if numbers.chance(70) {
        return damage_number(case, numbers);
    }
    let pool = case.clone();
    damage_text(case, &pool, numbers);
}
