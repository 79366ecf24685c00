//! The path of a request as Apache and nginx resolve it, so that another spelling of it leads to the same class.
//!
//! Once decoded from `%XX`, with `//` as `/`, without `.` and `..`. An encoded slash counts as one, as it does for nginx; Apache answers
//! it with 404 by default. What both refuse (`..` above the root, a zero byte, a `%` without two digits) has no path.

use std::borrow::Cow;

use trimtab_wire::BadInput;

/// Path and query of a target with its path resolved; None for what is no path.
pub fn resolved(target: &[u8]) -> Option<Cow<'_, [u8]>> {
    if target.first() != Some(&b'/') {
        return None;
    }
    let end = target.iter().position(|&b| b == b'?' || b == b'#');
    let (path, rest) = target.split_at(end.unwrap_or(target.len()));
    if is_plain(path) {
        return Some(Cow::Borrowed(target));
    }
    let mut found = without_dots(&decoded(path)?)?;
    found.extend_from_slice(rest);
    Some(Cow::Owned(found))
}

/// The beginning of a path as a rule names it, decoded.
///
/// # Errors
/// No resolved path begins so.
pub fn prefix(text: &str) -> Result<Vec<u8>, BadInput> {
    let wrong = || BadInput(format!("path {text:?} is not how a resolved path begins"));
    let bytes = decoded(text.as_bytes()).ok_or_else(wrong)?;
    let inside = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
    if inside(b"//") || inside(b"/./") || inside(b"/../") {
        return Err(wrong());
    }
    Ok(bytes)
}

fn is_plain(path: &[u8]) -> bool {
    let odd = |pair: &[u8]| matches!(pair, b"//" | b"/.");
    !path.contains(&b'%') && !path.contains(&0) && !path.windows(2).any(odd)
}

fn decoded(path: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut found = Vec::with_capacity(path.len());
    let mut rest = path.iter().copied();
    while let Some(byte) = rest.next() {
        let byte = match byte {
            b'%' => (digit(rest.next()?)? << 4 | digit(rest.next()?)?) as u8,
            other => other,
        };
        if byte == 0 {
            return None;
        }
        found.push(byte);
    }
    Some(found)
}

fn without_dots(path: &[u8]) -> Option<Vec<u8>> {
    let mut parts: Vec<&[u8]> = Vec::new();
    let mut ends_in_slash = false;
    for part in path.split(|&b| b == b'/') {
        ends_in_slash = matches!(part, b"" | b"." | b"..");
        match part {
            b"" | b"." => {}
            b".." => {
                parts.pop()?;
            }
            name => parts.push(name),
        }
    }
    let mut found = vec![b'/'];
    found.extend_from_slice(&parts.join(&b'/'));
    if ends_in_slash && !parts.is_empty() {
        found.push(b'/');
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn another_spelling_of_a_path_is_the_same_path() {
        for (written, meant) in [
            ("/vip", "/vip"),
            ("/./vip", "/vip"),
            ("//vip//a", "/vip/a"),
            ("/x/../vip", "/vip"),
            ("/%76%69p", "/vip"),
            ("/x/%2e%2E/vip", "/vip"),
            ("/x%2f..%2fvip", "/vip"),
            ("/vip/.", "/vip/"),
            ("/vip/a/..", "/vip/"),
            ("/x/..", "/"),
            ("/.well-known", "/.well-known"),
            ("/...", "/..."),
            ("/vip?a=/../%zz", "/vip?a=/../%zz"),
            ("/./vip?a//b", "/vip?a//b"),
            ("/%2576ip", "/%76ip"),
        ] {
            let found = resolved(written.as_bytes()).unwrap();
            assert_eq!(String::from_utf8_lossy(&found), meant, "{written}");
        }
    }

    #[test]
    fn what_servers_refuse_has_no_path() {
        for target in [
            "", "*", "vip", "/..", "/a/../..", "/%00", "/\0", "/%zz", "/%7",
        ] {
            assert_eq!(resolved(target.as_bytes()), None, "{target:?}");
        }
    }

    #[test]
    fn a_rule_names_a_resolved_path() {
        assert_eq!(prefix("/a%20b"), Ok(b"/a b".to_vec()));
        assert_eq!(prefix("/."), Ok(b"/.".to_vec()));
        for text in ["/a//b", "/a/./b", "/a/../b", "/%zz"] {
            assert!(prefix(text).is_err(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn a_resolved_path_has_nothing_left_to_resolve(target in "/[a./%2eE]{0,30}") {
            if let Some(found) = resolved(target.as_bytes()) {
                prop_assert_eq!(found[0], b'/');
                let again = without_dots(&found);
                prop_assert_eq!(again.as_deref(), Some(&found[..]));
            }
        }
    }
}
