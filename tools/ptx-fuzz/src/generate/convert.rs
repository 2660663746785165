//! Generates `cvt` between all types, with registers of the type's size or wider.

use super::Generator;
use crate::program::Op;

const INTEGERS: [&str; 8] = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"];

fn width(integer: &str) -> u32 {
    integer[1..].parse().expect("an integer type ends in its width")
}

/// Returns whether the integer type `to` contains every value of `from`.
fn holds(to: &str, from: &str) -> bool {
    match (&to[..1], &from[..1]) {
        ("u", "u") | ("s", "s") => width(to) >= width(from),
        ("s", _) => width(to) > width(from),
        _ => false,
    }
}

impl Generator {
    /// Picks the class of a register for an integer type; it may be wider unless `exact`.
    fn integer_class(&mut self, integer: &str, exact: bool) -> char {
        let classes: &[u8] = match width(integer) {
            8 => b"bhrd",
            16 => b"hrd",
            32 => b"rd",
            _ => b"d",
        };
        if exact || self.rng.chance(50) { classes[0] as char } else { *self.rng.pick(classes) as char }
    }

    pub(super) fn convert(&mut self) -> Option<Op> {
        let text = match self.rng.below(8) {
            0..=1 => self.integer_to_integer(),
            2..=3 => self.float_to_integer(),
            4 => self.integer_to_float(),
            5 => self.packed()?,
            _ => self.float_to_float(),
        };
        Some(self.plain(&text))
    }

    fn integer_to_integer(&mut self) -> String {
        let (to, from) = (*self.rng.pick(&INTEGERS), *self.rng.pick(&INTEGERS));
        let saturate = if !holds(to, from) && self.rng.chance(40) { ".sat" } else { "" };
        let (d, a) = (self.integer_class(to, false), self.integer_class(from, false));
        format!("cvt{saturate}.{to}.{from} $={d}, ${a}")
    }

    fn float_to_integer(&mut self) -> String {
        let to = *self.rng.pick(&INTEGERS);
        let bfloat = self.sm >= 90 && self.rng.chance(15);
        let d = self.integer_class(to, bfloat);
        if bfloat {
            return format!("cvt.{{rni/rzi/rmi/rpi}}.{to}.bf16 $={d}, $y");
        }
        let from = self.choose("{f16 $=D, $x/f32 $=D, $f/{/.ftz}f32 $=D, $f/f64 $=D, $e}");
        let (ftz, from) = from.strip_prefix(".ftz").map_or(("", from.as_str()), |rest| (".ftz", rest));
        format!("cvt.{{rni/rzi/rmi/rpi}}{ftz}{{/.sat}}.{to}.{}", from.replace('D', &d.to_string()))
    }

    fn integer_to_float(&mut self) -> String {
        let from = *self.rng.pick(&INTEGERS);
        if self.sm >= 90 && self.rng.chance(15) {
            let a = self.integer_class(from, true);
            return format!("cvt.{{rn/rz/rm/rp}}.bf16.{from} $=y, ${a}");
        }
        let a = self.integer_class(from, false);
        self.choose(&format!("cvt.{{rn/rz/rm/rp}}{{/.sat}}.{{f16.{from} $=x/f32.{from} $=f/f64.{from} $=e}}, ${a}"))
    }

    fn float_to_float(&mut self) -> String {
        let rounding = self.choose("{rn/rz/rm/rp}");
        let mut rows = vec![
            "cvt{/.ftz}{/.sat}.f32.f16 $=f, $x",
            "cvt{/.sat}.f64.f16 $=e, $x",
            "cvt{/.ftz}{/.sat}.f64.f32 $=e, $f",
            "cvt.R{/.ftz}{/.sat}.f16.f32 $=x, $f",
            "cvt.{rn/rz}.satfinite.f16.f32 $=x, $f",
            "cvt.R{/.sat}.f16.f64 $=x, $e",
            "cvt.R{/.ftz}{/.sat}.f32.f64 $=f, $e",
        ];
        if self.sm >= 80 {
            rows.extend([
                "cvt.f32.bf16 $=f, $y",
                "cvt.R.bf16.f32 $=y, $f",
                "cvt.{rn/rz}.relu{/.satfinite}.{bf16.f32 $=y/f16.f32 $=x}, $f",
                "cvt.{rn/rz}{/.relu}{/.satfinite}.{bf16x2.f32 $=Y/f16x2.f32 $=X}, $f, $f",
            ]);
        }
        if self.sm >= 90 {
            rows.extend([
                "cvt.f64.bf16 $=e, $y",
                "cvt.R.bf16.f64 $=y, $e",
                "cvt.R.f16.bf16 $=x, $y",
                "cvt.R.bf16.f16 $=y, $x",
                "cvt.rn.satfinite{/.relu}.{e4m3x2/e5m2x2}.f32 $=h, $f, $f",
                "cvt.rn.satfinite{/.relu}.{e4m3x2/e5m2x2}.f16x2 $=h, $X",
                "cvt.rn{/.relu}.f16x2.{e4m3x2/e5m2x2} $=X, $h",
            ]);
        }
        let row = *self.rng.pick(&rows);
        row.replacen(".R", &format!(".{rounding}"), 1)
    }

    fn packed(&mut self) -> Option<String> {
        Some(self.choose("cvt.pack.sat.{{u16/s16}.s32 $=r, $r, $r/{u8/s8/u4/s4/u2/s2}.s32.b32 $=r, $r, $r, $r}"))
    }
}
