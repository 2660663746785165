"""Writes the table files crates/isa/data/*.sass from the rows the learner found.

A learned row describes one opcode form of one target: which bits are numbers, which choose between
spellings, which must hold for the form to be this one. Here rows become forms in the table's
notation, equal forms of different targets become one, and the spelling tables of an instruction's
forms are named and shared where they agree.

    python3 emit.py ROWS_DIR OUT_DIR      (ROWS_DIR holds <number>.rows, one per target, from learn.py)
"""
import collections
import difflib
import itertools
import os
import pickle
import sys

import hidden
from names import FAMILIES, FAMILY_OF, field_name
from words import TARGETS, words_of

CONTROL = set(range(105, 122))
REUSE = range(122, 126)
HEADER = """\
# {title}
#
# Where the facts come from: machine words that ptxas 13.0.88 made from our own PTX, every bit of them
# flipped, and the text nvdisasm 13.2.51 prints for each (tools/sass). Written by tools/sass/emit.py.
"""


class Nonsense(Exception):
    """A form that nvdisasm prints with `???`: nobody means it."""


class Unfit(Exception):
    """A row that the notation cannot say."""


def get(word, bits):
    return sum((word >> b & 1) << i for i, b in enumerate(bits))


def bits_text(bits, default=None):
    """Bits (least significant first) in the notation: `lo`, `lo:width`, joined by `+`."""
    runs = []
    for b in bits:
        if runs and b == runs[-1][0] + runs[-1][1]:
            runs[-1][1] += 1
        else:
            runs.append([b, 1])
    if default is not None and len(runs) == 1 and runs[0][1] == default:
        return str(runs[0][0])
    return '+'.join(f'{lo}:{n}' if n > 1 or default not in (None, 1) else str(lo) for lo, n in runs)


def holds(bits, word):
    """`fix`/`with` text: runs of bits with the value they have in the word."""
    out = []
    for b in sorted(bits):
        if out and b == out[-1][-1] + 1 and len(out[-1]) < 32:
            out[-1].append(b)
        else:
            out.append([b])
    return ' '.join(f'{bits_text(r)}={get(word, r)}' for r in out)


class Field:
    """A spelling table under construction: bits and value -> text."""

    def __init__(self, bits, table, kind):
        self.bits, self.table, self.kind, self.name = tuple(bits), dict(table), kind, None

    def fits(self, other):
        return (self.bits == other.bits and self.kind == other.kind
                and all(other.table.get(v, t) == t for v, t in self.table.items()))

    def line(self):
        size = 1 << len(self.bits)
        text = lambda t: '-' if t == '' else t
        if len(self.table) * 3 < size and size > 8:
            body = ' '.join(f'{v}={text(t)}' for v, t in sorted(self.table.items()))
        else:
            body = ' '.join(text(self.table[v]) if v in self.table else '?' for v in range(size))
        return f'{bits_text(self.bits)} {body}'


def single_bit(bits, table):
    """(bit, value) when the truth in the table is one bit's having that value, else None."""
    for i, b in enumerate(bits):
        for want in (1, 0):
            if all(bool(t) == ((v >> i & 1) == want) for v, t in table.items()):
                return b, want
    return None


def reduce(bits, table, fixed):
    """Drops bits on which the table does not depend, and fixed ones."""
    bits = list(bits)
    table = dict(table)
    i = 0
    while i < len(bits) and (len(bits) > 1 or bits[i] in fixed):
        small = {}
        same = True
        for v, t in table.items():
            u = (v & ((1 << i) - 1)) | (v >> i + 1 << i)
            if small.setdefault(u, t) != t:
                same = False
                break
        if same:
            bits.pop(i)
            table = small
        else:
            i += 1
    return bits, table


