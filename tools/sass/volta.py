"""Finds the forms of sm_75 that sm_70 and sm_72 have too.

    ORIOLE_ORACLES=FOLDER python3 volta.py DATA_DIR CORPUS_FILE

FOLDER has an nvdisasm of CUDA 12, the last one that knows Volta. CORPUS_FILE is crates/isa/tests/corpus/sm_75.txt. For every form that lists
75, words of the corpus and random words are read as sm_70, sm_72 and sm_75. A target has the form if all texts are the same; `some` means
that only a part is, and such forms have to be looked at: bits that have a meaning on Turing only, or names that Volta does not have.
"""
import collections
import random
import sys

from check import Table, read, sample
from oracle import Disassembler
from words import plain

SAMPLES = 30


def legal(text):
    return text is not None and '???' not in text and 'INVALID' not in text


def main():
    data, corpus = sys.argv[1:]
    table = Table(read(data), 75)
    words = collections.defaultdict(list)
    for line in open(corpus):
        word = plain(int(line.split(' ', 1)[0], 16))
        matching = table.match(word)
        if len(matching) == 1:
            words[matching[0].where].append(word)
    rng = random.Random(1)
    forms = [form for forms in table.by.values() for form in forms]
    for form in forms:
        words[form.where] += [sample(form, rng) for _ in range(SAMPLES)]
    asked = [word for form in forms for word in words[form.where]]
    texts = {name: dict(zip(asked, Disassembler(name).many(asked))) for name in ('SM70', 'SM72', 'SM75')}
    for form in forms:
        known = [word for word in words[form.where] if legal(texts['SM75'][word])]
        answers = []
        for name in ('SM70', 'SM72'):
            same = sum(texts[name][word] == texts['SM75'][word] for word in known)
            answers.append('all' if same == len(known) else 'some' if any(legal(texts[name][word]) for word in known) else 'none')
        print(f'{form.where} {form.instruction.name} {form.opcode:03x}: sm_70 {answers[0]}, sm_72 {answers[1]}')


if __name__ == '__main__':
    main()
