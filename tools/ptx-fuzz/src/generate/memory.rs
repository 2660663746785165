//! Generates loads, stores and atomics, at addresses that the thread owns or that no thread writes.

use super::{Context, Generator};
use crate::features::Feature;
use crate::program::{CONSTANT_WORDS, GLOBAL_POINTERS, INPUT_WORDS, Op, OperandClass, PRIVATE_BYTES, SHARED_CELLS};

/// A memory that can be accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Input,
    Private,
    Shared,
    Local,
    Constant,
    Variable,
    Parameter,
    /// The thread's part of dynamic shared memory.
    Dynamic,
    /// Memory allocated by `alloca`.
    Stack,
    LargeConstant,
    /// Private or shared memory, selected by a predicate, through a generic address.
    Either,
}

impl Place {
    fn space(self) -> &'static str {
        match self {
            Place::Input | Place::Private | Place::Variable => ".global",
            Place::Shared | Place::Dynamic => ".shared",
            Place::Local | Place::Stack => ".local",
            Place::Constant | Place::LargeConstant => ".const",
            Place::Parameter => ".param",
            Place::Either => "",
        }
    }

    fn generic_base(self) -> &'static str {
        match self {
            Place::Input => "%gin",
            Place::Private | Place::Either => "%gpriv",
            Place::Shared => "%gsh",
            Place::Local => "%gloc",
            Place::Constant => "%gcst",
            Place::Variable => "%ggvar",
            Place::Dynamic => "%gdy",
            Place::Parameter | Place::Stack | Place::LargeConstant => unreachable!("no generic address of {self:?} is made"),
        }
    }
}

/// An address: the instructions that compute it, its text, and the state space.
struct Address {
    setup: String,
    text: String,
    space: &'static str,
}

/// Types in memory, their size in bytes, and the register classes that accept them.
const SCALARS: [(&str, usize, &str); 7] = [
    ("{b8/u8/s8}", 1, "bhrd"),
    ("{b16/u16/s16}", 2, "hrd"),
    ("{b32/u32/s32}", 4, "rrd"),
    ("{b64/u64/s64}", 8, "d"),
    ("f32", 4, "f"),
    ("f64", 8, "e"),
    ("b16", 2, "xy"),
];

impl Generator {
    /// Returns the size of a memory in bytes.
    fn bytes(&self, place: Place) -> usize {
        match place {
            Place::Input => INPUT_WORDS * 4,
            Place::Private | Place::Shared | Place::Local | Place::Dynamic | Place::Stack | Place::Either => PRIVATE_BYTES,
            Place::Constant | Place::Variable => CONSTANT_WORDS * 4,
            Place::Parameter => self.structure_bytes,
            Place::LargeConstant => self.large_constant_bytes,
        }
    }

    /// Picks a memory that only programs with a feature have.
    fn featured_place(&mut self, writable: bool) -> Option<Place> {
        let mut places = Vec::new();
        if self.in_kernel && self.features.has(Feature::DynamicShared) {
            places.push(Place::Dynamic);
        }
        if self.features.has(Feature::Alloca) {
            places.push(Place::Stack);
        }
        if !writable && self.large_constant_bytes > 0 {
            places.push(Place::LargeConstant);
        }
        if !writable && self.in_kernel && self.features.has(Feature::LargeParameters) {
            places.push(Place::Parameter);
        }
        if self.features.has(Feature::DeepFrames) {
            places.push(Place::Local);
        }
        (!places.is_empty() && self.rng.chance(40)).then(|| *self.rng.pick(&places))
    }

    /// Picks a memory to access.
    fn place(&mut self, writable: bool) -> Place {
        if let Some(place) = self.featured_place(writable) {
            return place;
        }
        let places: &[Place] = match (self.in_kernel, writable) {
            (true, true) => &[Place::Private, Place::Private, Place::Shared, Place::Local, Place::Either],
            (false, true) => &[Place::Private, Place::Local],
            (true, false) => &[
                Place::Input,
                Place::Private,
                Place::Shared,
                Place::Local,
                Place::Constant,
                Place::Variable,
                Place::Parameter,
                Place::Either,
            ],
            (false, false) => &[Place::Private, Place::Local, Place::Constant, Place::Variable],
        };
        *self.rng.pick(places)
    }