class Form:
    """One row as a template; fields stay objects until they are named."""

    def __init__(self, row):
        self.row = row
        a = self.a = row['attrs']
        self.mnemonic = a['mn']
        self.opcode = row['base'] & 0xfff
        self.guard = row['guard']
        fixed = {b for b in row['fixed'] if not (b in REUSE and b not in row['struct'])}
        for g in row['groups']:
            # bits that never change without making the word illegal
            for i, b in enumerate(g['bits']):
                if g['table'] and len({v >> i & 1 for v in g['table']}) == 1:
                    fixed.add(b)
        self.fix = tuple(sorted(fixed))
        self.fixed_value = get(row['base'], self.fix)
        self.used = set()
        self.by_path = {}
        for g in row['groups']:
            for p in g['paths']:
                self.by_path[p] = g
        self.template = self.build()

    def field(self, group, path, kind, text):
        table = {}
        for v, t in group['table'].items():
            s = text(t[path])
            if 'INVALID' in s or '???' in s:
                continue
            table[v] = s
        bits, table = reduce(group['bits'], table, set(self.fix))
        self.used |= set(bits)
        return Field(bits, table, kind)

    def pieces(self, path):
        """The modifier list at a path: literals and fields in printed order."""
        if path not in self.row['seq']:
            return list(self.a.get(path) or ())
        out = []
        for x in self.row['seq'][path]:
            if isinstance(x, str):
                out.append(x)
                continue
            f = self.field(self.row['groups'][x], path, 'mod', lambda l: ''.join(l or ()))
            texts = set(f.table.values())
            if texts == {''}:
                continue
            if not f.bits:
                out += texts
                continue
            if path != 'mods' and len(f.bits) == 1 and f.table.get(0) == '' and f.table.get(1):
                out.append(f'{f.table[1]}({f.bits[0]})')
            elif path != 'mods' and len(f.bits) == 1 and f.table.get(1) == '' and f.table.get(0):
                out.append(f'{f.table[0]}(!{f.bits[0]})')
            else:
                out.append(f)
        return out

    def prefix(self, p, key, mark):
        path = f'{p}.{key}'
        g = self.by_path.get(path)
        if g is None:
            return mark if self.a.get(path) else ''
        t = {v: t[path] for v, t in g['table'].items()}
        if not any(t.values()):
            return ''
        if all(t.values()):
            return mark
        one = single_bit(g['bits'], t)
        if one is None:
            raise Unfit(f'{path} is not one bit: {g["bits"]} {t}')
        self.used.add(one[0])
        return f'{mark}({"" if one[1] else "!"}{one[0]})'

    def number(self, path, f):
        """(signed, bits, scale) of a numeric field whose bits weigh 1, 2, 4, ... times a scale."""
        bits = sorted(f['bits'], key=lambda b: abs(f['weights'][b]))
        self.used |= set(bits)
        weights = [f['weights'][b] for b in bits]
        scale = weights[0]
        if len(bits) == 1 and scale < 0:
            scale = -scale
        elif not scale or any(w != scale << i for i, w in enumerate(weights[:-1])) or abs(weights[-1]) != scale << len(bits) - 1:
            raise Unfit(f'{path}: weights {list(zip(bits, weights))}')
        if f['plus']:
            raise Unfit(f'{path}: constant {f["plus"]}')
        return weights[-1] < 0, bits_text(bits), '' if scale == 1 else f'*{scale}'

    def register(self, kind, path, value):
        f = self.row['fields'].get(path)
        if f is None:
            g = self.by_path.get(path)
            if g is not None:
                raise Unfit(f'{path}: register in a group {g["bits"]}')
            return kind + ('T' if 'P' in kind else 'Z' if value == -1 else str(value)) if value == -1 else f'{kind}{value}'
        if f['kind'] != 'reg':
            raise Unfit(f'{path}: {f}')
        bits = f['bits']
        self.used |= set(bits)
        n = {'R': 8, 'P': 3, 'UP': 3}.get(kind)
        text = bits_text(bits, n) if n else '+'.join(bits_text([b for b in bits]).split('+'))
        if n is None and len(bits) == 1:
            text = f'{bits[0]}:1'
        elif n is not None and len(bits) != n and len(bits) == 1:
            text = f'{bits[0]}:1'
        mark = '^' if f['xor'] else ''
        if f.get('plus'):
            mark += f'@{f["plus"]}'
        scale = f['scale']
        return f'{kind}({text}{mark}){"" if scale == 1 else f"*{scale}"}'

    def build(self):
        a = self.a
        mods = self.pieces('mods')
        if any(isinstance(x, str) and ('???' in x or 'INVALID' in x) for x in mods):
            raise Nonsense
        if a['mn'] == 'IMAD' and not {'.WIDE', '.HI', '.X'} & set(a['mods']) and not any('UR' in k or v == 'UR' for k, v in a.items()):
            mods = ['<imad>'] + mods
        ops = [self.operand(f'o{i}') for i in range(a['n'])]
        return (tuple(mods), tuple(tuple(o) for o in ops))

    def operand(self, p):
        a, row = self.a, self.row
        out = [self.prefix(p, 'not', '!') + self.prefix(p, 'neg', '-') + self.prefix(p, 'inv', '~') + self.prefix(p, 'abs', '|')]
        bar = '|' if '|' in out[0] else ''
        k = a[p + '.k']
        mods = self.pieces(p + '.m')
        opt = ''
        if p + '.n' in row['opt']:
            f = row['fields'][p + '.n']
            n = row['opt'][p + '.n']
            zero = f['kind'] == 'reg' and n ^ f['xor'] == (1 << len(f['bits'])) - 1
            opt = '?' if zero else f'?{n}'
        if k in ('R', 'UR', 'P', 'UP', 'B', 'SB'):
            out.append(self.register(k, p + '.n', a[p + '.n']))
            out += mods + [bar] if k in row['inside'] else [bar] + mods
            if p + '.off' in a or p + '.off' in row['fields']:
                out.append(' ' + self.plain(p + '.off', 'pc' if a.get(p + '.rel') else 'abs' if row.get('zero_offset') else None))
        elif k in ('I', 'PC'):
            out.append(self.plain(p + '.n', 'pc' if k == 'PC' else None))
            out += mods
        elif k == 'F':
            f = row['fields'].get(p + '.n')
            if f is None:
                raise Unfit(f'{p}: constant float')
            self.used |= set(f['bits'])
            out.append(f'{f["float"]}({bits_text(f["bits"])})')
            out += mods
        elif k == 'N':
            g = self.by_path.get(p + '.s')
            if g is None:
                out.append(a[p + '.s'])
            else:
                out.append(self.field(g, p + '.s', 'name', lambda s: s))
        elif k == 'SET':
            f = row['fields'][p + '.n']
            self.used |= set(f['bits'])
            out.append(f'set({bits_text(f["bits"])})')
        else:
            out.append(a[p + '.w'])
            for i in range(a[p + '.gs']):
                q = f'{p}.g{i}'
                out.append('[')
                terms = []
                for r in ('R', 'UR', 'P', 'UP', 'R1', 'UR1'):
                    if f'{q}.{r}' in a:
                        t = [self.prefix(f'{q}.{r}', 'neg', '-'), self.register(r.rstrip('1'), f'{q}.{r}', a[f'{q}.{r}'])]
                        t += self.pieces(f'{q}.{r}.m')
                        if self.omitted(q, r):
                            t.append('?')
                        terms.append(t)
                if f'{q}.I' in a or f'{q}.I' in row['fields']:
                    terms.append([self.plain(f'{q}.I', 'i' if row['address'].get(q, {}).get('signed') else None)] + self.pieces(f'{q}.I.m'))
                for j, t in enumerate(terms):
                    if j:
                        out.append('+')
                    out += t
                out.append(']')
                out += self.pieces(f'{q}.m')
            out += [bar] + mods
        out.append(opt)
        return [x for x in out if x != '']

    def plain(self, path, kind=None):
        """A number: `pc` and `i` kinds as asked, otherwise by its sign."""
        f = self.row['fields'].get(path)
        if f is None:
            v = self.a.get(path) or 0
            return ('-' if v < 0 else '') + hex(abs(v))
        negative, bits, scale = self.number(path, f)
        kind = kind if negative or kind in ('pc', 'abs') else 'u'
        return f'{kind}({bits}{scale})' if kind in ('pc', 'abs') else f'{kind or "s"}({bits}){scale}'

    def omitted(self, q, r):
        """Whether a zero register of an address is left out when another term is printed."""
        return r in self.row['address'].get(q, {}).get('omit', ())


