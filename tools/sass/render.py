"""Prints a word by a learned row, so that the learner can compare itself with nvdisasm."""
import struct

from sasstext import REGISTERS, kind_of


def get(word, bits):
    return sum((word >> b & 1) << i for i, b in enumerate(bits))


def _g20(v):
    return ('%.20e' if abs(v) >= 1e9 else '%.20g') % v


def _float(bits, exponent, mantissa, unpack):
    e, m = bits >> mantissa & (1 << exponent) - 1, bits & (1 << mantissa) - 1
    if e == (1 << exponent) - 1:
        sign = '-' if bits >> exponent + mantissa & 1 else '+'
        return sign + ('INF' if m == 0 else 'QNAN' if m >> mantissa - 1 else 'SNAN')
    return _g20(unpack(bits))


def f32(b):
    return _float(b, 8, 23, lambda b: struct.unpack('<f', struct.pack('<I', b))[0])


def f64(b):
    return _float(b, 11, 20, lambda b: struct.unpack('<d', struct.pack('<Q', b << 32))[0])


def f16(b):
    return _float(b, 5, 10, lambda b: struct.unpack('<e', struct.pack('<H', b))[0])


def bf16(b):
    return f32(b << 16)


FLOATS = {'f32': f32, 'f64': f64, 'f16': f16, 'bf16': bf16}


def register(kind, v):
    return kind + (('T' if 'P' in kind else 'Z') if v == -1 else str(v))


def signed(v):
    return f'-{-v:#x}' if v < 0 else f'{v:#x}'


def field_value(row, path, field, word):
    """The attribute a numeric field gives."""
    v = get(word, field['bits'])
    if field['kind'] == 'reg':
        v ^= field['xor']
        ones = (1 << len(field['bits'])) - 1
        if v == ones and kind_of(row['attrs'], path) in ('R', 'UR', 'P', 'UP') and not field.get('plain'):
            return -1
        v = v * field['scale'] + field.get('plus', 0)
        return -1 if field.get('plus') and v == ones else v
    if field['kind'] == 'float':
        return FLOATS[field['float']](v)
    return sum((word >> b & 1) * w for b, w in field['weights'].items()) + field.get('plus', 0)


def render(row, word):
    """The text, or None when a spelling table has no such value."""
    a = dict(row['attrs'])
    for g in row['groups']:
        t = g['table'].get(get(word, g['bits']))
        if t is None:
            return None
        for k, v in t.items():
            if k not in row['seq']:
                a[k] = v
    for path, seq in row['seq'].items():
        out = []
        for x in seq:
            if isinstance(x, str):
                out.append(x)
            else:
                g = row['groups'][x]
                out += g['table'][get(word, g['bits'])][path] or ()
        a[path] = tuple(out)
    for path, f in row['fields'].items():
        a[path] = field_value(row, path, f, word)
    s = ''
    predicate, negated = word >> 12 & 7, word >> 15 & 1
    if row['guard'] and (predicate != 7 or negated):
        s += f'@{"!" if negated else ""}{register(row["guard"], -1 if predicate == 7 else predicate)} '
    s += a['mn'] + ''.join(a['mods'])
    ops = []
    for i in range(a['n']):
        p = f'o{i}'
        if p + '.n' in row['opt'] and get(word, row['fields'][p + '.n']['bits']) == row['opt'][p + '.n'] and not a.get(p + '.not'):
            continue
        if a[p + '.k'] != 'N' or a[p + '.s']:
            ops.append(_operand(a, p, row))
    return s + (' ' + ', '.join(ops) if ops else '')


def _operand(a, p, row):
    s = ''.join(mark for key, mark in (('not', '!'), ('neg', '-'), ('inv', '~'), ('abs', '|')) if a.get(f'{p}.{key}'))
    k = a[p + '.k']
    bar = '|' if a.get(p + '.abs') else ''
    m = ''.join(a.get(p + '.m') or ())
    if k in REGISTERS:
        s += register(k, a[p + '.n']) + (m + bar if k in row['inside'] else bar + m)
        off = a.get(p + '.off')
        if off is not None and a.get(p + '.rel'):
            s += f' PC{"-" if off < 0 else "+"}{abs(off):#x}'
        elif off or off is not None and row.get('zero_offset'):
            s += ' ' + signed(off)
        return s
    n = a.get(p + '.n')
    if k == 'I':
        return s + signed(n) + m
    if k == 'F':
        return s + n + m
    if k == 'PC':
        return f'{s}PC{"-" if n < 0 else "+"}{abs(n):#x}'
    if k == 'SET':
        return s + '{' + ','.join(str(i) for i in reversed(range(16)) if n >> i & 1) + '}'
    if k == 'N':
        return s + a[p + '.s']
    s += a[p + '.w']
    for g in range(a[p + '.gs']):
        q = f'{p}.g{g}'
        rule = row['address'].get(q, {})
        shown = [r for r in ('R', 'UR', 'P', 'UP', 'R1', 'UR1') if a.get(f'{q}.{r}') is not None]
        number = a.get(q + '.I')
        kept = [r for r in shown if not (r in rule.get('omit', ()) and a[f'{q}.{r}'] == -1)]
        if not kept and not number:
            kept = shown[:1] if number is None or not shown else [r for r in shown if r == rule.get('last')]
        terms = []
        for r in kept:
            suffix = '' if r in rule.get('omit', ()) and a[f'{q}.{r}'] == -1 else ''.join(a.get(f'{q}.{r}.m') or ())
            terms.append(('-' if a.get(f'{q}.{r}.neg') else '') + register(r.rstrip('1'), a[f'{q}.{r}']) + suffix)
        if number or not terms:
            v = number or 0
            if v < 0 and not terms and not rule.get('signed'):
                v += 1 << len(row['fields'][q + '.I']['bits']) if q + '.I' in row['fields'] else 0
            terms.append(signed(v) + ''.join(a.get(q + '.I.m') or ()))
        s += '[' + '+'.join(terms) + ']' + ''.join(a.get(q + '.m') or ())
    return s + bar + m
