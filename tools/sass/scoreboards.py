"""Which forms can set scoreboards: asks nvdisasm and writes the answer into the table files.

nvdisasm refuses a word whose control bits name a scoreboard that the instruction cannot set. For each form of
the table on each of its targets, random words are shown to it with a scoreboard for reads, and with one for
results. A form that is refused always gets `never R`, `never W` or `never RW` at the end of its header. The form
is left alone where the answers differ between words; the script prints these. For two forms of CCTL, `never RW`
was added by hand: CCTL.IVALL and CCTL.WBALL are refused, and only .C and .I are not, from sm_100 on.

usage: scoreboards.py TABLE_DIRECTORY [MNEMONIC...]
"""
import collections
import glob
import os
import random
import re
import sys

import check
from oracle import Disassembler
from words import DISASSEMBLER, TARGETS

READ, WRITE = 7 << 113, 7 << 110
SAMPLES = 3


def ask(instructions):
    """place of a form -> list of (refuses reads, refuses results)"""
    answers = collections.defaultdict(list)
    for target in TARGETS:
        disassembler, rng = Disassembler(DISASSEMBLER[target]), random.Random(target)
        known = []
        for instruction in instructions:
            for form in instruction.forms:
                if target in form.targets:
                    words = [check.sample(form, rng) for _ in range(SAMPLES)]
                    texts = disassembler.many(words)
                    known += [(form.where, w) for w, t in zip(words, texts) if t and '?' not in t and 'INVALID' not in t]
        reads = disassembler.many([w & ~READ for _, w in known])
        writes = disassembler.many([w & ~WRITE for _, w in known])
        for (where, _), read, write in zip(known, reads, writes):
            answers[where].append((read is None, write is None))
    return answers


def clause(answers, where):
    letters = ''
    for letter, refused in (('R', [a[0] for a in answers]), ('W', [a[1] for a in answers])):
        if any(refused) and not all(refused):
            print(f'{where}: a scoreboard {letter} is refused for {sum(refused)} of {len(refused)} words')
        elif refused and all(refused):
            letters += letter
    return f' never {letters}' if letters else ''


def main():
    directory = sys.argv[1]
    wanted = set(sys.argv[2:])
    answers = ask([i for i in check.read(directory) if not wanted or i.name in wanted])
    for path in sorted(glob.glob(os.path.join(directory, '*.sass'))):
        lines = open(path).read().split('\n')
        for number, line in enumerate(lines):
            if line.startswith('  form '):
                # A form's place is the line of its template.
                where = f'{os.path.basename(path)}:{number + 2}'
                if where in answers:
                    lines[number] = re.sub(r' never \w+', '', line) + clause(answers[where], where)
        with open(path, 'w') as out:
            out.write('\n'.join(lines))


if __name__ == '__main__':
    main()