def key_of(part):
    return part if isinstance(part, str) else ('field', part.bits, part.kind)


class Merged:
    """Forms of several targets with the same shape."""

    def __init__(self, form, target):
        self.form = form
        self.targets = [target]
        self.with_counts = collections.Counter()
        self.bases = {}

    def shape(self):
        return shape(self.form)


def flat(form):
    mods, ops = form.template
    return [x for x in mods] + [x for o in ops for x in o]


def shape(form):
    mods, ops = form.template
    return (form.mnemonic, form.opcode, form.guard, form.fix, form.fixed_value,
            tuple(key_of(x) for x in mods), tuple(tuple(key_of(x) for x in o) for o in ops))


def merge(per_target):
    """{target: [Form]} -> [Merged]: same shape and spelling tables that agree."""
    out = collections.OrderedDict()
    for target in TARGETS:
        for form in per_target.get(target, ()):
            group = out.setdefault(shape(form), [])
            mine = [x for x in flat(form) if isinstance(x, Field)]
            for m in group:
                theirs = [x for x in flat(m.form) if isinstance(x, Field)]
                if target not in m.targets and all(x.fits(y) for x, y in zip(mine, theirs)):
                    for x, y in zip(mine, theirs):
                        y.table.update(x.table)
                    m.targets.append(target)
                    m.form.used |= form.used
                    m.bases[target] = form
                    break
            else:
                group.append(Merged(form, target))
                group[-1].bases[target] = form
    return [m for g in out.values() for m in g]


