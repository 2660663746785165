//! Parses a command line as ptxas does: option by option; the first mistake is fatal.

use std::collections::BTreeMap;
use std::fs;

use crate::arch::Arch;
use crate::file_name::unescape;
use crate::table::{NO_EFFECT, OPTIONS, OptionKind, Spec};

/// Limit on the nesting of options files, so that a file that names itself does not recurse forever.
const DEEPEST_OPTIONS_FILE: usize = 16;

/// A parsed command line. Each value has been checked; combinations have not.
#[derive(Default, Debug)]
pub struct CommandLine {
    /// Input files in order.
    pub files: Vec<String>,
    /// Warnings about the command line itself, which no option disables.
    pub warnings: Vec<String>,
    /// Values of each option, by its long name.
    values: BTreeMap<&'static str, Vec<String>>,
}

/// The text of a fatal message.
type Fatal = String;

impl CommandLine {
    /// Parses arguments, without the program's name.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<CommandLine, Fatal> {
        let mut line = CommandLine::default();
        line.read(arguments.into_iter().collect(), 0)?;
        Ok(line)
    }

    /// Returns whether a flag is given.
    pub fn has(&self, long: &str) -> bool {
        self.values.contains_key(long)
    }

    /// Returns the last value of an option.
    pub fn value(&self, long: &str) -> Option<&str> {
        self.values.get(long)?.last().map(String::as_str)
    }

    /// Returns all values of an option.
    pub fn values(&self, long: &str) -> &[String] {
        self.values.get(long).map_or(&[], Vec::as_slice)
    }

    /// Returns the last value of an option that takes a number.
    pub fn number(&self, long: &str) -> Option<i64> {
        number(self.value(long)?).ok()
    }

    /// Returns a text with all options and values, except those that name files or contain input.
    pub fn code_options(&self) -> String {
        let names_files = |long: &str| ["output-file", "options-file", "input-as-string"].contains(&long);
        format!("{:?}", self.values.iter().filter(|(long, _)| !names_files(long)).collect::<Vec<_>>())
    }

    /// Returns the long names of the given options that have no effect, in the order of the table.
    pub fn without_effect(&self) -> impl Iterator<Item = &'static str> {
        OPTIONS.iter().filter(|option| option.help == NO_EFFECT && self.has(option.long)).map(|option| option.long)
    }

    /// Reads arguments, of the command line or of an options file at a nesting depth.
    fn read(&mut self, arguments: Vec<String>, depth: usize) -> Result<(), Fatal> {
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            if argument == "-" || !argument.starts_with('-') {
                self.files.push(argument);
                continue;
            }
            let option = recognize(&argument)?;
            let value = match (option.spec.kind, option.value) {
                (OptionKind::Flag, Some(_)) => return Err(format!("no argument expected after '{}'", option.typed)),
                (OptionKind::Flag, None) => String::new(),
                (OptionKind::AttachedNumber, None) if !option.typed.starts_with("--") => continue,
                (_, Some(value)) => value.to_string(),
                (_, None) => arguments.next().ok_or_else(|| format!("argument expected after '{}'", option.typed))?,
            };
            self.add(option.spec, value, depth)?;
        }
        Ok(())
    }

    /// Adds the value of an option after checking it.
    fn add(&mut self, spec: &'static Spec, value: String, depth: usize) -> Result<(), Fatal> {
        match spec.kind {
            OptionKind::Flag => drop(self.values.entry(spec.long).or_insert_with(|| vec![value])),
            OptionKind::Texts => self.values.entry(spec.long).or_default().push(value),
            OptionKind::List => {
                let parts = value.split(',').filter(|part| !part.is_empty()).map(str::to_string);
                for part in parts {
                    if spec.long == "options-file" {
                        self.read_options_file(&part, depth)?;
                    } else {
                        self.values.entry(spec.long).or_default().push(part);
                    }
                }
            }
            OptionKind::Boolean
            | OptionKind::Number
            | OptionKind::AttachableNumber
            | OptionKind::AttachedNumber
            | OptionKind::Text
            | OptionKind::OneOf(_)
            | OptionKind::Arch => {
                check_value(spec, &value)?;
                let values = self.values.entry(spec.long).or_default();
                if values.last().is_some_and(|last| *last != value) {
                    let name = spec.long;
                    self.warnings.push(format!("incompatible redefinition for option '{name}', the last value of this option was used"));
                }
                values.push(value);
            }
        }
        Ok(())
    }

    fn read_options_file(&mut self, file: &str, depth: usize) -> Result<(), Fatal> {
        let text = fs::read(unescape(file)).ok().filter(|_| depth < DEEPEST_OPTIONS_FILE);
        let text = text.ok_or_else(|| format!("Could not open options file '{file}'"))?;
        self.read(split_words(&String::from_utf8_lossy(&text)), depth + 1)
    }
}