    /// Generates an aligned address within a memory, with a constant or a variable offset.
    fn address(&mut self, place: Place, align: usize, may_be_generic: bool) -> Address {
        let by_name = matches!(place, Place::Parameter | Place::Stack | Place::LargeConstant);
        let generic = place == Place::Either || may_be_generic && !by_name && self.rng.chance(20);
        let bytes = self.bytes(place);
        let seed = self.seed;
        let fixed = self.rng.below(bytes / align) * align;
        let (mut setup, base, wide) = match place {
            Place::Parameter if bytes > 32 && self.rng.chance(40) => {
                (".reg .b64 %tb; mov.u64 %tb, structure".to_owned(), "%tb".to_owned(), true)
            }
            Place::Parameter => return Address { setup: String::new(), text: format!("[structure+{fixed}]"), space: ".param" },
            Place::Either => {
                let choice = self.choose(".reg .b64 %tb; selp.b64 %tb, {%gsh, %gpriv/%gpriv, %gsh/%gloc, %gsh/%gpriv, %gloc}, $p");
                (choice, "%tb".to_owned(), true)
            }
            _ if generic => (String::new(), place.generic_base().to_owned(), true),
            Place::Input => (String::new(), "%in".to_owned(), true),
            Place::Private => (String::new(), "%priv".to_owned(), true),
            Place::Shared => (String::new(), "%sh".to_owned(), false),
            Place::Local => (String::new(), "%loc".to_owned(), true),
            Place::Dynamic => (String::new(), "%dy".to_owned(), false),
            Place::Stack => (String::new(), "%alc".to_owned(), true),
            Place::Constant | Place::Variable | Place::LargeConstant => {
                let name = match place {
                    Place::Constant => format!("cst{seed}"),
                    Place::Variable => format!("gvar{seed}"),
                    _ => format!("big{seed}"),
                };
                if self.rng.chance(30) {
                    return Address { setup: String::new(), text: format!("[{name}+{fixed}]"), space: place.space() };
                }
                (format!(".reg .b64 %tb; mov.u64 %tb, {name}"), "%tb".to_owned(), true)
            }
        };
        let space = if generic { "" } else { place.space() };
        if self.rng.chance(40) {
            return Address { setup, text: format!("[{base}+{fixed}]"), space };
        }
        // The variable part is below half of the memory, and a constant part is added before or after it.
        let half = if self.rng.chance(50) && bytes / 2 >= align { bytes / 2 } else { bytes };
        let mask = (half - 1) & !(align - 1);
        let offset = if half < bytes { self.rng.below(half / align) * align } else { 0 };
        if !setup.is_empty() {
            setup += "; ";
        }
        if wide {
            setup += &format!(".reg .b64 %ta; .reg .b32 %to; and.b32 %to, $r, {mask}; cvt.u64.u32 %ta, %to; add.s64 %ta, %ta, {base}");
        } else {
            setup += &format!(".reg .b32 %ta, %to; and.b32 %to, $r, {mask}; add.u32 %ta, %to, {base}");
        }
        if self.rng.chance(20) {
            let width = if wide { "s64" } else { "s32" };
            setup += &format!("; add.{width} %ta, %ta, {}", offset + 16);
            return Address { setup, text: "[%ta+-16]".to_owned(), space };
        }
        Address { setup, text: format!("[%ta+{offset}]"), space }
    }