def spread(part, bits):
    """A part of a modifier list as {value of bits: text}; `bits` includes the part's own."""
    if isinstance(part, str):
        return {v: part for v in range(1 << len(bits))}
    where = [bits.index(b) for b in part.bits]
    return {v: part.table[u] for v in range(1 << len(bits)) if (u := sum((v >> w & 1) << i for i, w in enumerate(where))) in part.table}


def bits_of(part):
    return part.bits if isinstance(part, Field) else ()


def joined_mods(x, y, bit):
    """Modifier list of two lists, chosen by a bit (x when it is 0), or None when that would not be readable."""
    if any(isinstance(p, str) and ('(' in p or '<' in p) for p in x + y):
        return (x if x == y else None)
    same = lambda p, q: p is q or (p == q if isinstance(p, str) or isinstance(q, str) else p.fits(q))
    pairs = []
    i = j = 0
    while i < len(x) or j < len(y):
        if i < len(x) and j < len(y) and (same(x[i], y[j]) or bits_of(x[i]) == bits_of(y[j])):
            pairs.append((x[i], y[j]))
            i, j = i + 1, j + 1
        elif i < len(x) and not any(bits_of(x[i]) == bits_of(q) and bits_of(q) for q in y[j:]) and (j >= len(y) or len(x) - i >= len(y) - j or bits_of(y[j])):
            pairs.append((x[i], ''))
            i += 1
        elif j < len(y) and not any(bits_of(y[j]) == bits_of(q) and bits_of(q) for q in x[i:]):
            pairs.append(('', y[j]))
            j += 1
        else:
            return None
    out = []
    for p, q in pairs:
        if same(p, q):
            if isinstance(p, Field):
                p = Field(p.bits, {**q.table, **p.table}, p.kind)
            out.append(p)
            continue
        bits = sorted({*bits_of(p), *bits_of(q), bit})
        if len(bits) > 7 or any(isinstance(z, Field) and set(z.bits) & set(bits) for pp, qq in pairs for z in (pp, qq) if (pp, qq) != (p, q) and pp is not p):
            return None
        k = bits.index(bit)
        tp, tq = spread(p, bits), spread(q, bits)
        table = {v: t for v, t in tp.items() if not v >> k & 1} | {v: t for v, t in tq.items() if v >> k & 1}
        out.append(Field(bits, table, 'mod'))
    return tuple(out)


def fuse(mods):
    """Neighbours in a modifier list that share bits become one table, so that no two say different things about a bit."""
    out = []
    for part in mods:
        if out and set(bits_of(out[-1])) & set(bits_of(part)):
            bits = sorted({*bits_of(out[-1]), *part.bits})
            x, y = spread(out[-1], bits), spread(part, bits)
            out[-1] = Field(bits, {v: x[v] + y[v] for v in x if v in y}, 'mod')
        else:
            out.append(part)
    return tuple(out)


