//! A content-addressed cache of compiled programs in a folder, opt-in and safe between processes.
//!
//! The key of an entry is the SHA-256 of everything that the result depends on: the bytes of the compiler's own executable, the options
//! and the input. An entry is a file that is named by its key, written under a temporary name and renamed, so that readers see a complete
//! file or none. Its header holds the key, the length and the SHA-256 of the contents: an entry that is damaged is not used. Two processes
//! that write the same entry write the same bytes. Nothing is ever deleted; any file of the folder may be deleted at any time.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use sha2::{Digest, Sha256};

use crate::output::write_file;

/// Start of each entry; the number is the version of the format.
const MAGIC: &[u8; 16] = b"oriole-cache-01\n";
/// Length of a SHA-256 in bytes.
const HASH_BYTES: usize = 32;
/// Length of the header: magic, key, length of the contents, hash of the contents.
const HEADER_BYTES: usize = MAGIC.len() + HASH_BYTES + size_of::<u64>() + HASH_BYTES;

/// The environment variable with the folder of the cache.
pub const VARIABLE: &str = "ORIOLE_CACHE";

/// A SHA-256.
type Hash = [u8; HASH_BYTES];

/// The address of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Key(Hash);

/// The result of a search for an entry.
#[derive(PartialEq, Eq, Debug)]
pub enum Lookup {
    /// The contents of the entry.
    Hit(Vec<u8>),
    Miss,
    /// There is an entry, but its length or hash is wrong.
    Damaged,
}

/// An open cache.
pub struct Cache {
    folder: PathBuf,
    /// Hash of the compiler's executable.
    compiler: Hash,
}

impl Cache {
    /// Opens the cache in a folder, which is created if it does not exist.
    pub fn open(folder: &Path) -> io::Result<Cache> {
        fs::create_dir_all(folder)?;
        let mut cache = Cache { folder: folder.to_owned(), compiler: Hash::default() };
        cache.compiler = cache.hash_of_executable()?;
        Ok(cache)
    }

    /// Returns the key for everything that a result depends on. The parts are told apart: `["ab", "c"]` and `["a", "bc"]` have
    /// different keys.
    pub fn key(&self, parts: &[&[u8]]) -> Key {
        let parts: Vec<&[u8]> = [&self.compiler[..]].into_iter().chain(parts.iter().copied()).collect();
        Key(hash_of_parts(&parts))
    }

    /// Searches for an entry. A file that cannot be read is a miss.
    pub fn load(&self, key: Key) -> Lookup {
        match fs::read(self.path(key)) {
            Ok(entry) => contents(&entry, key).map_or(Lookup::Damaged, |contents| Lookup::Hit(contents.to_vec())),
            Err(_) => Lookup::Miss,
        }
    }

    /// Writes an entry, and replaces a damaged one.
    pub fn store(&self, key: Key, contents: &[u8]) -> io::Result<()> {
        let path = self.path(key);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut entry = Vec::with_capacity(HEADER_BYTES + contents.len());
        entry.extend_from_slice(MAGIC);
        entry.extend_from_slice(&key.0);
        entry.extend_from_slice(&(contents.len() as u64).to_le_bytes());
        entry.extend_from_slice(&Hash::from(Sha256::digest(contents)));
        entry.extend_from_slice(contents);
        write_file(path, &entry)
    }

    /// Returns the file of an entry. Folders by the first byte of the key keep the number of files in a folder small.
    fn path(&self, key: Key) -> PathBuf {
        let mut name = String::with_capacity(2 * HASH_BYTES);
        for byte in key.0 {
            // Writing to a string cannot fail.
            let _ = write!(name, "{byte:02x}");
        }
        self.folder.join(&name[..2]).join(&name[2..])
    }

