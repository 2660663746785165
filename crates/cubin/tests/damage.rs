//! Checks that damaged files are either read or refused with a reason and a position, without a panic.
//!
//! A file that can be read must be written back unchanged, however odd it is.

use crate::common::{compares_everything, data_file, data_files};
use oriole_cubin::{Cubin, ImageKind, open};

/// A deterministic xorshift generator.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Reads a file and, if that succeeds, checks that writing reproduces it. Returns whether the file could be read.
fn check_cubin(what: &str, data: &[u8]) -> bool {
    match Cubin::read(data) {
        Ok(cubin) => {
            let _ = (cubin.target_name(), cubin.kernels().count(), cubin.notes().count());
            let again = cubin.write().unwrap_or_else(|error| panic!("{what}: read, but not written: {error}"));
            let differs = again.iter().zip(data).position(|(a, b)| a != b);
            assert!(again == data, "{what}: read and written differently, first at {differs:x?}");
            true
        }
        Err(error) => {
            assert!(!error.message.is_empty(), "{what}: no message");
            false
        }
    }
}

fn check_container(data: &[u8]) {
    if let Ok(images) = open(data) {
        for image in images.iter().filter(|image| image.kind == ImageKind::Cubin) {
            let _ = image.cubin();
        }
    }
}

#[test]
fn every_truncation_is_refused() {
    for (name, data) in data_files("cubin") {
        for length in 0..data.len() {
            let error = Cubin::read(&data[..length]).expect_err("the file ends too early");
            let place = error.offset.unwrap_or_else(|| panic!("{name} cut at {length}: no place in `{error}`"));
            assert!(place <= data.len() as u64, "{name} cut at {length}: {error}");
        }
    }
}

/// Changes every sixth byte, other ones in each file, or with `ORIOLE_REFRESH` every byte.
#[test]
fn every_changed_byte_is_survived() {
    let (mut total, mut read) = (0, 0);
    let step = if compares_everything() { 1 } else { 6 };
    for (number, (name, data)) in data_files("cubin").into_iter().enumerate() {
        let mut damaged = data.clone();
        for at in (number % step..data.len()).step_by(step) {
            let change = if at % 2 == 0 { 0xff } else { 1 << (at / 2 % 8) };
            damaged[at] ^= change;
            total += 1;
            read += usize::from(check_cubin(&format!("{name}, byte {at:#x} ^ {change:#x}"), &damaged));
            damaged[at] = data[at];
        }
    }
    println!("{total} damaged cubins, {read} still readable");
}

#[test]
fn random_damage_is_survived() {
    let files = data_files("cubin");
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for round in 0..6_000 {
        let (name, data) = &files[random.below(files.len())];
        let mut damaged = data.clone();
        // Damage to headers has the largest effect, so half of the changes are in the tables at the end.
        let tables = damaged.len().saturating_sub(2000);
        for _ in 0..=random.below(6) {
            let at = if random.below(2) == 0 { random.below(damaged.len()) } else { tables + random.below(damaged.len() - tables) };
            match random.below(3) {
                0 => damaged[at] = random.next() as u8,
                1 => damaged[at..].iter_mut().take(8).for_each(|byte| *byte = 0xff),
                _ => damaged[at..].iter_mut().take(4).for_each(|byte| *byte = 0),
            }
        }
        check_cubin(&format!("round {round}, {name}"), &damaged);
    }
}

/// Ends the containers at every third byte and changes every third one, or with `ORIOLE_REFRESH` every byte.
#[test]
fn damaged_containers_are_survived() {
    let mut files = data_files("fatbin");
    files.extend(data_files("o"));
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let step = if compares_everything() { 1 } else { 3 };
    for (name, data) in &files {
        for length in (0..data.len()).step_by(step) {
            check_container(&data[..length]);
        }
        let mut damaged = data.clone();
        for at in (0..data.len()).step_by(step) {
            damaged[at] ^= 1 << random.below(8);
            check_container(&damaged);
            damaged[at] = data[at];
        }
        assert!(open(data).is_ok(), "{name} itself is read");
    }
}

#[test]
fn garbage_is_refused() {
    let mut random = Random(88_172_645_463_325_252);
    for _ in 0..2000 {
        let mut data: Vec<u8> = (0..random.below(500)).map(|_| random.next() as u8).collect();
        check_container(&data);
        for start in [&b"\x7fELF\x02\x01\x01\x41\x08"[..], b"\x50\xed\x55\xba\x01\x00\x10\x00", b"!<arch>\n"] {
            data.splice(..start.len().min(data.len()), start.iter().copied());
            check_container(&data);
        }
    }
}

/// Returns a file with `count` sections that share one long string, which is also their name.
fn bomb(count: u16, section_type: u32, size: impl Fn(u64) -> u64) -> Vec<u8> {
    let mut data = data_file("plain_saxpy.sm_90a.cubin")[..64].to_vec();
    let mut strings = vec![b'x'; 1 << 20];
    strings.push(0);
    strings.resize(strings.len().next_multiple_of(8), 0);
    let table = 64 + strings.len() as u64;
    data.extend(&strings);
    data[32..40].fill(0);
    data[40..48].copy_from_slice(&table.to_le_bytes());
    data[56..58].fill(0);
    data[60..62].copy_from_slice(&(count + 2).to_le_bytes());
    data[62..64].copy_from_slice(&1_u16.to_le_bytes());
    let mut header = |name: u32, section_type: u32, size: u64| {
        let mut record = [0; 64];
        record[0..4].copy_from_slice(&name.to_le_bytes());
        record[4..8].copy_from_slice(&section_type.to_le_bytes());
        record[24..32].copy_from_slice(&64_u64.to_le_bytes());
        record[32..40].copy_from_slice(&size.to_le_bytes());
        data.extend(record);
    };
    header(1 << 20, 3, strings.len() as u64);
    for index in 0..u64::from(count) {
        header(0, section_type, size(index));
    }
    let null = [0; 64];
    data.splice(table as usize..table as usize, null);
    data
}

/// A file in which all sections share the same megabyte is refused before the copies exhaust the memory.
#[test]
fn shared_bytes_are_not_multiplied() {
    for data in [bomb(60_000, 8, |_| 0), bomb(60_000, 1, |index| 1_000_000 - index), bomb(60_000, 2, |index| 24 * index)] {
        let start = std::time::Instant::now();
        let error = Cubin::read(&data).expect_err("the file makes no sense");
        assert!(error.offset.is_some(), "{error}");
        assert!(start.elapsed().as_secs() < 5, "took {:?}: {error}", start.elapsed());
    }
}
