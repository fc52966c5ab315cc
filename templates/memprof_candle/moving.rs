//! Moves the weights of a `VarMap` to the CPU and back, for `memprof::courtesy()`.

use std::sync::{Arc, Mutex, PoisonError};

use candle_core::backend::{BackendDevice, BackendStorage};
use candle_core::{CpuStorage, CudaStorage, DType, Error, InplaceOp1, Layout, MetalStorage, Result, Tensor};
use candle_nn::VarMap;
use memprof::Movable;

/// Registers the variables of a map on CUDA devices, as they are now, until the guard is dropped: if
/// the CUDA driver cannot move the process's memory, `memprof::courtesy()` moves them. Layers that
/// share the variables' storage need nothing else. No operation may use them until they are back:
/// their storage has no data, and is of another type.
///
/// Gradients, activations and an optimizer's state stay on the device.
pub fn courtesy(variables: &VarMap) -> Movable {
    let variables = variables.data().lock().unwrap_or_else(PoisonError::into_inner);
    let moves: Vec<(Tensor, Move)> =
        variables.values().map(|variable| (variable.as_tensor().clone(), Move(Mutex::new(None)))).collect();
    drop(variables);
    let away = Arc::new(moves);
    let back = Arc::clone(&away);
    memprof::movable("the VarMap", move || all_away(&away), move || all_back(&back))
}

/// One failure brings all back that moved before.
fn all_away(moves: &[(Tensor, Move)]) -> std::result::Result<u64, String> {
    let mut bytes = 0;
    for (tensor, one) in moves.iter().filter(|(tensor, _)| tensor.device().is_cuda()) {
        if let Err(error) = tensor.inplace_op1(one) {
            let undone = all_back(moves).err().map_or_else(String::new, |why| format!(", and then {why}"));
            return Err(format!("{error}{undone}"));
        }
        bytes += tensor.elem_count() as u64 * tensor.dtype().size_in_bytes() as u64;
    }
    memprof::trim();
    Ok(bytes)
}

fn all_back(moves: &[(Tensor, Move)]) -> std::result::Result<(), String> {
    for (tensor, one) in moves.iter().filter(|(_, one)| one.is_away()) {
        tensor.inplace_op1(one).map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// A tensor's data while it is away.
struct Move(Mutex<Option<CpuStorage>>);

impl Move {
    fn is_away(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Moves what is here away, and what is away back. An error leaves it where it is.
    fn turn<S: BackendStorage>(&self, storage: &mut S) -> Result<()>
    where
        S::Device: BackendDevice<Storage = S>,
    {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(copy) = kept.as_ref() {
            *storage = storage.device().storage_from_cpu_storage(copy)?;
            *kept = None;
            return Ok(());
        }
        let copy = storage.to_cpu_storage()?;
        // Of another type, so that most operations are refused, and no result can be read as the
        // tensor's own type.
        let is_bytes = storage.dtype() == DType::U8;
        let nothing = if is_bytes { CpuStorage::U32(vec![0]) } else { CpuStorage::U8(vec![0]) };
        *storage = storage.device().storage_from_cpu_storage(&nothing)?;
        *kept = Some(copy);
        Ok(())
    }
}

impl InplaceOp1 for Move {
    fn name(&self) -> &'static str {
        "memprof-courtesy"
    }

    fn cpu_fwd(&self, storage: &mut CpuStorage, _layout: &Layout) -> Result<()> {
        self.turn(storage)
    }

    fn cuda_fwd(&self, storage: &mut CudaStorage, _layout: &Layout) -> Result<()> {
        self.turn(storage)
    }

    fn metal_fwd(&self, _storage: &mut MetalStorage, _layout: &Layout) -> Result<()> {
        Err(Error::Msg("memory on Metal devices is not moved".to_owned()))
    }
}