    /// Returns the hash of the running executable. Hashing takes longer than many compilations, so the hash is an entry itself, with
    /// the identity of the file as key.
    fn hash_of_executable(&self) -> io::Result<Hash> {
        let path = env::current_exe()?;
        let identity = identity(&path, &fs::metadata(&path)?);
        let key = Key(hash_of_parts(&[b"executable", identity.as_bytes()]));
        if let Lookup::Hit(known) = self.load(key)
            && let Ok(known) = Hash::try_from(known)
        {
            return Ok(known);
        }
        let hash = Hash::from(Sha256::digest(fs::read(&path)?));
        // Without the entry, the next process computes the hash again.
        let _ = self.store(key, &hash);
        Ok(hash)
    }
}

/// Returns a text that changes whenever an executable is replaced or changed.
#[cfg(unix)]
fn identity(path: &Path, found: &fs::Metadata) -> String {
    use std::os::unix::fs::MetadataExt;
    let times = (found.mtime(), found.mtime_nsec(), found.ctime(), found.ctime_nsec());
    format!("{path:?} {} {} {} {times:?}", found.dev(), found.ino(), found.len())
}

/// Returns a text that changes whenever an executable is replaced or changed.
#[cfg(not(unix))]
fn identity(path: &Path, found: &fs::Metadata) -> String {
    format!("{path:?} {} {:?} {:?}", found.len(), found.modified(), found.created())
}

/// Returns the hash of a list of texts, with the length of each.
fn hash_of_parts(parts: &[&[u8]]) -> Hash {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().into()
}

/// Returns the contents of an entry if its header is right.
fn contents(entry: &[u8], key: Key) -> Option<&[u8]> {
    let rest = entry.strip_prefix(MAGIC)?.strip_prefix(&key.0)?;
    let (length, rest) = rest.split_first_chunk()?;
    let (hash, contents) = rest.split_first_chunk::<HASH_BYTES>()?;
    let is_right = u64::from_le_bytes(*length) == contents.len() as u64 && *hash == Hash::from(Sha256::digest(contents));
    is_right.then_some(contents)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_depend_on_each_part() {
        let cache = Cache { folder: PathBuf::new(), compiler: [1; HASH_BYTES] };
        let other = Cache { folder: PathBuf::new(), compiler: [2; HASH_BYTES] };
        let key = cache.key(&[b"ab", b"c"]);
        assert_eq!(key, cache.key(&[b"ab", b"c"]));
        for different in [cache.key(&[b"a", b"bc"]), cache.key(&[b"abc"]), cache.key(&[b"ab", b"c", b""]), other.key(&[b"ab", b"c"])] {
            assert_ne!(key, different);
        }
    }

    #[test]
    fn every_damage_is_found() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache { folder: folder.path().to_owned(), compiler: [1; HASH_BYTES] };
        let key = cache.key(&[b"x"]);
        assert_eq!(cache.load(key), Lookup::Miss);
        cache.store(key, b"program").unwrap();
        assert_eq!(cache.load(key), Lookup::Hit(b"program".to_vec()));
        let good = fs::read(cache.path(key)).unwrap();
        for position in 0..good.len() {
            let mut bad = good.clone();
            bad[position] ^= 1;
            fs::write(cache.path(key), &bad).unwrap();
            assert_eq!(cache.load(key), Lookup::Damaged, "byte {position}");
            fs::write(cache.path(key), &good[..position]).unwrap();
            assert_eq!(cache.load(key), Lookup::Damaged, "length {position}");
        }
        fs::write(cache.path(key), [&good[..], b"x"].concat()).unwrap();
        assert_eq!(cache.load(key), Lookup::Damaged);
        // An entry under the name of another one.
        let other = cache.key(&[b"y"]);
        fs::create_dir_all(cache.path(other).parent().unwrap()).unwrap();
        fs::write(cache.path(other), &good).unwrap();
        assert_eq!(cache.load(other), Lookup::Damaged);
        cache.store(key, b"program").unwrap();
        assert_eq!(cache.load(key), Lookup::Hit(b"program".to_vec()));
    }
}
