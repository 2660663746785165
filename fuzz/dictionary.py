#!/usr/bin/env python3
"""Writes fuzz/ptx.dict, the words of PTX for the fuzzer, from the instruction table and the parser's directives."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PUNCTUATION = ["{", "}", "(", ")", "[", "]", ";", ",", "@", "@!", "|", "<4>", "%r1", "%rd1", "%f1", "%p1", "0f3F800000", "0d3FF0000000000000"]


def words():
    for table in sorted((ROOT / "crates/ptx/data").glob("*.tbl")):
        text = re.sub(r"^#(?!#).*$", "", table.read_text(), flags=re.M)
        yield from re.findall(r"^## \S+ (\S+)$", text, flags=re.M)
        yield from re.findall(r"\.[a-z][\w:]*", text)
        yield from re.findall(r"%\w+", text)
    for source in sorted((ROOT / "crates/ptx/src/parse").glob("*.rs")):
        yield from re.findall(r'"(\.[a-z]\w*)"', source.read_text())


def main():
    lines = ['"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"\n' for word in sorted(set(words()) | set(PUNCTUATION))]
    (ROOT / "fuzz/ptx.dict").write_text("# Written by fuzz/dictionary.py.\n" + "".join(lines))


main()
