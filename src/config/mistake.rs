//! What is wrong in a TOML file: where, and what was probably meant. The file's own text is not repeated, so that a secret
//! that was pasted into it stays there.

use std::fmt::Write;
use toml::Table;

/// A reader's error with its place and, for a name that is not known, the nearest that is.
pub(super) fn explain(text: &str, error: &toml::de::Error) -> String {
    let message = error.message().trim();
    let place = error
        .span()
        .filter(|span| span.start <= text.len())
        .map(|span| line_and_column(text, span.start));
    if message.starts_with("missing field") {
        return match place {
            Some((line, _)) if line > 1 => format!("{message} in the section at line {line}"),
            _ => format!("{message} at the top of the file"),
        };
    }
    let mut said = match place {
        Some((line, column)) => format!("line {line}, column {column}: {}", plain(message)),
        None => plain(message),
    };
    if let Some(hint) = hint(message) {
        let _ = write!(said, ". {hint}");
    }
    said
}

/// The reader's words where they are a programmer's.
fn plain(message: &str) -> String {
    if message.starts_with("invalid boolean") {
        return "a number, `true`, `false` or a text in quotation marks is needed".to_owned();
    }
    if message.starts_with("invalid socket address") {
        return "an IP address and a port are needed, such as \"192.0.2.10:4433\"; names are not looked up"
            .to_owned();
    }
    for (types, needed) in [
        (
            &["u8", "u16", "u32", "u64", "usize"][..],
            "a whole number, 0 or more",
        ),
        (&["f32", "f64"], "a number"),
        (&["a boolean"], "`true` or `false`"),
        (&["a string", "path string"], "a text in quotation marks"),
    ] {
        let found = types
            .iter()
            .find_map(|name| message.strip_suffix(&format!(", expected {name}")));
        if let Some(got) = found {
            return format!("{got}, where {needed} is needed");
        }
    }
    message.to_owned()
}

/// Line and column of a byte, both from 1; columns are characters.
pub(super) fn line_and_column(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or("").chars().count() + 1;
    (line, column)
}

/// What was probably meant by an unknown name.
fn hint(message: &str) -> Option<String> {
    let unknown = message.starts_with("unknown field") || message.starts_with("unknown variant");
    let mut quoted = message.split('`').skip(1).step_by(2);
    let got = quoted.next().filter(|_| unknown)?;
    let names: Vec<&str> = quoted.collect();
    if let Some(near) = nearest(got, names.iter().copied()) {
        return Some(format!("Did you mean `{near}`?"));
    }
    // `policy` is at the top of both files, `listen` of the server's alone.
    let top = names.contains(&"policy");
    let server = names.contains(&"listen");
    for (file, sample) in [("server.toml", SERVER), ("client.toml", CLIENT)] {
        let own = !top || server == (file == "server.toml");
        match home(got, sample) {
            Some(home) if own && home.is_empty() => {
                return Some(format!(
                    "`{got}` belongs at the top of the file, before the first [section]"
                ));
            }
            Some(home) if own => return Some(format!("`{got}` belongs under [{home}]")),
            Some(home) if home.is_empty() => {
                return Some(format!("`{got}` is a key of a {file}; is this the right file?"));
            }
            _ => {}
        }
    }
    None
}

/// The nearest of some names, if it is near enough to be a slip: one edit in short names, one in three letters in long ones.
fn nearest<'a>(got: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    names
        .map(|name| (strsim::osa_distance(got, name), name))
        .min()
        .filter(|(edits, name)| *edits <= (name.chars().count() / 3).max(1))
        .map(|(_, name)| name)
}

/// The section in which a sample file has a key: `""` for the top.
fn home(key: &str, sample: &str) -> Option<String> {
    let sample: Table = toml::from_str(sample).ok()?;
    if sample.contains_key(key) {
        return Some(String::new());
    }
    sample
        .into_iter()
        .find(|(_, section)| {
            section
                .as_table()
                .is_some_and(|section| section.contains_key(key))
        })
        .map(|(name, _)| name)
}

const SERVER: &str = include_str!("../../configs/server.toml");
const CLIENT: &str = include_str!("../../configs/client.toml");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ClientConfig, ServerConfig};

    fn server(old: &str, new: &str) -> String {
        assert!(SERVER.contains(old), "{old}");
        let text = SERVER.replacen(old, new, 1);
        explain(&text, &toml::from_str::<ServerConfig>(&text).unwrap_err())
    }

    fn client(old: &str, new: &str) -> String {
        assert!(CLIENT.contains(old), "{old}");
        let text = CLIENT.replacen(old, new, 1);
        explain(&text, &toml::from_str::<ClientConfig>(&text).unwrap_err())
    }

    #[test]
    fn a_slip_is_named_with_its_line_and_the_right_spelling() {
        let said = server("attempts = 3", "atempts = 3");
        assert!(
            said.starts_with("line 26, column 1: unknown field `atempts`"),
            "{said}"
        );
        assert!(said.ends_with("Did you mean `attempts`?"), "{said}");
        let said = client("[training]", "[trainnig]");
        assert!(said.ends_with("Did you mean `training`?"), "{said}");
        let said = client("kind = \"depth\"", "kind = \"dpeth\"");
        assert!(
            said.starts_with("line 32, column 8: unknown variant `dpeth`"),
            "{said}"
        );
        assert!(said.ends_with("Did you mean `depth`?"), "{said}");
    }

    #[test]
    fn a_key_in_the_wrong_place_is_told_its_place() {
        let said = server("[trust]", "wait_for = 8\n[trust]");
        assert!(said.ends_with("`wait_for` belongs under [round]"), "{said}");
        let said = server("[trust]", "[trust]\nlisten = \"127.0.0.1:1\"");
        assert!(said.ends_with("before the first [section]"), "{said}");
        // The other role's file.
        let said = explain(CLIENT, &toml::from_str::<ServerConfig>(CLIENT).unwrap_err());
        assert!(
            said.ends_with("`client` is a key of a client.toml; is this the right file?"),
            "{said}"
        );
        // Nothing like it anywhere: no guess.
        let said = server("attempts = 3", "zebra = 3");
        assert!(
            !said.contains("Did you mean") && !said.contains("belongs"),
            "{said}"
        );
    }

    #[test]
    fn wrong_kinds_of_values_are_told_in_plain_words() {
        let said = client("client = 0", "client = -3");
        assert_eq!(
            said,
            "line 4, column 10: invalid value: integer `-3`, where a whole number, 0 or more is needed"
        );
        let said = client("decay = 0.85", "decay = \"0.85\"");
        assert!(said.ends_with("where a number is needed"), "{said}");
        let said = client("client = 0", "client = three");
        assert!(said.ends_with("a text in quotation marks is needed"), "{said}");
        let said = client("server = \"127.0.0.1:4433\"", "server = \"localhost:4433\"");
        assert!(said.contains("names are not looked up"), "{said}");
        let said = client("policy = \"policy.veil\"", "policy = 7");
        assert!(
            said.ends_with("where a text in quotation marks is needed"),
            "{said}"
        );
    }

    #[test]
    fn what_is_missing_is_named_with_its_section() {
        let said = server("policy = ", "# policy = ");
        assert_eq!(said, "missing field `policy` at the top of the file");
        let said = server("federation = ", "# federation = ");
        assert_eq!(said, "missing field `federation` in the section at line 12");
    }

    #[test]
    fn the_text_of_the_file_is_not_repeated() {
        let said = server("key = \"server.key\"", "key_hex = \"5ec2e7\"");
        assert!(said.contains("key_hex") && !said.contains("5ec2e7"), "{said}");
    }
}
