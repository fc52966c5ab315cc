//! Calls whose thread is followed: their figures of the heap are what the thread itself did.

// The difference of two figures is taken modulo 2^64 and read as signed.
#![allow(clippy::cast_possible_wrap)]

use crate::blocks::own_thread::OwnFigures;
use crate::lines::calls::{Calls, Frame, Slot};
use crate::lines::traced_function::NONE;

impl Frame {
    /// Whether a slot has what the call's thread did itself, and not what the whole process did.
    pub(crate) fn is_by_thread(&self, slot: &Slot) -> bool {
        self.own.is_some() && slot.is_of_heap()
    }

    /// How much a slot of the call's thread grew, and its peak above that.
    pub(crate) fn of_thread(&self, slot: &Slot, own: Option<OwnFigures>) -> Option<(i64, u64)> {
        let (began, now) = (self.own?, own?);
        Some(match slot.name {
            "heap.allocated" => (now.bytes.wrapping_sub(began.bytes) as i64, 0),
            "heap.count" => (now.blocks.wrapping_sub(began.blocks) as i64, 0),
            _ => {
                let above = self.own_peak.saturating_sub(began.level.max(now.level));
                (now.level - began.level, above.max(0) as u64)
            }
        })
    }
}

impl Calls {
    /// The thread's level reached `own.peak` while this was its innermost call.
    pub(crate) fn note_peak(&mut self, frame: u32, own: Option<OwnFigures>) {
        if let (true, Some(own)) = (frame != NONE, own) {
            let frame = self.frame_mut(frame);
            frame.own_peak = frame.own_peak.max(own.peak);
        }
    }

    /// Tells a call that ends the highest level in it. Returns the call directly inside of it that is still
    /// open, if it ends before that one, as spans may.
    pub(crate) fn note_peaks(&mut self, frame: u32, innermost: u32, own: Option<OwnFigures>) -> Option<u32> {
        self.note_peak(innermost, own);
        let (mut inside, mut peak) = (innermost, i64::MIN);
        // As in `open_above`, the way may be that of another call.
        for _ in 0..self.frames() {
            if inside == NONE || inside == frame {
                break;
            }
            let Frame { caller, own_peak, .. } = *self.frame(inside);
            peak = peak.max(own_peak);
            if caller == frame {
                self.note_peak(frame, own.map(|own| OwnFigures { peak, ..own }));
                return Some(inside);
            }
            inside = caller;
        }
        None
    }
}
