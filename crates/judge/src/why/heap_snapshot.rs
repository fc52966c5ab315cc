//! Reads the file that `stacks::snapshot` of the shim writes: the live blocks of one moment, and who points
//! to them. A file that does not fit together is refused.

use std::io::{self, BufRead};

/// The blocks of one moment, sorted by address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeapSnapshot {
    /// Live bytes by the run's own count.
    pub live: u64,
    /// The peak that was asked for; `None` if a checkpoint was.
    pub peak: Option<u64>,
    pub blocks: Vec<Block>,
    /// The memory of loaded files that was read.
    pub places: Vec<LoadedData>,
    /// The calling thread's frames, the innermost first: an address of the process.
    pub frames: Vec<u64>,
    pub threads: Vec<Thread>,
    /// From a block to another one, or to itself, by their positions; sorted by the first.
    pub pointers: Vec<(u32, u32)>,
    pub roots: Vec<Root>,
    /// What the words beside pointers say about the use of blocks.
    pub uses: Vec<Use>,
    /// Whether all blocks were read.
    pub is_whole: bool,
    /// How many words were read.
    pub words: u64,
    /// How many of them pointed into a copy of the blocks' addresses where nothing can be.
    pub by_chance: u64,
    /// How long the program stood still.
    pub nanoseconds: u64,
}

/// A live block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Block {
    pub address: u64,
    pub size: u64,
    /// Its site in the run's log; 0 if it has none.
    pub site: u32,
    /// Whether it is in no figure.
    pub is_of_harness: bool,
}

/// Memory of a loaded file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedData {
    /// Whether these are the thread-locals of a thread, and not statics.
    pub are_thread_locals: bool,
    /// What the loader added to the file's addresses.
    pub bias: u64,
    pub begin: u64,
    pub end: u64,
}

/// A thread of the process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    pub number: u64,
    pub name: String,
    /// Whether it is the one that took the snapshot.
    pub is_own: bool,
    /// Whether it ran, so that its stack was not read.
    pub ran: bool,
}

/// A pointer from outside of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    pub holder: Holder,
    /// The position of the block.
    pub block: u32,
}

/// What has a pointer outside of the heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    /// A static at this address of the process.
    Static(u64),
    /// A thread-local at this place of the executable's; `None` if it is the C library's own.
    ThreadLocal(Option<u64>),
    /// A frame of the calling thread.
    Frame(u32),
    /// The stack of a thread.
    Stack(u32),
}

/// What a pointer to a block and the words beside it look like. Only the block's type says whether they are that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    pub pointer: Pointer,
    /// The position of the block.
    pub block: u32,
    pub form: Form,
    /// The number of elements.
    pub length: u64,
}

/// Which pointer it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// The one of the block at this position.
    Block(u32),
    /// The one at this position of the roots.
    Root(u32),
}

