//! What a browser takes from a page: the values of marked attributes and the images; nothing of it is believed.
//!
//! This is no HTML parser: it reads tags, their attributes, comments and raw text, each byte once.

use memchr::{memchr, memmem};

/// Most values of one marker, and most images, that are taken.
const MOST: usize = 256;
/// Longest value that is taken, in bytes.
const LONGEST: usize = 2048;
/// Text in these is not searched for tags.
const RAW: [&[u8]; 2] = [b"script", b"style"];

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// Values of each marker, in the order of the page.
    pub marked: Vec<Vec<Box<str>>>,
    /// Sources of its images, each once.
    pub images: Vec<Box<str>>,
}

/// Reads a page.
///
/// # Arguments
/// `markers`: names of the attributes whose values are wanted, in lower case.
pub fn read(html: &[u8], markers: &[String]) -> Page {
    let mut page = Page {
        marked: vec![Vec::new(); markers.len()],
        images: Vec::new(),
    };
    let mut rest = html;
    while let Some(begin) = memchr(b'<', rest) {
        rest = &rest[begin + 1..];
        if let Some(comment) = rest.strip_prefix(b"!--") {
            rest = after(comment, b"-->");
            continue;
        }
        if !rest.first().is_some_and(u8::is_ascii_alphabetic) {
            continue;
        }
        let (name, mut inside) = split(rest, |b| b.is_ascii_whitespace() || b == b'>' || b == b'/');
        let image = name.eq_ignore_ascii_case(b"img");
        while let Some((attribute, value, left)) = attribute(inside) {
            inside = left;
            page.take(markers, image, attribute, value);
        }
        rest = inside;
        if let Some(raw) = RAW.iter().find(|raw| name.eq_ignore_ascii_case(raw)) {
            rest = after_raw(rest, raw);
        }
    }
    page
}

impl Page {
    fn take(&mut self, markers: &[String], image: bool, attribute: &[u8], value: &[u8]) {
        let wanted = markers
            .iter()
            .position(|m| attribute.eq_ignore_ascii_case(m.as_bytes()));
        let source = image && attribute.eq_ignore_ascii_case(b"src");
        if !(source || wanted.is_some()) || value.len() > LONGEST {
            return;
        }
        let Ok(text) = std::str::from_utf8(value) else {
            return;
        };
        let text: Box<str> = text.trim().replace("&amp;", "&").into();
        if source && self.images.len() < MOST && !self.images.contains(&text) {
            self.images.push(text.clone());
        }
        if let Some(values) = wanted.map(|index| &mut self.marked[index]) {
            if values.len() < MOST {
                values.push(text);
            }
        }
    }
}

/// The next attribute of a tag: its name, its value and what follows; None at the end of the tag.
fn attribute(inside: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    let (_, inside) = split(inside, |b| !b.is_ascii_whitespace() && b != b'/');
    if matches!(inside.first(), None | Some(b'>')) {
        return None;
    }
    let stop = |b: u8| b.is_ascii_whitespace() || matches!(b, b'=' | b'>' | b'/');
    // An attribute's name may begin with "=".
    let length = 1 + inside[1..]
        .iter()
        .position(|&b| stop(b))
        .unwrap_or(inside.len() - 1);
    let (name, left) = inside.split_at(length);
    let (_, at_equals) = split(left, |b| !b.is_ascii_whitespace());
    let Some(value) = at_equals.strip_prefix(b"=") else {
        return Some((name, b"", left));
    };
    let (_, value) = split(value, |b| !b.is_ascii_whitespace());
    match value.first() {
        Some(&quote @ (b'"' | b'\'')) => {
            let (text, left) = split(&value[1..], |b| b == quote);
            Some((name, text, left.get(1..).unwrap_or_default()))
        }
        _ => {
            let (text, left) = split(value, |b| b.is_ascii_whitespace() || b == b'>');
            Some((name, text, left))
        }
    }
}

/// Splits before the first byte that fits.
fn split(bytes: &[u8], fits: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    bytes.split_at(bytes.iter().position(|&b| fits(b)).unwrap_or(bytes.len()))
}

fn after<'a>(bytes: &'a [u8], end: &[u8]) -> &'a [u8] {
    memmem::find(bytes, end).map_or(&[], |at| &bytes[at + end.len()..])
}

/// What follows the end tag of an element with raw text.
fn after_raw<'a>(mut rest: &'a [u8], name: &[u8]) -> &'a [u8] {
    while let Some(at) = memmem::find(rest, b"</") {
        rest = &rest[at + 2..];
        if rest
            .get(..name.len())
            .is_some_and(|b| b.eq_ignore_ascii_case(name))
        {
            return rest;
        }
    }
    &[]
}

/// The path on this server that a link means; None where it leads elsewhere or cannot be sent.
///
/// # Arguments
/// `base`: path of the page that has the link.
pub fn local_path(link: &str, base: &str, host: &str) -> Option<String> {
    let link = link.split('#').next().unwrap_or_default();
    let scheme = "http://";
    let path = if link
        .get(..scheme.len())
        .is_some_and(|s| s.eq_ignore_ascii_case(scheme))
    {
        let (there, path) = link[scheme.len()..].split_at(link[scheme.len()..].find('/')?);
        if !there.eq_ignore_ascii_case(host) {
            return None;
        }
        path.to_owned()
    } else if link.starts_with("//") {
        return None;
    } else if link.starts_with('/') {
        link.to_owned()
    } else {
        let before_slash = link.split('/').next().unwrap_or_default();
        if link.is_empty() || before_slash.contains(':') {
            return None;
        }
        let base = base.split('?').next().unwrap_or_default();
        format!("{}{link}", &base[..base.rfind('/')? + 1])
    };
    (path.len() <= LONGEST && path.bytes().all(|b| b.is_ascii_graphic())).then_some(path)
}

#[cfg(test)]
#[path = "page_tests.rs"]
mod tests;
