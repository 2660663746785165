//! Special registers: `%tid.x`, `%clock64`, `%laneid`.

use super::{SPECIAL_REGISTERS, SpecialRegisterRow};

/// A special register, possibly one component of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SpecialRegister {
    row: u8,
    /// The component of a vector register.
    pub component: Component,
}

/// A component of a vector.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum Component {
    /// The whole register.
    Whole,
    X,
    Y,
    Z,
    W,
}

impl Component {
    /// Reads `x`, `y`, `z`, `w` or their colour names.
    pub fn parse(text: &str) -> Option<Component> {
        Some(match text {
            "x" | "r" => Component::X,
            "y" | "g" => Component::Y,
            "z" | "b" => Component::Z,
            "w" | "a" => Component::W,
            _ => return None,
        })
    }

    /// How it is written after the name, dot included.
    pub fn spelling(self) -> &'static str {
        match self {
            Component::Whole => "",
            Component::X => ".x",
            Component::Y => ".y",
            Component::Z => ".z",
            Component::W => ".w",
        }
    }

    /// The position of the element.
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
    /// The register with this name, percent sign included.
    pub fn from_name(name: &str) -> Option<SpecialRegister> {
        let row = SPECIAL_REGISTERS.binary_search_by(|row| row.name.cmp(name)).ok()?;
        Some(SpecialRegister { row: u8::try_from(row).ok()?, component: Component::Whole })
    }

    /// The same register, this component of it.
    pub fn with_component(self, component: Component) -> SpecialRegister {
        SpecialRegister { component, ..self }
    }

    /// Its row in the table.
    pub fn row(self) -> &'static SpecialRegisterRow {
        &SPECIAL_REGISTERS[usize::from(self.row)]
    }

    /// Whether it is a vector that no component was chosen of.
    pub fn is_whole_vector(self) -> bool {
        self.row().vector && self.component == Component::Whole
    }
}

impl std::fmt::Display for SpecialRegister {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}{}", self.row().name, self.component.spelling())
    }
}
