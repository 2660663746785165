//! Generates function bodies: straight-line code, structured and irregular control flow.

use super::{Context, Generator, Level};
use crate::program::{Condition, Edge, LoopStyle, Op, OperandClass, Stmt, Together, Trips};
use crate::table;

/// Limit on the nesting of constructs.
const DEEPEST: usize = 4;

impl Generator {
    /// Generates statements with about `size` instructions.
    pub(super) fn statements(&mut self, cx: &Context, size: usize) -> Vec<Stmt> {
        let mut list = Vec::new();
        let mut left = size as i64;
        while left > 0 {
            let before = self.ids;
            let room = left as usize;
            let tensor = if self.allows_tensor(cx) && cx.depth < DEEPEST && self.rng.chance(if cx.depth == 0 { 12 } else { 5 }) {
                self.tensor(cx)
            } else {
                None
            };
            let statement = if let Some(statement) = tensor {
                left -= 4;
                statement
            } else if room >= 6 && cx.depth < DEEPEST && self.rng.chance(9) {
                let share = (room / 2).clamp(4, 60);
                left -= share as i64;
                self.construct(cx, share)
            } else {
                left -= 1;
                self.simple(cx)
            };
            debug_assert!(self.ids >= before);
            list.push(statement);
        }
        list
    }

    /// Generates a statement without nested statements.
    fn simple(&mut self, cx: &Context) -> Stmt {
        if self.rng.chance(4)
            && let Some(jump) = self.jump(cx)
        {
            return jump;
        }
        let op = match self.rng.below(100) {
            0..=13 => self.memory(),
            14..=17 => self.atomic(cx),
            18..=27 => self.convert(),
            28..=37 => self.collective(cx),
            38..=41 => self.call(cx),
            _ => None,
        };
        let guardable = op.is_none();
        let mut op = op.unwrap_or_else(|| self.arithmetic());
        if guardable && self.rng.chance(10) {
            self.guard(&mut op);
        }
        self.cost += op.lines.len() * cx.weight;
        Stmt::Op(op)
    }

    /// Generates an operation from a section of the table, picked by the weights of this program.
    fn arithmetic(&mut self) -> Op {
        loop {
            let total: usize = self.sections.iter().map(|section| section.1 + 1).sum();
            let mut at = self.rng.below(total);
            let mut chosen = self.sections[0].0;
            for &(section, weight) in &self.sections {
                if at <= weight {
                    chosen = section;
                    break;
                }
                at -= weight + 1;
            }
            if let Some(template) = table::template(&mut self.rng, chosen, self.sm) {
                return self.plain(template);
            }
        }
    }

    /// Adds a guard to an operation, unless the operation writes the predicate.
    fn guard(&mut self, op: &mut Op) {
        let name = self.read(OperandClass::Pred);
        let not = if self.rng.chance(50) { "!" } else { "" };
        let writes_it = op.lines.iter().flatten().any(|token| matches!(token, crate::program::Token::Def { name: n, .. } if *n == name));
        if !writes_it {
            op.guard = Some(format!("@{not}{name}"));
        }
    }

    /// Generates an operation of several threads, according to which threads are known to be together.
    fn collective(&mut self, cx: &Context) -> Option<Op> {
        let section = match (&cx.level, self.rng.below(5)) {
            (Level::Block, 0) => "block",
            (Level::Block, 1) => "uniform",
            (Level::Block, 2 | 3) if self.full_warps => "full_warp",
            (Level::Block | Level::Warp(_), _) => "warp",
            (Level::Thread, _) => return None,
        };
        let template = table::template(&mut self.rng, section, self.sm)?;
        Some(self.expand(template, &cx.level))
    }

