"""Checks the table files against nvdisasm, with a reader and printer of the notation of its own.

    python3 check.py DATA_DIR [--samples N] [TARGET...]

For each target: every collected word must match exactly one form and print nvdisasm's text (spaces aside;
texts with `???` or INVALID do not count), and so must random words of every form. Also reports forms that
overlap. Exit status 1 when a collected word fails.
"""
import argparse
import collections
import glob
import os
import random
import re
import sys

from oracle import Disassembler
from render import FLOATS
from words import DISASSEMBLER, TARGETS, plain, words_of

ZERO = {'R': 'RZ', 'UR': 'URZ', 'P': 'PT', 'UP': 'UPT'}
WIDTH = {'R': 8, 'P': 3, 'UP': 3}


def parse_bits(text, default=1):
    """`lo`, `lo:width`, joined by `+` -> list of bits, least significant first."""
    out = []
    for part in text.split('+'):
        lo, _, n = part.partition(':')
        out += range(int(lo), int(lo) + int(n or default))
    return out


def get(word, bits):
    v = 0
    for i, b in enumerate(bits):
        v |= (word >> b & 1) << i
    return v


def parse_targets(text):
    out = []
    for part in text.split(','):
        lo, _, hi = part.partition('..')
        out += [t for t in TARGETS if int(lo) <= t <= int(hi or lo)]
    return out


class Hole(Exception):
    """A spelling table has no such value."""


class Form:
    def __init__(self, instruction, header, template, where):
        self.instruction, self.where, self.guard = instruction, where, 'P'
        words = header.split()
        self.opcode = int(words[1], 16)
        assert words[2] == 'on', header
        self.targets = parse_targets(words[3])
        self.mask, self.value = 0xfff, self.opcode
        self.preset = 0
        self.never = ''
        self.excluded = None
        mode = None
        for w in words[4:]:
            if w in ('fix', 'with', 'not', 'guard', 'never'):
                mode = w
            elif mode == 'never':
                self.never = w
            elif mode == 'guard':
                self.guard = None if w == 'none' else w
            else:
                bits, v = w.split('=')
                if mode == 'not':
                    self.excluded = (parse_bits(bits), int(v))
                    continue
                for i, b in enumerate(parse_bits(bits)):
                    if mode == 'fix':
                        self.mask |= 1 << b
                        self.value |= (int(v) >> i & 1) << b
                    else:
                        self.preset |= (int(v) >> i & 1) << b
        self.bits = set()
        mods, _, operands = template.partition(' ')
        self.mods = self.pieces(mods)
        self.operands = [Operand(self, t) for t in split(operands) if not t.startswith('%')] if operands else []

    def pieces(self, text):
        """Modifiers or suffixes: literals, fields, conditional texts."""
        out = []
        i = 0
        while i < len(text):
            m = re.match(r'\{(\w+)\}', text[i:])
            if m:
                out.append(('field', self.instruction.fields[m.group(1)]))
                self.bits |= set(out[-1][1][0])
            else:
                m = re.match(r'<(\w+)>', text[i:])
                if m:
                    out.append(('alias', m.group(1)))
                else:
                    m = re.match(r'\|', text[i:])
                    if m:
                        out.append(('bar', None))
                    else:
                        m = re.match(r'(\.[\w.]+)(?:\((!?)(\d+)\))?', text[i:])
                        if not m:
                            raise ValueError(f'{self.where}: {text[i:]!r} in {text!r}')
                        if m.group(3):
                            out.append(('if', m.group(1), int(m.group(3)), m.group(2) == ''))
                            self.bits.add(int(m.group(3)))
                        else:
                            out.append(('text', m.group(1)))
            i += m.end()
        return out

    def text(self, word):
        out = ''
        predicate, negated = word >> 12 & 7, word >> 15 & 1
        if self.guard and (predicate != 7 or negated):
            out = f'@{"!" if negated else ""}{self.guard}{"T" if predicate == 7 else predicate} '
        mods = show(self.mods, word)
        ops = [o.text(word) for o in self.operands]
        if '<' in mods:
            mods = mods.replace('<imad>', imad(ops))
        ops = [o for o in ops if o is not None]
        return out + self.instruction.name + mods + (' ' + ', '.join(ops) if ops else '')


