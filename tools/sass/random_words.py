"""Writes random words with nvdisasm's verdict: crates/isa/tests/random/<target>.txt, lines of `hex text` or `hex -`.

    python3 random_words.py DATA_DIR OUT_DIR [--per-target N] [TARGET...]

The opcode and, for half of the words, the fixed bits are those of a form of the table; all other bits are random, but for the
control part, which is one that nvdisasm accepts. `-`: nvdisasm refuses the word. Branch targets are distances from the next
instruction (`PC+0x10`).
"""
import argparse
import os
import random

from check import Table, read
from oracle import Disassembler
from words import DISASSEMBLER, TARGETS

CONTROL_MASK = (1 << 17) - 1 << 105
CONTROL = (17 | 7 << 5 | 7 << 8) << 105


def words(table, count, rng):
    forms = [form for forms in table.by.values() for form in forms]
    for number in range(count):
        form = rng.choice(forms)
        word = rng.getrandbits(128)
        mask, value = (form.mask, form.value) if number % 2 else (0xfff, form.opcode)
        yield (word & ~mask | value) & ~CONTROL_MASK | CONTROL


def main():
    args = argparse.ArgumentParser()
    args.add_argument('data')
    args.add_argument('out')
    args.add_argument('targets', nargs='*', type=int)
    args.add_argument('--per-target', type=int, default=1200)
    args = args.parse_intermixed_args()
    instructions = read(args.data)
    os.makedirs(args.out, exist_ok=True)
    for target in args.targets or TARGETS:
        chosen = list(words(Table(instructions, target), args.per_target, random.Random(target)))
        texts = Disassembler(DISASSEMBLER[target]).many(chosen)
        with open(os.path.join(args.out, f'sm_{target}.txt'), 'w') as f:
            for word, text in zip(chosen, texts):
                f.write(f'{word:032x} {" ".join(text.split()) if text else "-"}\n')
        print(target, len(chosen), sum(text is not None for text in texts), 'accepted')


if __name__ == '__main__':
    main()
