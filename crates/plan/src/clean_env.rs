//! Which variables of this process reach builds and tests with `--clean-env`.

use serde::{Deserialize, Serialize};

use memprof_support::{glob, redaction, secret_names};

/// Builds and tests inherit only known variables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct CleanEnv {
    /// More variables to keep, with `*` for any text.
    pub keep: Vec<String>,
}

/// A program that inherits variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Child {
    /// Cargo or rustc.
    Build,
    /// A test, while it is listed or run.
    Test,
}

/// What builds and tests need, with `*` for any text.
const KNOWN: [&str; 69] = [
    // The user and the system
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_*",
    "TZ",
    "TMPDIR",
    "TERM",
    "XDG_*",
    "CI",
    "SOURCE_DATE_EPOCH",
    "SSL_CERT_*",
    // Cargo, rustc, and this tool
    "CARGO",
    "CARGO_*",
    "RUSTUP_*",
    "RUST_*",
    "RUSTC",
    "RUSTC_*",
    "RUSTFLAGS",
    "RUSTDOCFLAGS",
    "RUSTDOC",
    "MEMPROF_*",
    // Compilers, linkers, and where they look
    "CC",
    "CC_*",
    "CXX",
    "CXX_*",
    "LD",
    "LD_*",
    "AR",
    "AR_*",
    "RANLIB",
    "RANLIB_*",
    "NM",
    "STRIP",
    "CFLAGS",
    "CFLAGS_*",
    "CXXFLAGS",
    "CXXFLAGS_*",
    "CPPFLAGS",
    "LDFLAGS",
    "ARFLAGS",
    "HOST_*",
    "TARGET_*",
    "CRATE_CC_*",
    "MAKEFLAGS",
    "NUM_JOBS",
    "CMAKE*",
    "PKG_CONFIG*",
    "*_PKG_CONFIG*",
    "LIBRARY_PATH",
    "CPATH",
    "C_INCLUDE_PATH",
    "CPLUS_INCLUDE_PATH",
    "DYLD_*",
    "LIBCLANG_PATH",
    "BINDGEN_*",
    "OPENSSL_*",
    "LIBTORCH*",
    "PROTOC*",
    "SDKROOT",
    "DEVELOPER_DIR",
    "MACOSX_DEPLOYMENT_TARGET",
    // GPUs
    "CUDA*",
    "NVIDIA_*",
    // What decides how much memory a test uses
    "GLIBC_TUNABLES",
    "MALLOC_*",
];

/// The number of threads decides how much memory a test uses, too.
const THREADS: [&str; 5] =
    ["RAYON_NUM_THREADS", "OMP_*", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TOKIO_WORKER_THREADS"];

/// Cargo downloads through these. Tests do not see them.
const PROXIES: [&str; 4] = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];

impl CleanEnv {
    /// Whether a variable reaches the child.
    ///
    /// A variable that holds a secret does so only if the user keeps it. Secrets are recognized by
    /// name and by value.
    pub fn passes(&self, child: Child, name: &str, value: &str) -> bool {
        if self.keep.iter().any(|pattern| glob::matches(pattern, name)) {
            return true;
        }
        is_known(child, name)
            && !secret_names::is_secret(name)
            && matches!(redaction::setting(value), std::borrow::Cow::Borrowed(_))
    }

    /// Returns the names of those variables that tests do not get, sorted.
    pub fn removed(&self, variables: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
        let removed = variables.into_iter().filter(|(name, value)| !self.passes(Child::Test, name, value));
        let mut names: Vec<String> = removed.map(|(name, _)| name).collect();
        names.sort();
        names
    }

    /// Returns the names of known variables that are removed because they hold a secret, sorted.
    /// The user may miss them.
    pub fn withheld(&self, variables: impl IntoIterator<Item = (String, String)>) -> Vec<String> {
        let is_withheld = |(name, value): &(String, String)| {
            is_known(Child::Build, name)
                && !secret_names::is_secret(name)
                && !self.passes(Child::Build, name, value)
        };
        let mut names: Vec<String> =
            variables.into_iter().filter(is_withheld).map(|(name, _)| name).collect();
        names.sort();
        names
    }
}

fn is_known(child: Child, name: &str) -> bool {
    let is_proxy = PROXIES.contains(&name.to_uppercase().as_str());
    (is_proxy && child == Child::Build)
        || KNOWN.iter().chain(&THREADS).any(|pattern| glob::matches(pattern, name))
}

/// Returns the variables of this process. Bytes that are not UTF-8 are replaced.
pub fn own_variables() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os()
        .map(|(name, value)| (name.to_string_lossy().into_owned(), value.to_string_lossy().into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn what_builds_need_passes_and_secrets_do_not() {
        let clean = CleanEnv::default();
        let passes = |name: &str, value: &str| clean.passes(Child::Build, name, value);
        for name in [
            "PATH",
            "HOME",
            "LC_ALL",
            "CARGO_HOME",
            "CARGO_PROFILE_DEV_DEBUG",
            "CARGO_MEMPROF_HOME",
            "RUSTFLAGS",
            "CC_x86_64_unknown_linux_gnu",
            "LD_LIBRARY_PATH",
            "CUDA_VISIBLE_DEVICES",
            "CARGO_REGISTRIES_MY_INDEX",
        ] {
            assert!(passes(name, "1"), "{name}");
        }
        for name in [
            "GITHUB_TOKEN",
            "GITHUB_ENV",
            "ACTIONS_RUNTIME_URL",
            "CARGO_REGISTRY_TOKEN",
            "CARGO_REGISTRIES_MY_TOKEN",
            "AWS_PROFILE",
            "SSH_AUTH_SOCK",
            "DATABASE_URL",
        ] {
            assert!(!passes(name, "abc"), "{name}");
        }
        assert!(!passes("RUSTFLAGS", "--cfg my_token=\"abc\""));
    }

    #[test]
    fn a_proxy_reaches_cargo_without_a_password_and_never_a_test() {
        let clean = CleanEnv::default();
        let plain = "http://proxy.example.com:80";
        assert!(clean.passes(Child::Build, "https_proxy", plain));
        assert!(!clean.passes(Child::Test, "https_proxy", plain));
        assert!(!clean.passes(Child::Build, "HTTPS_PROXY", "http://me:pass@proxy.example.com"));
    }

    #[test]
    fn what_the_user_keeps_passes_whatever_it_is() {
        let clean = CleanEnv { keep: vec!["MODEL_*".into(), "HF_TOKEN".into()] };
        assert!(clean.passes(Child::Test, "MODEL_DIR", "/models"));
        assert!(clean.passes(Child::Test, "HF_TOKEN", "abc"));
        assert!(!clean.passes(Child::Test, "OTHER", "1"));
    }

    #[test]
    fn what_is_removed_and_what_is_withheld_is_named() {
        let all = variables(&[
            ("PATH", "/bin"),
            ("Z_TOKEN", "abc"),
            ("EDITOR", "vi"),
            ("HTTPS_PROXY", "http://me:pass@proxy.example.com"),
            ("RUSTFLAGS", "--cfg my_token=\"abc\""),
        ]);
        let clean = CleanEnv::default();
        assert_eq!(clean.removed(all.clone()), ["EDITOR", "HTTPS_PROXY", "RUSTFLAGS", "Z_TOKEN"]);
        assert_eq!(clean.withheld(all), ["HTTPS_PROXY", "RUSTFLAGS"]);
    }
}
