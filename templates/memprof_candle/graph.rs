//! What backpropagation keeps: the tensors of a loss's graph, and their gradients.

use std::fmt::Write;

use candle_core::backprop::GradStore;
use candle_core::{Result, Tensor, TensorId};
use memprof::{Kind, Names};

use crate::text::Text;
use crate::weak::storage_of;

/// Names all tensors that the loss keeps for the backward pass, whatever made them. One call names
/// the activations of a whole model.
///
/// The output of a [`layer`](crate::layer) has the layer's name. Its other tensors are `mlp.0/2`,
/// by their order in the layer. A tensor made outside all layers is `after mlp.0/1`, or `graph/1`
/// if there is no layer before it. Variables, views of them, and tensors without a gradient are not
/// among these.
pub fn activations(loss: &Tensor) -> Names {
    let mut names = Names::new();
    let mut nodes = loss.sorted_nodes();
    let variables: Vec<u64> =
        nodes.iter().filter(|node| node.is_variable()).map(|node| storage_of(node)).collect();
    nodes.retain(|node| !node.is_variable() && !variables.contains(&storage_of(node)));
    nodes.sort_unstable_by_key(|node| number(node.id()));
    let first = nodes.first().map_or(0, |node| number(node.id()));
    for node in nodes {
        let name = name(number(node.id()), first);
        crate::add(&mut names, name.as_str(), Kind::Activation, node);
    }
    names
}

/// Runs the backward pass as a scope named `backward`, and names the gradients that remain and are
/// not a variable's: `input/1` for a tensor made outside all layers. candle frees the gradients of other activations
/// during the pass; they are in the scope's peak. candle does not tell which layer it is at.
///
/// # Errors
///
/// Those of `loss.backward()`.
#[track_caller]
pub fn backward(loss: &Tensor) -> Result<(GradStore, Names)> {
    let (gradients, _) = memprof::measure("backward", || loss.backward());
    let gradients = gradients?;
    let mut names = Names::new();
    if memprof::is_measuring() {
        add_intermediate(&mut names, loss, &gradients);
    }
    Ok((gradients, names))
}

fn add_intermediate(names: &mut Names, loss: &Tensor, gradients: &GradStore) {
    let nodes = loss.sorted_nodes();
    let variables: Vec<TensorId> =
        nodes.iter().filter(|node| node.is_variable()).map(|node| node.id()).collect();
    let mut rest: Vec<(u64, &Tensor)> = gradients
        .get_ids()
        .filter(|id| !variables.contains(id))
        .filter_map(|id| Some((number(*id), gradients.get_id(*id)?)))
        .collect();
    rest.sort_unstable_by_key(|(number, _)| *number);
    let mut inputs = 0;
    for (number, gradient) in rest {
        let name = match memprof::origin(number) {
            Some(origin) if origin.is_inside => name(number, 0),
            _ => {
                inputs += 1;
                Text::format(format_args!("input/{inputs}"))
            }
        };
        crate::add(names, name.as_str(), Kind::IntermediateGradient, gradient);
    }
}

fn name(number: u64, first: u64) -> Text<512> {
    match memprof::origin(number) {
        Some(origin) if origin.is_output => Text::format(format_args!("{}", origin.layer)),
        Some(origin) if origin.is_inside => Text::format(format_args!("{}/{}", origin.layer, origin.offset)),
        Some(origin) => Text::format(format_args!("after {}/{}", origin.layer, origin.offset)),
        None => Text::format(format_args!("graph/{}", number - first + 1)),
    }
}

/// The number of a tensor, which grows with each tensor. candle shows it only in its debug text.
pub(crate) fn number(id: TensorId) -> u64 {
    let mut text = Text::<64>::new();
    // A text that does not fit has no number either.
    let _ = write!(text, "{id:?}");
    let digits = text.as_str().bytes().filter(u8::is_ascii_digit);
    digits.fold(0, |number, digit| number * 10 + u64::from(digit - b'0'))
}
