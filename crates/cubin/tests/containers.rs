//! Checks that fatbins, host files and libraries yield the images that cuobjdump lists, with the bytes that were put into them.

use crate::common::{Scratch, data_file, data_folder, oracle, run};
use oriole_cubin::container::Compression;
use oriole_cubin::{Image, ImageKind, open};
use std::fs;

/// Compares images with the files that were put into the container. PTX is compared word by word without comments, which fatbinary removes.
fn check_contents(container: &str, images: &[Image]) {
    let cubin = |image: &Image| match (&image.target[..], image.name.as_deref()) {
        ("sm_90a", _) => "plain_saxpy.sm_90a.cubin",
        ("sm_100a", _) => "plain_saxpy.sm_100a.cubin",
        ("sm_90", Some("two.cu")) => "relocatable_saxpy.sm_90.cubin",
        other => panic!("{container}: {other:?}"),
    };
    for image in images {
        match image.kind {
            ImageKind::Cubin => {
                assert!(image.bytes == data_file(cubin(image)), "{container}: {} differs", image.target);
                assert_eq!(image.cubin().unwrap().target_name(), image.target);
            }
            ImageKind::Ptx => {
                let source = fs::read_to_string(crate::common::root().join("examples/saxpy.ptx")).unwrap();
                let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
                let without_comments: String = source.lines().map(|line| format!("{}\n", line.split("//").next().unwrap())).collect();
                assert_eq!(words(std::str::from_utf8(&image.bytes).unwrap()), words(&without_comments), "{container}");
            }
            ImageKind::Other(kind) => panic!("{container}: kind {kind}"),
        }
    }
}

/// Returns the file names in cuobjdump's listing: `ELF file 1: one.sm_90a.cubin` becomes `one.sm_90a.cubin`. A number that cuobjdump
/// inserts into the name is removed.
fn listed(text: &str, stem: &str) -> Vec<String> {
    let name = |line: &str| line.split(": ").nth(1).map(|name| name.trim().to_owned());
    let mut names: Vec<String> = text.lines().filter(|line| !line.starts_with('#')).filter_map(name).collect();
    for name in &mut names {
        let numbered = name.strip_prefix(&format!("{stem}.")).and_then(|rest| rest.split_once('.'));
        if let Some((number, rest)) = numbered
            && number.parse::<u32>().is_ok()
        {
            *name = format!("{stem}.{rest}");
        }
    }
    names.sort();
    names
}

fn names(images: &[Image], stem: &str) -> Vec<String> {
    let mut names: Vec<String> = images.iter().map(|image| image.file_name(&format!("{stem}.x"))).collect();
    names.sort();
    names
}

#[test]
fn images_are_those_that_cuobjdump_listed() {
    let text = fs::read_to_string(data_folder().join("containers.txt")).unwrap();
    for part in text.split("# ").skip(1) {
        let (container, list) = part.split_once('\n').unwrap();
        let images = open(&data_file(container)).unwrap();
        let stem = container.split('.').next().unwrap();
        assert_eq!(names(&images, stem), listed(list, stem), "{container}");
        check_contents(container, &images);
    }
}

#[test]
fn the_kind_of_compression_is_told() {
    let all = |container: &str, wanted: Compression| open(&data_file(container)).unwrap().iter().all(|image| image.compression == wanted);
    assert!(all("zstd.fatbin", Compression::Zstd));
    assert!(all("lz4.fatbin", Compression::Lz4));
    assert!(all("plain.fatbin", Compression::None));
}

#[test]
fn entries_carry_name_options_and_versions() {
    let images = open(&data_file("plain.fatbin")).unwrap();
    let entry = |kind: ImageKind| images.iter().find(|image| image.kind == kind).and_then(|image| image.entry.clone()).unwrap();
    let ptx = entry(ImageKind::Ptx);
    assert_eq!((ptx.version, ptx.sm, ptx.name.as_deref()), ((8, 0), 80, Some("source.cu")));
    assert_eq!(ptx.options, b"-O3 -v");
    assert_eq!(entry(ImageKind::Cubin).sm, 90);
}

