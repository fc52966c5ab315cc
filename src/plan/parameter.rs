//! Which names a test's parameters may have.

/// Checks that every platform and shell accepts this name of a variable.
pub fn check_variable(name: &str) -> Result<(), String> {
    let fine = |character: char| character.is_ascii_alphanumeric() || character == '_';
    if name.is_empty() || !name.chars().all(fine) || name.starts_with(|first: char| first.is_ascii_digit()) {
        return Err(format!(
            "'{name}' cannot be the name of an environment variable: use letters, digits and `_`, and do not begin with a digit"
        ));
    }
    Ok(())
}

/// Words that have another meaning in a name template or a cell pattern.
const RESERVED: [&str; 4] = ["ref", "test", "package", "binary"];

/// Checks that a parameter may have this name: that of a variable, but no reserved word.
pub fn check_parameter(name: &str) -> Result<(), String> {
    check_variable(name)?;
    if RESERVED.contains(&name) {
        return Err(format!("a parameter cannot be named '{name}': the word is reserved"));
    }
    Ok(())
}
