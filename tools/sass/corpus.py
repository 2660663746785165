"""Writes the offline corpus: crates/isa/tests/corpus/<target>.txt, lines of `hex text`.

    python3 corpus.py DATA_DIR OUT_DIR [--per-target N] [TARGET...]

For each target: collected words and words made from the table files, chosen so that every form and every value of
every spelling table and every conditional bit occurs at least once, then filled up with collected words spread over
the forms. The text is nvdisasm's; branch targets are distances from the next instruction (`PC+0x10`).
"""
import argparse
import collections
import os
import random

from check import Table, read, sample
from oracle import Disassembler
from words import DISASSEMBLER, TARGETS, words_of


FULL = (75, 80, 90, 100, 120)
"""One target of each generation; the others differ little and get a shorter corpus."""


def features(form, word, bits):
    """What of a form a word exercises; `bits`: also each value of each bit."""
    yield form.where
    for place, _ in form.instruction.fields.values():
        if set(place) <= form.bits:
            yield form.where, tuple(place), sum((word >> b & 1) << i for i, b in enumerate(place))
    for b in form.bits if bits else ():
        yield form.where, b, word >> b & 1


def choose(table, target, count, rng):
    d = Disassembler(DISASSEMBLER[target])
    collected = [w for ws in words_of(target).values() for w in ws]
    rng.shuffle(collected)
    made = []
    for forms in table.by.values():
        for f in forms:
            made += [sample(f, rng) for _ in range(16)]
            for bits, spellings in f.instruction.fields.values():
                if set(bits) <= f.bits:
                    for v in spellings:
                        w = sample(f, rng)
                        for i, b in enumerate(bits):
                            if not f.mask >> b & 1:
                                w = w & ~(1 << b) | (v >> i & 1) << b
                        made.append(w)
    seen, chosen, spare = set(), {}, collections.defaultdict(list)
    for words in (collected, made):
        for w, t in zip(words, d.many(words)):
            if t is None or '???' in t or 'INVALID' in t:
                continue
            forms = table.match(w)
            if len(forms) != 1:
                continue
            new = set(features(forms[0], w, target in FULL)) - seen
            if new:
                seen |= new
                chosen[w] = t
            elif words is collected:
                spare[forms[0].where].append((w, t))
    while len(chosen) < count and spare:
        for where in list(spare):
            if len(chosen) >= count:
                break
            w, t = spare[where].pop()
            chosen[w] = t
            if not spare[where]:
                del spare[where]
    return chosen


def main():
    args = argparse.ArgumentParser()
    args.add_argument('data')
    args.add_argument('out')
    args.add_argument('targets', nargs='*', type=int)
    args.add_argument('--per-target', type=int, default=3500)
    args = args.parse_intermixed_args()
    instructions = read(args.data)
    os.makedirs(args.out, exist_ok=True)
    for target in args.targets or TARGETS:
        chosen = choose(Table(instructions, target), target, args.per_target, random.Random(target))
        with open(os.path.join(args.out, f'sm_{target}.txt'), 'w') as f:
            for w in sorted(chosen, key=lambda w: (w & 0xfff, w)):
                f.write(f'{w:032x} {" ".join(chosen[w].split())}\n')
        print(target, len(chosen))


if __name__ == '__main__':
    main()