#[test]
fn fatbins_may_follow_each_other() {
    let (first, second) = (data_file("zstd.fatbin"), data_file("plain.fatbin"));
    let offset = first.len() as u64 + 16;
    let both = [first.clone(), vec![0; 16], second.clone()].concat();
    let (images, alone) = (open(&both).unwrap(), open(&second).unwrap());
    assert_eq!(images.len(), open(&first).unwrap().len() + alone.len());
    for (image, alone) in images.iter().rev().zip(alone.iter().rev()) {
        assert_eq!((image.offset, &image.bytes), (alone.offset + offset, &alone.bytes));
    }
}

/// Builds an `ar` file as its manual describes it, with the host object as the second member.
#[test]
fn libraries_are_searched() {
    let member = |name: &str, data: &[u8]| {
        let mut out = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len()).into_bytes();
        out.extend(data);
        out.resize(out.len().next_multiple_of(2), b'\n');
        out
    };
    let host = data_file("host.o");
    let library = [b"!<arch>\n".to_vec(), member("notes.txt/", b"odd"), member("host.o/", &host)].concat();
    let (images, alone) = (open(&library).unwrap(), open(&host).unwrap());
    assert_eq!(images.len(), alone.len());
    assert_eq!(images[0].name.as_deref(), Some("host.o:one.cu"));
    assert_eq!(images[0].file_name("x"), "one.sm_90a.cubin");
    assert_eq!(images[0].bytes, alone[0].bytes);
}

#[test]
fn a_cubin_is_a_container_of_itself() {
    let data = data_file("plain_saxpy.sm_121.cubin");
    let images = open(&data).unwrap();
    assert_eq!((images.len(), &images[0].target[..], images[0].offset), (1, "sm_121", 0));
    assert_eq!(images[0].bytes, data);
}

#[test]
fn fresh_fatbins_are_opened_in_every_mode() {
    let (Some(fatbinary), Some(cuobjdump)) = (oracle("fatbinary"), oracle("cuobjdump")) else { return };
    let scratch = Scratch::new("fatbin");
    let inputs = ["plain_saxpy.sm_75.cubin", "plain_saxpy.sm_90a.cubin", "plain_saxpy.sm_100a.cubin", "memory_spaces.sm_90.cubin"];
    let image = |name: &str| {
        let target = name.rsplit('.').nth(1).unwrap().strip_prefix("sm_").unwrap().to_owned();
        format!("--image3=kind=elf,sm={target},file={}", fs::canonicalize(data_folder().join(name)).unwrap().display())
    };
    let images: Vec<String> = inputs.iter().map(|name| image(name)).collect();
    for mode in ["default", "size", "speed", "balance", "none"] {
        let (create, mode) = (format!("--create={mode}.fatbin"), mode);
        let compress = format!("--compress-mode={mode}");
        let mut arguments = vec!["-64", "--compress-all", &create, &compress];
        arguments.extend(images.iter().map(String::as_str));
        run(&fatbinary, &arguments, &scratch.0).unwrap();
        let name = format!("{mode}.fatbin");
        let found = open(&fs::read(scratch.path(&name)).unwrap()).unwrap();
        for (image, input) in found.iter().zip(inputs) {
            assert!(image.bytes == data_file(input), "{mode}: {input} differs");
        }
        let list = run(&cuobjdump, &["-lelf", &name], &scratch.0).unwrap();
        assert_eq!(names(&found, mode), listed(&String::from_utf8(list).unwrap(), mode), "{mode}");
        run(&cuobjdump, &["-xelf", "all", &name], &scratch.0).unwrap();
        let extracted = fs::read(scratch.path(&format!("{mode}.1.sm_75.cubin"))).unwrap();
        assert!(extracted == found[0].bytes, "{mode}: cuobjdump extracts something else");
    }
}
