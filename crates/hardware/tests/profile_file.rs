//! Profiles as files: what is written is read back, and what is damaged is refused by name.

use oriole_hardware::file::{ProfileFault, RecordType};
use oriole_hardware::{Classes, Profile, ProfileError};
use oriole_isa::Target;

fn target(name: &str) -> Target {
    Target::parse(name).unwrap()
}

fn exported() -> String {
    Profile::of(target("sm_90a")).to_text()
}

fn read(text: &str) -> Result<Profile, ProfileError> {
    Profile::from_text("p.hwp", text)
}

fn message(text: &str) -> String {
    read(text).unwrap_err().to_string()
}

/// The text with the first occurrence of a part replaced.
fn changed(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "`{from}` is in the file");
    text.replacen(from, to, 1)
}

/// The text without the first line that starts like this.
fn without(text: &str, start: &str) -> String {
    let at = text.lines().position(|line| line.starts_with(start)).unwrap_or_else(|| panic!("a line starts with `{start}`"));
    text.lines().enumerate().filter(|(index, _)| *index != at).map(|(_, line)| format!("{line}\n")).collect()
}

#[test]
fn profiles_of_all_targets_round_trip() {
    for target in Target::all_with_machine_code() {
        let profile = Profile::of(target);
        let text = profile.to_text();
        let back = Profile::from_text("p.hwp", &text).unwrap_or_else(|error| panic!("{target}: {error}"));
        assert!(back == profile, "{target}");
        assert_eq!(back.to_text(), text, "{target}");
    }
}

#[test]
fn record_types_are_complete_and_in_order() {
    let text = exported();
    let lines: Vec<&str> = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).skip(1).collect();
    let first = |kind: &RecordType| lines.iter().position(|line| line.starts_with(&format!("{kind} ")));
    let places: Vec<Option<usize>> = [
        RecordType::BarrierHeader,
        RecordType::BarrierEntry,
        RecordType::BarrierData,
        RecordType::Root,
        RecordType::CategoryHeader,
        RecordType::GroupBoundary,
        RecordType::Class,
        RecordType::CategoryFooter,
        RecordType::Machine,
        RecordType::Weight,
        RecordType::Dimension,
    ]
    .iter()
    .map(first)
    .collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}");
    let classes = lines.iter().filter(|line| line.starts_with("23 class ")).count();
    assert_eq!(classes, Classes::get().all().count());
}

#[test]
fn figures_can_be_changed() {
    let text = exported();
    let class = Classes::get().find("multiply").unwrap();
    let line = text.lines().find(|line| line.starts_with("23 class name=multiply ")).unwrap();
    let (start, _) = line.split_once(" latency=").unwrap();
    let profile = read(&text.replace(line, &format!("{start} latency=21 dual=0"))).unwrap();
    assert_eq!(profile.model.base_latency(class), 21);

    let entries: usize = text.lines().find_map(|line| line.strip_prefix("'-' barriers entries=")).unwrap().parse().unwrap();
    let records: usize = text.split_once(" records=").unwrap().1.lines().next().unwrap().parse().unwrap();
    let more = changed(&text, "'E' barrier-entry", "'E' barrier-entry class=multiply results=yes sources=no stall=3\n'E' barrier-entry");
    let more = changed(&more, &format!("barriers entries={entries}"), &format!("barriers entries={}", entries + 1));
    let more = changed(&more, &format!(" records={records}"), &format!(" records={}", records + 1));
    let waits = read(&more).unwrap().model.waits(class);
    assert_eq!((waits.results, waits.sources, waits.stall), (true, false, 3));

    let slower = changed(&text, "'W' weight name=fp64 value=64", "'W' weight name=fp64 value=2");
    assert_eq!(read(&slower).unwrap().rates.fp64, Some(2));
    let smaller = changed(&text, "',' sm-entry name=resident_warps value=64", "',' sm-entry name=resident_warps value=32");
    assert_eq!(read(&smaller).unwrap().machine.resident_warps, 32);
}

#[test]
fn comments_and_blank_lines_are_ignored() {
    let text = exported();
    let (first, rest) = text.split_once('\n').unwrap();
    let airy = format!("{first}\n\n# mine\n{}", rest.replace("\n23 class", "\n\n# a class\n23 class"));
    assert!(read(&airy).unwrap() == read(&text).unwrap());
}

#[test]
fn other_formats_and_versions_are_rejected() {
    for foreign in ["", "\n", "\u{7f}ELF\u{1}", ".version 8.0\n.target sm_90", "oriole-hw-profile", "oriole-hw-profiles 1\n"] {
        assert_eq!(read(foreign).unwrap_err().fault, ProfileFault::NotAProfile, "{foreign:?}");
    }
    let newer = changed(&exported(), "oriole-hw-profile 1", "oriole-hw-profile 2");
    assert_eq!(message(&newer), "p.hwp:1: version `2` of the format; this program reads version 1");
}

#[test]
fn a_profile_is_for_one_target() {
    let profile = read(&exported()).unwrap();
    assert!(profile.check_target("p.hwp", target("sm_90a")).is_ok());
    let error = profile.check_target("p.hwp", target("sm_80")).unwrap_err();
    assert_eq!(error.to_string(), "p.hwp: the profile is for sm_90a, not for sm_80");
    let other = changed(&exported(), "target=sm_90a ", "target=sm_80 ");
    assert!(message(&other).contains("(1 root): field `targets`"), "{}", message(&other));
}

