//! Notes: `.note.nv.tkinfo` (the tool that made the file, and its command line) and `.note.nv.cuinfo` (toolkit version and virtual
//! architecture).
//!
//! The format is ELF's: sizes of owner and description, a type, the owner, the description, each padded to four bytes.

use crate::bytes::{Bytes, align_up};
use crate::error::{Error, Result};

/// The owner of both notes.
pub const OWNER: &str = "NVIDIA Corp";

const CUDA_INFO: u32 = 1000;
const TOOL_INFO: u32 = 2000;

/// A note.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Note {
    Cuda(CudaInfo),
    Tool(ToolInfo),
    Other { owner: Vec<u8>, note_type: u32, description: Vec<u8> },
}

/// `.note.nv.cuinfo`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CudaInfo {
    /// 2
    pub version: u16,
    /// The SM of the PTX source, for example 80.
    pub virtual_sm: u16,
    /// Ten times the toolkit version: 130 is 13.0.
    pub toolkit: u32,
}

/// `.note.nv.tkinfo`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolInfo {
    /// 2
    pub version: u32,
    /// Name of the output file in a debug build; otherwise empty.
    pub object: String,
    /// `ptxas`
    pub tool: String,
    /// `Cuda compilation tools, release 13.0, V13.0.88`
    pub tool_version: String,
    /// `Build cuda_13.0.r13.0/compiler.36424714_0`
    pub branch: String,
    /// `-arch sm_90 `: the options, each followed by a space.
    pub arguments: String,
}

impl CudaInfo {
    fn decode(data: Bytes<'_>) -> Result<CudaInfo> {
        Ok(CudaInfo {
            version: data.u16(0, "the version of a note")?,
            virtual_sm: data.u16(2, "the virtual SM")?,
            toolkit: data.u32(4, "the version of the toolkit")?,
        })
    }

    fn encode(self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend(self.version.to_le_bytes());
        out.extend(self.virtual_sm.to_le_bytes());
        out.extend(self.toolkit.to_le_bytes());
        out
    }
}

/// Size in bytes of the version and five string offsets; the strings follow.
const TOOL_HEADER: u64 = 24;

impl ToolInfo {
    fn decode(data: Bytes<'_>) -> Result<ToolInfo> {
        let strings = data.rest(TOOL_HEADER, "the strings of a note")?;
        let string = |field: u64| -> Result<String> {
            let offset = data.u32(field * 4, "the offset of a string")?;
            strings.text(u64::from(offset), "a string of a note").map(str::to_owned)
        };
        Ok(ToolInfo {
            version: data.u32(0, "the version of a note")?,
            object: string(1)?,
            tool: string(2)?,
            tool_version: string(3)?,
            branch: string(4)?,
            arguments: string(5)?,
        })
    }

    fn encode(&self) -> Vec<u8> {
        let mut strings = Vec::new();
        let mut out = Vec::from(self.version.to_le_bytes());
        for string in [&self.object, &self.tool, &self.tool_version, &self.branch, &self.arguments] {
            out.extend((strings.len() as u32).to_le_bytes());
            strings.extend(string.bytes());
            strings.push(0);
        }
        out.extend(strings);
        pad(&mut out);
        out
    }
}

fn pad(out: &mut Vec<u8>) {
    out.resize(out.len().next_multiple_of(4), 0);
}

pub(crate) fn decode(data: Bytes<'_>) -> Result<Vec<Note>> {
    let mut notes = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let owner_size = u64::from(data.u32(at, "a note")?);
        let size = u64::from(data.u32(at + 4, "a note")?);
        let note_type = data.u32(at + 8, "a note")?;
        let owner = data.window(at + 12, owner_size, "the owner of a note")?;
        let start = align_up(at + 12 + owner_size, 4);
        let description = data.window(start, size, "the description of a note")?;
        at = align_up(start + size, 4);
        notes.push(decode_one(owner.data(), note_type, description)?);
    }
    Ok(notes)
}

fn decode_one(owner: &[u8], note_type: u32, description: Bytes<'_>) -> Result<Note> {
    let ours = owner.strip_suffix(b"\0") == Some(OWNER.as_bytes());
    let note = match note_type {
        CUDA_INFO if ours => Note::Cuda(CudaInfo::decode(description)?),
        TOOL_INFO if ours => Note::Tool(ToolInfo::decode(description)?),
        _ => Note::Other { owner: owner.to_vec(), note_type, description: description.data().to_vec() },
    };
    Ok(note)
}

pub(crate) fn encode(notes: &[Note]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for note in notes {
        let owned = || [OWNER.as_bytes(), b"\0"].concat();
        let (owner, note_type, description) = match note {
            Note::Cuda(info) => (owned(), CUDA_INFO, info.encode()),
            Note::Tool(info) => (owned(), TOOL_INFO, info.encode()),
            Note::Other { owner, note_type, description } => (owner.clone(), *note_type, description.clone()),
        };
        for size in [owner.len(), description.len()] {
            out.extend(u32::try_from(size).map_err(|_| Error::new("a note has more than 4 GiB"))?.to_le_bytes());
        }
        out.extend(note_type.to_le_bytes());
        out.extend(owner);
        pad(&mut out);
        out.extend(description);
        pad(&mut out);
    }
    Ok(out)
}