def join(merged):
    """Forms that differ in one fixed bit and in modifiers only become one, with the bit in a spelling table."""
    again = True
    while again:
        again = False
        by = collections.defaultdict(list)
        for m in merged:
            f = m.form
            by[f.mnemonic, f.opcode, f.guard, f.fix, tuple(m.targets), tuple(tuple(key_of(p) for p in o) for o in f.template[1])].append(m)
        for group in by.values():
            for x, y in itertools.combinations(group, 2):
                delta = x.form.fixed_value ^ y.form.fixed_value
                if bin(delta).count('1') != 1:
                    continue
                ox = [p for o in x.form.template[1] for p in o if isinstance(p, Field)]
                oy = [p for o in y.form.template[1] for p in o if isinstance(p, Field)]
                if not all(p.fits(q) for p, q in zip(ox, oy)):
                    continue
                at = delta.bit_length() - 1
                if x.form.fixed_value & delta:
                    x, y = y, x
                mods = joined_mods(x.form.template[0], y.form.template[0], x.form.fix[at])
                if mods is None:
                    continue
                bit = x.form.fix[at]
                x.form.template = mods, x.form.template[1]
                for p, q in zip(ox, oy):
                    p.table.update(q.table)
                x.form.used |= y.form.used | {bit}
                x.form.fix = x.form.fix[:at] + x.form.fix[at + 1:]
                x.form.fixed_value = x.form.fixed_value & (1 << at) - 1 | x.form.fixed_value >> at + 1 << at
                merged.remove(y)
                again = True
                break
            if again:
                break
    for m in merged:
        m.form.template = fuse(m.form.template[0]), m.form.template[1]
    return merged


def target_list(targets):
    """Numbers and ranges over the known order."""
    idx = sorted(TARGETS.index(t) for t in targets)
    runs = []
    for i in idx:
        if runs and runs[-1][-1] == i - 1:
            runs[-1].append(i)
        else:
            runs.append([i])
    return ','.join(str(TARGETS[r[0]]) if len(r) == 1 else f'{TARGETS[r[0]]}..{TARGETS[r[-1]]}' for r in runs)


def ignored(form):
    known = set(range(16)) | CONTROL | set(form.fix) | form.used
    return [b for b in range(128) if b not in known and b not in REUSE]


def with_value(m, words):
    """The bits without meaning that ptxas most often sets in the collected words of a form; None without words."""
    free = ignored(m.form)
    mask = sum(1 << b for b in m.form.fix) | 0xfff
    want = sum((m.form.fixed_value >> i & 1) << b for i, b in enumerate(m.form.fix)) | m.form.opcode
    count = collections.Counter()
    for t in m.targets:
        for w in words.get(t, {}).get(m.form.opcode, ()):
            if w & mask == want:
                count[get(w, free)] += 1
    if not count:
        return None
    v = count.most_common(1)[0][0]
    return {b for i, b in enumerate(free) if v >> i & 1}


def presets(forms, words):
    """`with` of each form of an instruction. A form without words does as its nearest sibling does."""
    own = {id(m): with_value(m, words) for m in forms}
    out = {}
    for m in forms:
        bits = own[id(m)]
        if bits is None:
            near = [x for x in forms if own[id(x)] is not None and (x.form.opcode ^ m.form.opcode) & 0x1ff == 0]
            alike = lambda x: difflib.SequenceMatcher(None, template_text(x), template_text(m)).ratio()
            bits = own[id(max(near, key=alike))] & set(ignored(m.form)) if near else set()
        out[id(m)] = holds(bits, sum(1 << b for b in bits))
    return out


def name_fields(forms):
    """Shares equal tables of an instruction's forms and names them.

    A table may fill the gaps of another one only within one operation (the opcode without the bits that choose the kinds of
    operands): what is a gap in one operation may be a value in another, and text would find its way into the wrong one.
    """
    fields = []
    operation = {}
    for m in forms:
        for x in flat(m.form):
            if isinstance(x, Field):
                for f in fields:
                    if f is x:
                        break
                    if f.fits(x) and (f.table == x.table or operation[id(f)] == m.form.opcode & 0x1ff):
                        f.table.update(x.table)
                        x.shared = f
                        break
                else:
                    fields.append(x)
                    operation[id(x)] = m.form.opcode & 0x1ff
    taken = {}
    for f in fields:
        name = field_name(f)
        n = name
        k = 2
        while n in taken:
            n = f'{name}{k}'
            k += 1
        taken[n] = f
        f.name = n
    return fields