def imad(ops):
    """IMAD's derived modifier."""
    bare = [re.sub(r'\.reuse$', '', o) for o in ops]
    if bare[1] == 'RZ' or bare[2] in ('RZ', '0x0') or bare[2] == '0x1' and bare[3].lstrip('-') == 'RZ':
        return '.MOV'
    if bare[2] == '0x1':
        return '.IADD'
    if re.fullmatch(r'0x[1248]0*', bare[2]) and bare[2] != '0x10000' and bare[3].lstrip('-') == 'RZ':
        return '.SHL'
    return ''


def show(pieces, word, bar=''):
    out = ''
    for p in pieces:
        if p[0] == 'text':
            out += p[1]
        elif p[0] == 'if':
            out += p[1] if (word >> p[2] & 1) == p[3] else ''
        elif p[0] == 'bar':
            out += bar
        elif p[0] == 'alias':
            out += f'<{p[1]}>'
        else:
            out += spelling(p[1], word)
    return out


def spelling(field, word):
    bits, table = field
    v = get(word, bits)
    if v not in table:
        raise Hole
    return table[v]


def split(text):
    """Operands at top level."""
    out, depth, cur = [], 0, ''
    for c in text:
        depth += (c in '([{') - (c in ')]}')
        if c == ',' and depth == 0:
            out.append(cur.strip())
            cur = ''
        else:
            cur += c
    return out + [cur.strip()]


def sign(v):
    return f'-{-v:#x}' if v < 0 else f'{v:#x}'


class Number:
    """u, s, i, f32, ..., pc, set."""
    PATTERN = re.compile(r'(u|s|i|f32|f64|f16|bf16|pc|abs|set)\(([\d:+]+)(?:\*(\d+))?\)(?:\*(\d+))?')

    def __init__(self, form, m):
        self.kind, self.bits = m.group(1), parse_bits(m.group(2))
        self.scale = int(m.group(3) or m.group(4) or 1)
        form.bits |= set(self.bits)

    def value(self, word):
        v = get(word, self.bits)
        if self.kind in ('s', 'i', 'pc', 'abs') and v >> len(self.bits) - 1:
            v -= 1 << len(self.bits)
        return v * self.scale

    def text(self, word, alone=False):
        v = self.value(word)
        if self.kind in FLOATS:
            return FLOATS[self.kind](v)
        if self.kind == 'pc':
            return f'PC{"-" if v < 0 else "+"}{abs(v):#x}'
        if self.kind == 'set':
            return '{' + ','.join(str(i) for i in reversed(range(len(self.bits))) if v >> i & 1) + '}'
        if alone and self.kind == 's' and v < 0:
            v += self.scale << len(self.bits)
        return sign(v)


class Register:
    PATTERN = re.compile(r'(UR|UP|SB|R|P|B)\(([\d:+]+)(\^?)(?:@(\d+))?\)(?:\*(\d+))?')

    def __init__(self, form, m):
        self.kind = m.group(1)
        self.bits = parse_bits(m.group(2), WIDTH.get(self.kind, 1))
        self.flip, self.plus, self.scale = m.group(3) == '^', int(m.group(4) or 0), int(m.group(5) or 1)
        form.bits |= set(self.bits)

    def zero(self, word):
        v = get(word, self.bits)
        return self.kind in ZERO and (v == 0 if self.flip else v == (1 << len(self.bits)) - 1)

    def text(self, word):
        if self.zero(word):
            return ZERO[self.kind]
        v = get(word, self.bits)
        if self.flip:
            v ^= (1 << len(self.bits)) - 1
        v = v * self.scale + self.plus
        return ZERO[self.kind] if self.plus and v == (1 << len(self.bits)) - 1 else f'{self.kind}{v}'


