//! The users of a closed population: who is at work, and which of their sessions is next.

/// The users of one closed population.
#[derive(Debug, Default)]
pub struct Users {
    limit: u32,
    busy: Vec<bool>,
    sessions: Vec<u32>,
}

impl Users {
    /// Sets how many users there are.
    ///
    /// # Returns
    /// Those who now begin; the ones beyond the limit end by themselves, after their page.
    pub fn set_limit(&mut self, limit: u32) -> Vec<u32> {
        self.limit = limit;
        let size = self.busy.len().max(limit as usize);
        self.busy.resize(size, false);
        self.sessions.resize(size, 0);
        let begin: Vec<u32> = (0..limit)
            .filter(|&user| !self.busy[user as usize])
            .collect();
        for &user in &begin {
            self.busy[user as usize] = true;
        }
        begin
    }

    /// The user is still wanted.
    pub fn is_wanted(&self, user: u32) -> bool {
        user < self.limit
    }

    /// The number of the user's next session: it depends on nothing that other users do.
    pub fn next_session(&mut self, user: u32) -> u64 {
        let round = &mut self.sessions[user as usize];
        let number = u64::from(user) << 32 | u64::from(*round);
        *round = round.wrapping_add(1);
        number
    }

    /// The user of a session.
    pub fn of_session(number: u64) -> u32 {
        (number >> 32) as u32
    }

    /// The user's session is over.
    ///
    /// # Returns
    /// True when the user is to begin another.
    pub fn ended(&mut self, user: u32) -> bool {
        let wanted = self.is_wanted(user);
        self.busy[user as usize] = wanted;
        wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_is_never_at_work_twice() {
        let mut users = Users::default();
        assert_eq!(users.set_limit(3), [0, 1, 2]);
        assert!(users.set_limit(1).is_empty());
        // User 1 is still in its last page when it is wanted again; user 2 has gone.
        assert!(!users.ended(2));
        assert_eq!(users.set_limit(3), [2]);
        assert!(users.ended(1));
    }

    #[test]
    fn session_numbers_belong_to_the_user() {
        let mut users = Users::default();
        users.set_limit(2);
        let numbers = [
            users.next_session(1),
            users.next_session(0),
            users.next_session(1),
        ];
        assert_eq!(numbers, [1 << 32, 0, 1 << 32 | 1]);
        assert_eq!(numbers.map(Users::of_session), [1, 0, 1]);
    }
}
