"""The instructions that check.py judges: one kernel each in ieee.ptx. Run this file to write ieee.ptx.

    instructions.py                 writes ieee.ptx
    instructions.py --library OUT   writes OUT: the instructions that crates/isel/library has a function for, as calls of it, so
                                    that any assembler can put the library on a GPU
"""

import pathlib
import re
import sys
from dataclasses import dataclass

# Codes of checker.cu.
TYPES = {name: code for code, name in enumerate(["f32", "f64", "f16", "bf16", "tf32"])}
TYPES |= {name: 8 + code for code, name in enumerate(["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"])}
OPS = {name: code for code, name in enumerate(
    "div rcp sqrt fma add mul cvt rint idiv irem min max div_approx div_full rcp_approx sqrt_approx rsqrt_approx ex2 lg2 "
    "sin cos tanh rsqrt64".split())}
MODES = {"rn": 0, "rz": 1, "rm": 2, "rp": 3, "rna": 4}
BYTES = {"f32": 4, "f64": 8, "f16": 2, "bf16": 2, "tf32": 4, "u8": 1, "s8": 1, "u16": 2, "s16": 2, "u32": 4, "s32": 4,
         "u64": 8, "s64": 8}
# Register class and type of loads and stores.
REGISTERS = {"f32": ("f", "f32"), "f64": ("d", "f64"), "f16": ("h", "b16"), "bf16": ("h", "b16"), "tf32": ("r", "b32"),
             "u8": ("h", "u8"), "s8": ("h", "s8"), "u16": ("h", "u16"), "s16": ("h", "s16"), "u32": ("r", "u32"),
             "s32": ("r", "s32"), "u64": ("l", "u64"), "s64": ("l", "s64")}
INTEGERS = ["u8", "s8", "u16", "s16", "u32", "s32", "u64", "s64"]


@dataclass
class Instruction:
    """One instruction: its PTX head and what checker.cu needs to know."""

    head: str
    op: str
    type: str
    source: str
    operands: int
    mode: str = "rn"
    ftz: bool = False

    @property
    def kernel(self):
        return self.head.replace(".", "_")

    @property
    def codes(self):
        return OPS[self.op], TYPES[self.type], TYPES[self.source], MODES[self.mode], int(self.ftz)

    @property
    def exhaustive(self):
        """Whether every operand can be tried: one operand of at most 32 bits."""
        return self.operands == 1 and BYTES[self.source] <= 4


def arithmetic():
    for mode in ("rn", "rz", "rm", "rp"):
        for op, operands in (("div", 2), ("rcp", 1), ("sqrt", 1), ("fma", 3), ("add", 2), ("mul", 2)):
            yield Instruction(f"{op}.{mode}.f32", op, "f32", "f32", operands, mode)
            yield Instruction(f"{op}.{mode}.ftz.f32", op, "f32", "f32", operands, mode, True)
            yield Instruction(f"{op}.{mode}.f64", op, "f64", "f64", operands, mode)


def approximations():
    for ftz in (False, True):
        z = ".ftz" if ftz else ""
        for op, head, operands in (("div_approx", "div.approx", 2), ("div_full", "div.full", 2), ("rcp_approx", "rcp.approx", 1),
                                   ("sqrt_approx", "sqrt.approx", 1), ("rsqrt_approx", "rsqrt.approx", 1), ("ex2", "ex2.approx", 1),
                                   ("lg2", "lg2.approx", 1), ("sin", "sin.approx", 1), ("cos", "cos.approx", 1)):
            yield Instruction(f"{head}{z}.f32", op, "f32", "f32", operands, "rn", ftz)
    yield Instruction("tanh.approx.f32", "tanh", "f32", "f32", 1)
    yield Instruction("rsqrt.approx.f64", "rsqrt64", "f64", "f64", 1)


def integers():
    for type in INTEGERS[2:]:
        for op in ("div", "rem"):
            yield Instruction(f"{op}.{type}", "idiv" if op == "div" else "irem", type, type, 2)


def conversions():
    for mode in ("rn", "rz", "rm", "rp"):
        for integer in INTEGERS:
            for real in ("f16", "f32", "f64", "bf16"):
                if real == "bf16" and BYTES[integer] == 1:
                    continue
                yield Instruction(f"cvt.{mode}.{real}.{integer}", "cvt", real, integer, 1, mode)
                yield Instruction(f"cvt.{mode}i.{integer}.{real}", "cvt", integer, real, 1, mode)
        for real in ("f32", "f64", "f16"):
            yield Instruction(f"cvt.{mode}i.{real}.{real}", "rint", real, real, 1, mode)
        yield Instruction(f"cvt.{mode}.f32.f64", "cvt", "f32", "f64", 1, mode)
        yield Instruction(f"cvt.{mode}.ftz.f32.f64", "cvt", "f32", "f64", 1, mode, True)
        yield Instruction(f"cvt.{mode}.f16.f32", "cvt", "f16", "f32", 1, mode)
        yield Instruction(f"cvt.{mode}.f16.f64", "cvt", "f16", "f64", 1, mode)
        yield Instruction(f"cvt.{mode}.bf16.f32", "cvt", "bf16", "f32", 1, mode)
        yield Instruction(f"cvt.{mode}.bf16.f64", "cvt", "bf16", "f64", 1, mode)
        yield Instruction(f"cvt.{mode}.bf16.f16", "cvt", "bf16", "f16", 1, mode)
        yield Instruction(f"cvt.{mode}.f16.bf16", "cvt", "f16", "bf16", 1, mode)
    for to, source in (("f32", "f16"), ("f64", "f16"), ("f64", "f32"), ("f32", "bf16"), ("f64", "bf16")):
        yield Instruction(f"cvt.{to}.{source}", "cvt", to, source, 1)
    yield Instruction("cvt.ftz.f64.f32", "cvt", "f64", "f32", 1, "rn", True)
    for mode in ("rna", "rn", "rz"):
        yield Instruction(f"cvt.{mode}.tf32.f32", "cvt", "tf32", "f32", 1, mode)