class Operand:
    PREFIX = re.compile(r'([-~!|])(?:\((!?)(\d+)\))?')

    def __init__(self, form, source):
        text = source
        self.prefixes, self.optional, self.omitted = [], False, None
        m = re.search(r'\?(\d*)$', text)
        if m and not text.startswith('{') or m and text.endswith('?'):
            self.optional, self.omitted = True, int(m.group(1)) if m.group(1) else None
            text = text[:m.start()]
        while True:
            m = self.PREFIX.match(text)
            if not m:
                break
            bit = int(m.group(3)) if m.group(3) else None
            if bit is not None:
                form.bits.add(bit)
            self.prefixes.append((m.group(1), bit, m.group(2) == ''))
            text = text[m.end():]
        self.core, self.after, self.parts = None, None, None
        m = Register.PATTERN.match(text)
        if m:
            self.core = Register(form, m)
            text = text[m.end():]
            text, _, after = text.partition(' ')
            if after:
                self.after = Number(form, Number.PATTERN.fullmatch(after))
        else:
            m = Number.PATTERN.match(text)
            if m:
                self.core = Number(form, m)
                text = text[m.end():]
            else:
                m = re.match(r'(\w*)((?:\[[^\]]*\][^\[|]*)+)', text)
                if m:
                    self.word = m.group(1)
                    self.parts = [(Part(form, p), form.pieces(s)) for p, s in re.findall(r'\[([^\]]*)\]([^\[|]*)', m.group(2))]
                    text = text[m.end():]
                else:
                    m = re.match(r'\{(\w+)\}', text)
                    if m:
                        self.core = form.instruction.fields[m.group(1)]
                        form.bits |= set(self.core[0])
                    else:
                        m = re.match(r'-?[\w.]+(?:\.[A-Z]+)?', text)
                        if not m:
                            raise ValueError(f'{form.where}: operand {source!r}')
                        self.core = m.group(0)
                    text = text[m.end():]
        self.suffixes = form.pieces(text)

    def text(self, word):
        marks = ''
        for mark, bit, want in self.prefixes:
            if bit is None or (word >> bit & 1) == want:
                marks += mark
        if self.optional and '!' not in marks:
            if self.omitted is not None:
                if get(word, self.core.bits) == self.omitted:
                    return None
            elif self.core.zero(word):
                return None
        bar = '|' if '|' in marks else ''
        if self.parts:
            body = self.word + ''.join(f'[{p.text(word)}]{show(s, word)}' for p, s in self.parts)
        elif isinstance(self.core, str):
            body = self.core
        elif isinstance(self.core, tuple):
            body = spelling(self.core, word)
            if body == '':
                return None
        else:
            body = self.core.text(word)
        body += show(self.suffixes, word, bar)
        if self.after and (self.after.kind in ('pc', 'abs') or self.after.value(word)):
            body += ' ' + self.after.text(word)
        return marks + body


class Part:
    """The inside of a bracket."""

    def __init__(self, form, text):
        self.terms = []
        for t in re.findall(r'(?:[^+(]|\([^)]*\))+', text):
            optional = t.endswith('?')
            t = t[:-1] if optional else t
            mark = None
            m = Operand.PREFIX.match(t)
            if m:
                mark = int(m.group(3)) if m.group(3) else True
                t = t[m.end():]
            m = Register.PATTERN.match(t)
            if m:
                self.terms.append((Register(form, m), optional, form.pieces(t[m.end():]), mark))
                continue
            m = Number.PATTERN.match(t)
            if m:
                self.terms.append((Number(form, m), True, form.pieces(t[m.end():]), None))
            else:
                m = re.match(r'-?\w+', t)
                self.terms.append((m.group(0), False, form.pieces(t[m.end():]), None))

    def text(self, word):
        registers = [(t, o, s, m) for t, o, s, m in self.terms if isinstance(t, (Register, str))]
        numbers = [(t, s) for t, o, s, m in self.terms if isinstance(t, Number)]
        nonzero = [n for n in numbers if n[0].value(word)]
        kept = [r for r in registers if not (r[1] and r[0].zero(word))]
        bare = False
        if not kept and not nonzero and registers:
            kept, bare = registers[-1:], True
        out = []
        for t, _, suffix, mark in kept:
            s = t if isinstance(t, str) else t.text(word)
            if mark is True or mark is not None and word >> mark & 1:
                s = '-' + s
            out.append(s + ('' if bare else show(suffix, word)))
        for t, suffix in nonzero or (numbers if not out else ()):
            out.append(t.text(word, alone=not out) + show(suffix, word))
        return '+'.join(out)


class Instruction:
    def __init__(self, name):
        self.name, self.fields, self.forms = name, {}, []


