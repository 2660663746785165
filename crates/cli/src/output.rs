//! Writes output files atomically: a file is either complete or not there.
//!
//! A file is written under a temporary name next to its destination and then renamed, so that no other process sees part of it and an old
//! file survives a failure. The visible result is the same as if the destination had been opened and overwritten: symbolic links stay,
//! an old file keeps its permissions, owner and hard links, a new file gets the permissions of the umask, and a read-only file is an
//! error. If renaming would change one of these, the destination is overwritten in place.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use signals::EndDelay;
use tempfile::{Builder, NamedTempFile};

pub mod signals;

/// Limit on the number of symbolic links to follow, as in Linux.
const MOST_LINKS: usize = 40;

/// Writes a file, following symbolic links.
pub fn write_file(path: impl AsRef<Path>, bytes: &[u8]) -> io::Result<()> {
    let destination = follow_links(path.as_ref())?;
    let found = match fs::metadata(&destination) {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if is_special(&destination) || found.as_ref().is_some_and(|found| !found.is_file()) {
        return overwrite(OpenOptions::new().write(true).truncate(true).open(&destination)?, bytes);
    }
    if found.is_some() {
        // Check that the file may be written; renaming does not check this.
        OpenOptions::new().write(true).open(&destination)?;
    }
    // A signal does not end the program before the temporary file is renamed or removed.
    let _delay = EndDelay::new();
    match (temporary(&destination, found.as_ref()), found) {
        (Ok(temporary), None) => replace(temporary, &destination, bytes),
        (Ok(temporary), Some(found)) if can_stand_in(&temporary, &found) => replace(temporary, &destination, bytes),
        (_, Some(_)) => overwrite(OpenOptions::new().write(true).truncate(true).open(&destination)?, bytes),
        (Err(error), None) => Err(error),
    }
}

/// Writes to an open file, without atomicity.
fn overwrite(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.flush()
}

/// Writes the temporary file and renames it to the destination.
fn replace(mut temporary: NamedTempFile, destination: &Path, bytes: &[u8]) -> io::Result<()> {
    temporary.write_all(bytes)?;
    temporary.flush()?;
    temporary.persist(destination).map_err(|failure| failure.error)?;
    crate::guard::note_output(destination);
    Ok(())
}

/// Returns the path after following symbolic links. The file need not exist.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        // Links in special file systems may not name a path: `/proc/self/fd/1` may be a link to `pipe:[1234]`.
        let is_link = !is_special(&path) && fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
        if !is_link {
            return Ok(path);
        }
        let target = fs::read_link(&path)?;
        path = path.parent().map_or_else(|| target.clone(), |parent| parent.join(&target));
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Returns whether a path is in a file system of devices or open files, such as `/dev/stdout`.
fn is_special(path: &Path) -> bool {
    let mut components = path.components();
    components.next() == Some(Component::RootDir)
        && matches!(components.next(), Some(Component::Normal(name)) if name == "dev" || name == "proc")
        && !path.starts_with("/dev/shm")
}

/// Creates a file next to the destination, which is removed unless it is renamed. Its permissions are those of the existing file, or
/// those of any new file.
fn temporary(destination: &Path, found: Option<&Metadata>) -> io::Result<NamedTempFile> {
    let folder = match destination.parent() {
        Some(parent) if parent.as_os_str().is_empty() => Path::new("."),
        Some(parent) => parent,
        None => return Err(io::ErrorKind::IsADirectory.into()),
    };
    if destination.file_name().is_none() || destination.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !fs::metadata(folder)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    let mut builder = Builder::new();
    builder.prefix(".oriole-").suffix(".tmp");
    platform::set_permissions(&mut builder);
    // Drop the message, which contains the temporary name.
    let temporary = builder.tempfile_in(folder).map_err(|error| io::Error::from(error.kind()))?;
    if let Some(found) = found {
        temporary.as_file().set_permissions(found.permissions())?;
    }
    Ok(temporary)
}

#[cfg(unix)]
mod platform {
    use std::fs::{Metadata, Permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use tempfile::{Builder, NamedTempFile};

    /// Permissions of new files, before the umask.
    const OF_NEW_FILES: u32 = 0o666;

    pub fn set_permissions(builder: &mut Builder<'_, '_>) {
        builder.permissions(Permissions::from_mode(OF_NEW_FILES));
    }

    /// Returns whether the new file can replace the old one: the old file has a single name, and both have the same owner and permissions.
    pub fn can_stand_in(new: &NamedTempFile, old: &Metadata) -> bool {
        let is_same = |new: Metadata| (new.uid(), new.gid(), new.mode()) == (old.uid(), old.gid(), old.mode());
        old.nlink() == 1 && new.as_file().metadata().is_ok_and(is_same)
    }
}

#[cfg(not(unix))]
mod platform {
    use std::fs::Metadata;

    use tempfile::{Builder, NamedTempFile};

    pub fn set_permissions(_: &mut Builder<'_, '_>) {}

    pub fn can_stand_in(_: &NamedTempFile, _: &Metadata) -> bool {
        true
    }
}

use platform::can_stand_in;
