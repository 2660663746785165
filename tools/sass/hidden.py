"""Operands that the machine reads and the text does not show.

On sm_80 to sm_89 a global access reads its memory descriptor from a uniform register. nvdisasm prints that register only when
bit 101 is set (`desc[UR4][R2.64]`), which ptxas never does; otherwise it prints `[R2.64]`. The form without it gets the register
as a hidden operand, at the bits where the form with it has it: `%UR(32:6)?4`.
"""
import re

SHOWN, NOT_SHOWN = '101=1', '101=0'
DEFAULT = 4
"""The uniform register ptxas takes first."""


def identity(rest):
    return rest.split(' with ')[0].strip()


def add(lines):
    """The lines of a table file, with hidden operands."""
    out, forms, mnemonic = list(lines), [], None
    for i, line in enumerate(lines):
        if line and line[0] not in ' #':
            mnemonic = line.split()[0]
        m = re.match(r'\s+form (\w+) on \S+ (.*)', line)
        if m:
            forms.append((mnemonic, i, m.group(1), m.group(2)))
    for mnemonic, i, opcode, rest in forms:
        if NOT_SHOWN not in rest or 'UR(' in lines[i + 1]:
            continue
        wanted = identity(rest).replace(NOT_SHOWN, SHOWN)
        for other, j, other_opcode, other_rest in forms:
            m = re.search(r'desc\[UR\((\d+):(\d+)\)\]', lines[j + 1])
            if (other, other_opcode, identity(other_rest)) == (mnemonic, opcode, wanted) and m:
                low, width = int(m.group(1)), int(m.group(2))
                presets = rest.split(' with ')[1].split() if ' with ' in rest else []
                kept = [p for p in presets if not low <= int(re.match(r'\d+', p).group()) < low + width]
                out[i] = lines[i].split(' with ')[0] + (' with ' + ' '.join(kept) if kept else '')
                out[i + 1] = f'{lines[i + 1]}, %UR({low}:{width})?{DEFAULT}'
                break
    return out
