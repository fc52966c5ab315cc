//! What a parameter of a test may be called.

/// Whether this can be the name of a variable that every platform and shell takes.
pub fn check_variable(name: &str) -> Result<(), String> {
    let fine = |character: char| character.is_ascii_alphanumeric() || character == '_';
    if name.is_empty() || !name.chars().all(fine) || name.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(format!("'{name}' cannot be the name of an environment variable"));
    }
    Ok(())
}

/// The words that stand for something else in a name template or a cell pattern.
const RESERVED: [&str; 4] = ["ref", "test", "package", "binary"];

/// Whether this can be the name of a parameter: that of a variable, and none of the reserved words.
pub fn check_parameter(name: &str) -> Result<(), String> {
    check_variable(name)?;
    if RESERVED.contains(&name) {
        return Err(format!("a parameter cannot be named '{name}': that word has a meaning of its own"));
    }
    Ok(())
}
