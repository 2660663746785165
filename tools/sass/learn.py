"""Learns what the bits of a target's machine words mean, from the text nvdisasm prints for them.

For every opcode (bits 11..0) of the collected words: take a word, flip each of its bits, and compare
the texts' attributes (sasstext.py). A bit may
  - change one number of one operand: it belongs to a numeric field, and how much it changes the number is its weight;
  - change spellings: it belongs to a group; bits that act on the same spelling, or not independently, are one group,
    which is enumerated;
  - change the operands' kinds or count, or the mnemonic: it is part of the form's identity (fixed), and the word with
    this bit flipped is the start of another form;
  - make the word illegal: fixed as well; or do nothing.
The result is a row. Rows are then tried on random words and on all collected ones. Where the row's
own rendering (render.py) differs from nvdisasm's, the word is reduced to the few bits that make the difference,
and the opcode is learned again with these bits fixed (or enumerated together). These decisions are kept as hints and used
for the other targets too, so that their forms have the same shapes. Rows of a target learned before that hold here
as well are taken over without new experiments.

    python3 learn.py OUT_DIR TARGET...     writes OUT_DIR/<number>.rows, OUT_DIR/hints.json
"""
import difflib
import functools
import itertools
import json
import os
import pickle
import random
import re
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from oracle import Disassembler
from render import FLOATS, get, render
from sasstext import INSIDE, REGISTERS, Unreadable, is_number, kind_of, parse, plain_text
from words import DISASSEMBLER, TARGETS, plain, words_of

BITS = [b for b in range(16, 128) if not 105 <= b < 122]
ROWS_PER_OPCODE = 160
ROUNDS = 14
PREFIXES = ('neg', 'inv', 'not', 'abs')


def put(word, bits, value):
    for i, b in enumerate(bits):
        word = word & ~(1 << b) | (value >> i & 1) << b
    return word


def differing(a, b):
    return {k for k in a.keys() | b.keys() if a.get(k) != b.get(k)}


def is_list(path):
    return path == 'mods' or path.endswith('.m')


def structural(a, b, keys):
    """Whether texts that differ in these attributes are different forms."""
    for k in keys:
        last = k.split('.')[-1]
        if k in ('mn', 'n') or last in ('k', 'w', 'gs', 'rel'):
            return True
        if '.g' in k and last.rstrip('0123456789') in ('R', 'UR', 'P', 'UP') and (k not in a or k not in b):
            return True
    return False


def without(a, j):
    """Attributes with operand j removed."""
    out = {}
    for k, v in a.items():
        m = re.match(r'o(\d+)(\..*)', k)
        if m:
            i = int(m.group(1))
            if i == j:
                continue
            k = f'o{i - (i > j)}{m.group(2)}'
        out[k] = v
    out['n'] = a['n'] - 1
    return out


def with_empty(a, j):
    """Attributes with an empty name inserted as operand j."""
    out = {f'o{j}.k': 'N', f'o{j}.s': ''}
    for k, v in a.items():
        m = re.match(r'o(\d+)(\..*)', k)
        if m and int(m.group(1)) >= j:
            k = f'o{int(m.group(1)) + 1}{m.group(2)}'
        out[k] = v
    out['n'] = a['n'] + 1
    return out


def inserted(a, b):
    """Index of the operand that b has more than a, if that is all."""
    return next((j for j in range(b['n']) if without(b, j) == a), None)


class Unusable(Exception):
    pass


