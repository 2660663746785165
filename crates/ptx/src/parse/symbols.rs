//! The symbol table: maps names to their meaning in the current scope.
//!
//! Names are interned, and each name has at most one current meaning, in a vector indexed by the name. Declaring a name in a scope pushes
//! its previous meaning on an undo log; closing the scope replays the log. Declaring, finding and closing take constant time per name.
//!
//! A parameterized declaration (`%r<1000000>`) is one entry for the stem. A use such as `%r17` is split into stem and number; all trailing
//! digits are the number, so the members of `a1<3>` cannot be named. A shorter range in an inner scope hides only its own members of a
//! longer range outside. [`Symbols::find_fast`] finds registers of ranges through a small cache, without interning the name.
//!
//! ```text
//! .reg .b32 %r<10>;        declares %r0 to %r9
//! {  .reg .b32 %r<5>;      hides %r0 to %r4
//!    ... %r3 ...           member 3 of the inner range
//!    ... %r7 ...           not in the inner range: follows its `outer` link to member 7 of the outer range
//! }
//! ```
//!
//! Labels are kept elsewhere (`labels.rs`). A label hides the meaning that its name has outside the label's scope.

use std::hash::{BuildHasher, BuildHasherDefault};

use oriole_support::{Index, Interner, Name};
use rustc_hash::{FxHashMap, FxHasher};

use crate::ast::{FunctionId, RegisterId, VariableId};
use crate::source::Span;
use crate::types::ScalarType;

/// The meaning of a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Symbol {
    Register(RegisterSymbol),
    Variable(VariableId),
    /// One variable of a parameterized declaration.
    VariableMember(VariableId, u32),
    Function(FunctionId),
}

/// A register, its type and its number of elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RegisterSymbol {
    pub register: RegisterId,
    pub ty: ScalarType,
    pub lanes: u8,
}

/// A symbol with the depth of its scope and its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub symbol: Symbol,
    pub depth: u32,
    pub span: Span,
}

/// The meaning of a plain name, that is, of a name that is not a member of a range.
#[derive(Clone, Copy, Debug)]
enum Meaning {
    Symbol(Entry),
    /// A label of the scope at this depth.
    Label(u32),
}

impl Meaning {
    fn depth(self) -> u32 {
        match self {
            Meaning::Symbol(entry) => entry.depth,
            Meaning::Label(depth) => depth,
        }
    }

    fn entry(self) -> Option<Entry> {
        match self {
            Meaning::Symbol(entry) => Some(entry),
            Meaning::Label(_) => None,
        }
    }
}

/// A parameterized declaration.
#[derive(Clone, Copy, Debug)]
struct Range {
    entry: Entry,
    count: u32,
    /// Index in the log of a longer range outside, part of which this range hides.
    outer: Option<u32>,
}

/// An entry of the undo log: the meaning before a declaration.
#[derive(Clone)]
enum Undo {
    Name(Name, Option<Meaning>),
    Range(Name, Option<Range>),
    /// Removes the newest numbered name whose stem has this hash.
    Numbered(u64),
}

/// A cached register range.
#[derive(Clone, Copy)]
struct CacheLine {
    /// Length and bytes of the stem, at most seven, packed into a number.
    key: u64,
    first: RegisterSymbol,
    count: u32,
}

const CACHE_SIZE: usize = 64;

/// Limit on the number of enclosing ranges of one stem that are searched. Only ranges longer than the inner ones are in the chain.
const MOST_OUTER_RANGES: usize = 1000;

/// The symbol table; see the module documentation.
#[derive(Clone, Default)]
pub(crate) struct Symbols {
    /// Meaning of each plain name, indexed by name.
    names: Vec<Option<Meaning>>,
    /// Innermost range of each stem, indexed by name.
    ranges: Vec<Option<Range>>,
    log: Vec<Undo>,
    /// Plain names that end in a digit, with their depths, by the hash of the name without trailing digits. A range must not declare them
    /// again.
    numbered: FxHashMap<u64, Vec<(Name, u32)>>,
    /// Length of the log at the start of each open scope.
    scopes: Vec<usize>,
    cache: Vec<Option<CacheLine>>,
    /// Whether a plain register or a label whose name ends in a digit has been declared. It may hide a member of a range, and the cache
    /// contains only ranges, so the cache is not used then.
    digits_hide_ranges: bool,
}

impl Symbols {
    /// Returns the number of open scopes; 0 is module scope.
    pub fn depth(&self) -> u32 {
        self.scopes.len() as u32
    }

