//! Special registers: `%tid.x`, `%clock64`, `%laneid`.

use super::{SPECIAL_REGISTERS, SpecialRegisterRow};

/// A special register, possibly one component of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SpecialRegister {
    /// Index of the row in [`SPECIAL_REGISTERS`].
    row: u8,
    /// The component; [`Component::Whole`] for a scalar register.
    pub component: Component,
}

/// A component of a vector register.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum Component {
    /// The whole register, no component.
    Whole,
    X,
    Y,
    Z,
    W,
}

impl Component {
    /// Parses `x`, `y`, `z`, `w`, or the colour names `r`, `g`, `b`, `a`.
    pub fn parse(text: &str) -> Option<Component> {
        Some(match text {
            "x" | "r" => Component::X,
            "y" | "g" => Component::Y,
            "z" | "b" => Component::Z,
            "w" | "a" => Component::W,
            _ => return None,
        })
    }

    /// Returns the spelling, with its dot.
    pub fn spelling(self) -> &'static str {
        match self {
            Component::Whole => "",
            Component::X => ".x",
            Component::Y => ".y",
            Component::Z => ".z",
            Component::W => ".w",
        }
    }

    /// Returns the index of the element; `None` for the whole register.
    pub fn index(self) -> Option<u8> {
        match self {
            Component::Whole => None,
            Component::X => Some(0),
            Component::Y => Some(1),
            Component::Z => Some(2),
            Component::W => Some(3),
        }
    }
}

impl SpecialRegister {
    /// Returns the register with this name, which includes the percent sign.
    pub fn from_name(name: &str) -> Option<SpecialRegister> {
        let row = SPECIAL_REGISTERS.binary_search_by(|row| row.name.cmp(name)).ok()?;
        Some(SpecialRegister { row: u8::try_from(row).ok()?, component: Component::Whole })
    }

    /// Returns the given component of the register.
    pub fn with_component(self, component: Component) -> SpecialRegister {
        SpecialRegister { component, ..self }
    }

    /// Returns the row of the table.
    pub fn row(self) -> &'static SpecialRegisterRow {
        &SPECIAL_REGISTERS[usize::from(self.row)]
    }

    /// Returns whether it is a vector register without a component.
    pub fn is_whole_vector(self) -> bool {
        self.row().vector && self.component == Component::Whole
    }
}

impl std::fmt::Display for SpecialRegister {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.row().name, self.component.spelling())
    }
}
