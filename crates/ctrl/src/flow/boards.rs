//! Six scoreboards for all that is waited for.
//!
//! Each that is waited for holds a scoreboard from its issue to the last instruction that waits for it; one that is waited for across a
//! back edge holds it to the end of the code it spans. Going through the code, the next one takes a scoreboard that is free, the one that
//! has been free for longest first, so that a wait never catches others. When none is free it shares that one whose holders are waited
//! for at the place nearest to its own, of its own kind if there is one: who waits there waits a little longer than it has to.

use oriole_hardware::Class;
use oriole_isa::Control;

use super::Code;
use super::touch::Touches;
use super::waits::{Part, Waits};

const SCOREBOARDS: usize = 6;

#[derive(Clone, Copy)]
struct Board {
    /// Where the last of its holders is waited for.
    end: usize,
    class: Option<Class>,
}

/// Control words with scoreboards and waits; stalls are still to come.
pub fn allocate(code: &Code<'_>, touches: &[Touches], found: &Waits) -> Vec<Control> {
    let back_edges = back_edges(code);
    let mut controls = vec![Control::default(); touches.len()];
    let mut boards = [Board { end: 0, class: None }; SCOREBOARDS];
    for (&(first, part), seconds) in &found.waits {
        let last = seconds.last().copied().unwrap_or(first);
        let across = seconds.iter().filter(|&&second| second <= first);
        let end = across.map(|&second| loop_end(&back_edges, first, second).unwrap_or(touches.len())).fold(last, usize::max);
        let class = touches[first].class;
        let index = choose(&boards, first, end, class);
        boards[index] = Board { end: boards[index].end.max(end), class: Some(class) };
        let scoreboard = Some(index as u8);
        match part {
            Part::Results => controls[first].write_barrier = scoreboard,
            Part::Reads => controls[first].read_barrier = scoreboard,
        }
        for &second in seconds {
            controls[second].wait |= 1 << index;
        }
    }
    controls
}

/// Where control goes back: the start it goes to, and the end of the block it comes from, by end.
fn back_edges(code: &Code<'_>) -> Vec<(usize, usize)> {
    let edges = code.blocks.iter().flat_map(|block| {
        let goes_back = |&&next: &&usize| code.blocks[next].range.start < block.range.end;
        block.successors.iter().filter(goes_back).map(|&next| (code.blocks[next].range.start, block.range.end))
    });
    edges.collect()
}

/// The end of the code that leads from one instruction back to an earlier one.
fn loop_end(back_edges: &[(usize, usize)], first: usize, second: usize) -> Option<usize> {
    back_edges.iter().find(|&&(start, end)| end > first && start <= second).map(|&(_, end)| end)
}

fn choose(boards: &[Board; SCOREBOARDS], first: usize, end: usize, class: Class) -> usize {
    let free = (0..SCOREBOARDS).filter(|&index| boards[index].end <= first).min_by_key(|&index| boards[index].end);
    let shared = |&index: &usize| (boards[index].class != Some(class), boards[index].end.abs_diff(end));
    free.or_else(|| (0..SCOREBOARDS).min_by_key(shared)).unwrap_or(0)
}