class Learner:
    def __init__(self, disassembler):
        self.d = disassembler
        self.forced, self.glued = set(), []

    def attrs(self, words, like=None):
        """Attributes of each word's text; None for illegal or unreadable ones.

        A name operand of `like` that is missing counts as one with an empty name."""
        out = []
        for t in self.d.many(words):
            try:
                a = None if t is None else parse(t)
            except Unreadable:
                a = None
            if a and like and a['n'] == like['n'] - 1 and a['mn'] == like['mn']:
                for j in range(like['n']):
                    if like[f'o{j}.k'] == 'N' and all(a[f'o{i}.k'] == like[f'o{i + (i >= j)}.k'] for i in range(a['n'])):
                        a = with_empty(a, j)
                        break
            out.append(a)
        return out

    # --- one row

    def enrich(self, base, a0):
        """Makes operands and terms visible that are left out because their field holds its default."""
        while True:
            votes = {}
            for b, a in zip(BITS, self.attrs([base ^ 1 << b for b in BITS])):
                if a is None or b in self.forced:
                    continue
                d = differing(a, a0)
                v = [k for k in d if '.g' in k and k.split('.')[-1] in ('R', 'UR')]
                if len(v) == 1 and v[0] in a and v[0] not in a0 and all(k in (v[0], v[0] + '.m') for k in d):
                    votes.setdefault(v[0], []).append((b, a))
                elif a['mn'] == a0['mn'] and a['mods'] == a0['mods'] and a['n'] == a0['n'] + 1:
                    j = inserted(a0, a)
                    if j is not None and a.get(f'o{j}.k') in ('P', 'UP', 'R', 'UR', 'I', 'SET', 'N'):
                        votes.setdefault(str(j), []).append((b, a))
            votes = {k: v for k, v in votes.items() if len(v) >= 2}
            if not votes:
                return base, a0
            b, a0 = votes[min(votes)][0]
            base ^= 1 << b

    def flips(self, base, a0, vanish=REGISTERS + ('I', 'SET')):
        """What each bit does: effects (bit -> attributes), values, and the illegal, idle and structural bits.

        An operand of a kind in `vanish` that disappears is one whose field got its default."""
        effect, value, illegal, idle, struct = {}, {}, [], [], []
        for b, a in zip(BITS, self.attrs([base ^ 1 << b for b in BITS], a0)):
            if a is None:
                illegal.append(b)
                continue
            if b in self.forced:
                struct.append(b)
                continue
            d = differing(a, a0)
            if not d:
                idle.append(b)
                continue
            if structural(a0, a, d):
                if a['n'] == a0['n'] - 1:
                    j = inserted(a, a0)
                    if j is not None and a0.get(f'o{j}.k') in vanish:
                        effect[b], value[b] = frozenset({f'o{j}.n'}), {f'o{j}.n': -1 if a0[f'o{j}.k'] in REGISTERS else 0}
                        continue
                v = [k for k in d if '.g' in k and k.split('.')[-1].rstrip('0123456789') in ('R', 'UR')]
                if 'R' in vanish and len(v) == 1 and v[0] in a0 and v[0] not in a and all(k == v[0] or k.startswith(v[0] + '.') for k in d):
                    effect[b], value[b] = frozenset(v), {v[0]: -1}
                    continue
                struct.append(b)
                continue
            effect[b], value[b] = frozenset(d), {k: a.get(k) for k in d}
        return effect, value, illegal, idle, struct

    def numeric(self, base, a0, effect, value, loose):
        """Numeric fields by attribute path. `loose`: bits that may fill a gap in a register field."""
        by = {}
        for b, paths in effect.items():
            if all(is_number(q) for q in paths):
                for q in paths:
                    by.setdefault(q, []).append(b)
        fields = {}
        for q, bits in by.items():
            bits.sort()
            v0 = a0.get(q)
            kind = kind_of(a0, q)
            if kind == 'F':
                f = self.float_field(base, q)
            elif kind in REGISTERS:
                f = self.register_field(base, kind, v0, {b: value[b][q] for b in bits}, loose)
            else:
                f = {'kind': 'num', 'bits': bits, 'weights': {}}
                for b in bits:
                    delta = (value[b][q] or 0) - (v0 or 0)
                    f['weights'][b] = -delta if base >> b & 1 else delta
                f['plus'] = (v0 or 0) - sum(w for b, w in f['weights'].items() if base >> b & 1)
            if f:
                fields[q] = f
        return fields

    def float_field(self, base, q):
        rng = random.Random(3)
        values = [rng.getrandbits(32) for _ in range(12)] + [0x3f80bf80]
        words = [put(base, range(32, 64), v) for v in values]
        texts = [a and a.get(q) for a in self.attrs(words)]
        for kind, bits in (('f32', range(32, 64)), ('f64', range(32, 64)), ('f16', range(32, 48)), ('bf16', range(32, 48)),
                           ('f16', range(48, 64)), ('bf16', range(48, 64))):
            if all(t is None or FLOATS[kind](get(w, bits)) == t for w, t in zip(words, texts)):
                return {'kind': 'float', 'bits': list(bits), 'float': kind}
        return None

    def register_field(self, base, kind, v0, values, loose):
        bits = sorted(values)
        weight = {b: abs(v - v0) for b, v in values.items() if v is not None and v0 is not None and v >= 0 and v0 >= 0}
        if not weight:
            low = high = bits[0]
            while high + 1 in values and high + 1 - low < (3 if 'P' in kind else 8):
                high += 1
            return {'kind': 'reg', 'bits': list(range(low, high + 1)), 'scale': 1, 'xor': 0}
        anchor = min(weight)
        if all(w == weight[anchor] << b - anchor for b, w in weight.items()):
            scale, low = weight[anchor], anchor
            while scale > 1 and (low - 1 in loose or low - 1 in values):
                low, scale = low - 1, scale // 2
            high = max(weight)
            while high + 1 in values and high + 1 - low < (3 if 'P' in kind else 8):
                high += 1
            bits = list(range(low, high + 1))
        else:
            bits = sorted(weight, key=lambda b: weight[b])
            scale = weight[bits[0]]
        ones = (1 << len(bits)) - 1
        raw = get(base, bits)
        f = {'kind': 'reg', 'bits': bits, 'scale': scale, 'xor': 0}
        if v0 is not None and v0 >= 0:
            if scale == 1 and raw == v0 ^ ones and len(bits) == 3 and raw != v0:
                f['xor'] = ones
            elif raw * scale != v0 and v0 - raw * scale in (1, 2, 3):
                f['plus'] = v0 - raw * scale
        elif raw == 0 and kind in ('P', 'UP') and v0 == -1:
            f['xor'] = ones
        return f

    def rebase(self, base, a0, fields):
        """Registers to 8, 16, ..., predicates to 0, 1, 2, numbers small, so that no default hides an operand."""
        new, count, done = base, {}, set()
        for q, f in sorted(fields.items()):
            k = kind_of(a0, q)
            if f['kind'] == 'reg' and k in ('R', 'UR', 'P', 'UP') and f['bits'][0] not in done:
                done.add(f['bits'][0])
                c = count[k] = count.get(k, -1) + 1
                want = c % 3 if 'P' in k else (8 + 8 * c) % (56 if len(f['bits']) <= 6 else 248)
                new = put(new, f['bits'], want // f['scale'] ^ f['xor'])
        for q, f in sorted(fields.items()):
            if f['kind'] == 'num' and q.endswith('.n') and len(f['bits']) > 1 and a0.get(q[:-1] + 'k') == 'I':
                for v in (0, 5, 2):
                    x = put(new, f['bits'], v)
                    a = self.attrs([x])[0]
                    if a and all(is_number(k) for k in differing(a, a0)) and not structural(a0, a, differing(a, a0)):
                        new = x
                        break
        a = self.attrs([new])[0]
        if a is None or any(not is_number(k) for k in differing(a, a0)) or structural(a0, a, differing(a, a0)):
            return base, a0
        return new, a

    def learn(self, word):
        """The row of the form a word belongs to, and words of neighbouring forms."""
        base = plain(word)
        a0 = self.attrs([base])[0]
        if a0 is None:
            raise Unusable(self.d.cache.get(base))
        always = base & ~(1 << 15) | 7 << 12
        a = self.attrs([always])[0]
        if a is not None:
            base, a0 = always, a
        base, a0 = self.enrich(base, a0)
        effect, value, illegal, idle, struct = self.flips(base, a0)
        fields = self.numeric(base, a0, effect, value, set(illegal) | set(idle) | set(struct) - self.forced)
        new, a = self.rebase(base, a0, fields)
        if new != base:
            base, a0 = new, a
            effect, value, illegal, idle, struct = self.flips(base, a0, ('I', 'SET'))
            again = self.numeric(base, a0, effect, value, set(illegal) | set(idle) | set(struct) - self.forced)
            for q, f in fields.items():
                if q not in again or len(again[q]['bits']) < len(f['bits']) and f['kind'] == 'reg':
                    again[q] = f
            fields = again
        numbers = {b for f in fields.values() for b in f['bits']}
        # a number that disappears for another reason than its own value: another form
        for b in [b for b in effect if b not in numbers and all(is_number(p) for p in effect[b])]:
            del effect[b]
            struct.append(b)
        groups = self.group(base, a0, [b for b in effect if b not in numbers], effect, illegal)
        used = numbers | {b for g in groups for b in g['bits']}
        struct = [b for b in struct if b not in used]
        illegal = [b for b in illegal if b not in used]
        row = {'base': base, 'text': self.d.cache[base], 'attrs': a0, 'fields': fields, 'groups': groups,
               'fixed': sorted(struct + illegal), 'struct': struct, 'idle': [b for b in idle if b not in used]}
        self.optional(row)
        self.addresses(row)
        a = self.attrs([base & ~(15 << 12)])[0]
        row['guard'] = a['guard'][0] if a and 'guard' in a else None
        self.order(row)
        row['inside'] = {k for m, k in INSIDE if m == a0['mn']}
        others = [base ^ 1 << b for b in struct]
        row['elsewhere'] = [w for g in groups for w in g.pop('elsewhere')]
        return row, others + row['elsewhere']

    def optional(self, row):
        """Operands left out at one stored value of their field; whether an offset of 0 is printed."""
        base, a0 = row['base'], row['attrs']
        row['opt'] = {}
        for q, f in row['fields'].items():
            if not q.endswith('.n') or f['kind'] == 'float':
                continue
            o = int(q[1:].split('.')[0])
            shown = without(a0, o)
            ones = (1 << len(f['bits'])) - 1
            for raw in dict.fromkeys((ones, 0, 255 & ones)):
                w = put(base, f['bits'], raw)
                negate = next((g['bits'][0] for g in row['groups'] if g['paths'] == [f'o{o}.not'] and len(g['bits']) == 1), None)
                if negate is not None and a0.get(f'o{o}.not'):
                    w ^= 1 << negate
                a = self.attrs([w])[0]
                if a and a['n'] == a0['n'] - 1 and a == shown:
                    row['opt'][q] = raw
        for q, f in row['fields'].items():
            if q.endswith('.off'):
                a = self.attrs([put(base, f['bits'], 0)])[0]
                row['zero_offset'] = bool(a and q in a)

    def addresses(self, row):
        """Which zero registers of an address are left out, and how a number alone is printed."""
        base, a0, fields = row['base'], row['attrs'], row['fields']
        row['address'] = {}
        for q in sorted(k for k in a0 if re.fullmatch(r'o\d+\.g\d+', k)):
            terms = [r for r in ('R', 'UR', 'I') if f'{q}.{r}' in fields]
            rule = {'omit': set(), 'signed': terms == ['I'], 'last': None}
            for combo in itertools.product((0, 1, 2), repeat=len(terms)):
                w = base
                for r, z in zip(terms, combo):
                    f = fields[f'{q}.{r}']
                    ones = (1 << len(f['bits'])) - 1
                    if r == 'I':
                        w = put(w, f['bits'], (0, 1 << min(4, len(f['bits']) - 1), ones)[z])
                    elif z:
                        w = put(w, f['bits'], ones)
                a = self.attrs([w])[0]
                if a is None:
                    continue
                zero = [r for r, z in zip(terms, combo) if r != 'I' and z]
                hidden = [r for r in zero if f'{q}.{r}' not in a]
                rule['omit'] |= set(hidden)
                if hidden and len(hidden) == len([r for r in terms if r != 'I']) and 'I' in terms and combo[-1] == 2:
                    rule['signed'] = (a.get(q + '.I') or 0) < 0
                if 'I' in terms and len(zero) == len(terms) - 1 and combo[-1] == 0:
                    rule['last'] = next((r for r in zero if f'{q}.{r}' in a), None)
            row['address'][q] = rule

    # --- groups of bits that choose spellings

    def group(self, base, a0, bits, effect, illegal):
        parent = {b: b for b in bits}

        def find(x):
            while parent[x] != x:
                x = parent[x]
            return x

        single = dict(zip(bits, self.attrs([base ^ 1 << b for b in bits], a0)))
        pairs = list(itertools.combinations(sorted(bits), 2))
        for (x, y), a in zip(pairs, self.attrs([base ^ 1 << x ^ 1 << y for x, y in pairs], a0)):
            together = any(x in g and y in g for g in self.glued)
            if a is None:
                together |= abs(x - y) == 1 and bool(effect[x] & effect[y])
            else:
                together |= not self.independent(a0, single[x], single[y], a)
            if together:
                parent[find(x)] = find(y)
        sets = {}
        for b in bits:
            sets.setdefault(find(b), []).append(b)
        out = [self.enumerate(base, a0, sorted(bs), illegal) for bs in sets.values()]
        merged = True
        while merged:
            merged = False
            for g, h in itertools.combinations(out, 2):
                both = set(g['bits']) | set(h['bits'])
                if set(g['bits']) & set(h['bits']) or self.overlap(a0, g, h) and len(both) <= 10:
                    out.remove(g)
                    out.remove(h)
                    out.append(self.enumerate(base, a0, sorted(both), []))
                    merged = True
                    break
        return out

    def enumerate(self, base, a0, bits, illegal):
        """The spelling table of some bits. Neighbouring bits that are illegal alone but not together with these join."""
        candidates = set(illegal) - self.forced
        grown = True
        while grown and len(bits) < 8:
            grown = False
            for c in (bits[0] - 1, bits[-1] + 1, *(b for b in range(bits[0], bits[-1]) if b not in bits)):
                if c not in candidates:
                    continue
                candidates.discard(c)
                values = list(range(1, 1 << len(bits)))
                values = values if len(values) <= 63 else random.Random(1).sample(values, 63)
                for a in self.attrs([put(base, bits, v ^ get(base, bits)) ^ 1 << c for v in values], a0):
                    if a and not structural(a0, a, differing(a, a0)):
                        grown = True
                if grown:
                    bits = sorted(bits + [c])
                    break
        table, elsewhere = {}, []
        if len(bits) <= 10:
            words = [put(base, bits, v) for v in range(1 << len(bits))]
            for v, a in enumerate(self.attrs(words, a0)):
                if a is None:
                    continue
                d = differing(a, a0)
                if structural(a0, a, d):
                    elsewhere.append(words[v])
                elif not any(is_number(k) and not isinstance(a.get(k), str) for k in d):
                    table[v] = {k: a.get(k) for k in d}
        paths = sorted({k for t in table.values() for k in t})
        return {'bits': bits, 'paths': paths, 'elsewhere': elsewhere,
                'table': {v: {k: t[k] if k in t else a0.get(k) for k in paths} for v, t in table.items()}}

    def span(self, a0, g, path):
        """Which slice of the base's modifier list a group replaces."""
        base = list(a0.get(path) or ())
        lists = [list(t[path] or ()) for t in g['table'].values()]
        before = after = len(base)
        for l in lists:
            i = 0
            while i < min(len(l), len(base)) and l[i] == base[i]:
                i += 1
            before = min(before, i)
        for l in lists:
            i = 0
            while i < min(len(l), len(base)) - before and l[-1 - i] == base[-1 - i]:
                i += 1
            after = min(after, i)
        return before, len(base) - after

    def overlap(self, a0, g, h):
        for p in set(g['paths']) & set(h['paths']):
            if not is_list(p):
                return True
            a, b = self.span(a0, g, p)
            c, d = self.span(a0, h, p)
            if max(a, c) < min(b, d) or a < b and c == d and a < c < b or c < d and a == b and c < a < d:
                return True
        return False

    def independent(self, a0, a, b, ab):
        for k in a0.keys() | a.keys() | b.keys() | ab.keys():
            x0, x, y, xy = a0.get(k), a.get(k), b.get(k), ab.get(k)
            if x == x0:
                if xy != y:
                    return False
            elif y == x0:
                if xy != x:
                    return False
            elif not is_list(k) or not self.mergeable(list(x0 or ()), list(x or ()), list(y or ()), list(xy or ())):
                return False
        return True

    @staticmethod
    def mergeable(old, x, y, xy):
        def edits(new):
            ops = difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
            return [(i1, i2, new[j1:j2]) for t, i1, i2, j1, j2 in ops if t != 'equal']
        ex, ey = edits(x), edits(y)
        if any(max(a[0], b[0]) < min(a[1], b[1]) for a in ex for b in ey):
            return False
        for first in (0, 1):
            out, i = [], 0
            for i1, i2, _, new in sorted((e[0], e[1], first ^ k, e[2]) for k, l in enumerate((ex, ey)) for e in l):
                out += old[i:i1] + new
                i = max(i, i2)
            if out + old[i:] == xy:
                return True
        return False

    def order(self, row):
        """In which order the groups' spellings appear in each modifier list."""
        a0, base, groups = row['attrs'], row['base'], row['groups']
        row['seq'] = {}
        for p in sorted({p for g in groups for p in g['paths'] if is_list(p)}):
            old = list(a0.get(p) or ())
            pos = {i: self.span(a0, g, p) for i, g in enumerate(groups) if p in g['paths']}
            after = set()
            for i, j in itertools.combinations(pos, 2):
                (a, b), (c, d) = pos[i], pos[j]
                point = a == b == c == d
                if b <= c and not point:
                    after.add((i, j))
                elif d <= a and not point:
                    after.add((j, i))
                else:
                    vi = [(v, t[p]) for v, t in groups[i]['table'].items() if t[p] != a0.get(p)]
                    vj = [(v, t[p]) for v, t in groups[j]['table'].items() if t[p] != a0.get(p)]
                    for (v, ti), (u, tj) in itertools.islice(itertools.product(vi, vj), 40):
                        both = self.attrs([put(put(base, groups[i]['bits'], v), groups[j]['bits'], u)])[0]
                        if not both:
                            continue
                        ci = list(ti or ())[a:len(ti or ()) - (len(old) - b)]
                        cj = list(tj or ())[c:len(tj or ()) - (len(old) - d)]
                        shown = list(both.get(p) or ())
                        if old[:a] + ci + cj + old[a:] == shown:
                            after.add((i, j))
                            break
                        if old[:a] + cj + ci + old[a:] == shown:
                            after.add((j, i))
                            break
            ids = sorted(pos, key=lambda i: pos[i])
            ids.sort(key=functools.cmp_to_key(lambda i, j: -1 if (i, j) in after else 1 if (j, i) in after else (pos[i] > pos[j]) - (pos[i] < pos[j])))
            seq, k = [], 0
            for i in ids:
                a, b = pos[i]
                seq += old[k:a]
                seq.append(i)
                k = max(k, a, b)
            row['seq'][p] = seq + old[k:]
            for i in ids:
                a, b = pos[i]
                for t in groups[i]['table'].values():
                    l = list(t[p] or ())
                    t[p] = l[a:len(l) - (len(old) - b)]

    # --- all rows of an opcode

    def rows(self, seeds):
        rows, queue, pending = [], [], list(seeds)
        pending.reverse()
        misses = 0
        while (queue or pending) and len(rows) < ROWS_PER_OPCODE and misses < 8:
            w = plain(queue.pop(0) if queue else pending.pop())
            if any(matches(r, w) for r in rows):
                continue
            try:
                row, others = self.learn(w)
            except Unusable:
                continue
            misses += not matches(row, w)
            if any(matches(r, row['base']) and r['fixed'] == row['fixed'] for r in rows):
                continue
            rows.append(row)
            queue += others
        return rows

    def opcode(self, words, hints):
        """Rows that render all samples right, as far as fixing and glueing bits can reach that."""
        self.forced = set(hints.get('fixed', ()))
        self.glued = [tuple(g) for g in hints.get('together', ())]
        rng = random.Random(2)
        legal = [(plain(w), t) for w, t in zip(words, self.d.many([plain(w) for w in words])) if t is not None]
        legal.sort(key=lambda x: (-len(x[1].split()), x[1]))
        seeds = [w for w, _ in legal]
        check = seeds if len(seeds) < 300 else rng.sample(seeds, 300)
        for turn in range(ROUNDS):
            rows = self.rows(seeds)
            forced, glued, bad = self.conflicts(rows, check, rng)
            forced -= self.forced
            glued = [g for g in glued if g not in self.glued]
            if not forced and not glued or turn == ROUNDS - 1:
                break
            self.forced |= forced
            self.glued += glued
            check += [w for w, _, _ in bad[:4]]
            seeds += [w for w, _, _ in bad[:4]]
        hints = {'fixed': sorted(self.forced), 'together': [list(g) for g in self.glued]}
        return rows, hints, bad

    def same(self, rows, words):
        """Whether another target's rows are right here too."""
        rng = random.Random(4)
        words = words if len(words) < 400 else rng.sample(words, 400)
        samples = [self.sample(r, rng) for r in rows for _ in range(30)]
        texts = self.d.many(samples)
        legal = 0
        for w, t in list(zip(samples, texts)) + list(zip(words, self.d.many(words))):
            if t is None or '???' in t or 'INVALID' in t:
                continue
            legal += 1
            fit = [r for r in rows if matches(r, w)]
            if len(fit) != 1 or self.wrong(fit[0], w):
                return False
        # every row must be alive here
        return all(any(t is not None for t in texts[30 * i:30 * i + 30]) for i in range(len(rows)))

    def conflicts(self, rows, words, rng):
        forced, glued = set(), []
        for a, b in itertools.combinations(rows, 2):
            common = [x for x in a['fixed'] if x in b['fixed']]
            if get(a['base'], common) == get(b['base'], common):
                apart = set(a['struct']) ^ set(b['struct'])
                apart = {x for x in apart if (a['base'] ^ b['base']) >> x & 1} or \
                        {x for x in set(a['fixed']) ^ set(b['fixed']) if (a['base'] ^ b['base']) >> x & 1}
                forced |= set(sorted(apart)[:1])
        for r in rows:
            for g in r['groups']:
                for p in g['paths']:
                    last = p.split('.')[-1]
                    if is_number(p):
                        forced |= {b for i, b in enumerate(g['bits']) if self.moves(r, g, i, p)}
                    elif last in PREFIXES and len(g['bits']) > 1 and not self.one_bit(g, p):
                        own = [b for i, b in enumerate(g['bits']) if self.moves(r, g, i, p)]
                        forced |= set(g['bits']) - set(own[:1])
        tests = [self.sample(r, rng) for r in rows for _ in range(60 if len(rows) < 5 else 40)] + [plain(w) for w in words]
        tests += [w for r in rows for w in r['elsewhere'][:16] if matches(r, w)]
        bad = []
        for w, t in zip(tests, self.d.many(tests)):
            if t is None or '???' in t or 'INVALID' in t:
                continue
            fit = [r for r in rows if matches(r, w)]
            ours = render(fit[0], w) if len(fit) == 1 else f'<{len(fit)} rows>'
            if ours != plain_text(t) and '???' not in (ours or ''):
                bad.append((w, ours, t))
        blamed = 0
        for w, ours, t in bad:
            fit = [r for r in rows if matches(r, w)]
            if len(fit) == 1 and blamed < 12:
                blamed += 1
                f, g = self.blame(fit[0], w)
                forced |= f
                if g and g not in glued:
                    glued.append(g)
                if f or g:
                    break
        return forced, glued, bad

    @staticmethod
    def moves(row, g, i, path):
        v = get(row['base'], g['bits'])
        a, b = g['table'].get(v), g['table'].get(v ^ 1 << i)
        return bool(a and b and a[path] != b[path])

    @staticmethod
    def one_bit(g, path):
        return any(all(bool(t[path]) == ((v >> i & 1) == want) for v, t in g['table'].items())
                   for i in range(len(g['bits'])) for want in (0, 1))

    def wrong(self, row, w):
        t = self.d.one(w)
        if t is None or '???' in t or 'INVALID' in t:
            return False
        ours = render(row, w)
        return ours != plain_text(t) and '???' not in (ours or '')

    def blame(self, row, w):
        """(bits to fix, bits to enumerate together) after reducing a wrong word to what makes it wrong."""
        base = row['base']
        units = [('field', tuple(f['bits'])) for f in row['fields'].values()] + [('group', tuple(g['bits'])) for g in row['groups']]
        units += [('idle', (b,)) for b in row['idle']] + [('guard', (12, 13, 14, 15))]
        for _ in range(2):
            for _, bits in units:
                x = put(w, bits, get(base, bits))
                if x != w and self.wrong(row, x):
                    w = x
        for kind, bits in units:
            if kind != 'field':
                for b in bits:
                    x = put(w, (b,), base >> b & 1)
                    if x != w and self.wrong(row, x):
                        w = x
        guilty = [(kind, [b for b in bits if (w ^ base) >> b & 1]) for kind, bits in units]
        guilty = [(k, bits) for k, bits in guilty if bits]
        groups = [bits for k, bits in guilty if k == 'group']
        idle = [bits for k, bits in guilty if k == 'idle']
        if len(groups) == 2 and len(guilty) == 2:
            full = [g for g in row['groups'] if set(g['bits']) & set(groups[0] + groups[1])]
            together = tuple(sorted({b for g in full for b in g['bits']}))
            if len(together) <= 6 and all(g['paths'] == full[0]['paths'] and is_list(g['paths'][0]) for g in full):
                return set(), together
        if groups:
            return set(min(groups, key=len)), None
        if idle:
            return set(idle[0]), None
        return set(), None

    def sample(self, row, rng):
        w = row['base']
        for q, f in row['fields'].items():
            w = put(w, f['bits'], rng.getrandbits(len(f['bits'])))
            x = rng.random()
            if x < .2:
                w = put(w, f['bits'], (1 << len(f['bits'])) - 1)
            elif x < .3:
                w = put(w, f['bits'], 0)
        for g in row['groups']:
            if g['table'] and rng.random() < .6:
                w = put(w, g['bits'], rng.choice(sorted(g['table'])))
        if rng.random() < .5:
            for b in row['idle']:
                if b < 122 and rng.random() < .3:
                    w ^= 1 << b
        if row['guard'] and rng.random() < .3:
            w ^= rng.randrange(16) << 12
        return w


def matches(row, w):
    mask = sum(1 << b for b in row['fixed']) | 0xfff
    return (w ^ row['base']) & mask == 0


def learn_opcodes(args):
    target, by, opcodes, hints, donors = args
    learner = Learner(Disassembler(DISASSEMBLER[target]))
    out = {}
    for op in opcodes:
        start = time.time()
        hint = hints.get(f'{op:03x}', {'fixed': [], 'together': []})
        rows, bad = next(((d[op], []) for d in donors if op in d and learner.same(d[op], by[op])), (None, None))
        if rows is None:
            rows, hint, bad = learner.opcode(by[op], hint)
        out[op] = rows, hint
        if rows:
            print(f'{target} {op:03x} {rows[0]["attrs"]["mn"]} rows={len(rows)} bad={len(bad)} {time.time() - start:.1f}s hint={hint}', flush=True)
            for w, ours, theirs in bad[:3]:
                print(f'    {w:032x}\n      {ours}\n      {theirs}', flush=True)
        learner.d.cache.clear()
    return out


def main():
    out = sys.argv[1]
    only = {int(x[1:], 16) for x in sys.argv[2:] if x.startswith('=')}
    for target in [int(x) for x in sys.argv[2:] if not x.startswith('=')]:
        hints_path = os.path.join(out, 'hints.json')
        hints = json.load(open(hints_path)) if os.path.exists(hints_path) else {}
        by = {op: list(ws) for op, ws in words_of(target).items()}
        for t in TARGETS:
            path = os.path.join(out, f'{t}.rows')
            if os.path.exists(path):
                for op, rows in pickle.load(open(path, 'rb')).items():
                    by.setdefault(op, [])
                    by[op] += [r['base'] for r in rows if r['base'] not in by[op]]
        path = os.path.join(out, f'{target}.rows')
        result = pickle.load(open(path, 'rb')) if os.path.exists(path) and only else {}
        opcodes = sorted(only & set(by) if only else by)
        near = sorted((t for t in TARGETS if t != target), key=lambda t: abs(TARGETS.index(t) - TARGETS.index(target)))
        donors = [pickle.load(open(os.path.join(out, f'{t}.rows'), 'rb')) for t in near if os.path.exists(os.path.join(out, f'{t}.rows'))][:2]
        with ProcessPoolExecutor(2) as pool:
            for part in pool.map(learn_opcodes, [(target, by, opcodes[i::6], hints, donors) for i in range(6)]):
                for op, (rows, hint) in part.items():
                    if rows:
                        result[op] = rows
                    elif op in result:
                        del result[op]
                    if hint['fixed'] or hint['together']:
                        hints[f'{op:03x}'] = hint
        pickle.dump(result, open(path, 'wb'))
        json.dump(hints, open(hints_path, 'w'), indent=0, sort_keys=True)


if __name__ == '__main__':
    main()
