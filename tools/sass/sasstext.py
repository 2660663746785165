"""nvdisasm's text of one instruction, taken apart into a flat dictionary of attributes.

    IADD3 R8, P0, PT, -R16.reuse, c[0x0][0x160], RZ
    mn=IADD3 mods=() n=6 o0.k=R o0.n=8 ... o3.neg=1 o3.m=('.reuse',) o4.k=[ o4.w=c o4.g0.I=0 o4.g1.I=352 ...

Keys of operand i begin with `o<i>`: `.k` its kind, `.n` its number (-1 for RZ, PT and so on), `.m` its
suffixes, `.neg .inv .not .abs` its prefixes, `.w` the word before brackets, `.g<j>` the j-th bracket
with `.R .UR .I` inside, `.off` a number after a register, `.s` a name. Two texts then differ exactly in the
attributes that a flipped bit changed.
"""
import re

REGISTERS = ('R', 'UR', 'P', 'UP', 'B', 'SB')
_REG = re.compile(r'(UR|UP|SB|R|P|B)(\d+|Z|T)(?![A-Za-z0-9_])')
_NUM = re.compile(r'[-+]?(?:0x[0-9a-f]+|\d+(?:\.\d+)?(?:e[-+]\d+)?)(?![A-Za-z_0-9])|[-+]?(?:INF|QNAN|SNAN)\b')
_MOD = re.compile(r'\.[A-Za-z0-9_?]+(?:\.\.[A-Za-z0-9]+)?')
_NAME = re.compile(r'[1-3]D\b|[A-Za-z_][A-Za-z0-9_]*')
_PC = re.compile(r'PC[-+]0x[0-9a-f]+')
_SET = re.compile(r'\{(\d+(?:,\d+)*)\}')
_DERIVED = ('.MOV', '.IADD', '.SHL')
INSIDE = set()
"""(mnemonic, register file) pairs that print suffixes inside the bars of an absolute value."""


class Unreadable(Exception):
    pass


def is_number(path):
    """Whether an attribute is a number that a field of bits may carry."""
    last = path.split('.')[-1]
    return last in ('n', 'I', 'off') or last.rstrip('0123456789') in ('R', 'UR', 'P', 'UP')


def kind_of(attrs, path):
    """Register file or number kind of a numeric attribute."""
    return attrs.get(path[:-1] + 'k') if path.endswith('.n') else path.split('.')[-1].rstrip('0123456789')