/// An option in an argument.
struct Recognized<'a> {
    spec: &'static Spec,
    /// The option as written, with its dashes.
    typed: &'a str,
    /// The value in the same argument.
    value: Option<&'a str>,
}

/// Finds the option that an argument names.
fn recognize(argument: &str) -> Result<Recognized<'_>, Fatal> {
    let (typed, value) = match argument.split_once('=') {
        Some((typed, value)) => (typed, Some(value)),
        None => (argument, None),
    };
    let found = match typed.strip_prefix("--") {
        Some(long) => OPTIONS.iter().find(|spec| spec.long == long),
        None => OPTIONS.iter().find(|spec| !spec.short.is_empty() && spec.short == &typed[1..]),
    };
    if let Some(spec) = found {
        return Ok(Recognized { spec, typed, value });
    }
    // `-O2` and `-m64`: the only options whose value may follow without `=`.
    let attached = OPTIONS.iter().find(|spec| {
        matches!(spec.kind, OptionKind::AttachedNumber | OptionKind::AttachableNumber) && argument[1..].starts_with(spec.short)
    });
    match attached.filter(|_| argument.is_char_boundary(2)) {
        Some(spec) => Ok(Recognized { spec, typed: &argument[..2], value: Some(&argument[2..]) }),
        None => Err(format!("Unknown option '{}'", &typed[1..])),
    }
}

fn check_value(spec: &Spec, value: &str) -> Result<(), Fatal> {
    match spec.kind {
        OptionKind::Boolean if !matches!(value, "true" | "false") => Err(format!("'{value}': expected true or false")),
        OptionKind::Number | OptionKind::AttachedNumber => number(value).map(drop),
        OptionKind::AttachableNumber if value.is_empty() || number(value)? != 64 => undefined(spec, value),
        OptionKind::OneOf(allowed) if !allowed.contains(&value) => undefined(spec, value),
        OptionKind::Arch if Arch::parse(value).is_none() => undefined(spec, value),
        _ => Ok(()),
    }
}

fn undefined(spec: &Spec, value: &str) -> Result<(), Fatal> {
    Err(format!("Value '{value}' is not defined for option '{}'", spec.long))
}

/// Parses a 32-bit number in decimal, octal (`010`) or hexadecimal (`0x10`). An empty text is 0.
fn number(text: &str) -> Result<i64, Fatal> {
    if text.is_empty() {
        return Ok(0);
    }
    let (negative, digits) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let (radix, digits) = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &digits[2..]),
        [b'0', _, ..] => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.chars().all(|digit| digit.is_digit(radix)) {
        return Err(format!("'{text}': expected a number"));
    }
    let magnitude = i64::from_str_radix(digits, radix).ok().map(|value| if negative { -value } else { value });
    let fitting = magnitude.filter(|&value| i32::try_from(value).is_ok());
    fitting.ok_or_else(|| format!("32-bit integer value ({text}) out of range"))
}

