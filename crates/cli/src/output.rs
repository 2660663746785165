//! Output files that are there whole or not at all.
//!
//! A file is written under a name of its own next to its destination and then renamed, so that nobody sees half of it and an old file
//! survives a failure. What users of ptxas see of this is the same as if the destination had been opened and overwritten: symbolic links stay,
//! an old file keeps its permissions, owner and hard links, a new one gets what the umask allows, and a file that may not be written is an
//! error. Where renaming would change one of these, the destination is overwritten in place.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use tempfile::{Builder, NamedTempFile};

/// Symbolic links are followed this far, as Linux does.
const MOST_LINKS: usize = 40;

/// Writes a file, following symbolic links.
pub fn write_file(path: &str, bytes: &[u8]) -> io::Result<()> {
    let destination = follow_links(Path::new(path))?;
    let found = match fs::metadata(&destination) {
        Ok(found) => Some(found),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    if is_special(&destination) || found.as_ref().is_some_and(|found| !found.is_file()) {
        return overwrite(OpenOptions::new().write(true).truncate(true).open(&destination)?, bytes);
    }
    if found.is_some() {
        // Whether it may be written at all; renaming would not ask.
        OpenOptions::new().write(true).open(&destination)?;
    }
    match (temporary(&destination, found.as_ref()), found) {
        (Ok(temporary), None) => replace(temporary, &destination, bytes),
        (Ok(temporary), Some(found)) if can_stand_in(&temporary, &found) => replace(temporary, &destination, bytes),
        (_, Some(_)) => overwrite(OpenOptions::new().write(true).truncate(true).open(&destination)?, bytes),
        (Err(error), None) => Err(error),
    }
}

fn overwrite(mut file: File, bytes: &[u8]) -> io::Result<()> {
    file.write_all(bytes)?;
    file.flush()
}

fn replace(mut temporary: NamedTempFile, destination: &Path, bytes: &[u8]) -> io::Result<()> {
    temporary.write_all(bytes)?;
    temporary.flush()?;
    temporary.persist(destination).map_err(|failure| failure.error)?;
    Ok(())
}

/// What a path names once symbolic links are followed, also if there is nothing yet.
fn follow_links(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        // What the system makes up has no place to go to: `/proc/self/fd/1` may be a link to `pipe:[1234]`.
        let is_link = !is_special(&path) && fs::symlink_metadata(&path).is_ok_and(|found| found.is_symlink());
        if !is_link {
            return Ok(path);
        }
        let target = fs::read_link(&path)?;
        path = path.parent().map_or_else(|| target.clone(), |parent| parent.join(&target));
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Whether a path is in a folder of devices or open files, such as `/dev/stdout`.
fn is_special(path: &Path) -> bool {
    let mut components = path.components();
    components.next() == Some(Component::RootDir)
        && matches!(components.next(), Some(Component::Normal(name)) if name == "dev" || name == "proc")
        && !path.starts_with("/dev/shm")
}

/// A new file next to the destination, which goes away again unless it is renamed. It has the permissions of the file that was found, or those
/// of any new file.
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
    signals::watch();
    let mut builder = Builder::new();
    builder.prefix(".oriole-").suffix(".tmp");
    platform::set_permissions(&mut builder);
    // The temporary name is none of the user's business.
    let temporary = signals::created(|| builder.tempfile_in(folder)).map_err(|error| io::Error::from(error.kind()))?;
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

    /// The umask is taken off this.
    const OF_NEW_FILES: u32 = 0o666;

    pub fn set_permissions(builder: &mut Builder<'_, '_>) {
        builder.permissions(Permissions::from_mode(OF_NEW_FILES));
    }

    /// Whether nobody can tell the new file from the old one: it has no other names, and the same owner.
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

/// Signals that end the program, which must not leave a file with a temporary name.
#[cfg(unix)]
mod signals {
    use std::path::PathBuf;
    use std::sync::{Mutex, Once, PoisonError};
    use std::{fs, io, thread};

    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;
    use signal_hook::low_level::emulate_default_handler;
    use tempfile::NamedTempFile;

    static WATCHING: Once = Once::new();
    /// The temporary files that may exist.
    static TEMPORARY: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

    /// From here on, a signal that ends the program removes temporary files first. Signals that are ignored, as `nohup` arranges, stay ignored.
    pub fn watch() {
        WATCHING.call_once(|| {
            let ignored = ignored();
            let wanted = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
            let Ok(mut signals) = Signals::new(wanted) else { return };
            // Without a thread, signals would only be noted and never end the program.
            let handle = signals.handle();
            let watcher = thread::Builder::new().name("signals".to_owned()).spawn(move || {
                for signal in signals.forever() {
                    let files = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
                    files.iter().for_each(|file| drop(fs::remove_file(file)));
                    let _ = emulate_default_handler(signal);
                }
            });
            if watcher.is_err() {
                handle.close();
            }
        });
    }

    /// Notes the file that is created. No signal is acted on between its creation and its being noted.
    pub fn created(create: impl FnOnce() -> io::Result<NamedTempFile>) -> io::Result<NamedTempFile> {
        let mut files = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
        let file = create()?;
        files.push(file.path().to_path_buf());
        Ok(file)
    }

    /// The signals that the program was started to ignore, one bit each from signal 1 on.
    fn ignored() -> u64 {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
    }
}

#[cfg(not(unix))]
mod signals {
    use std::io;

    use tempfile::NamedTempFile;

    pub fn watch() {}

    pub fn created(create: impl FnOnce() -> io::Result<NamedTempFile>) -> io::Result<NamedTempFile> {
        create()
    }
}
