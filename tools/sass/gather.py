"""Collects the machine words ptxas makes from PTX files: <words directory>/<target>.<set>.txt.

    python3 gather.py TARGET SET [--options=-O3,-O1] FILE.ptx...

TARGET is a ptxas name such as sm_90a; SET is any word (`forms` for the modules that `cargo xtask modules` writes,
`corpus` for real kernels). Words that differ only in their scheduling bits count once. A module ptxas refuses is split
in halves at its `.entry` lines until the refused kernels stand alone; these are reported.
"""
import argparse
import os
import re
import struct
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor

from oracle import TOOLS
from words import CONTROL, DIRECTORY

MEMORY_KB = 6000000
SECONDS = 60


def code_sections(elf):
    """Contents of the .text.* sections of an ELF64 file."""
    offset, = struct.unpack_from('<Q', elf, 0x28)
    count, names = struct.unpack_from('<HH', elf, 0x3c)
    sections = [struct.unpack_from('<IIQQQQIIQQ', elf, offset + 64 * i) for i in range(count)]
    start = sections[names][4]
    for s in sections:
        name = elf[start + s[0]:elf.index(b'\0', start + s[0])].decode()
        if name.startswith('.text.'):
            yield elf[s[4]:s[4] + s[5]]


def compile_ptx(text, target, option):
    """(cubin or None, messages)."""
    with tempfile.TemporaryDirectory() as d:
        source, cubin = os.path.join(d, 'in.ptx'), os.path.join(d, 'out.cubin')
        with open(source, 'w') as f:
            f.write(text)
        command = f'ulimit -v {MEMORY_KB}; timeout {SECONDS} {TOOLS}/ptxas -arch={target} {option} {source} -o {cubin}'
        p = subprocess.run(command, shell=True, capture_output=True, text=True)
        if p.returncode:
            return None, p.stderr + p.stdout
        with open(cubin, 'rb') as f:
            return f.read(), ''


def words_in(text, target, option, refused):
    """All words of a module, refused kernels left out."""
    cubin, messages = compile_ptx(text, target, option)
    if cubin is not None:
        return {int.from_bytes(code[i:i + 16], 'little') for code in code_sections(cubin) for i in range(0, len(code), 16)}
    head, *kernels = re.split(r'(?m)^(?=\.entry )', text)
    if len(kernels) <= 1:
        refused.append(messages.strip()[:200])
        return set()
    half = len(kernels) // 2
    return words_in(head + ''.join(kernels[:half]), target, option, refused) | words_in(head + ''.join(kernels[half:]), target, option, refused)


def main():
    args = argparse.ArgumentParser()
    args.add_argument('target')
    args.add_argument('set')
    args.add_argument('files', nargs='+')
    args.add_argument('--options', default='-O3')
    args = args.parse_args()
    refused, words = [], set()

    def run(job):
        with open(job[0]) as f:
            return words_in(f.read(), args.target, job[1], refused)

    with ThreadPoolExecutor(2) as pool:
        for ws in pool.map(run, [(f, o) for f in args.files for o in args.options.split(',')]):
            words |= ws
    distinct = {}
    for w in sorted(words):
        distinct.setdefault(w & ~CONTROL, w)
    os.makedirs(DIRECTORY, exist_ok=True)
    with open(os.path.join(DIRECTORY, f'{args.target}.{args.set}.txt'), 'w') as out:
        for k in sorted(distinct):
            out.write(f'{distinct[k]:032x}\n')
    print(f'{args.target}: {len(distinct)} words, {len(refused)} kernels refused')
    for r in refused[:8]:
        print('   ', r)


if __name__ == '__main__':
    main()
