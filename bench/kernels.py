#!/usr/bin/env python3
"""Compiles bench/kernels/*.cu and examples/stories/*.cu to kernel tests, *.ptx in the same folders, with NVRTC.

    bench/kernels.py [NAME ...]

A source begins with the header of a kernel test (docs/kernel-tests.md), which is put in front of its PTX, and has a line
`// oriole: arch=compute_80` as the sources of corpus/ do. The PTX is part of the project; only who changes a source needs NVRTC
(tools/oracles.sh).
"""

import multiprocessing
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tools"))
import corpus

KERNELS = pathlib.Path(__file__).resolve().parent / "kernels"
STORIES = KERNELS.parent.parent / "examples" / "stories"
# Fills buffers on the GPU; measure.py hands it to the driver.
FILL = KERNELS.parent / "fill.cu"
# What NVRTC says of itself, which differs from version to version.
BANNER = re.compile(r"\A(//.*\n)*\s*", re.MULTILINE)


def header(text):
    lines = []
    for line in text.splitlines():
        if not line.startswith("//"):
            break
        lines.append(line)
    return "\n".join(lines)


def main():
    wanted = set(sys.argv[1:])
    sources = [path for path in [*sorted(KERNELS.glob("*.cu")), *sorted(STORIES.glob("*.cu")), FILL] if not wanted or path.stem in wanted]
    jobs = [(corpus.oracle_folder(), corpus.variants(path)[0]) for path in sources]
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=1) as pool:
        results = pool.starmap(corpus.compile_variant, jobs, chunksize=1)
    failed = 0
    for variant, text, complaint in results:
        if text is None:
            print(complaint, file=sys.stderr)
            failed += 1
            continue
        first = header(variant.source.read_text()) if variant.source != FILL else "// bench/fill.cu, compiled"
        # NVRTC puts the source into the root folder.
        text = text.replace('.file\t1 "/', '.file\t1 "')
        variant.output.write_text(f"{first}\n\n{BANNER.sub('', text, count=1)}")
    print(f"{len(results) - failed} kernels, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
