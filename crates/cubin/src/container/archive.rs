//! Static libraries: `ar` archives of host objects.

use super::Image;
use crate::bytes::Bytes;
use crate::error::{Error, Result};

pub(super) const MAGIC: &[u8] = b"!<arch>\n";

const HEADER_SIZE: u64 = 60;

/// Returns the images of all members that are ELF files.
pub(super) fn images(file: Bytes<'_>) -> Result<Vec<Image>> {
    let mut images = Vec::new();
    let mut long_names = Bytes::new(&[]);
    let mut at = MAGIC.len() as u64;
    while at < file.len() {
        let head = file.window(at, HEADER_SIZE, "the header of a member")?;
        let (name, size) = (field(head, 0, 16)?, field(head, 48, 10)?);
        let Ok(size) = size.parse() else {
            return Err(Error::at(head.place(48), format!("the size of a member is `{size}`")));
        };
        let member = file.window(at + HEADER_SIZE, size, "a member of the library")?;
        if name == "//" {
            long_names = member;
        } else if member.data().starts_with(&object::elf::ELFMAG) {
            let name = member_name(name, long_names);
            images.extend(super::images(member)?.into_iter().map(|image| named(image, &name)));
        }
        at = (at + HEADER_SIZE).saturating_add(size).next_multiple_of(2);
    }
    Ok(images)
}

/// Returns a text field of a member header without trailing spaces.
fn field(head: Bytes<'_>, offset: u64, size: u64) -> Result<&str> {
    let bytes = head.window(offset, size, "the header of a member")?;
    let text = std::str::from_utf8(bytes.data()).map_err(|_| Error::at(bytes.place(0), "the header of a member is not text"))?;
    Ok(text.trim_end())
}

/// Returns the name of a member: `NAME/`, or `/OFFSET` into the table of long names.
fn member_name(name: &str, long_names: Bytes<'_>) -> String {
    let long = name.strip_prefix('/').and_then(|offset| offset.parse().ok()).and_then(|offset| long_names.rest(offset, "a name").ok());
    match long {
        Some(rest) => {
            String::from_utf8_lossy(rest.data().split(|&byte| byte == b'/' || byte == b'\n').next().unwrap_or_default()).into_owned()
        }
        None => name.strip_suffix('/').unwrap_or(name).to_owned(),
    }
}

/// Prepends the name of the member to the name of an image.
fn named(mut image: Image, member: &str) -> Image {
    image.name = Some(match image.name {
        Some(name) => format!("{member}:{name}"),
        None => member.to_owned(),
    });
    image
}
