//! Weak references to the storage of a tensor, to see later whether it was freed.
//!
//! candle keeps a storage in an `Arc<RwLock<Storage>>`, but shows only the lock's guard. The guard
//! leads to the storage, and from there to the `Arc`. Whether this version of candle does so is
//! tried once, with a tensor of its own. If not, outputs are not followed.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, RwLock, Weak};

use candle_core::{CpuStorage, DType, Device, Storage, Tensor};

static STATE: AtomicU8 = AtomicU8::new(UNTRIED);

const UNTRIED: u8 = 0;
const WORKS: u8 = 1;
const FAILS: u8 = 2;

/// Tries whether storages are where they are expected.
pub(crate) fn try_once() {
    if STATE.load(Ordering::Relaxed) == UNTRIED {
        let state = if works().unwrap_or(false) { WORKS } else { FAILS };
        STATE.store(state, Ordering::Relaxed);
    }
}

/// The tensor's storage must have one more owner while a view of it exists.
fn works() -> Option<bool> {
    let tensor = Tensor::zeros(8, DType::U8, &Device::Cpu).ok()?;
    let lock = lock_of(&tensor);
    // SAFETY: if candle keeps the storage in an `Arc`, this is the `Arc`'s pointer. If not, only the
    // words before the lock are read, which are in the same block or in a neighbour.
    let owners = ManuallyDrop::new(unsafe { Arc::from_raw(lock) });
    if Arc::strong_count(&owners) != 1 || Arc::weak_count(&owners) != 0 {
        return Some(false);
    }
    let view = tensor.reshape((2, 4)).ok()?;
    let is_shared = Arc::strong_count(&owners) == 2 && lock_of(&view) == lock;
    drop(view);
    Some(is_shared && Arc::strong_count(&owners) == 1)
}

/// A weak reference to the tensor's storage; `None` where this version of candle has no such place.
pub(crate) fn downgrade(tensor: &Tensor) -> Option<usize> {
    if STATE.load(Ordering::Relaxed) != WORKS {
        return None;
    }
    // SAFETY: `try_once` found that storages are in an `Arc`, and the tensor is one of its owners.
    let owner = ManuallyDrop::new(unsafe { Arc::from_raw(lock_of(tensor)) });
    Some(Arc::downgrade(&owner).into_raw() as usize)
}

/// Whether the storage still has an owner. The last call gives the reference back.
pub(crate) fn is_alive(weak: usize, is_last: bool) -> bool {
    // SAFETY: the number is from `downgrade`, and no call follows the last one.
    let weak = ManuallyDrop::new(unsafe { Weak::from_raw(weak as *const RwLock<Storage>) });
    let is_alive = weak.strong_count() > 0;
    if is_last {
        drop(ManuallyDrop::into_inner(weak));
    }
    is_alive
}

/// The lock around the tensor's storage.
fn lock_of(tensor: &Tensor) -> *const RwLock<Storage> {
    let storage: *const Storage = &*tensor.storage_and_layout().0;
    let sample = RwLock::new(Storage::Cpu(CpuStorage::U8(Vec::new())));
    let offset = {
        let inside = sample.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        let inside: *const Storage = &*inside;
        inside as usize - std::ptr::addr_of!(sample) as usize
    };
    storage.cast::<u8>().wrapping_sub(offset).cast()
}

/// The same number for all tensors of a storage.
pub(crate) fn storage_of(tensor: &Tensor) -> u64 {
    std::ptr::addr_of!(*tensor.storage_and_layout().0) as u64
}