def others():
    for op in ("min", "max"):
        yield Instruction(f"{op}.f64", op, "f64", "f64", 2)
        yield Instruction(f"{op}.f32", op, "f32", "f32", 2)
        yield Instruction(f"{op}.f16", op, "f16", "f16", 2)
    for mode in ("rn",):
        for op, operands in (("fma", 3), ("add", 2), ("mul", 2)):
            yield Instruction(f"{op}.{mode}.f16", op, "f16", "f16", operands, mode)
            yield Instruction(f"{op}.{mode}.bf16", op, "bf16", "bf16", operands, mode)


INSTRUCTIONS = [*arithmetic(), *approximations(), *integers(), *conversions(), *others()]


def kernel(instruction, call=False):
    size, result_size = BYTES[instruction.source], BYTES[instruction.type]
    register, access = REGISTERS[instruction.source]
    result_register, result_access = REGISTERS[instruction.type]
    loads = "".join(
        f"    mad.lo.u64 %p, %i, {size}, %{name};\n    ld.global.{access} %{register}{place + 1}, [%p];\n"
        for place, name in enumerate("abc"[: instruction.operands])
    )
    sources = "".join(f", %{register}{place + 1}" for place in range(instruction.operands))
    compute = f"{instruction.head} %{result_register}0{sources};"
    if call:
        compute = library_call(instruction, f"%{result_register}0", sources[2:].split(", "))
    return f"""
.visible .entry {instruction.kernel} (.param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c, .param .u64 n)
{{
    .reg .pred %more;
    .reg .b16 %h<4>;
    .reg .b32 %r<4>, %block, %thread, %blocks, %threads;
    .reg .b64 %l<4>, %out, %a, %b, %c, %n, %i, %step, %p;
    .reg .f32 %f<4>;
    .reg .f64 %d<4>;
    ld.param.u64 %out, [out];
    ld.param.u64 %a, [a];
    ld.param.u64 %b, [b];
    ld.param.u64 %c, [c];
    ld.param.u64 %n, [n];
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mov.u32 %blocks, %nctaid.x;
    cvt.u64.u32 %i, %thread;
    mul.wide.u32 %p, %block, %threads;
    add.u64 %i, %i, %p;
    mul.wide.u32 %step, %blocks, %threads;
NEXT:
    setp.lt.u64 %more, %i, %n;
    @!%more bra DONE;
{loads}    {compute}
    mad.lo.u64 %p, %i, {result_size}, %out;
    st.global.{result_access} [%p], %{result_register}0;
    add.u64 %i, %i, %step;
    bra.uni NEXT;
DONE:
    ret;
}}
"""


def library_call(instruction, result, sources):
    """A call of the library's function; 16-bit integers go through 32 bits."""
    name = f"__oriole_{instruction.kernel}"
    if instruction.type not in ("u16", "s16"):
        return f"call ({result}), {name}, ({', '.join(sources)});"
    wide = instruction.type.replace("16", "32")
    widen = " ".join(f"cvt.{wide}.{instruction.type} %r{place + 1}, {source};" for place, source in enumerate(sources))
    return f"{widen} call (%r0), {name}, (%r1, %r2); cvt.{instruction.type}.{wide} {result}, %r0;"


def library_module():
    text, names = ".version 8.6\n.target sm_90\n.address_size 64\n", set()
    folder = pathlib.Path(__file__).parents[2] / "crates/isel/library"
    for path in sorted(folder.glob("*.ptx")):
        source = path.read_text()
        text += source.split(".address_size 64\n", 1)[1]
        names |= set(re.findall(r"__oriole_(\w+)", source))
    listed = [instruction for instruction in INSTRUCTIONS if instruction.kernel in names]
    missing = names - {instruction.kernel for instruction in listed}
    assert not missing, f"no instruction for {missing}"
    return text + "".join(kernel(instruction, call=True) for instruction in listed)


def main():
    if sys.argv[1:2] == ["--library"]:
        pathlib.Path(sys.argv[2]).write_text(library_module())
        return
    text = "// One kernel per instruction: out[i] = instruction(a[i], b[i], c[i]) for i < n. Written by instructions.py.\n"
    text += ".version 8.6\n.target sm_90\n.address_size 64\n"
    text += "".join(kernel(instruction) for instruction in INSTRUCTIONS)
    pathlib.Path(__file__).with_name("ieee.ptx").write_text(text)


if __name__ == "__main__":
    main()
