//! The machine that an archive is for.

/// The systems that triples name, if they name them like this.
const SYSTEMS: [&str; 8] =
    ["linux", "darwin", "freebsd", "netbsd", "openbsd", "dragonfly", "illumos", "solaris"];

/// Returns architecture and system of a target triple, named as in [`std::env::consts`].
pub(crate) fn machine(target: &str) -> (&str, &str) {
    let mut parts = target.split('-');
    // The vendor is in front of the system, and may have any name: `x86_64-alpine-linux-musl`.
    let known = parts.clone().skip(1).find(|part| SYSTEMS.contains(part));
    let architecture = match parts.next().unwrap_or_default() {
        "i386" | "i486" | "i586" | "i686" => "x86",
        arm if arm.starts_with("arm") && !arm.starts_with("arm64") || arm.starts_with("thumb") => "arm",
        riscv if riscv.starts_with("riscv64") => "riscv64",
        "powerpc64le" => "powerpc64",
        same => same,
    };
    let system = match known.or_else(|| parts.find(|part| !["unknown", "pc", "apple"].contains(part))) {
        Some("darwin") => "macos",
        system => system.unwrap_or_default(),
    };
    (architecture, system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn triples_are_translated_to_the_standard_librarys_names() {
        assert_eq!(machine("x86_64-unknown-linux-musl"), ("x86_64", "linux"));
        assert_eq!(machine("i686-unknown-linux-gnu"), ("x86", "linux"));
        assert_eq!(machine("x86_64-alpine-linux-musl"), ("x86_64", "linux"));
        assert_eq!(machine("aarch64-apple-darwin"), ("aarch64", "macos"));
        assert_eq!(machine("armv7-unknown-linux-gnueabihf"), ("arm", "linux"));
        assert_eq!(machine("riscv64gc-unknown-linux-gnu"), ("riscv64", "linux"));
    }
}
