"""Reads functions in the text form of Ori (crates/ir/src/text/mod.rs describes it) as far as the proofs need it."""

import re
from dataclasses import dataclass, field


class Unsupported(Exception):
    """Something that the proofs cannot express; the message names it."""


@dataclass
class Operand:
    """A source operand. `kind` is "value", "number", "zero", "true", "constant", "address" or "other"."""

    kind: str
    text: str
    value: int = 0  # number of the value, or the number itself
    parts: tuple | None = None  # first and last register of a value; None if all
    negate: bool = False  # "-": negation of an integer or a float
    invert: bool = False  # "~" and "!": all bits
    absolute: bool = False
    suffix: str = ""  # for example ".H0_H0"


@dataclass
class Result:
    """A result operand: a value with its register file and number of registers, or None for RZ and PT."""

    value: int | None
    file: str
    count: int


@dataclass
class Inst:
    """An instruction. `guard` is an operand or None; `otherwise` maps the number of a result to the operand that it keeps without the guard."""

    guard: Operand | None
    results: list
    opcode: str
    sources: list
    otherwise: dict
    text: str


@dataclass
class Function:
    """A function: its blocks in the order of the text, as (name, instructions)."""

    name: str
    blocks: list = field(default_factory=list)


RESULT = re.compile(r"%(\d+):(UR|UP|R|P|B)(\d*)")
VALUE = re.compile(r"%(\d+)(?:\[(\d+)(?::(\d+))?\])?((?:\.\w+)*)$")


def split_operands(text):
    """Splits at commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += character in "[({"
        depth -= character in "])}"
        if character == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    last = text[start:].strip()
    return [*parts, last] if last else parts


def parse_operand(text):
    """Returns the operand that a text stands for."""
    rest, operand = text, Operand("other", text)
    while rest and rest[0] in "-~!":
        if rest[0] == "-" and re.match(r"-(0x|\d)", rest):
            break
        operand.negate ^= rest[0] == "-"
        operand.invert ^= rest[0] in "~!"
        rest = rest[1:]
    if match := re.fullmatch(r"\|([^|]*)\|((?:\.\w+)*)", rest):
        operand.absolute, rest = True, match[1] + match[2]
    if match := VALUE.match(rest):
        operand.kind, operand.value, operand.suffix = "value", int(match[1]), match[4]
        if match[2]:
            operand.parts = (int(match[2]), int(match[3] or match[2]))
    elif re.fullmatch(r"-?(0x[0-9a-f]+|\d+)", rest):
        operand.kind, operand.value = "number", int(rest, 0)
    elif rest in ("RZ", "URZ"):
        operand.kind = "zero"
    elif rest in ("PT", "UPT"):
        operand.kind = "true"
    elif re.fullmatch(r"c\[0x[0-9a-f]+\]\[0x[0-9a-f]+\]", rest):
        operand.kind, operand.text = "constant", rest
    elif "[" in rest and rest.endswith("]"):
        operand.kind, operand.text = "address", rest
    return operand


def parse_inst(line):
    """Parses one instruction, without its source position."""
    text = line.strip()
    guard = None
    if text.startswith("@"):
        word, text = text[1:].split(None, 1)
        guard = parse_operand(word)
    results = []
    head, equals, tail = text.partition(" = ")
    if equals:
        for part in split_operands(head):
            if match := RESULT.match(part):
                results.append(Result(int(match[1]), match[2], int(match[3] or 1)))
            elif part in ("RZ", "URZ", "PT", "UPT"):
                results.append(Result(None, "P" if part.endswith("T") else "R", 1))
            else:
                raise Unsupported(f"result {part}")
        text = tail
    opcode, _, rest = text.partition(" ")
    rest = re.sub(r"\s+![a-z].*$", "", rest)
    rest = re.sub(r"\s+contract$", "", rest)
    sources, otherwise = [], {}
    for part in split_operands(rest):
        if match := re.fullmatch(r"\(else(\d*) (.*)\)", part):
            otherwise[int(match[1] or 0)] = parse_operand(match[2])
        else:
            sources.append(parse_operand(part))
    return Inst(guard, results, opcode, sources, otherwise, line.strip())


def parse(lines):
    """Returns the functions of some lines, by name."""
    functions, current = {}, None
    for line in lines:
        line = line.split(";", 1)[0].rstrip()
        if not line.strip():
            continue
        if line.startswith("func "):
            name = re.search(r"@(\S+)", line)[1]
            current = functions[name] = Function(name)
        elif line.startswith("}"):
            current = None
        elif current is None:
            continue
        elif match := re.match(r"(bb\d+)[^:]*:$", line):
            current.blocks.append((match[1], []))
        elif not current.blocks:
            if not line.strip().startswith("symbol"):
                raise Unsupported(f"declaration {line.strip()}")
        else:
            current.blocks[-1][1].append(parse_inst(line))
    return functions