    pub fn open(&mut self) {
        self.scopes.push(self.log.len());
    }

    /// Closes the innermost scope and restores the meanings from before it.
    pub fn close(&mut self) {
        let Some(mark) = self.scopes.pop() else { return };
        if self.log.len() > mark {
            self.cache.clear();
        }
        while self.log.len() > mark {
            match self.log.pop() {
                Some(Undo::Name(name, entry)) => self.names[name.position()] = entry,
                Some(Undo::Range(name, range)) => self.ranges[name.position()] = range,
                Some(Undo::Numbered(stem)) => {
                    self.numbered.get_mut(&stem).map(Vec::pop);
                }
                None => break,
            }
        }
        if self.scopes.is_empty() {
            self.digits_hide_ranges = false;
        }
    }

    /// Declares a name in the current scope. If the scope already declares it, returns the position of that declaration and changes
    /// nothing.
    pub fn declare(&mut self, names: &Interner, name: Name, symbol: Symbol, span: Span) -> Result<(), Span> {
        if let Some(previous) = self.local(name) {
            return Err(previous.span);
        }
        let text = names.resolve(name);
        if text.ends_with(|c: char| c.is_ascii_digit()) {
            let member = self.find_member(names, text).filter(|entry| entry.depth == self.depth());
            if let Some(previous) = member {
                return Err(previous.span);
            }
            self.digits_hide_ranges |= matches!(symbol, Symbol::Register(_));
            let stem = hash(stem_of(text));
            let depth = self.depth();
            self.numbered.entry(stem).or_default().push((name, depth));
            if !self.scopes.is_empty() {
                self.log.push(Undo::Numbered(stem));
            }
        }
        self.replace(name, symbol, span);
        Ok(())
    }

    /// Sets the meaning of a name in the current scope, even if the scope already declares it.
    pub fn replace(&mut self, name: Name, symbol: Symbol, span: Span) {
        self.set(name, Meaning::Symbol(Entry { symbol, depth: self.depth(), span }));
    }

    fn set(&mut self, name: Name, meaning: Meaning) {
        let before = slot(&mut self.names, name).replace(meaning);
        if !self.scopes.is_empty() {
            self.log.push(Undo::Name(name, before));
        }
    }

    /// Hides the meaning that a name has outside the current scope, because a label of this scope has the name. A symbol of the scope
    /// itself stays.
    pub fn hide_by_label(&mut self, names: &Interner, name: Name) {
        if self.find(names, name).is_none_or(|entry| entry.depth == self.depth()) {
            return;
        }
        self.digits_hide_ranges |= names.resolve(name).ends_with(|c: char| c.is_ascii_digit());
        self.set(name, Meaning::Label(self.depth()));
    }

    /// Sets the meaning of a name at `depth` (module scope, while a function's header is open), unless an inner scope hides the name.
    pub fn replace_at(&mut self, name: Name, symbol: Symbol, span: Span, depth: u32) {
        let meaning = Meaning::Symbol(Entry { symbol, depth, span });
        let place = slot(&mut self.names, name);
        if place.is_some_and(|current| current.depth() > depth) {
            // A parameter has the function's name and hides it. Change the logged meaning, which becomes visible when the scope closes.
            let hidden = self.log.iter_mut().rev().find(|undo| matches!(undo, Undo::Name(logged, _) if *logged == name));
            if let Some(Undo::Name(_, before)) = hidden {
                *before = Some(meaning);
            }
            return;
        }
        *place = Some(meaning);
    }

    /// Declares the range `name<count>`.
    pub fn declare_range(&mut self, names: &Interner, name: Name, symbol: Symbol, count: u32, span: Span) -> Result<(), Span> {
        let depth = self.depth();
        let before = *slot(&mut self.ranges, name);
        if let Some(previous) = before.filter(|range| range.entry.depth == depth) {
            return Err(previous.entry.span);
        }
        if let Some(previous) = self.member_declared_here(names, name, count) {
            return Err(previous);
        }
        let outer = before.and_then(|before| if before.count > count { Some(self.log.len() as u32) } else { before.outer });
        let range = Range { entry: Entry { symbol, depth, span }, count, outer };
        *slot(&mut self.ranges, name) = Some(range);
        if depth > 0 {
            self.log.push(Undo::Range(name, before));
        }
        self.cache.clear();
        Ok(())
    }