def text_of(part):
    if isinstance(part, str):
        return part
    return '{' + getattr(part, 'shared', part).name + '}'


def template_text(m):
    mods, ops = m.form.template
    body = ''.join(text_of(x) for x in mods)
    return body + (' ' + ', '.join(''.join(text_of(x) for x in o) for o in ops) if ops else '')


def form_lines(m, preset):
    f = m.form
    line = f'  form {f.opcode:03x} on {target_list(m.targets)}'
    if f.fix:
        line += ' fix ' + holds(f.fix, sum((f.fixed_value >> i & 1) << b for i, b in enumerate(f.fix)))
    if preset:
        line += ' with ' + preset
    if f.guard != 'P':
        line += ' guard ' + (f.guard or 'none')
    return [line, '    ' + template_text(m)]


def overlaps(merged):
    """Pairs of forms that match a common word on a common target."""
    by = collections.defaultdict(list)
    for m in merged:
        by[m.form.opcode].append(m)
    for forms in by.values():
        for x, y in itertools.combinations(forms, 2):
            if set(x.targets) & set(y.targets):
                common = set(x.form.fix) & set(y.form.fix)
                vx = dict(zip(x.form.fix, (x.form.fixed_value >> i & 1 for i in range(200))))
                vy = dict(zip(y.form.fix, (y.form.fixed_value >> i & 1 for i in range(200))))
                if all(vx[b] == vy[b] for b in common):
                    yield x, y


def load(directory):
    per_target, unfit = {}, []
    for t in TARGETS:
        path = os.path.join(directory, f'{t}.rows')
        if not os.path.exists(path):
            continue
        per_target[t] = []
        for op, rows in sorted(pickle.load(open(path, 'rb')).items()):
            for row in rows:
                try:
                    per_target[t].append(Form(row))
                except Nonsense:
                    pass
                except Unfit as e:
                    unfit.append((t, op, row['text'], str(e)))
    return per_target, unfit


def main():
    rows, out = sys.argv[1:3]
    per_target, unfit = load(rows)
    for t, op, text, why in unfit:
        print(f'unfit {t} {op:03x} {text}: {why}')
    words = {t: words_of(t, sweep=False) for t in per_target}
    merged = join(merge(per_target))
    for x, y in overlaps(merged):
        print(f'overlap {x.form.opcode:03x} {target_list(set(x.targets) & set(y.targets))}: {x.form.row["text"]} | {y.form.row["text"]}')
    by_mnemonic = collections.defaultdict(list)
    for m in merged:
        by_mnemonic[m.form.mnemonic].append(m)
    os.makedirs(out, exist_ok=True)
    files = collections.defaultdict(list)
    for mn in sorted(by_mnemonic):
        if mn not in FAMILY_OF:
            print('no family for', mn)
        files[FAMILY_OF.get(mn, 'misc')].append(mn)
    for name, title in FAMILIES.items():
        if name not in files:
            continue
        lines = [HEADER.format(title=title)]
        for mn in files[name]:
            forms = sorted(by_mnemonic[mn], key=lambda m: (m.form.opcode, m.form.fix, m.form.fixed_value, TARGETS.index(m.targets[0])))
            lines.append(mn)
            fields = name_fields(forms)
            width = max((len(f.name) for f in fields), default=0)
            for f in fields:
                lines.append(f'  field {f.name:{width}} {f.line()}')
            preset = presets(forms, words)
            for m in forms:
                lines += form_lines(m, preset[id(m)])
            lines.append('')
        with open(os.path.join(out, name + '.sass'), 'w') as fo:
            fo.write('\n'.join(hidden.add('\n'.join(lines).split('\n'))))
        print(name, len(files[name]), 'mnemonics', sum(len(by_mnemonic[x]) for x in files[name]), 'forms', len(lines), 'lines')


if __name__ == '__main__':
    main()