    /// Generates a load, a store, or `isspacep`.
    pub(super) fn memory(&mut self) -> Option<Op> {
        if self.in_kernel && self.rng.chance(4) {
            return Some(self.plain("isspacep.{global/shared/local/const} $=p, {%gpriv/%gsh/%gloc/%gin/%gcst}"));
        }
        if let Some(op) = self.featured_access() {
            return Some(op);
        }
        let is_store = self.rng.chance(45);
        let place = self.place(is_store);
        let &(types, size, classes) = self.rng.pick(&SCALARS);
        let memory_type = self.choose(types);
        let class = classes.as_bytes()[self.rng.below(classes.len())] as char;
        let registers = self.pool[OperandClass::from_letter(class).expect("a class") as usize];
        let mut counts = vec![1, 1];
        let fits = size <= 8 && class != 'b' && (place != Place::Parameter || self.structure_bytes > 32);
        counts.extend([2, 4].into_iter().filter(|&count| fits && size * count <= 16 && count <= registers));
        let count = *self.rng.pick(&counts);
        let address = self.address(place, size * count, true);
        let vector = if count > 1 { format!(".v{count}") } else { String::new() };
        let text = if is_store {
            let values = self.stored(class, count)?;
            let how = self.store_modifiers(&address);
            let store = format!("st{how}{vector}.{memory_type} {}, {}", address.text, values.1);
            [address.setup, values.0, store].join("; ")
        } else {
            let how = self.load_modifiers(place, &address);
            let list = vec![format!("$={class}"); count].join(", ");
            let target = if count > 1 { format!("<{list}>") } else { list };
            format!("{}; ld{how}{vector}.{memory_type} {target}, {}", address.setup, address.text)
        };
        Some(self.plain(&text))
    }

    /// Generates an access that only programs with a feature have.
    fn featured_access(&mut self) -> Option<Op> {
        if self.features.has(Feature::B128) && self.rng.chance(25) {
            return Some(self.access_of_128_bits());
        }
        if !self.globals.is_empty() && self.rng.chance(40) {
            return Some(self.read_global());
        }
        if self.in_kernel && self.features.has(Feature::DynamicShared) && self.rng.chance(5) {
            return Some(self.plain("mov.u32 $=r, %dynamic_smem_size"));
        }
        None
    }

    fn access_of_128_bits(&mut self) -> Op {
        let is_store = self.rng.chance(50);
        let place = match self.place(is_store) {
            Place::Parameter => Place::Private,
            place => place,
        };
        let address = self.address(place, 16, true);
        let text = if is_store {
            format!("{}; st{}.b128 {}, %o{{a/b}}", address.setup, address.space, address.text)
        } else {
            format!("{}; ld{}.b128 %o{{a/b}}, {}", address.setup, address.space, address.text)
        };
        self.plain(&text)
    }

    /// Generates a read of one of many global variables, by name or through its address in a table.
    fn read_global(&mut self) -> Op {
        let seed = self.seed;
        let first_in_table = self.globals.len() - GLOBAL_POINTERS;
        let by_address = self.rng.chance(40);
        let number = if by_address { first_in_table + self.rng.below(GLOBAL_POINTERS) } else { self.rng.below(self.globals.len()) };
        let (kind, class) = match self.globals[number].kind {
            "b8" => ("{u8/s8/b8}", 'r'),
            "b16" => ("{u16/s16/b16}", 'h'),
            "b32" => ("{u32/s32/b32}", 'r'),
            _ => ("{u64/b64}", 'd'),
        };
        let text = if by_address {
            let entry = (number - first_in_table) * 8;
            format!(".reg .b64 %ta; ld.global.u64 %ta, [gp{seed}+{entry}]; ld.global.{kind} $={class}, [%ta]")
        } else {
            format!("ld.global.{kind} $={class}, [g{seed}x{number}]")
        };
        self.plain(&text)
    }