    /// Generates a jump: the end of the thread, or a break or continue. Threads that must stay together jump only on a uniform condition.
    fn jump(&mut self, cx: &Context) -> Option<Stmt> {
        if cx.level == Level::Thread && self.rng.chance(30) {
            if cx.exits {
                let condition = self.condition(false);
                return Some(Stmt::Exit { condition, how: self.rng.pick::<&str>(&["exit", "ret", "bra DONE"]) });
            }
            if self.together == Together::Thread {
                let condition = self.condition(false);
                return Some(Stmt::Exit { condition, how: "bra DONE" });
            }
        }
        let innermost = self.loops.last()?.clone();
        let id = match cx.level {
            Level::Thread => {
                let reachable: Vec<usize> = self.loops.iter().filter(|inner| inner.1 == Level::Thread).map(|inner| inner.0).collect();
                if reachable.is_empty() {
                    return None;
                }
                *self.rng.pick(&reachable)
            }
            _ if innermost.1 == cx.level => innermost.0,
            _ => return None,
        };
        let condition = self.condition(cx.level != Level::Thread);
        Some(if self.rng.chance(50) { Stmt::Break { id, condition } } else { Stmt::Continue { id, condition } })
    }

    /// Generates a condition; a uniform one has the same value in all threads of a block.
    fn condition(&mut self, uniform: bool) -> Condition {
        let negated = self.rng.chance(30);
        if !uniform && self.rng.chance(45) {
            return Condition { setup: Vec::new(), register: self.read(OperandClass::Pred), negated };
        }
        let id = self.id();
        let register = format!("%k{id}");
        let with_uniform = self.pool[OperandClass::Uniform as usize] > 0;
        let template = if uniform && with_uniform {
            format!("setp.{{eq/ne/lt/gt/le/ge}}.{{u32/s32}} {register}, $u, $ui")
        } else if uniform {
            format!("setp.{{eq/ne}}.u32 {register}, {{0/1}}, 0")
        } else {
            match self.rng.below(5) {
                0 => format!("setp.{{lt/ge/eq/ne/num/ltu}}.f32 {register}, $f, $fi"),
                1 => format!("setp.{{lt/ge/eq/ne}}.s64 {register}, $d, $di"),
                2 => format!(".reg .b32 %ta; and.b32 %ta, $r, {{1/2/3/4/16}}; setp.{{eq/ne}}.u32 {register}, %ta, 0"),
                _ => format!("setp.{{eq/ne/lt/gt/le/ge}}.{{u32/s32}} {register}, $r, $ri"),
            }
        };
        let mut op = self.plain(&template);
        if !op.declarations.is_empty() {
            // Conditions have no scope of their own; use the loop counter's register of the same id, which is free.
            for token in op.lines.iter_mut().flatten() {
                if let crate::program::Token::Text(text) = token {
                    *text = text.replace("%ta", &format!("%n{id}"));
                }
            }
        }
        Condition { setup: op.lines, register, negated }
    }

    fn construct(&mut self, cx: &Context, size: usize) -> Stmt {
        match self.rng.below(10) {
            0..=3 => self.make_if(cx, size),
            4..=6 => self.make_loop(cx, size),
            _ => self.make_irregular(cx, size),
        }
    }

    /// Generates an `if`. The level of its parts depends on the condition: unchanged if it is uniform, gathered masks, or single
    /// threads.
    fn make_if(&mut self, cx: &Context, size: usize) -> Stmt {
        let uniform = cx.level != Level::Thread && self.rng.chance(35);
        let condition = self.condition(uniform);
        let id = self.id();
        let mut gather = None;
        let (mut then_level, mut else_level) = (Level::Thread, Level::Thread);
        if uniform {
            (then_level, else_level) = (cx.level.clone(), cx.level.clone());
        } else if cx.level != Level::Thread && self.rng.chance(50) {
            gather = Some(if let Level::Warp(mask) = &cx.level { mask.clone() } else { "%wm".into() });
            (then_level, else_level) = (Level::Warp(format!("%m{id}")), Level::Warp(format!("%w{id}")));
        }
        let else_size = if self.rng.chance(50) { size / 2 } else { 0 };
        let inner = |level| Context { level, depth: cx.depth + 1, ..cx.clone() };
        let then = self.statements(&inner(then_level), size - else_size);
        let otherwise = self.statements(&inner(else_level), else_size);
        self.cost += 4 * cx.weight;
        Stmt::If { id, condition, gather, then, otherwise }
    }

