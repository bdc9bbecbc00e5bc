//! Which users and groups there are inside.

/// The users and groups of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ids {
    /// User and group the command runs as, as it sees them.
    pub inside: (u32, u32),
    /// What ids inside stand for.
    pub map: Map,
}

/// What ids inside stand for. All others are shown as 65534.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Map {
    /// Those of the command for these of the caller.
    Own((u32, u32)),
    /// Every one that the caller has for itself.
    All {
        /// Its users.
        users: Vec<Range>,
        /// Its groups.
        groups: Vec<Range>,
    },
}

/// Ids that follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    first: u32,
    count: u32,
}

impl Ids {
    /// The caller's own, as it has them.
    pub fn as_outside(ids: (u32, u32)) -> Self {
        Self {
            inside: ids,
            map: Map::Own(ids),
        }
    }
}

impl Range {
    /// Reads what there is in a namespace from its map; see user_namespaces(7).
    pub fn all(map: &str) -> Option<Vec<Self>> {
        let range = |line: &str| {
            let mut numbers = line.split_whitespace().map(str::parse);
            let (first, _, count) = (numbers.next()?, numbers.next()?, numbers.next()?);
            let (first, count) = (first.ok()?, count.ok()?);
            Some(Self { first, count })
        };
        map.lines().map(range).collect()
    }

    /// Returns the map that has them stand for themselves.
    pub fn one_to_one(ranges: &[Self]) -> String {
        let line = |Self { first, count }: &Self| format!("{first} {first} {count}\n");
        ranges.iter().map(line).collect()
    }
}

/// A user and a group in whose place a tree shows those of the caller, and the other way round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Shift {
    users: (u32, u32),
    groups: (u32, u32),
}

impl Shift {
    /// Shows what belongs to `owner` as the `caller`'s.
    pub fn of(owner: (u32, u32), caller: (u32, u32)) -> Self {
        Self {
            users: (owner.0, caller.0),
            groups: (owner.1, caller.1),
        }
    }

    /// Returns the user whose tree it is.
    pub fn owner(self) -> u32 {
        self.users.0
    }

    /// Returns the maps of a namespace that does so; see mount_setattr(2), "ID-mapped mounts".
    pub fn maps(self) -> (String, String) {
        (swapped(self.users), swapped(self.groups))
    }
}

/// Maps two ids to each other and all others to themselves. The last number is no id.
fn swapped((a, b): (u32, u32)) -> String {
    let (low, high) = (a.min(b), a.max(b));
    if low == high {
        return format!("0 0 {}\n", u32::MAX);
    }
    let lines = [
        (0, 0, low),
        (low, high, 1),
        (low + 1, low + 1, high - low - 1),
        (high, low, 1),
        (high + 1, high + 1, u32::MAX - high - 1),
    ];
    let used = lines.into_iter().filter(|(.., count)| *count > 0);
    used.map(|(inside, outside, count)| format!("{inside} {outside} {count}\n"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_ids_are_swapped_and_all_others_stay() {
        let (users, groups) = Shift::of((1001, 0), (0, 0)).maps();
        let swapped = "0 1001 1\n1 1 1000\n1001 0 1\n1002 1002 4294966293\n";
        assert_eq!(
            (users.as_str(), groups.as_str()),
            (swapped, "0 0 4294967295\n")
        );
        let (users, _) = Shift::of((u32::MAX - 1, 0), (0, 0)).maps();
        assert_eq!(users, "0 4294967294 1\n1 1 4294967293\n4294967294 0 1\n");
        let (users, _) = Shift::of((1, 0), (0, 0)).maps();
        assert_eq!(users, "0 1 1\n1 0 1\n2 2 4294967293\n");
    }

    #[test]
    fn what_a_namespace_has_stands_for_itself_in_the_next() {
        let map = "         0       1000          1\n         1     100000      65536\n";
        let ranges = Range::all(map).expect("it is one of the kernel's");
        assert_eq!(Range::one_to_one(&ranges), "0 0 1\n1 1 65536\n");
        let all = Range::all("0 0 4294967295\n").expect("it is one of the kernel's");
        assert_eq!(Range::one_to_one(&all), "0 0 4294967295\n");
        for unreadable in ["0 0\n", "x 0 1\n", "0 0 -1\n", "\n"] {
            assert_eq!(Range::all(unreadable), None, "{unreadable:?}");
        }
    }
}
