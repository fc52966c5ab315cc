//! What the bytes of a function for x86-64 say without being taken apart: whether it may loop, and where instructions end.

/// Whether the field of an instruction is of `lea`, which has an address as its result.
pub(super) fn is_lea(code: &[u8], field: usize) -> bool {
    field.checked_sub(2).and_then(|at| code.get(at)) == Some(&0x8d)
}

/// Whether a function may jump back. Bytes that only look like such a jump count, too.
pub(super) fn may_loop(code: &[u8]) -> bool {
    let is_inside = |end: usize, distance: i64| {
        distance < 0 && usize::try_from(distance.unsigned_abs()).is_ok_and(|distance| distance <= end)
    };
    let is_long = |field: usize| {
        let distance = code.get(field..field + 4).and_then(|bytes| bytes.try_into().ok());
        distance.is_some_and(|bytes| is_inside(field + 4, i32::from_le_bytes(bytes).into()))
    };
    code.windows(2).enumerate().any(|(at, pair)| match pair {
        [0x70..=0x7f | 0xe0..=0xe3 | 0xeb, distance] => is_inside(at + 2, distance.cast_signed().into()),
        [0x0f, 0x80..=0x8f] => is_long(at + 2),
        [0xe9, _] => is_long(at + 1),
        // A table of jumps.
        [0xff, more] => more & 0x38 == 0x20,
        _ => false,
    })
}

/// Returns how many bytes an instruction may have after a field of four bytes, from whose end the processor counts.
/// That is the length of a constant.
pub(super) fn after_field(code: &[u8], field: usize) -> &'static [u64] {
    // `lea` and `mov` between a register and memory have none, and neither have calls and jumps.
    const WITHOUT: [u8; 5] = [0x8d, 0x8b, 0x89, 0x8a, 0x88];
    let byte =
        |before: usize| field.checked_sub(before).and_then(|at| code.get(at)).copied().unwrap_or_default();
    let is_memory = byte(1) & 0xc7 == 0x05;
    let is_jump = [0xe8, 0xe9].contains(&byte(1)) || byte(2) == 0x0f && byte(1) & 0xf0 == 0x80;
    if is_jump || is_memory && WITHOUT.contains(&byte(2)) { &[0] } else { &[0, 1, 2, 4] }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instruction_without_a_constant_ends_with_its_field() {
        let after = |code: &[u8]| after_field(code, code.len());
        assert_eq!(after(&[0x48, 0x8d, 0x05]), [0], "lea rax, [rip]");
        assert_eq!(after(&[0x44, 0x8b, 0x3d]), [0], "mov r15d, [rip]");
        assert_eq!(after(&[0xe8]), [0], "call");
        assert_eq!(after(&[0x0f, 0x84]), [0], "je");
        assert_eq!(after(&[0x80, 0x3d]), [0, 1, 2, 4], "cmp byte ptr [rip], 1");
        assert_eq!(after(&[0x8d, 0x45]), [0, 1, 2, 4], "no address from the instruction's own");
    }

    #[test]
    fn a_function_loops_if_it_may_jump_back() {
        assert!(may_loop(&[0x90, 0x75, 0xfd]), "jne to its start");
        assert!(!may_loop(&[0x90, 0x75, 0xfc]), "before it");
        assert!(!may_loop(&[0x75, 0x01, 0x90, 0xc3]), "forwards");
        assert!(may_loop(&[0x0f, 0x84, 0xfa, 0xff, 0xff, 0xff]), "je");
        assert!(may_loop(&[0x90, 0xe9, 0xfa, 0xff, 0xff, 0xff]), "jmp");
        assert!(may_loop(&[0xff, 0xe0]), "jmp rax");
        assert!(!may_loop(&[0xe8, 0xf0, 0xff, 0xff, 0xff, 0xc3]), "call");
    }
}