    /// Returns the instructions that make values canonical before their bits are stored, and the values; `None` for halves.
    fn stored(&mut self, class: char, count: usize) -> Option<(String, String)> {
        let canonical = match class {
            'f' => Some(("f32", "0f7FFFFFFF")),
            'e' => Some(("f64", "0d7FF8000000000000")),
            'x' | 'y' => return None,
            _ => None,
        };
        let Some((float, nan)) = canonical else {
            let list = vec![format!("${class}"); count].join(", ");
            return Some((String::new(), if count > 1 { format!("<{list}>") } else { list }));
        };
        let mut setup = ".reg .pred %tp".to_owned();
        let mut names = Vec::new();
        for number in 0..count {
            let bound = (b'a' + number as u8) as char;
            setup += &format!("; .reg .{float} %tv{number}; setp.nan.{float} %tp, ${class}:{bound}, ${class}:{bound}");
            setup += &format!("; selp.{float} %tv{number}, {nan}, ${class}:{bound}, %tp");
            names.push(format!("%tv{number}"));
        }
        let list = names.join(", ");
        Some((setup, if count > 1 { format!("<{list}>") } else { list }))
    }

    fn load_modifiers(&mut self, place: Place, address: &Address) -> String {
        let space = address.space;
        let plain = format!("{{/.weak}}{space}");
        let template = match space {
            ".global" if place == Place::Input => format!(
                "{{{plain}/.global.nc/.global.ca.nc/.global.L1::evict_last/.global.nc.L1::no_allocate.L2::128B/.global.L2::64B/.global.cg}}"
            ),
            ".global" => format!(
                "{{{plain}/.global.cg/.global.ca/.global.cs/.global.cv/.volatile.global/.relaxed.{{cta/gpu/sys}}.global/.acquire.gpu.global}}"
            ),
            ".shared" => format!("{{{plain}/{plain}/.volatile.shared/.relaxed.cta.shared/.acquire.cta.shared}}"),
            "" => "{/.weak/.volatile/.relaxed.gpu}".to_owned(),
            ".local" | ".const" => format!("{{{plain}/{space}{{.ca/.cg/.cs}}}}"),
            _ => space.to_owned(),
        };
        let generic_constant = space.is_empty() && matches!(place, Place::Constant | Place::Local | Place::Either);
        if generic_constant { String::new() } else { self.choose(&template) }
    }

    fn store_modifiers(&mut self, address: &Address) -> String {
        let space = address.space;
        let plain = format!("{{/.weak}}{space}");
        let template = match space {
            ".global" => format!("{{{plain}/{plain}/.global{{.wb/.cg/.cs/.wt}}/.volatile.global/.relaxed.gpu.global/.release.sys.global}}"),
            ".shared" => format!("{{{plain}/{plain}/.volatile.shared/.relaxed.cta.shared}}"),
            ".local" => format!("{{{plain}/.local{{.wb/.cg/.cs/.wt}}}}"),
            _ => plain,
        };
        self.choose(&template)
    }

    /// Generates an atomic on memory of the thread, or on a cell of all threads with a commutative operation.
    pub(super) fn atomic(&mut self, cx: &Context) -> Option<Op> {
        if self.in_kernel
            && self.features.has(Feature::FloatAtomics)
            && self.rng.chance(50)
            && let Some(op) = self.float_atomic(cx)
        {
            return Some(op);
        }
        if self.features.has(Feature::B128) && self.sm >= 90 && self.rng.chance(30) {
            return Some(self.atomic_of_128_bits());
        }
        if self.in_kernel && self.rng.chance(35) {
            return Some(self.atomic_on_cell());
        }
        let places: &[Place] = if self.in_kernel { &[Place::Private, Place::Shared, Place::Either] } else { &[Place::Private] };
        let mut place = *self.rng.pick(places);
        let (operation, size) = *self.rng.pick(&[
            ("{and/or/xor/exch}.b32 $=r, A, $ri", 4),
            ("{and/or/xor/exch}.b64 $=d, A, $di", 8),
            ("{add/min/max}.{u32/s32} $=r, A, $ri", 4),
            ("{inc/dec}.u32 $=r, A, $ri", 4),
            ("{add.u64/min.u64/max.u64/min.s64/max.s64} $=d, A, $di", 8),
            ("cas.b32 $=r, A, $ri, $ri", 4),
            ("cas.b64 $=d, A, $di, $di", 8),
            ("cas.b16 $=h, A, $h, $h", 2),
            ("float add.f64 $=e, A, $e", 8),
            ("float add.noftz.f16x2 $=X, A, $X", 4),
        ]);
        if place == Place::Either && size == 2 {
            place = Place::Private;
        }
        let mut address = self.address(place, size, place != Place::Either);
        if address.setup.contains("%gloc") {
            address.setup = address.setup.replace("%gloc", "%gpriv");
        }
        let space = address.space;
        let how = self.choose("{//.relaxed.gpu/.acq_rel.cta/.relaxed.sys}");
        let text = match operation.strip_prefix("float ") {
            Some(operation) => {
                let (memory_type, class) = if size == 8 { ("f64", 'e') } else { ("b32", 'X') };
                let operation = operation.replacen('A', &address.text, 1);
                format!(
                    "{setup}; st{space}.{memory_type} {at}, ${class}; atom{how}{space}.{operation}; ld{space}.{memory_type} $={class}, {at}; st{space}.b{bits} {at}, 0",
                    setup = address.setup,
                    at = address.text,
                    bits = size * 8,
                )
            }
            None => format!("{}; atom{how}{space}.{}", address.setup, operation.replacen('A', &address.text, 1)),
        };
        Some(self.plain(&text))
    }

