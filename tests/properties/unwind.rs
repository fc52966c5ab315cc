//! Unwind tables that are kept beside executables, where a test can write.

use memprof_judge::symbols::unwind_table::UnwindTable;

use super::Target;

pub const TARGET: Target = Target {
    name: "unwind",
    check,
    seeds,
    words: &["MPUNWND1", "\0\0\0\0", "\x01\0\0\0", "\x7f\x7f\x7f\x7f"],
};

/// A table that is accepted has exactly the bytes that it writes, and answers for every address.
pub fn check(bytes: &[u8]) {
    let Ok(table) = UnwindTable::from_bytes(bytes) else { return };
    assert_eq!(UnwindTable::from_bytes(&table.to_bytes()), Ok(table.clone()));
    let (lowest, end) = table.covered();
    assert!(lowest <= end, "{lowest}..{end}");
    for address in [0, lowest, end, end.wrapping_add(1), u64::MAX] {
        table.rule_at(address);
    }
    // The last row is the end.
    assert!(table.rows().all(|(address, _)| (lowest..=end).contains(&address)));
}

fn seeds() -> Vec<Vec<u8>> {
    let table = |rows: &[u32]| {
        let mut bytes = b"MPUNWND1".to_vec();
        bytes.extend(u32::try_from(rows.len()).expect("few").to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(0x1000_u64.to_le_bytes());
        bytes.extend(0x2000_u64.to_le_bytes());
        bytes.extend([7; 32]);
        bytes.extend(rows.iter().flat_map(|row| row.to_le_bytes()));
        bytes.extend(rows.iter().flat_map(|_| [0; 4]));
        bytes
    };
    vec![table(&[]), table(&[0, 16]), table(&[0, 0x1000]), table(&[0, 16, 0x1000])]
}
