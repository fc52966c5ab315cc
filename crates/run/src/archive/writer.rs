//! Writes an archive file by file.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};

use anyhow::{Context, ensure};
use camino::{Utf8Path, Utf8PathBuf};

use crate::archive::format::{WINDOW_LOG, trailer};
use crate::archive::manifest::{Content, MANIFEST, Manifest, Placed, VERSION, data_path};
use memprof_build::store::hash_file;
use memprof_support::output_file::OutputFile;
use memprof_support::regular_file::followed;
use memprof_support::sealed;

/// A finished archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenArchive {
    /// blake3 of everything but the last line, which contains this hash.
    pub hash: String,
    /// The size.
    pub bytes: u64,
}

/// Writes an archive. Each file is written at once, because the checkout that it comes from may
/// switch to another revision next.
pub struct ArchiveWriter {
    file: Utf8PathBuf,
    tar: tar::Builder<zstd::Encoder<'static, Hashing<OutputFile>>>,
    contents: BTreeMap<Utf8PathBuf, Content>,
}

impl ArchiveWriter {
    /// Begins an archive. A file at the path stays as it was until the archive is finished.
    pub fn begin(file: &Utf8Path) -> anyhow::Result<Self> {
        let output = OutputFile::create(file)?;
        let mut encoder =
            zstd::Encoder::new(Hashing { inner: output, hasher: blake3::Hasher::new() }, LEVEL)?;
        // Executables of two revisions differ little, but are further apart than zstd's default
        // window.
        encoder.long_distance_matching(true)?;
        encoder.window_log(WINDOW_LOG)?;
        encoder.include_checksum(true)?;
        encoder.multithread(u32::try_from(std::thread::available_parallelism().map_or(1, usize::from))?)?;
        let tar = tar::Builder::new(encoder);
        Ok(Self { file: file.to_owned(), tar, contents: BTreeMap::new() })
    }

    /// Adds a file from disk.
    pub fn add_file(&mut self, path: impl Into<Utf8PathBuf>, source: &Utf8Path) -> anyhow::Result<()> {
        let input = followed::open(source)?;
        let metadata = input.metadata()?;
        self.add(path.into(), input, metadata.len(), is_executable(&metadata))
    }

    /// Adds a file with this content.
    pub fn add_bytes(&mut self, path: impl Into<Utf8PathBuf>, bytes: &[u8]) -> anyhow::Result<()> {
        self.add(path.into(), bytes, bytes.len() as u64, false)
    }

    /// Adds a file or a symbolic link from disk that tests find at some path. Equal files are
    /// stored once.
    pub(crate) fn place_file(&mut self, source: &Utf8Path) -> anyhow::Result<Placed> {
        if source.is_symlink() {
            return Ok(Placed::Link(source.read_link_utf8()?));
        }
        let executable = is_executable(&fs_err::metadata(source)?);
        let blake3 = hash_file(source)?;
        let path = data_path(&blake3);
        if !self.contents.contains_key(&path) {
            self.add_file(&path, source)?;
            ensure!(self.contents[&path].blake3 == blake3, "{source} changed while it was added");
        }
        Ok(Placed::File { blake3, executable })
    }

    /// Adds a file with this content that tests find at some path.
    pub(crate) fn place_bytes(&mut self, bytes: &[u8]) -> anyhow::Result<Placed> {
        let blake3 = blake3::hash(bytes).to_hex().to_string();
        let path = data_path(&blake3);
        if !self.contents.contains_key(&path) {
            self.add_bytes(path, bytes)?;
        }
        Ok(Placed::File { blake3, executable: false })
    }

    /// Adds a file with a fixed owner and time, so that the same files make the same archive.
    fn add(
        &mut self,
        path: Utf8PathBuf,
        input: impl Read,
        bytes: u64,
        executable: bool,
    ) -> anyhow::Result<()> {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(tar::EntryType::Regular);
        header.set_mode(if executable { 0o755 } else { 0o644 });
        header.set_mtime(0);
        header.set_size(bytes);
        // The header has the size already: a file that grows or shrinks now would shift all later
        // entries.
        let mut input = Hashing { inner: input.take(bytes), hasher: blake3::Hasher::new() };
        let added = self.tar.append_data(&mut header, &path, &mut input);
        added.with_context(|| format!("could not add '{path}'"))?;
        ensure!(input.inner.limit() == 0, "'{path}' became shorter while it was added");
        let blake3 = input.hasher.finalize().to_hex().to_string();
        self.contents.insert(path, Content { blake3, bytes, executable });
        Ok(())
    }

    /// Adds the manifest, which lists all files that were added, and moves the archive to its path.
    pub fn finish(mut self, mut manifest: Manifest) -> anyhow::Result<WrittenArchive> {
        manifest.contents = std::mem::take(&mut self.contents);
        self.add_bytes(MANIFEST, &sealed::sealed(&manifest)?)?;
        let Hashing { inner: mut output, hasher } = self.tar.into_inner()?.finish()?;
        let hash = hasher.finalize().to_hex().to_string();
        let trailer = trailer(VERSION, &hash);
        let written = output.write_all(&trailer).and_then(|()| output.finish());
        written.with_context(|| format!("could not write {}", self.file))?;
        Ok(WrittenArchive { hash, bytes: hasher.count() + trailer.len() as u64 })
    }
}

/// zstd's compression level. Above it, the time grows faster than the file shrinks.
const LEVEL: i32 = 6;

pub(crate) fn is_executable(metadata: &std::fs::Metadata) -> bool {
    use std::os::unix::fs::PermissionsExt;
    metadata.permissions().mode() & 0o111 != 0
}

/// Passes bytes on and hashes them.
struct Hashing<T> {
    inner: T,
    hasher: blake3::Hasher,
}

impl<T: Write> Write for Hashing<T> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.hasher.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<T: Read> Read for Hashing<T> {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(bytes)?;
        self.hasher.update(&bytes[..read]);
        Ok(read)
    }
}