def read(directory):
    """All instructions of the table files."""
    out = []
    for path in sorted(glob.glob(os.path.join(directory, '*.sass'))):
        header = None
        for number, line in enumerate(open(path), 1):
            line = re.sub(r'(^|\s)#.*', '', line.rstrip('\n'))
            if header is not None:
                text = line.strip()
                template = text if text.startswith(('.', '{', '<')) else ' ' + text if text else ''
                out[-1].forms.append(Form(out[-1], header, template, f'{os.path.basename(path)}:{number}'))
                header = None
            elif not line.strip():
                continue
            elif line[0] != ' ':
                out.append(Instruction(line.strip()))
            else:
                kind, rest = line.split(None, 1)
                if kind == 'field':
                    name, bits, *texts = rest.split()
                    if texts and re.match(r'\d+=', texts[0]):
                        table = {int(t.split('=', 1)[0]): t.split('=', 1)[1] for t in texts}
                    else:
                        table = {i: t for i, t in enumerate(texts) if t != '?'}
                    out[-1].fields[name] = (parse_bits(bits), {v: '' if t == '-' else t for v, t in table.items()})
                elif kind == 'form':
                    header = line.strip()
    return out


def squeeze(text):
    return text.replace(' ', '')


class Table:
    """The forms of one target, by opcode."""

    def __init__(self, instructions, target):
        self.by = collections.defaultdict(list)
        for i in instructions:
            for f in i.forms:
                if target in f.targets:
                    self.by[f.opcode].append(f)

    def match(self, word):
        return [f for f in self.by.get(word & 0xfff, ()) if word & f.mask == f.value and not (f.excluded and get(word, f.excluded[0]) == f.excluded[1])]

    def text(self, word):
        """(text or None, number of matching forms)."""
        forms = self.match(word)
        if len(forms) != 1:
            return None, len(forms)
        try:
            return forms[0].text(word), 1
        except Hole:
            return None, 1

    def overlaps(self):
        for forms in self.by.values():
            for i, a in enumerate(forms):
                for b in forms[:i]:
                    if (a.value ^ b.value) & a.mask & b.mask == 0:
                        yield a, b


def sample(form, rng):
    w = form.value | form.preset
    for b in form.bits:
        if not form.mask >> b & 1:
            w = w & ~(1 << b) | rng.getrandbits(1) << b
    for o in form.operands:
        for t in ([o.core] if o.core else []) + [t for p, _ in o.parts or () for t, *_ in p.terms]:
            if isinstance(t, (Register, Number)) and rng.random() < .15:
                ones = rng.random() < .6
                for b in t.bits:
                    if not form.mask >> b & 1:
                        w = w & ~(1 << b) | ones << b
    w &= ~(15 << 12)
    w |= 7 << 12 if rng.random() < .7 else rng.randrange(16) << 12
    return plain(w)


def main():
    args = argparse.ArgumentParser()
    args.add_argument('data')
    args.add_argument('targets', nargs='*', type=int)
    args.add_argument('--samples', type=int, default=20)
    args.add_argument('--show', type=int, default=6)
    args = args.parse_intermixed_args()
    instructions = read(args.data)
    print(len(instructions), 'instructions', sum(len(i.forms) for i in instructions), 'forms')
    status = 0
    for target in args.targets or TARGETS:
        table = Table(instructions, target)
        for a, b in table.overlaps():
            print(f'{target}: overlap {a.where} {b.where}')
            status = 1
        d = Disassembler(DISASSEMBLER[target])
        rng = random.Random(target)
        words = [w for ws in words_of(target).values() for w in ws]
        sets = [('words', words), ('samples', [sample(f, rng) for fs in table.by.values() for f in fs for _ in range(args.samples)])]
        for name, ws in sets:
            total = matched = same = 0
            worst = collections.Counter()
            example = {}
            for w, t in zip(ws, d.many(ws)):
                if t is None or '???' in t or 'INVALID' in t:
                    continue
                total += 1
                ours, n = table.text(w)
                matched += n == 1
                if ours is not None and squeeze(ours) == squeeze(t):
                    same += 1
                else:
                    key = re.sub(r'^@\S+ ', '', t).split(' ')[0].split('.')[0] + f' {w & 0xfff:03x}'
                    worst[key] += 1
                    example.setdefault(key, (w, ours if n == 1 else f'<{n} forms>', t))
            print(f'{target} {name}: {total}, matched {100 * matched / max(total, 1):.3f}%, identical {100 * same / max(total, 1):.3f}%')
            if name == 'words' and same != total:
                status = 1
            for key, n in worst.most_common(args.show):
                w, ours, theirs = example[key]
                print(f'    {n} {key}: {w:032x}\n        {ours}\n        {theirs}')
    sys.exit(status)


if __name__ == '__main__':
    main()
