//! Writes the kernel tests to their folder, and removes files that no generator writes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes all kernel tests to a folder and removes stale files.
pub fn write(folder: &str) -> Result<(), String> {
    let tests = oriole_kernel_gen::all();
    let root = Path::new(folder);
    let mut written = BTreeSet::new();
    let mut bytes = 0;
    for test in &tests {
        let path = root.join(format!("{}.ptx", test.name));
        let parent = path.parent().ok_or("a test without a family")?;
        fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        if fs::read_to_string(&path).ok().as_deref() != Some(&test.text) {
            fs::write(&path, &test.text).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        bytes += test.text.len();
        written.insert(path);
    }
    let stale: Vec<PathBuf> = ptx_files(root)?.into_iter().filter(|path| !written.contains(path)).collect();
    for path in &stale {
        fs::remove_file(path).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    println!("{} tests, {bytes} bytes, {} stale files removed", tests.len(), stale.len());
    Ok(())
}

fn ptx_files(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))? {
        let path = entry.map_err(|error| error.to_string())?.path();
        if path.is_dir() {
            files.extend(ptx_files(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            files.push(path);
        }
    }
    Ok(files)
}
