//! The executable form of one instruction.
//!
//! A [`Step`] is built once per launch; executing it is one indirect call for the whole warp. The closure contains operands and modifiers
//! in resolved form and is specialized by generic parameters, so that the only branches left in its loop over lanes depend on data.

use super::fault::Fault;
use super::flow::Flow;
use super::warp::{Mask, PredicateSource, Warp};
use super::world::World;

/// Computes on the registers of a warp for the threads of a mask, which is never empty.
pub type Compute = Box<dyn Fn(&mut Warp, Mask) + Send + Sync>;

/// Accesses memory or other state outside the warp's registers; may fail.
pub type AccessFn = Box<dyn Fn(&mut Warp, &mut World<'_>, Mask) -> Result<(), Fault> + Send + Sync>;

/// The effect of an instruction.
pub enum Action {
    Nothing,
    Compute(Compute),
    Access(AccessFn),
    Flow(Flow),
    /// The instruction cannot be simulated, for this reason. Becomes an error only when a warp executes it.
    Refused(String),
}

/// An instruction form that a family module does not implement; the text names the form or feature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedInst(pub String);

/// The result of building an instruction.
pub type Built = Result<Action, UnsupportedInst>;

/// An instruction of the program.
pub struct Step {
    pub guard: PredicateSource,
    pub action: Action,
}

/// Makes an action that computes on registers.
pub fn compute(run: impl Fn(&mut Warp, Mask) + Send + Sync + 'static) -> Action {
    Action::Compute(Box::new(run))
}

/// Makes an action that accesses memory.
pub fn access(run: impl Fn(&mut Warp, &mut World<'_>, Mask) -> Result<(), Fault> + Send + Sync + 'static) -> Action {
    Action::Access(Box::new(run))
}

/// Returns the mask of lanes for which `holds` is true.
#[inline]
pub(crate) fn mask_of(holds: impl Fn(usize) -> bool) -> Mask {
    (0..32).fold(0, |mask, lane| mask | u32::from(holds(lane)) << lane)
}
