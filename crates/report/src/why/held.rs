//! Who holds the memory, in lines: an owner each, and how much has one.

use std::fmt::Write as _;
use std::io::{self, Write};

use crate::markdown_text::{code_in_cell, escape};
use crate::page::{self, Page, Tone};
use crate::text::{difference, figure};
use memprof_judge::why::frame::Frame;
use memprof_judge::why::held::{HeldMemory, HeldSide, Owner, OwnerRoom};
use memprof_judge::why::room::Room;
use memprof_judge::why::roots::short_function;
use memprof_plan::metric::Unit;
use memprof_support::counted::grouped;
use memprof_support::labels::{one_line, padded, width};

/// Owners on a terminal and in markdown.
pub(crate) const MOST: usize = 3;
/// What is less than a hundredth of the largest is not shown there.
const LEAST: u64 = 100;

/// The owners that have room in a text.
pub(crate) fn shown(held: &HeldMemory) -> impl Iterator<Item = &Owner> {
    let largest = held.owners.first().map_or(0, |owner| owner.difference.unsigned_abs());
    held.owners.iter().take(MOST).filter(move |owner| owner.difference.unsigned_abs() >= largest / LEAST)
}

/// The bytes of an owner: the difference, or with one side its bytes.
pub(crate) fn amount(held: &HeldMemory, owner: &Owner) -> String {
    if held.sides.iter().all(Option::is_some) {
        difference(owner.difference.into(), Unit::Bytes)
    } else {
        figure(owner.difference, Unit::Bytes)
    }
}

/// `made at src/cache.rs:12 (Cache::new), from static CACHE`.
pub(crate) fn place(owner: &Owner) -> String {
    one_line(&format!("{}, {}", made(owner.made_at.as_ref()), owner.root.words())).into_owned()
}

fn made(at: Option<&Frame>) -> String {
    let Some(frame) = at else { return "made at an unknown place".to_owned() };
    let function = short_function(&frame.name());
    let made = match frame.location() {
        Some(location) => format!("made at {location} ({function})"),
        None => format!("made in {function}"),
    };
    one_line(&made).into_owned()
}

/// How much of the room is used: ` (28,000 of 50,360 used)`, or ` (27,000 to 28,000 of 50,360 used)`.
pub(crate) fn used(room: &OwnerRoom) -> String {
    let Some(Room { capacity, used: [least, most], .. }) = room.sides[1].or(room.sides[0]) else {
        return String::new();
    };
    let most_too = if least == most { String::new() } else { format!(" to {}", grouped(most.into())) };
    format!(" ({}{most_too} of {} used)", grouped(least.into()), grouped(capacity.into()))
}

/// The owner's name, with its room if an exact capacity would save much.
fn name(owner: &Owner) -> String {
    let own = owner.worst_room().filter(|room| room.is_own);
    format!("{}{}", one_line(&owner.name), own.map_or_else(String::new, used))
}

/// `in it: 1.92 MiB Vec<Posting> (28,000 of 50,360 used)  made at src/postings.rs:23 (Postings::push)`.
pub(crate) fn inside(room: &OwnerRoom) -> String {
    let bytes = room.sides[1].or(room.sides[0]).map_or(0, |of| of.bytes);
    let bytes = figure(i64::try_from(bytes).unwrap_or(i64::MAX), Unit::Bytes);
    let name = one_line(&room.name);
    format!("in it: {bytes} {name}{}, {}", used(room), made(room.made_at.as_ref()))
}

/// The room below the owner whose exact capacity would save much.
fn worst_inside(owner: &Owner) -> Option<String> {
    owner.worst_room().filter(|room| !room.is_own).map(inside)
}

