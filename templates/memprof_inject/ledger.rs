//! What is allocated through the driver on each device, and the peak. Sizes are the requested
//! bytes. Also the streams that are being captured into graphs.
//!
//! Pure: it does not know CUPTI, and the caller holds a lock.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::blocks::site_figures::{AtNextMark, Change, SiteFigures};
use crate::blocks::size_count::SizeCount;

/// The place of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The driver's ordinal of the device, among the visible ones.
    Device(u32),
    /// Page-locked host memory.
    Host,
}

/// What an address or a handle names. Each kind has its own numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    Memory,
    Array,
    MipmappedArray,
}

/// How memory was allocated. This decides whether it ends with a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Allocated directly, in a context.
    Direct,
    /// From a memory pool, which belongs to the device.
    Pooled,
    /// Managed: it moves between the device and the host.
    Managed,
    /// Made by `cuMemCreate`, outside any context.
    Virtual,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    pub(crate) bytes: u64,
    pub(crate) place: Place,
    pub(crate) kind: Kind,
    /// The context that was current, and its device. Memory allocated in a context ends with it.
    pub(crate) context: u64,
    pub(crate) owner: Option<u32>,
    /// The call stack of its allocation; 0 if it is not recorded.
    pub(crate) site: u32,
}

/// A stream that is being captured into a graph. It ends with its context.
#[derive(Clone, Copy)]
pub(crate) struct Capture {
    pub(crate) stream: u64,
    /// As for a [`Block`].
    pub(crate) context: u64,
    pub(crate) owner: Option<u32>,
}

/// Bytes now, and the peak since the last reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Level {
    pub(crate) live: u64,
    pub(crate) peak: u64,
    pub(crate) pooled: u64,
    pub(crate) managed: u64,
}

/// A device, or the host, in the order of first use.
pub(crate) struct Account {
    pub(crate) place: Place,
    pub(crate) uuid: Option<[u8; 16]>,
    pub(crate) level: Level,
    /// The same by call stack.
    pub(crate) sites: SiteFigures,
}

/// Memory made by `cuMemCreate`. It is freed when no handle and no mapping is left.
#[derive(Clone, Copy)]
struct Physical {
    block: Block,
    handles: u64,
    mappings: u64,
}

#[derive(Clone, Copy)]
struct Mapping {
    bytes: u64,
    /// `None` if the memory belongs to another process, or is not memory (a multicast object).
    physical: Option<u64>,
}

type Map<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;

#[derive(Default)]
pub(crate) struct Ledger {
    blocks: Map<(Space, u64), Block>,
    accounts: Vec<Account>,
    physical: Map<u64, Physical>,
    physical_made: u64,
    /// By handle.
    handles: Map<u64, u64>,
    /// By address.
    mappings: Map<u64, Mapping>,
    /// Blocks of free calls that have not returned, by the call's number.
    leaving: Map<u32, Leaving>,
    /// Contexts that the program made itself. None of them is a primary context.
    own_contexts: Vec<u64>,
    captures: Vec<Capture>,
    /// What the next mark means for the intervals of call stacks; `None` if they go on.
    at_next_mark: Option<AtNextMark>,
}

#[derive(Clone, Copy)]
enum Leaving {
    Block((Space, u64), Block),
    Handle(u64, u64),
}

impl Ledger {
    /// Whether the place has an account already.
    pub(crate) fn knows(&self, place: Place) -> bool {
        self.accounts.iter().any(|account| account.place == place)
    }

    /// Opens an account for a device. The caller has asked for the UUID before, because the driver
    /// must not be called in here.
    pub(crate) fn open(&mut self, place: Place, uuid: Option<[u8; 16]>) {
        if !self.knows(place) {
            self.accounts.push(Account { place, uuid, level: Level::default(), sites: SiteFigures::new() });
        }
    }

    /// Live bytes at a place.
    pub(crate) fn live(&self, place: Place) -> u64 {
        self.accounts.iter().find(|account| account.place == place).map_or(0, |account| account.level.live)
    }

    /// How many blocks of each size and site are live at a place, ordered.
    pub(crate) fn live_sizes(&self, place: Place) -> Vec<SizeCount> {
        let physical = self.physical.values().map(|physical| &physical.block);
        let blocks = self.blocks.values().chain(physical).filter(|block| block.place == place);
        let mut sizes: Vec<(u64, u32)> = blocks.map(|block| (block.bytes, block.site)).collect();
        sizes.sort_unstable();
        let mut counts: Vec<SizeCount> = Vec::new();
        for (bytes, site) in sizes {
            match counts.last_mut() {
                Some(last) if last.bytes == bytes && last.site == u64::from(site) => last.count += 1,
                _ => counts.push(SizeCount { bytes, count: 1, site: u64::from(site) }),
            }
        }
        counts
    }

