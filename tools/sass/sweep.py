"""Looks for opcodes that nvdisasm accepts and the collected words never showed.

    python3 sweep.py [--all] ROWS_DIR TARGET...      writes <words directory>/sm_<target>.sweep.txt

An instruction often has sibling opcodes that differ in bits 9..11 only: the same operation with an immediate, a constant
or a uniform register as an operand. So for every opcode without rows: words of its learned siblings with the opcode
replaced (bit 91, which marks uniform operands, both ways), words of the same opcode on other targets, then a few plain and random words.
Opcodes without any known sibling are tried only with --all: most are illegal, and every illegal word takes a while.
"""
import os
import pickle
import random
import sys
from concurrent.futures import ProcessPoolExecutor

from oracle import Disassembler
from words import DIRECTORY, DISASSEMBLER, PLAIN, TARGETS, plain

TRIES = 2


def candidates(opcode, siblings, rng):
    """Words to try, most promising first."""
    for base in siblings:
        w = base & ~0xfff | opcode
        yield w
        yield w ^ 1 << 91
    start = opcode | 7 << 12 | PLAIN
    for high in (0, 1 << 91):
        yield start | high
    for _ in range(TRIES):
        yield plain(start | rng.getrandbits(89) << 16)


def sweep(args):
    """{opcode: word} of new opcodes of one target."""
    directory, target, everything = args
    rows = {t: pickle.load(open(path, 'rb')) for t in TARGETS if os.path.exists(path := os.path.join(directory, f'{t}.rows'))}
    d = Disassembler(DISASSEMBLER[target])
    known = rows.get(target, {})
    rng = random.Random(target)
    found = {}
    for opcode in range(4096):
        if opcode in known:
            continue
        siblings = [r['base'] for t in rows if opcode in rows[t] for r in rows[t][opcode][:2]]
        for other in range(8):
            siblings += [r['base'] for r in known.get(opcode & 0x1ff | other << 9, ())[:2]]
        if not siblings and not everything:
            continue
        for w in dict.fromkeys(candidates(opcode, siblings[:4], rng)):
            t = d.one(plain(w))
            if t is not None and '???' not in t:
                found[opcode] = plain(w)
                print(f'{target} {opcode:03x} {t}', flush=True)
                break
        d.cache.clear()
    with open(os.path.join(DIRECTORY, f'sm_{target}.sweep.txt'), 'w') as f:
        for w in found.values():
            f.write(f'{w:032x}\n')
    return found


def main():
    everything = '--all' in sys.argv
    directory, *targets = [x for x in sys.argv[1:] if x != '--all']
    targets = [int(t) for t in targets]
    with ProcessPoolExecutor(2) as pool:
        for target, found in zip(targets, pool.map(sweep, [(directory, t, everything) for t in targets])):
            print(target, len(found), 'opcodes:', ' '.join(f'={op:03x}' for op in found))


if __name__ == '__main__':
    main()