    /// Generates a loop whose number of trips fits the cost limit; an `if` if no loop fits.
    fn make_loop(&mut self, cx: &Context, size: usize) -> Stmt {
        let id = self.id();
        let room = (self.cost_limit.saturating_sub(self.cost) / (cx.weight * (size + 4))).min(9);
        if room < 2 {
            return self.make_if(cx, size);
        }
        let mut level = cx.level.clone();
        let mask = if room >= 8 { 7 } else { 1 | (room as u32 / 4) << 1 };
        let trips = match self.rng.below(4) {
            0 | 1 => Trips::Constant(self.rng.range(0, room as i64) as u32),
            2 if self.pool[OperandClass::Uniform as usize] > 0 => Trips::Masked { register: self.read(OperandClass::Uniform), mask },
            _ => {
                level = Level::Thread;
                Trips::Masked { register: self.read(OperandClass::B32), mask }
            }
        };
        let style = *self.rng.pick(&[LoopStyle::DoUp, LoopStyle::DoUp, LoopStyle::WhileDown, LoopStyle::WideStride]);
        let most = match trips {
            Trips::Constant(count) => count.max(1),
            Trips::Masked { mask, .. } => mask,
        };
        self.loops.push((id, level.clone()));
        self.readable.push(format!("%c{id}"));
        let most = most as usize;
        let inner = Context { level, weight: cx.weight * most, executions: cx.executions * most, depth: cx.depth + 1, exits: cx.exits };
        let body = self.statements(&inner, size);
        self.readable.pop();
        self.loops.pop();
        self.cost += 4 * inner.weight;
        Stmt::Loop { id, style, trips, body }
    }

    /// Generates blocks with arbitrary jumps. Backward jumps are allowed if the cost limit permits the fuel they need.
    fn make_irregular(&mut self, cx: &Context, size: usize) -> Stmt {
        let id = self.id();
        let count = self.rng.range(2, 6) as usize;
        let room = self.cost_limit.saturating_sub(self.cost) / (cx.weight * (size / count + 4));
        let forward_only = room < count || self.rng.chance(35);
        let fuel = if forward_only { count } else { self.rng.range(count as i64, (room as i64).clamp(count as i64, 14)) as usize };
        let inner = Context {
            level: Level::Thread,
            weight: cx.weight * fuel.div_ceil(2),
            executions: cx.executions * fuel,
            depth: cx.depth + 1,
            exits: cx.exits,
        };
        let entry = if self.rng.chance(60) { self.edge(0, count, forward_only) } else { Edge::Fall };
        let mut blocks = Vec::new();
        for number in 0..count {
            let body = self.statements(&inner, size / count);
            let edge = self.edge(if forward_only { number + 1 } else { 0 }, count, forward_only);
            blocks.push((body, edge));
        }
        Stmt::Irregular { id, entry, blocks, fuel: fuel as u32 }
    }

    /// Generates an edge to a block from `first` on; block `count` is the end of the region.
    fn edge(&mut self, first: usize, count: usize, forward_only: bool) -> Edge {
        let target = |generator: &mut Self| generator.rng.range(first as i64, count as i64) as usize;
        match self.rng.below(10) {
            0..=1 => Edge::Fall,
            2 => Edge::Goto(target(self)),
            3..=4 if self.rng.chance(60) => {
                let number = if forward_only { *self.rng.pick(&[2, 4]) } else { *self.rng.pick(&[1, 2, 4, 8]) };
                let targets = (0..number).map(|_| target(self)).collect();
                Edge::Indexed { register: self.read(OperandClass::B32), targets }
            }
            _ => {
                let condition = self.condition(false);
                Edge::Branch(condition, target(self))
            }
        }
    }
}