    /// The figures of each place.
    pub(crate) fn accounts(&self) -> &[Account] {
        &self.accounts
    }

    /// The account of a place.
    pub(crate) fn account_mut(&mut self, place: Place) -> Option<&mut Account> {
        self.accounts.iter_mut().find(|account| account.place == place)
    }

    /// Tells the next mark what it means for the intervals of call stacks.
    pub(crate) fn at_next_mark(&mut self, what: AtNextMark) {
        self.at_next_mark = Some(what);
    }

    /// Begins a new interval for the peaks.
    pub(crate) fn begin_interval(&mut self) {
        let what = self.at_next_mark.take().unwrap_or(AtNextMark::GoOn);
        for account in &mut self.accounts {
            account.level.peak = account.level.live;
            account.sites.at_next_mark = what;
            account.sites.mark();
        }
    }

    pub(crate) fn add(&mut self, space: Space, address: u64, block: Block) {
        // The same address again. Its free was not seen, but must have happened.
        if let Some(old) = self.blocks.insert((space, address), block) {
            self.subtract_from_account(&old);
        }
        self.add_to_account(&block);
    }

    /// Begins a free call. The block is subtracted before the driver can give its address to
    /// another thread.
    pub(crate) fn begin_free(&mut self, call: u32, space: Space, address: u64) {
        if let Some(block) = self.blocks.remove(&(space, address)) {
            self.subtract_from_account(&block);
            self.leaving.insert(call, Leaving::Block((space, address), block));
        }
    }

    /// Begins the release of a handle.
    pub(crate) fn begin_release(&mut self, call: u32, handle: u64) {
        let number = match self.handles.get(&handle) {
            Some(&number) => number,
            None => return,
        };
        if let Some(physical) = self.physical.get_mut(&number) {
            physical.handles -= 1;
            if physical.handles == 0 {
                self.handles.remove(&handle);
            }
        }
        self.drop_if_unused(number);
        self.leaving.insert(call, Leaving::Handle(handle, number));
    }

    /// Ends a free or a release. If the driver refused it, this restores everything.
    pub(crate) fn end_free(&mut self, call: u32, succeeded: bool) {
        match self.leaving.remove(&call) {
            Some(Leaving::Block((space, address), block)) if !succeeded => self.add(space, address, block),
            Some(Leaving::Handle(handle, number)) if !succeeded => {
                if let Some(physical) = self.physical.get_mut(&number) {
                    physical.handles += 1;
                    self.handles.insert(handle, number);
                }
            }
            _ => {}
        }
    }

    /// `cuMemCreate`.
    pub(crate) fn create(&mut self, handle: u64, block: Block) {
        self.physical_made += 1;
        let number = self.physical_made;
        if let Some(old) = self.handles.insert(handle, number) {
            // The release was not seen, but must have happened.
            if let Some(physical) = self.physical.get_mut(&old) {
                physical.handles = 0;
            }
            self.drop_if_unused(old);
        }
        self.physical.insert(number, Physical { block, handles: 1, mappings: 0 });
        self.add_to_account(&block);
    }

    /// `cuMemMap`.
    pub(crate) fn map(&mut self, address: u64, bytes: u64, handle: u64) {
        let physical = self.handles.get(&handle).copied();
        if let Some(physical) = physical.and_then(|number| self.physical.get_mut(&number)) {
            physical.mappings += 1;
        }
        self.mappings.insert(address, Mapping { bytes, physical });
    }

    /// `cuMemUnmap`, for one mapping or several adjacent ones.
    pub(crate) fn unmap(&mut self, address: u64, bytes: u64) {
        let end = address.saturating_add(bytes);
        let mut place = address;
        while place < end {
            let mapping = match self.mappings.remove(&place) {
                Some(mapping) => mapping,
                None => return,
            };
            if let Some(number) = mapping.physical {
                if let Some(physical) = self.physical.get_mut(&number) {
                    physical.mappings -= 1;
                }
                self.drop_if_unused(number);
            }
            place = place.saturating_add(mapping.bytes.max(1));
        }
    }

