//! Slots for sessions and connections: reused memory, and identities that notice reuse.

/// The identity of an entry; one that was removed is never found again, although its slot is reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    index: u32,
    generation: u32,
}

impl Id {
    /// The identity as one number, for the kernel to hand back.
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    /// The inverse of [`Id::to_bits`].
    pub fn from_bits(bits: u64) -> Self {
        Self {
            index: bits as u32,
            generation: (bits >> 32) as u32,
        }
    }
}

/// Entries by [`Id`].
#[derive(Debug)]
pub struct Arena<T> {
    slots: Vec<(u32, Option<T>)>,
    free: Vec<u32>,
}

impl<T> Default for Arena<T> {
    fn default() -> Self {
        Self {
            slots: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Arena<T> {
    /// Stores an entry.
    pub fn insert(&mut self, value: T) -> Id {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.1 = Some(value);
            return Id {
                index,
                generation: slot.0,
            };
        }
        self.slots.push((0, Some(value)));
        Id {
            index: (self.slots.len() - 1) as u32,
            generation: 0,
        }
    }

    /// The entry, unless it was removed.
    pub fn get_mut(&mut self, id: Id) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.0 == id.generation {
            slot.1.as_mut()
        } else {
            None
        }
    }

    /// The entry, unless it was removed.
    pub fn get(&self, id: Id) -> Option<&T> {
        let slot = self.slots.get(id.index as usize)?;
        if slot.0 == id.generation {
            slot.1.as_ref()
        } else {
            None
        }
    }

    /// Every entry, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.slots.iter().filter_map(|(_, entry)| entry.as_ref())
    }

    /// Takes an entry out.
    pub fn remove(&mut self, id: Id) -> Option<T> {
        let slot = self.slots.get_mut(id.index as usize)?;
        if slot.0 != id.generation {
            return None;
        }
        let value = slot.1.take()?;
        slot.0 = slot.0.wrapping_add(1);
        self.free.push(id.index);
        Some(value)
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_entry_is_not_found_when_its_slot_is_reused() {
        let mut arena = Arena::default();
        let first = arena.insert("a");
        assert_eq!(arena.remove(first), Some("a"));
        let second = arena.insert("b");
        assert_eq!(arena.get(first), None);
        assert_eq!(arena.remove(first), None);
        assert_eq!(
            arena.get_mut(Id::from_bits(second.to_bits())),
            Some(&mut "b")
        );
        assert_eq!(arena.len(), 1);
    }
}
