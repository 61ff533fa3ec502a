//! What becomes of open jobs that have tables which other work needs: they go on, or let go of their claims, and how.

use std::time::Duration;

use crate::base::class::Class;

/// A job that nobody has stepped for this long lets go of what others want, also where they are to wait. It is no knob: the job commits what
/// it has, so little is lost whatever the time is. Peaks of a real load are shorter, 10 to 20 s (SILK Fig. 7), and what was set aside for
/// one goes on after it; under a load that stays high nobody waits longer.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// What becomes of a job whose tables a more urgent one needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// It goes on, and the other waits.
    Wait,
    /// It commits what it has and lets go, if the other is more urgent than it was.
    Yield,
    /// What it has not committed is thrown away, whatever its urgency was (SILK §5.2.2).
    Discard,
}

/// What becomes of the work of a job that lets go of its claims; where several ask, the last of these holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LetsGo {
    /// What is finished is committed, and the open table unless it holds little.
    Yields,
    /// All is committed.
    KeepsAll,
    /// Nothing is kept.
    Discards,
}

/// An open job that has what other work needs.
#[derive(Clone, Copy, Debug)]
pub struct Holder {
    /// Its class.
    pub class: Class,
    /// The picker finds it less urgent.
    pub is_less_urgent: bool,
    /// It is set aside while the load is high.
    pub is_gated: bool,
    /// Since it was stepped last; none while somebody steps it.
    pub idle: Duration,
}

impl OnConflict {
    /// How all of these let go for work of class `want`; `None` if one of them goes on, for then the others would let go in vain. Work that
    /// only waits, as a merge within L0 does for one out of it, sends nobody away.
    pub fn make_way(self, want: Class, holders: &[Holder]) -> Option<Vec<LetsGo>> {
        holders.iter().map(|holder| self.lets_go(want, holder)).collect()
    }

    fn lets_go(self, want: Class, holder: &Holder) -> Option<LetsGo> {
        let is_ahead = want.is_ahead_of(holder.class);
        match self {
            OnConflict::Discard if is_ahead => Some(LetsGo::Discards),
            OnConflict::Yield if holder.is_less_urgent => Some(LetsGo::Yields),
            // Else it would wait for the load too.
            _ if is_ahead && holder.is_gated => Some(LetsGo::Yields),
            _ => (holder.idle >= IDLE_MAX).then_some(LetsGo::Yields),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEEP: Holder =
        Holder { class: Class::Deep, is_less_urgent: false, is_gated: false, idle: Duration::ZERO };
    const L0: Holder = Holder { class: Class::L0ToL1, ..DEEP };

    /// Who has what a merge out of L0 needs: what becomes of it by each rule.
    #[test]
    fn who_lets_go_for_l0_and_how() {
        let (yields, discards) = (Some(LetsGo::Yields), Some(LetsGo::Discards));
        let table = [
            ("deep", DEEP, [None, None, discards]),
            ("deep and less urgent", Holder { is_less_urgent: true, ..DEEP }, [None, yields, discards]),
            ("deep, while the load is high", Holder { is_gated: true, ..DEEP }, [yields, yields, discards]),
            ("deep and forgotten", Holder { idle: IDLE_MAX, ..DEEP }, [yields, yields, discards]),
            ("of L0", L0, [None, None, None]),
            ("of L0, while the load is high", Holder { is_gated: true, ..L0 }, [None, None, None]),
            ("of L0 and forgotten", Holder { idle: IDLE_MAX, ..L0 }, [yields, yields, yields]),
        ];
        for (what, holder, expected) in table {
            let rules = [OnConflict::Wait, OnConflict::Yield, OnConflict::Discard];
            let found = rules.map(|rule| rule.make_way(Class::L0ToL1, &[holder]));
            assert_eq!(found, expected.map(|how| how.map(|how| vec![how])), "{what}");
        }
    }

    #[test]
    fn all_let_go_or_none_does() {
        let by_discarding = |want, holders: &[Holder]| OnConflict::Discard.make_way(want, holders);
        assert_eq!(by_discarding(Class::L0ToL1, &[DEEP, L0]), None);
        let forgotten = Holder { idle: IDLE_MAX, ..L0 };
        let both = vec![LetsGo::Discards, LetsGo::Yields];
        assert_eq!(by_discarding(Class::L0ToL1, &[DEEP, forgotten]), Some(both));
        // They may have ended meanwhile.
        assert_eq!(by_discarding(Class::L0ToL1, &[]), Some(Vec::new()));
        // Upkeep is in everybody's way, deep work in L0's alone.
        let upkeep = Holder { class: Class::Upkeep, ..DEEP };
        assert_eq!(by_discarding(Class::Deep, &[upkeep]), Some(vec![LetsGo::Discards]));
        assert_eq!(by_discarding(Class::Deep, &[DEEP]), None);
    }
}