    /// Returns the position of a plain name of this scope that the range `stem<count>` would declare again.
    fn member_declared_here(&self, names: &Interner, stem: Name, count: u32) -> Option<Span> {
        let stem = names.resolve(stem);
        let numbered = self.numbered.get(&hash(stem))?;
        numbered.iter().rev().take_while(|&&(_, depth)| depth == self.depth()).find_map(|&(name, _)| {
            let digits = names.resolve(name).strip_prefix(stem)?;
            let number: u32 = digits.parse().ok().filter(|_| digits.bytes().all(|b| b.is_ascii_digit()))?;
            self.plain(name).filter(|_| number < count).map(|entry| entry.span)
        })
    }

    /// Returns the current meaning of a plain name; ranges are not searched.
    pub fn plain(&self, name: Name) -> Option<Entry> {
        self.names.get(name.position()).copied().flatten().and_then(Meaning::entry)
    }

    fn local(&self, name: Name) -> Option<Entry> {
        self.plain(name).filter(|entry| entry.depth == self.depth())
    }

    /// Returns the current meaning of a name.
    pub fn find(&self, names: &Interner, name: Name) -> Option<Entry> {
        let plain = self.names.get(name.position()).copied().flatten();
        let text = names.resolve(name);
        if !text.ends_with(|c: char| c.is_ascii_digit()) {
            return plain.and_then(Meaning::entry);
        }
        // Of a plain name and a member of a range, the innermost declaration is meant.
        match (plain, self.find_member(names, text)) {
            (Some(plain), Some(member)) if member.depth > plain.depth() => Some(member),
            (Some(plain), _) => plain.entry(),
            (None, member) => member,
        }
    }

    /// Finds `%r17` as member 17 of `%r<N>`.
    fn find_member(&self, names: &Interner, text: &str) -> Option<Entry> {
        let stem = stem_of(text);
        let mut range = self.ranges.get(names.lookup(stem)?.position()).copied().flatten()?;
        let number: u32 = text[stem.len()..].parse().ok()?;
        for _ in 0..MOST_OUTER_RANGES {
            if number < range.count {
                return Some(Entry { symbol: member(range.entry.symbol, number), ..range.entry });
            }
            let Undo::Range(_, Some(outer)) = &self.log[range.outer? as usize] else { return None };
            range = *outer;
        }
        None
    }

    /// Finds a member of a register range without interning its name. `None` means unknown; the caller must then use [`Self::find`].
    pub fn find_fast(&mut self, names: &Interner, text: &[u8]) -> Option<RegisterSymbol> {
        if self.digits_hide_ranges {
            return None;
        }
        let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
        let stem = &text[..text.len() - digits];
        if digits == 0 || digits > 9 || stem.is_empty() || stem.len() > 7 {
            return None;
        }
        let number = text[stem.len()..].iter().fold(0u32, |number, &digit| number * 10 + u32::from(digit - b'0'));
        let key = stem.iter().fold(stem.len() as u64, |key, &byte| key << 8 | u64::from(byte));
        let line = (key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize % CACHE_SIZE;
        if self.cache.is_empty() {
            self.cache.resize(CACHE_SIZE, None);
        }
        let hit = match self.cache[line] {
            Some(hit) if hit.key == key => hit,
            _ => {
                let stem = names.lookup(std::str::from_utf8(stem).ok()?)?;
                let range = self.ranges.get(stem.position()).copied().flatten()?;
                let Symbol::Register(first) = range.entry.symbol else { return None };
                let hit = CacheLine { key, first, count: range.count };
                self.cache[line] = Some(hit);
                hit
            }
        };
        (number < hit.count).then(|| RegisterSymbol { register: offset(hit.first.register, number), ..hit.first })
    }
}

/// Returns the element of a name; extends the vector if necessary.
fn slot<T>(items: &mut Vec<Option<T>>, name: Name) -> &mut Option<T> {
    if items.len() <= name.position() {
        items.resize_with(name.position() + 1, || None);
    }
    &mut items[name.position()]
}

/// Returns a name without its trailing digits.
fn stem_of(text: &str) -> &str {
    text.trim_end_matches(|c: char| c.is_ascii_digit())
}

fn hash(text: &str) -> u64 {
    BuildHasherDefault::<FxHasher>::default().hash_one(text)
}

fn offset(register: RegisterId, number: u32) -> RegisterId {
    RegisterId::new(register.position() + number as usize)
}

fn member(symbol: Symbol, number: u32) -> Symbol {
    match symbol {
        Symbol::Register(first) => Symbol::Register(RegisterSymbol { register: offset(first.register, number), ..first }),
        Symbol::Variable(variable) => Symbol::VariableMember(variable, number),
        other => other,
    }
}
