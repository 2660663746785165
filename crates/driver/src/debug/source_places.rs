//! The source positions that a PTX function body refers to, with the calls through which code was inlined.

use oriole_ptx::ast::LineLocation;
use oriole_support::Name;
use rustc_hash::FxHashMap;

/// A position in a source file. Positions are numbered by their index in [`SourcePlaces::places`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SourcePlace {
    /// Number of the source file in its `.file` directive.
    pub file: u32,
    /// Line in the source file, counted from 1; 0 if there is none.
    pub line: u32,
    /// Column in the source line.
    column: u32,
    /// For inlined code: the number of the position from which the inlined function is called, which is smaller than the number of this
    /// position. Otherwise `None`.
    pub call: Option<u32>,
    /// For inlined code: the offset in `.debug_str` of the name of the inlined function.
    pub function_name: u64,
}

/// The source positions that the `.loc` directives of a function body name.
pub struct SourcePlaces {
    /// The source positions without repetitions.
    pub places: Vec<SourcePlace>,
    /// For each `.loc` directive, the number of the source position that it names.
    pub of_location: Vec<u32>,
}

impl SourcePlaces {
    /// Collects the source positions of `.loc` directives. `inlined_at` refers to the last earlier `.loc` with that file, line and column.
    /// If that `.loc` is in another function, the position of the call counts as code that is not inlined. `name_offset` returns the offset
    /// of a function's name in `.debug_str`.
    pub fn new(locations: &[LineLocation], name_offset: &dyn Fn(Name, i64) -> u64) -> SourcePlaces {
        let mut builder = PlaceNumbering::default();
        let mut last: FxHashMap<[u32; 3], u32> = FxHashMap::default();
        let mut of_location = Vec::with_capacity(locations.len());
        for location in locations {
            let (mut call, mut function_name) = (None, 0);
            if let Some(inlined) = &location.inlined {
                let (name, offset, [file, line, column]) = **inlined;
                let outside = SourcePlace { file, line, column, call: None, function_name: 0 };
                call = Some(last.get(&[file, line, column]).copied().unwrap_or_else(|| builder.number_of_place(outside)));
                function_name = name_offset(name, offset);
            }
            let &LineLocation { file, line, column, .. } = location;
            let number = builder.number_of_place(SourcePlace { file, line, column, call, function_name });
            last.insert([file, line, column], number);
            of_location.push(number);
        }
        SourcePlaces { places: builder.places, of_location }
    }
}

/// Gives each distinct source position a number.
#[derive(Default)]
struct PlaceNumbering {
    /// The source positions, by number.
    places: Vec<SourcePlace>,
    /// For each source position, its number.
    numbers: FxHashMap<SourcePlace, u32>,
}

impl PlaceNumbering {
    /// Returns the number of a source position; adds the position if it is new.
    fn number_of_place(&mut self, place: SourcePlace) -> u32 {
        *self.numbers.entry(place).or_insert_with(|| {
            self.places.push(place);
            self.places.len() as u32 - 1
        })
    }
}
