//! Warp-level operations, as functions of the lane number.

/// Number of threads (lanes) in a warp.
pub const LANES: u32 = 32;

/// The modes of `shfl`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

/// Returns the lane that `shfl` reads from, and whether that lane is in range (the predicate result). `c` holds the clamp value in bits 0
/// to 4 and the segment mask in bits 8 to 12.
pub fn shuffle(mode: Shuffle, lane: u32, b: u32, c: u32) -> (u32, bool) {
    let (b, clamp, segment) = (b & 31, c & 31, c >> 8 & 31);
    let highest = lane & segment | clamp & !segment;
    let lowest = lane & segment;
    let (source, in_range) = match mode {
        Shuffle::Up => (lane.wrapping_sub(b), lane as i32 - b as i32 >= highest as i32),
        Shuffle::Down => (lane + b, lane + b <= highest),
        Shuffle::Butterfly => (lane ^ b, (lane ^ b) <= highest),
        Shuffle::Index => (lowest | b & !segment, (lowest | b & !segment) <= highest),
    };
    if in_range { (source, true) } else { (lane, false) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_warp() {
        assert_eq!(shuffle(Shuffle::Up, 3, 1, 0), (2, true));
        assert_eq!(shuffle(Shuffle::Up, 0, 1, 0), (0, false));
        assert_eq!(shuffle(Shuffle::Down, 30, 2, 31), (30, false));
        assert_eq!(shuffle(Shuffle::Butterfly, 5, 1, 31), (4, true));
        assert_eq!(shuffle(Shuffle::Index, 9, 17, 31), (17, true));
    }

    #[test]
    fn segments_of_eight() {
        let c = 0x1807;
        assert_eq!(shuffle(Shuffle::Down, 13, 2, c), (15, true));
        assert_eq!(shuffle(Shuffle::Down, 13, 3, c), (13, false));
        assert_eq!(shuffle(Shuffle::Index, 13, 3, c), (11, true));
    }
}