/// Splits the text of an options file: white space separates words, double quotes group, and a backslash quotes the next character.
/// There are no comments and no single quotes.
fn split_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quoted = false;
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.get_or_insert_default().extend(characters.next()),
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            _ if character.is_ascii_whitespace() && !quoted => words.extend(word.take()),
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<CommandLine, String> {
        CommandLine::parse(arguments.iter().map(ToString::to_string))
    }

    fn fatal(arguments: &[&str]) -> String {
        parse(arguments).expect_err("accepted")
    }

    #[test]
    fn values_are_attached_or_follow() {
        for arguments in [&["-arch=sm_90"][..], &["-arch", "sm_90"], &["--gpu-name=sm_90"], &["--gpu-name", "sm_90"]] {
            assert_eq!(parse(arguments).unwrap().value("gpu-name"), Some("sm_90"));
        }
        for arguments in [&["-m64"][..], &["-m", "64"], &["-m=64"], &["--machine=64"]] {
            assert_eq!(parse(arguments).unwrap().number("machine"), Some(64));
        }
        let line = parse(&["-O", "2", "-O3", "-v", "a.ptx", "-"]).unwrap();
        assert_eq!(line.files, ["2", "a.ptx", "-"]);
        assert_eq!(line.number("opt-level"), Some(3));
        assert!(line.has("verbose"));
        assert_eq!(parse(&["-e", "a,b", "-e=c,"]).unwrap().values("entry"), ["a", "b", "c"]);
    }

    #[test]
    fn mistakes_are_fatal_in_ptxas_words() {
        assert_eq!(fatal(&["-foo", "-arch=sm_99"]), "Unknown option 'foo'");
        assert_eq!(fatal(&["--foo=1"]), "Unknown option '-foo'");
        assert_eq!(fatal(&["--arch=sm_90"]), "Unknown option '-arch'");
        assert_eq!(fatal(&["-gpu-name=sm_90"]), "Unknown option 'gpu-name'");
        assert_eq!(fatal(&["-archsm_90"]), "Unknown option 'archsm_90'");
        assert_eq!(fatal(&["--"]), "Unknown option '-'");
        assert_eq!(fatal(&["-é"]), "Unknown option 'é'");
        assert_eq!(fatal(&["-arch=sm_99", "-foo"]), "Value 'sm_99' is not defined for option 'gpu-name'");
        assert_eq!(fatal(&["-arch="]), "Value '' is not defined for option 'gpu-name'");
        assert_eq!(fatal(&["-arch"]), "argument expected after '-arch'");
        assert_eq!(fatal(&["--gpu-name"]), "argument expected after '--gpu-name'");
        assert_eq!(fatal(&["-v=true"]), "no argument expected after '-v'");
        assert_eq!(fatal(&["-m32"]), "Value '32' is not defined for option 'machine'");
        assert_eq!(fatal(&["-m", "a.ptx"]), "'a.ptx': expected a number");
        assert_eq!(fatal(&["-fmad", "maybe"]), "'maybe': expected true or false");
        assert_eq!(fatal(&["-Ox"]), "'x': expected a number");
        assert_eq!(fatal(&["-O2147483648"]), "32-bit integer value (2147483648) out of range");
        assert_eq!(fatal(&["-optf", "no/such/file"]), "Could not open options file 'no/such/file'");
    }

    #[test]
    fn the_last_value_counts_and_a_change_is_noted() {
        let line = parse(&["-arch=sm_80", "-arch=sm_90"]).unwrap();
        assert_eq!(line.value("gpu-name"), Some("sm_90"));
        assert_eq!(line.warnings, ["incompatible redefinition for option 'gpu-name', the last value of this option was used"]);
        assert!(parse(&["-arch=sm_80", "--gpu-name", "sm_80", "-v", "-v"]).unwrap().warnings.is_empty());
    }

    #[test]
    fn numbers_have_the_notations_of_c() {
        assert_eq!(number("0x10"), Ok(16));
        assert_eq!(number("010"), Ok(8));
        assert_eq!(number("-5"), Ok(-5));
        assert_eq!(number("+0"), Ok(0));
        // As in `-minnctapersm=`.
        assert_eq!(number(""), Ok(0));
        assert!(number("08").is_err() && number("1.5").is_err() && number("é").is_err());
    }

    #[test]
    fn words_of_options_files() {
        assert_eq!(split_words("-v  a\\ b.ptx\n\"c d.ptx\" 'e f'\t\"\""), ["-v", "a b.ptx", "c d.ptx", "'e", "f'", ""]);
    }
}
