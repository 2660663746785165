//! Why an instruction has its form and its place, from the history that the compiler recorded.

use oriole_driver::{InstHistory, PASSES, PlaceDecision, RejectedForm, RunnerUp};

use crate::model::{self, Form, FormChange, PlacementReason};

/// What is not known about the code of a cubin, for which nothing was recorded.
pub const UNKNOWN_IN_A_CUBIN: [&str; 3] = [
    "why an instruction has its place: the file does not say which other instructions were ready, and how the compiler compared them",
    "why an instruction has its form: the file does not say which PTX instruction it implements, unless it has line tables, and which passes \
     changed it",
    "what passes did not do, and why: not unrolled, not joined to vector loads, not converted to guarded instructions",
];

/// Describes the form of an instruction.
pub fn form(history: &InstHistory) -> Form {
    let describe = |name: &str| PASSES.iter().find(|pass| pass.name == name).map_or("", |pass| pass.description);
    let mut text = match history.created_by {
        "select" => "selected for its PTX instruction".to_owned(),
        pass => format!("created by `{pass}`, which {}", describe(pass)),
    };
    for change in &history.changes {
        text.push_str(&format!("; `{}` made it `{}` instead of `{}`", change.pass, change.after, change.before));
    }
    let change = |change: &oriole_driver::FormChange| FormChange {
        pass: change.pass.to_owned(),
        before: change.before.clone(),
        after: change.after.clone(),
    };
    for RejectedForm { pass, form, reason } in &history.rejected {
        text.push_str(&format!("; `{pass}` rejected {form}, because {reason}"));
    }
    let reject = |rejected: &RejectedForm| model::RejectedForm {
        pass: rejected.pass.to_owned(),
        form: rejected.form.clone(),
        reason: rejected.reason.clone(),
    };
    Form {
        text,
        created_by: history.created_by.to_owned(),
        changes: history.changes.iter().map(change).collect(),
        rejected: history.rejected.iter().map(reject).collect(),
    }
}

/// Describes the place of the instruction at an offset. `name` returns the name of the instruction at an offset.
///
/// A pass from the end of a block chooses the last instruction first, so its runner-up is before the instruction.
pub fn place(history: &InstHistory, offset: u32, name: &dyn Fn(u32) -> String) -> PlacementReason {
    let plain = |text: String| PlacementReason { text, phase: None, reason: None, runner_up: None };
    match history.place {
        PlaceDecision::Chosen { phase, cycle, runner_up, reason } => {
            let (text, runner_up) = match runner_up {
                RunnerUp::At(other) => {
                    let order =
                        if other < offset { "which goes before it (the block is scheduled from its end)" } else { "which goes after it" };
                    (format!("chosen instead of {}, {order}, because {reason}", name(other)), Some(u64::from(other)))
                }
                RunnerUp::Gone => (format!("chosen instead of an instruction that a later pass removed, because {reason}"), None),
                RunnerUp::None => (reason.to_owned(), None),
            };
            let text = format!("phase {phase}, cycle {cycle}: {text}");
            PlacementReason { text, phase: Some(phase), reason: Some(reason.to_owned()), runner_up }
        }
        PlaceDecision::Kept { phase } => PlacementReason {
            phase: Some(phase),
            ..plain(format!("phase {phase} found no faster order, so the order before it stays: that of the PTX and of earlier passes"))
        },
        PlaceDecision::Fixed if PASSES.iter().any(|pass| pass.name == history.created_by && pass.phase > LAST_SCHEDULER) => {
            plain(format!("inserted by `{}` after scheduling", history.created_by))
        }
        PlaceDecision::Fixed => plain("its place is fixed: other instructions do not move across it".to_owned()),
        PlaceDecision::NotScheduled => plain("the function was not scheduled: instructions stay in the order of the PTX".to_owned()),
    }
}

/// Phase of the last scheduling pass.
const LAST_SCHEDULER: u8 = 110;
