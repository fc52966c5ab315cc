//! Which variables and settings hold a secret, by their names.

/// A word that ends like one of these names a secret: `PGPASSWORD`, `GITHUB_TOKEN`, `OAUTH`.
const ENDINGS: [&str; 10] = [
    "TOKEN",
    "SECRET",
    "SECRETS",
    "PASSWORD",
    "PASSWD",
    "PASSPHRASE",
    "CREDENTIAL",
    "CREDENTIALS",
    "APIKEY",
    "AUTH",
];

/// Words that name a secret only as a whole word.
const WORDS: [&str; 5] = ["AUTHORIZATION", "COOKIE", "COOKIES", "OAUTH2", "SESSION"];

/// What kind of key is a secret: `API_KEY`, but not `CACHE_KEY`.
const KINDS_OF_KEY: [&str; 8] =
    ["API", "ACCESS", "PRIVATE", "SIGNING", "ENCRYPTION", "DEPLOY", "ACCOUNT", "SSH"];

/// Names that look like a secret's and are none, with `*` for any text.
const HARMLESS: [&str; 8] = [
    "SSH_AUTH_SOCK",
    "XDG_*",
    "DESKTOP_SESSION",
    "DBUS_SESSION_BUS_ADDRESS",
    "SESSION_MANAGER",
    "TERM_SESSION_ID",
    "CARGO_*CREDENTIAL_PROVIDER*",
    "CARGO_PKG_*",
];

/// Whether a variable or setting of this name holds a secret: `GITHUB_TOKEN`, `registry.token`,
/// `npm_config__authToken`.
pub fn is_secret(name: &str) -> bool {
    if HARMLESS.iter().any(|pattern| crate::glob::matches(pattern, name)) {
        return false;
    }
    let words = words(name);
    let is_secret_word =
        |word: &String| WORDS.contains(&word.as_str()) || ENDINGS.iter().any(|ending| word.ends_with(ending));
    let is_key = |pair: &[String]| pair[1] == "KEY" && KINDS_OF_KEY.contains(&pair[0].as_str());
    // `PWD` alone is the current folder, and `PAT` alone may be a pattern.
    let ends_in = |last: &str| words.len() > 1 && words.last().is_some_and(|word| word == last);
    words.iter().any(is_secret_word)
        || words.windows(2).any(is_key)
        || (ends_in("PWD") && name != "OLD_PWD")
        || ends_in("PAT")
}

/// Whether a value is too plain to be a secret, whatever its name: `AUTH=1`, `SESSION=false`.
pub(crate) fn is_plain(value: &str) -> bool {
    ["", "0", "1", "true", "false", "yes", "no", "on", "off"].contains(&value.to_lowercase().as_str())
}

/// Splits at everything but letters and digits, and between a small and a capital letter.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_small = false;
    for character in name.chars() {
        if !character.is_ascii_alphanumeric() || (was_small && character.is_ascii_uppercase()) {
            words.push(String::new());
        }
        if character.is_ascii_alphanumeric() {
            words.last_mut().expect("there is one").push(character.to_ascii_uppercase());
        }
        was_small = character.is_ascii_lowercase();
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_recognized_in_every_spelling() {
        for name in [
            "GITHUB_TOKEN",
            "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
            "CARGO_REGISTRIES_MY_TOKEN",
            "registries.my.token",
            "npm_config__authToken",
            "PGPASSWORD",
            "MYSQL_PWD",
            "DB_PASSWD",
            "KEY_PASSPHRASE",
            "AWS_SECRET_ACCESS_KEY",
            "AWS_ACCESS_KEY_ID",
            "GOOGLE_APPLICATION_CREDENTIALS",
            "OPENAI_API_KEY",
            "OPENAI_APIKEY",
            "DEPLOY_PRIVATE_KEY",
            "HTTP_AUTH",
            "SESSION_COOKIE",
            "GH_PAT",
            "env.API_TOKEN",
            "token",
        ] {
            assert!(is_secret(name), "{name}");
        }
    }

    #[test]
    fn names_that_only_look_alike_are_not() {
        for name in [
            "CUDA_CACHE_KEY",
            "AUTHOR",
            "GIT_AUTHOR_NAME",
            "CARGO_PKG_AUTHORS",
            "TOKENIZERS_PARALLELISM",
            "MAX_TOKENS",
            "PWD",
            "OLDPWD",
            "SSH_AUTH_SOCK",
            "XDG_SESSION_ID",
            "DBUS_SESSION_BUS_ADDRESS",
            "PATTERN",
            "KEYBOARD",
            "batch",
            "RUSTFLAGS",
            "CARGO_REGISTRIES_MY_CREDENTIAL_PROVIDER",
        ] {
            assert!(!is_secret(name), "{name}");
        }
        assert!(is_plain("1") && is_plain("False") && !is_plain("hunter2"));
    }
}