    /// `cuMemRetainAllocationHandle`: one more handle for what is mapped there.
    pub(crate) fn retain(&mut self, address: u64, handle: u64) {
        let mapping = self
            .mappings
            .iter()
            .find(|(start, mapping)| **start <= address && address - **start < mapping.bytes)
            .and_then(|(_, mapping)| mapping.physical);
        if let Some(number) = mapping {
            if let Some(physical) = self.physical.get_mut(&number) {
                physical.handles += 1;
                self.handles.insert(handle, number);
            }
        }
    }

    /// Notes a context that the program made itself.
    pub(crate) fn begin_context(&mut self, context: u64) {
        if !self.own_contexts.contains(&context) {
            self.own_contexts.push(context);
        }
    }

    /// Ends such a context with what was allocated in it. Memory from pools and from `cuMemCreate`
    /// stays.
    pub(crate) fn end_context(&mut self, context: u64) {
        self.own_contexts.retain(|own| *own != context);
        self.captures.retain(|capture| capture.context != context);
        self.drop_blocks(|block| block.context == context && block.kind != Kind::Pooled);
    }

    /// Ends a device's primary context with what was allocated outside the program's own contexts.
    /// Memory from pools stays here, too: pools belong to the device.
    pub(crate) fn end_primary_context(&mut self, device: u32) {
        let own_contexts = std::mem::take(&mut self.own_contexts);
        self.drop_blocks(|block| {
            let is_own = own_contexts.contains(&block.context);
            block.kind != Kind::Pooled && block.owner == Some(device) && !is_own
        });
        self.captures
            .retain(|capture| capture.owner != Some(device) || own_contexts.contains(&capture.context));
        self.own_contexts = own_contexts;
    }

    pub(crate) fn begin_capture(&mut self, capture: Capture) {
        self.end_capture(capture.stream);
        self.captures.push(capture);
    }

    pub(crate) fn end_capture(&mut self, stream: u64) {
        self.captures.retain(|capture| capture.stream != stream);
    }

    pub(crate) fn capture_count(&self) -> usize {
        self.captures.len()
    }

    fn drop_blocks(&mut self, ends: impl Fn(&Block) -> bool) {
        let ended: Vec<_> =
            self.blocks.iter().filter(|(_, block)| ends(block)).map(|(key, _)| *key).collect();
        for key in ended {
            if let Some(block) = self.blocks.remove(&key) {
                self.subtract_from_account(&block);
            }
        }
    }

    fn drop_if_unused(&mut self, number: u64) {
        let block = match self.physical.get(&number) {
            Some(physical) if physical.handles == 0 && physical.mappings == 0 => physical.block,
            _ => return,
        };
        self.physical.remove(&number);
        self.subtract_from_account(&block);
    }

    fn add_to_account(&mut self, block: &Block) {
        self.open(block.place, None);
        let account = self.existing_mut(block.place);
        account.sites.apply(Change {
            new_site: block.site,
            old_site: 0,
            new_size: block.bytes,
            old_size: 0,
            allocates: true,
            shrinks: false,
        });
        let level = &mut account.level;
        level.live += block.bytes;
        level.peak = level.peak.max(level.live);
        match block.kind {
            Kind::Pooled => level.pooled += block.bytes,
            Kind::Managed => level.managed += block.bytes,
            Kind::Direct | Kind::Virtual => {}
        }
    }

    fn subtract_from_account(&mut self, block: &Block) {
        let account = self.existing_mut(block.place);
        account.sites.apply(Change {
            new_site: 0,
            old_site: block.site,
            new_size: 0,
            old_size: block.bytes,
            allocates: false,
            shrinks: false,
        });
        let level = &mut account.level;
        level.live -= block.bytes;
        match block.kind {
            Kind::Pooled => level.pooled -= block.bytes,
            Kind::Managed => level.managed -= block.bytes,
            Kind::Direct | Kind::Virtual => {}
        }
    }

    /// The account was opened when the first bytes were added.
    fn existing_mut(&mut self, place: Place) -> &mut Account {
        let index = self.accounts.iter().position(|account| account.place == place).unwrap_or(0);
        &mut self.accounts[index]
    }
}

/// Mixes addresses well enough for a table, although they are multiples of powers of two.
#[derive(Default)]
pub(crate) struct Mixer(u64);

impl Hasher for Mixer {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ (mixed >> 32);
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    // Only the bits matter here.
    #[allow(clippy::cast_sign_loss)]
    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }

    fn write_usize(&mut self, value: usize) {
        self.write_u64(value as u64);
    }
}
