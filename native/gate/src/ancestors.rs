//! Which process a process descends from, as /proc tells everybody.

/// Longest line of descent that is followed.
const MOST: u32 = 32;

/// The one is the other, or its child, or its child's child, and so on.
pub fn descends(process: u32, from: u32) -> bool {
    let mut now = process;
    for _ in 0..MOST {
        if now == from {
            return true;
        }
        match parent(now) {
            Some(next) if next > 0 => now = next,
            _ => return false,
        }
    }
    false
}

/// The parent of a process; None when it is gone, or /proc is hidden.
fn parent(process: u32) -> Option<u32> {
    let text = std::fs::read(format!("/proc/{process}/stat")).ok()?;
    // The name, in parentheses, may hold anything.
    let end = text.iter().rposition(|&byte| byte == b')')?;
    let mut words = text.get(end + 1..)?.split(|&byte| byte == b' ').skip(2);
    std::str::from_utf8(words.next()?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_descends_from_itself_and_its_parents_and_from_nobody_else() {
        let own = std::process::id();
        assert!(descends(own, own));
        assert!(descends(own, std::os::unix::process::parent_id()));
        assert!(descends(own, 1));
        assert!(!descends(1, own));
        assert!(!descends(own, u32::MAX));
    }
}