/// What share of the bytes has an owner, and how many pointers are there by chance.
pub(crate) fn share(held: &HeldMemory) -> Option<String> {
    let share = |side: &HeldSide| {
        let percent = u128::from(side.reached) * 100 / u128::from(side.bytes.max(1));
        format!("{percent} %")
    };
    let newest = held.sides[1].or(held.sides[0])?;
    let baseline = match held.sides {
        [Some(old), Some(_)] => format!(" (baseline {})", share(&old)),
        _ => String::new(),
    };
    let [chance, pointers] = [newest.by_chance, newest.pointers].map(|count| grouped(count.into()));
    let of = share(&newest);
    Some(format!(
        "{of} of the bytes have an owner{baseline}; {chance} of {pointers} pointers expected by chance"
    ))
}

/// Whose bytes these are: `heap.peak at 'done'`.
pub(crate) fn heading(held: &HeldMemory) -> String {
    let (label, occurrence) = &held.checkpoint;
    let number = if *occurrence == 1 { String::new() } else { format!(" #{occurrence}") };
    format!("{} at '{}'{number}", held.metric, one_line(label))
}

/// Writes the owners below the call sites of a test.
pub(crate) fn write_text(
    held: &HeldMemory,
    is_named: bool,
    page: Page,
    out: &mut dyn Write,
) -> io::Result<()> {
    if is_named {
        page.line(&format!("{}:", heading(held)), "", Tone::Plain, out)?;
    }
    let owners: Vec<&Owner> = shown(held).collect();
    let amounts: Vec<String> = owners.iter().map(|owner| amount(held, owner)).collect();
    let widest = amounts.iter().map(|amount| width(amount)).max().unwrap_or(0);
    let names = owners.iter().map(|owner| width(&name(owner))).max().unwrap_or(0);
    let is_alone = held.sides.iter().any(Option::is_none);
    for (index, (owner, amount)) in owners.iter().zip(&amounts).enumerate() {
        let start = if index == 0 { "held: " } else { "      " };
        let tone = if is_alone { Tone::Plain } else { page::tone_of(owner.difference.into()) };
        let amount = page.paint.apply(&format!("{amount:>widest$}"), tone);
        let (name, place) = (name(owner), place(owner));
        let before = width(start) + widest + 2;
        if !page.is_terminal() || before + names + 2 + width(&place) <= page.width() {
            writeln!(out, "{start}{amount}  {}  {place}", padded(&name, names))?;
        } else {
            writeln!(out, "{start}{amount}  {name}")?;
            page.line(&place, &" ".repeat(before + 2), Tone::Plain, out)?;
        }
        match worst_inside(owner) {
            Some(inside) if page.is_terminal() => {
                page.line(&inside, &" ".repeat(before + 2), Tone::Plain, out)?;
            }
            Some(inside) => writeln!(out, "{}{inside}", " ".repeat(before + 2))?,
            None => {}
        }
    }
    let remarks = share(held).into_iter().chain(held.remarks.iter().map(|text| one_line(text).into_owned()));
    let start = if owners.is_empty() { "held: " } else { "      " };
    remarks.into_iter().try_for_each(|remark| page.line(&remark, start, Tone::Quiet, out))
}

/// Returns the owners as a table.
pub(crate) fn markdown(held: &HeldMemory) -> String {
    let sign = if held.sides.iter().all(Option::is_some) { "Δ " } else { "" };
    let mut text = format!("\n| {sign}{} | held by | |\n|---:|---|---|\n", escape(&heading(held)));
    for owner in shown(held) {
        let own = owner.worst_room().filter(|room| room.is_own).map_or_else(String::new, used);
        let name = format!("{}{own}", code_in_cell(&one_line(&owner.name)));
        let place: Vec<String> = std::iter::once(place(owner)).chain(worst_inside(owner)).collect();
        let place = escape(&place.join("; "));
        _ = writeln!(text, "| {} | {name} | {place} |", escape(&amount(held, owner)));
    }
    for remark in share(held).iter().chain(&held.remarks) {
        _ = writeln!(text, "\n{}", escape(&one_line(remark)));
    }
    text
}
