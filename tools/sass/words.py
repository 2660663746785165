"""The collected machine words: <directory>/<target>.*.txt, one 128-bit word in hex per line.

The directory comes from the environment variable ORIOLE_SASS_WORDS (default: target/sass/words).
"""
import glob
import os

TARGETS = [75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121]
DIRECTORY = os.environ.get('ORIOLE_SASS_WORDS', 'target/sass/words')
# Words of these ptxas targets count for the number; sm_88 has no words of its own.
NAMES = {75: ['sm_75'], 80: ['sm_80'], 86: ['sm_86'], 87: ['sm_87'], 88: ['sm_86'], 89: ['sm_89'], 90: ['sm_90', 'sm_90a'],
         100: ['sm_100', 'sm_100a'], 103: ['sm_103', 'sm_103a'], 110: ['sm_110', 'sm_110a'],
         120: ['sm_120', 'sm_120a'], 121: ['sm_121', 'sm_121a']}
# The name nvdisasm knows the target by: the variant with all features.
DISASSEMBLER = {t: f'SM{t}{"a" if t >= 90 else ""}' for t in TARGETS}

CONTROL = ((1 << 17) - 1) << 105
# Stall 1, yield bit set, no barriers: what the text does not show, and `.reuse` visible.
PLAIN = (17 | 7 << 5 | 7 << 8) << 105


def plain(word):
    """The word with its scheduling bits replaced by neutral ones."""
    return (word & ~CONTROL) | PLAIN


def words_of(target, sweep=True):
    """opcode -> sorted distinct words of a target (a number), scheduling bits neutral; `sweep`: also those not from ptxas."""
    seen = set()
    for name in NAMES[target]:
        for path in glob.glob(os.path.join(DIRECTORY, name + '.*.txt')):
            if path.endswith('.sweep.txt') and not sweep:
                continue
            with open(path) as lines:
                seen |= {plain(int(l, 16)) for l in lines}
    by = {}
    for w in sorted(seen):
        by.setdefault(w & 0xfff, []).append(w)
    return by