/// What a pointer with the words beside it may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// A vector whose capacity divides the block into elements of so many bytes.
    Vector(u32),
    /// The same, of a `VecDeque`.
    Deque(u32),
    /// A hash table of two to the power of so many buckets.
    Table(u32),
    /// A B-tree whose root has this height.
    Tree(u32),
}

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    #[error("the snapshot of the heap cannot be read: {0}")]
    Read(#[from] io::Error),
    #[error("the snapshot of the heap is damaged: {0}")]
    Damaged(&'static str),
}

const MAGIC: u64 = u64::from_le_bytes(*b"memprof1");
const BLOCKS: u64 = u64::from_le_bytes(*b"blocks..");
const PLACES: u64 = u64::from_le_bytes(*b"places..");
const FRAMES: u64 = u64::from_le_bytes(*b"frames..");
const THREADS: u64 = u64::from_le_bytes(*b"threads.");
const POINTERS: u64 = u64::from_le_bytes(*b"pointers");
const ROOTS: u64 = u64::from_le_bytes(*b"roots...");
const END: u64 = u64::from_le_bytes(*b"the end.");
const NO_MORE: u64 = u64::MAX;
/// This bit marks a use of the block that the item before points to.
const USE: u64 = 1 << 63;
const OF_NOTHING: SnapshotError = SnapshotError::Damaged("a use is of no block");

/// Most blocks, and most pointers.
const MOST: usize = 1 << 30;
/// Most bytes of a block, so that no sum overflows.
const MOST_BYTES: u64 = 1 << 47;

type Result<T> = std::result::Result<T, SnapshotError>;

/// Reads a whole file.
///
/// # Errors
/// It cannot be read, or does not fit together.
pub fn read(file: impl BufRead) -> Result<HeapSnapshot> {
    let mut words = Words { file };
    words.expect(MAGIC, "it does not begin as one")?;
    let mut snapshot = HeapSnapshot { live: words.next()?, ..HeapSnapshot::default() };
    snapshot.peak = Some(words.next()?).filter(|peak| *peak != NO_MORE);
    words.part(BLOCKS, |[address, size, site]| {
        let known = snapshot.blocks.last().map_or(0, |block: &Block| block.address + block.size);
        if address < known || size == 0 || size > MOST_BYTES || address > MOST_BYTES {
            return Err(SnapshotError::Damaged("blocks overlap"));
        }
        let (site, flags) = (low(site), site >> 32);
        snapshot.blocks.push(Block { address, size, site, is_of_harness: flags != 0 });
        Ok(())
    })?;
    words.part(PLACES, |[kind, bias, begin, end]| {
        snapshot.places.push(LoadedData { are_thread_locals: kind == 1, bias, begin, end });
        Ok(())
    })?;
    words.part(FRAMES, |[address, _]| {
        snapshot.frames.push(address);
        Ok(())
    })?;
    words.part(THREADS, |[number, flags, first, second]| {
        let name = [first.to_le_bytes(), second.to_le_bytes()].concat();
        let name = String::from_utf8_lossy(name.split(|byte| *byte == 0).next().unwrap_or_default());
        let (is_own, ran) = (flags & 1 != 0, flags & 2 != 0);
        snapshot.threads.push(Thread { number, name: name.into_owned(), is_own, ran });
        Ok(())
    })?;
    words.expect(POINTERS, "the pointers are missing")?;
    let count = snapshot.blocks.len();
    let is_block = |block: u32| (block as usize) < count;
    loop {
        let word = words.next()?;
        if word == NO_MORE {
            break;
        }
        if word & USE != 0 {
            let (from, to) = *snapshot.pointers.last().ok_or(OF_NOTHING)?;
            snapshot.uses.push(Use::read(word, Pointer::Block(from), to));
            continue;
        }
        let (from, to) = (low(word >> 32), low(word));
        let is_behind = snapshot.pointers.last().is_none_or(|(before, _)| *before <= from);
        if !is_block(from) || !is_block(to) || !is_behind || snapshot.pointers.len() >= MOST {
            return Err(SnapshotError::Damaged("a pointer is between no blocks"));
        }
        snapshot.pointers.push((from, to));
    }
    words.expect(ROOTS, "the roots are missing")?;
    loop {
        let kind = words.next()?;
        if kind == NO_MORE {
            break;
        }
        if kind & USE != 0 {
            let root = snapshot.roots.last().ok_or(OF_NOTHING)?;
            let position = u32::try_from(snapshot.roots.len() - 1).unwrap_or(u32::MAX);
            snapshot.uses.push(Use::read(kind, Pointer::Root(position), root.block));
            continue;
        }
        let (which, block) = (words.next()?, low(words.next()?));
        let number = u32::try_from(which).unwrap_or(u32::MAX);
        let holder = match kind {
            0 => Holder::Static(which),
            1 => Holder::ThreadLocal(Some(which).filter(|place| *place != NO_MORE)),
            2 if (number as usize) < snapshot.frames.len().max(1) => Holder::Frame(number),
            3 if (number as usize) < snapshot.threads.len() => Holder::Stack(number),
            _ => return Err(SnapshotError::Damaged("a root is unknown")),
        };
        if !is_block(block) || snapshot.roots.len() >= MOST {
            return Err(SnapshotError::Damaged("a root points to no block"));
        }
        snapshot.roots.push(Root { holder, block });
    }
    words.expect(END, "the end is missing")?;
    snapshot.is_whole = words.next()? == 1;
    snapshot.words = words.next()?;
    snapshot.by_chance = words.next()?;
    snapshot.nanoseconds = words.next()?;
    if words.file.read(&mut [0])? != 0 {
        return Err(SnapshotError::Damaged("something follows its end"));
    }
    Ok(snapshot)
}

impl Use {
    /// Reads a word: 2 bits of the form behind the upper one, 24 of a detail, and the number of elements.
    fn read(word: u64, pointer: Pointer, block: u32) -> Self {
        let detail = low(word >> 37 & 0xff_ffff);
        let form = match word >> 61 & 3 {
            0 => Form::Vector(detail),
            1 => Form::Deque(detail),
            2 => Form::Table(detail),
            _ => Form::Tree(detail),
        };
        Self { pointer, block, form, length: word & ((1 << 37) - 1) }
    }
}

/// The lower half of a word.
fn low(word: u64) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    let low = word as u32;
    low
}

struct Words<R> {
    file: R,
}

impl<R: BufRead> Words<R> {
    fn next(&mut self) -> Result<u64> {
        let mut word = [0; 8];
        match self.file.read_exact(&mut word) {
            Ok(()) => Ok(u64::from_le_bytes(word)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                Err(SnapshotError::Damaged("it ends too early"))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn expect(&mut self, word: u64, problem: &'static str) -> Result<()> {
        if self.next()? == word { Ok(()) } else { Err(SnapshotError::Damaged(problem)) }
    }

    /// Reads a part with a known number of items.
    fn part<const N: usize>(
        &mut self,
        mark: u64,
        mut each: impl FnMut([u64; N]) -> Result<()>,
    ) -> Result<()> {
        self.expect(mark, "a part is missing")?;
        let count = self.next()?;
        if count > MOST as u64 {
            return Err(SnapshotError::Damaged("a part is too long"));
        }
        for _ in 0..count {
            let mut item = [0; N];
            for word in &mut item {
                *word = self.next()?;
            }
            each(item)?;
        }
        Ok(())
    }
}