class _Reader:
    def __init__(self, text):
        self.t, self.i, self.inside = text, 0, None

    def at(self, c):
        return self.t.startswith(c, self.i)

    def eat(self, c):
        if self.at(c):
            self.i += len(c)
            return True
        return False

    def need(self, c):
        if not self.eat(c):
            raise Unreadable(self.t)

    def take(self, pattern):
        m = pattern.match(self.t, self.i)
        if m:
            self.i = m.end()
            return m

    def mods(self):
        out = []
        while self.at('.'):
            m = self.take(_MOD)
            if m is None:
                raise Unreadable(self.t)
            out.append(m.group(0))
        return out

    def register(self):
        m = self.take(_REG)
        return m and (m.group(1), -1 if m.group(2) in 'ZT' else int(m.group(2)))

    def number(self):
        """('I', int) or ('F', text)."""
        m = self.take(_NUM)
        if m is None:
            return None
        s = m.group(0)
        return ('I', int(s, 16)) if '0x' in s else ('F', s)

    def term(self, a, p):
        negative = False
        while self.t[self.i:self.i + 1] in ('-', '+') and not _NUM.match(self.t, self.i):
            negative ^= self.t[self.i] == '-'
            self.i += 1
        r = self.register()
        if r:
            k = 0
            while f'{p}.{r[0]}{k or ""}' in a:
                k += 1
            q = f'{p}.{r[0]}{k or ""}'
            a[q] = r[1]
            m = self.mods()
            if m:
                a[q + '.m'] = tuple(m)
            if negative:
                a[q + '.neg'] = 1
            return
        n = self.number()
        if n is None or n[0] != 'I':
            raise Unreadable(self.t)
        a[p + '.I'] = -n[1] if negative else n[1]
        m = self.mods()
        if m:
            a[p + '.I.m'] = tuple(m)

    def operand(self, p):
        a = {}
        while True:
            if self.at('-') and not _NUM.match(self.t, self.i):
                self.i += 1
                a[p + '.neg'] = 1
            elif self.eat('~'):
                a[p + '.inv'] = 1
            elif self.eat('!'):
                a[p + '.not'] = 1
            elif self.eat('|'):
                a[p + '.abs'] = 1
            else:
                break
        r = self.register()
        if r:
            a[p + '.k'], a[p + '.n'] = r
            m = self.mods()
            if a.get(p + '.abs'):
                self.need('|')
                if m:
                    self.inside = a[p + '.k']
                m += self.mods()
            if m:
                a[p + '.m'] = tuple(m)
            if self.at(' ') and (_PC.match(self.t, self.i + 1) or _NUM.match(self.t, self.i + 1)):
                self.i += 1
                n = self.take(_PC)
                if n:
                    a[p + '.off'], a[p + '.rel'] = int(n.group(0)[2:], 16), 1
                else:
                    a[p + '.off'] = self.number()[1]
            return a
        m = self.take(_PC)
        if m:
            a[p + '.k'], a[p + '.n'] = 'PC', int(m.group(0)[2:], 16)
            return a
        m = self.take(_SET)
        if m:
            a[p + '.k'], a[p + '.n'] = 'SET', sum(1 << int(x) for x in m.group(1).split(','))
            return a
        n = self.number()
        if n:
            a[p + '.k'], a[p + '.n'] = n
            m = self.mods()
            if m:
                a[p + '.m'] = tuple(m)
            return a
        m = self.take(_NAME)
        w = m.group(0) if m else ''
        if self.at('['):
            a[p + '.k'], a[p + '.w'] = '[', w
            g = 0
            while self.eat('['):
                q = f'{p}.g{g}'
                a[q] = 1
                if not self.at(']'):
                    self.term(a, q)
                    while not self.at(']'):
                        if not self.eat(' '):
                            self.need('+')
                            self.term(a, q)
                self.need(']')
                m = self.mods()
                if m:
                    a[q + '.m'] = tuple(m)
                g += 1
            a[p + '.gs'] = g
            if a.get(p + '.abs'):
                self.need('|')
                m = self.mods()
                if m:
                    a[p + '.m'] = tuple(m)
            return a
        if w:
            a[p + '.k'], a[p + '.s'] = 'N', w + ''.join(self.mods())
            return a
        raise Unreadable(self.t)


def plain_text(text):
    """The text without IMAD's derived modifiers, which follow from the operands."""
    if 'IMAD' not in text:
        return text
    return re.sub(r'\bIMAD(\.\w+)*', lambda m: re.sub(r'\.(MOV|IADD|SHL)\b', '', m.group(0)), text)


def parse(text):
    """Attributes of one instruction's text."""
    a = {}
    t = text
    m = re.match(r'@(!?)(U?P)(\d|T) ', t)
    if m:
        a['guard'] = (m.group(2), 7 if m.group(3) == 'T' else int(m.group(3)), m.group(1))
        t = t[m.end():]
    m = re.match(r'[A-Z0-9_a-z]+', t)
    if not m:
        raise Unreadable(text)
    r = _Reader(t)
    r.i = m.end()
    a['mn'] = m.group(0)
    a['mods'] = tuple(x for x in r.mods() if not (a['mn'] == 'IMAD' and x in _DERIVED))
    n = 0
    while r.eat(' '):
        pass
    if r.i < len(t):
        while True:
            while r.eat(' '):
                pass
            a.update(r.operand(f'o{n}'))
            n += 1
            if not r.eat(','):
                break
        while r.eat(' '):
            pass
        if r.i != len(t):
            raise Unreadable(text)
    a['n'] = n
    if r.inside:
        INSIDE.add((a['mn'], r.inside))
    return a
