"""Names of the special registers of each target, asked one by one; rewrites their fields in the table files.

    python3 special_registers.py DATA_DIR

Samples of a field with 256 values miss the few names that differ between two targets, so the learner may take over a neighbour's
table. This script asks nvdisasm about every value on every target and splits the forms of S2R, S2UR, CS2R and CS2UR accordingly.
"""
import os
import re
import sys

from check import parse_bits, parse_targets
from emit import target_list
from oracle import Disassembler
from words import DISASSEMBLER, PLAIN, TARGETS

FIELD = re.compile(r'  field (special\w*)\s+(\S+) ')


def names(target, opcode, fix, bits):
    base = opcode | 7 << 12 | 8 << 16 | PLAIN
    for place, value in fix:
        for i, b in enumerate(parse_bits(place)):
            base = base & ~(1 << b) | (value >> i & 1) << b
    texts = Disassembler(DISASSEMBLER[target]).many([base | v << bits[0] for v in range(1 << len(bits))])
    return tuple('?' if t is None or '?' in t or 'INVALID' in t else t.split()[-1] for t in texts)


def rewrite(lines):
    out, tables = [], {}
    bits = next(parse_bits(FIELD.match(l).group(2)) for l in lines if FIELD.match(l))
    place = next(FIELD.match(l).group(2) for l in lines if FIELD.match(l))
    i = 0
    while i < len(lines):
        m = re.match(r'  form (\w+) on (\S+)(.*)', lines[i])
        if FIELD.match(lines[i]):
            i += 1
            continue
        if not m or '{special' not in lines[i + 1]:
            out.append(lines[i])
            i += 1
            continue
        fix = [(a.split('=')[0], int(a.split('=')[1])) for a in re.findall(r'\d[\d:+]*=\d+', m.group(3).split(' with ')[0])]
        groups = {}
        for target in parse_targets(m.group(2)):
            groups.setdefault(names(target, int(m.group(1), 16), fix, bits), []).append(target)
        for table, targets in groups.items():
            name = tables.setdefault(table, f'special{len(tables) + 1 if tables else ""}')
            out += [f'  form {m.group(1)} on {target_list(targets)}{m.group(3)}', re.sub(r'\{special\w*\}', '{%s}' % name, lines[i + 1])]
        i += 2
    return out[:1] + [f'  field {name} {place} {" ".join(table)}' for table, name in tables.items()] + out[1:]


def main():
    for file in sorted(os.listdir(sys.argv[1])):
        path = os.path.join(sys.argv[1], file)
        if not file.endswith('.sass'):
            continue
        blocks = re.split(r'(?m)^(?=[A-Z])', open(path).read())
        for i, block in enumerate(blocks):
            if re.match(r'(S2R|S2UR|CS2R|CS2UR)\n', block) and '{special' in block:
                body = block.rstrip('\n').split('\n')
                blocks[i] = '\n'.join(rewrite(body)) + block[len(block.rstrip('\n')):]
                print(file, body[0])
        with open(path, 'w') as out:
            out.write(''.join(blocks))


if __name__ == '__main__':
    main()