#[test]
fn errors_name_record_and_field() {
    let text = exported();
    let cases = [
        (changed(&text, "latency=", "latency=x"), "(23 class): field `latency`: `x"),
        (changed(&text, "latency=", "late="), "(23 class): field `late`: a record of this type has no such field"),
        (changed(&text, " dual=0", ""), "(23 class): field `dual`: it is missing"),
        (changed(&text, "name=alu unit=alu", "name=alu unit=fma"), "(23 class): field `unit`: `fma`, but in this version it is `alu`"),
        (changed(&text, "23 class name=alu", "24 class name=alu"), "no record is called `24 class`"),
        (without(&text, "23 class"), "(1 root): field `records`: it says"),
        (without(&text, "'E'"), "('-' barriers): field `entries`: it says"),
        (without(&text, "'-'"), "expected barriers here"),
        (without(&text, "1 root"), "expected root here"),
        (changed(&text, "machine=sm_90", "machine=sm_80"), "(1 root): field `machine`: `sm_80"),
        (changed(&text, "table=hopper", "table=ampere"), "(1 root): field `table`: `ampere`, but in this version it is `hopper`"),
        (changed(&text, "value=64K", "value=64Q"), "field `value`: `64Q` is no number"),
        (changed(&text, "name=schedulers value=4", "name=schedulers value=0"), "`schedulers` must not be 0"),
        (changed(&text, "name=max_stall value=15", "name=max_stall value=16"), "`max_stall` must be 1 to 15"),
        (changed(&text, "results=yes", "results=maybe"), "('E' barrier-entry): field `results`: `maybe` is not `yes` or `no`"),
        (changed(&text, "kind=raw", "kind=rar"), "('1' dimension): field `kind`: `rar` is not raw, war or waw"),
        (changed(&text, "first=alu alu=", "first=alu alu=-"), "('1' dimension): field `alu`"),
        (format!("{text}23 class name=alu\n"), "(1 root): field `records`"),
    ];
    for (text, part) in cases {
        let message = message(&text);
        assert!(message.starts_with("p.hwp:") && message.contains("record ") && message.contains(part), "{message}\nlacks {part}");
    }
}

/// Every line is left out, and the file ends before every line: there is an error each time, and it names a record.
#[test]
fn truncated_files_are_rejected() {
    let text = exported();
    let lines: Vec<&str> = text.lines().collect();
    let is_record = |line: &str| !line.is_empty() && !line.starts_with('#');
    let last = lines.len();
    for end in 1..last {
        let error = read(&lines[..end].join("\n")).expect_err("a part of the file");
        assert!(error.record.is_some(), "up to line {end}: {error}");
    }
    for at in (1..last).filter(|&at| is_record(lines[at])) {
        let rest: Vec<&str> = lines[..at].iter().chain(&lines[at + 1..]).copied().collect();
        let error = read(&rest.join("\n")).expect_err("a file that lacks a line");
        assert!(error.record.is_some(), "without line {}: {error}", at + 1);
    }
}

/// Asserts that a damaged file is refused with a record, or that it is a profile that can be written and read again.
fn check_damaged(lines: &[&str]) {
    match read(&lines.join("\n")) {
        Ok(profile) => {
            let again = profile.to_text();
            assert!(read(&again).is_ok_and(|back| back == profile));
        }
        Err(error) => assert!(error.record.is_some(), "{error}"),
    }
}

/// Returns whether a line is one of those that the tests damage: of the rows of the grids, which are many of the same kind, every fourth.
fn is_damaged(at: usize, line: &str) -> bool {
    !line.is_empty() && !line.starts_with('#') && (!line.starts_with("'1'") || at.is_multiple_of(4))
}

/// Neighbours change places.
#[test]
fn reordered_files_are_read_or_rejected_with_a_record() {
    let text = exported();
    let lines: Vec<&str> = text.lines().collect();
    for at in (1..lines.len() - 1).filter(|&at| is_damaged(at, lines[at])) {
        let mut swapped = lines.clone();
        swapped.swap(at, at + 1);
        check_damaged(&swapped);
    }
}

/// Every field in turn gets a value that it never has.
#[test]
fn damaged_files_are_read_or_rejected_with_a_record() {
    let text = exported();
    let lines: Vec<&str> = text.lines().collect();
    for (at, line) in lines.iter().enumerate().skip(1).filter(|(at, line)| is_damaged(*at, line)) {
        let equals: Vec<usize> = line.match_indices('=').map(|(place, _)| place).collect();
        // The fields of a row of a grid are many of the same kind, so some are enough; values take turns.
        let step = equals.len().div_ceil(6);
        const VALUES: [&str; 6] = ["", "-1", "99999999999999999999", "\"", "é", "0"];
        for (turn, &place) in equals.iter().step_by(step).enumerate() {
            let value = VALUES[(at + turn) % 6];
            let end = line[place..].find(' ').map_or(line.len(), |end| place + end);
            let damaged_line = format!("{}={value}{}", &line[..place], &line[end..]);
            let mut damaged = lines.clone();
            damaged[at] = &damaged_line;
            check_damaged(&damaged);
        }
    }
}