    /// Generates a 128-bit exchange or compare-and-swap. The scope `.sys` is not used because PTX 8.3 does not have it.
    fn atomic_of_128_bits(&mut self) -> Op {
        let places: &[Place] = if self.in_kernel { &[Place::Private, Place::Shared] } else { &[Place::Private] };
        let place = *self.rng.pick(places);
        let address = self.address(place, 16, true);
        let how = self.choose("{//.relaxed.gpu/.acq_rel.cta}");
        let (space, at) = (address.space, &address.text);
        let operation = match self.rng.below(3) {
            0 => format!("atom{how}{space}.exch.b128 %o{{a/b}}, {at}, %o{{a/b}}"),
            1 => format!("atom{how}{space}.cas.b128 %o{{a/b}}, {at}, %oa, %ob"),
            _ => format!("ld{space}.b128 %oa, {at}; atom{how}{space}.cas.b128 %o{{a/b}}, {at}, %oa, %ob"),
        };
        self.plain(&format!("{}; {operation}", address.setup))
    }

    /// Generates an atomic on a cell of all threads. Each cell has one commutative operation, so that the order does not matter.
    fn atomic_on_cell(&mut self) -> Op {
        const OPERATIONS: [&str; SHARED_CELLS] = [
            "add.u32 $r",
            "add.u64 $d",
            "min.s32 $r",
            "max.u32 $r",
            "and.b32 $r",
            "or.b32 $r",
            "xor.b64 $d",
            "min.u64 $d",
            "max.s64 $d",
            "xor.b32 $r",
            "add.s32 $ri",
            "or.b64 $d",
            "inc.u32 1000",
            "dec.u32 77",
            "and.b64 $di",
            "min.u32 $ri",
        ];
        let cell = self.rng.below(SHARED_CELLS);
        let (operation, value) = OPERATIONS[cell].split_once(' ').expect("an operation and a value");
        let (base, space) = if self.shared_cells && self.rng.chance(50) { ("%scell", "shared") } else { ("%cells", "global") };
        let at = format!("[{base}+{}]", cell * 8);
        let (width, wide) = if operation.ends_with("64") { ("b64", true) } else { ("b32", false) };
        let text = match self.rng.below(3) {
            0 => format!("red{{/.relaxed.gpu/.release.sys}}.{space}.{operation} {at}, {value}"),
            1 => format!("atom.{space}.{operation} _, {at}, {value}"),
            _ => {
                format!(".reg .{width} %t{}; atom{{/.relaxed.gpu}}.{space}.{operation} %t{}, {at}, {value}", u8::from(wide), u8::from(wide))
            }
        };
        self.plain(&text)
    }
}
