//! What an executable's code can refer to: its data, and the names of its functions.

use object::{Object as _, ObjectSection as _};

/// Returns the content of an executable without its debug information, which names functions and files that
/// its code does not use. A file of an unknown format is returned whole.
pub fn texts(executable: &[u8]) -> Vec<u8> {
    let Ok(file) = object::File::parse(executable) else { return executable.to_vec() };
    let is_debug = |name: &str| [".debug", ".zdebug", "__debug"].iter().any(|word| name.starts_with(word));
    let mut texts = Vec::new();
    for section in file.sections() {
        let Ok(data) = section.data() else { return executable.to_vec() };
        if !section.name().is_ok_and(is_debug) {
            texts.extend_from_slice(data);
            // What ends one section and begins the next is not one text.
            texts.push(0);
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_and_names_of_functions_are_there_and_another_file_is_whole() {
        let own = fs_err::read(std::env::current_exe().unwrap()).unwrap();
        let found = texts(&own);
        let has = |text: &str| memchr::memmem::find(&found, text.as_bytes()).is_some();
        assert!(has("a text that only this test has") && has("data_and_names_of_functions_are_there"));
        assert_eq!(texts(b"#!/bin/sh"), b"#!/bin/sh");
    }
}
