#!/usr/bin/env python3
"""Profiles a Triton kernel that Oriole assembled with the profilers of PyTorch and Triton. Needs a GPU, PyTorch and Triton.

    python3 tools/debugger/profilers.py target/release/ptxas FOLDER

The exit status is 1 if a profiler does not see the five launches, or if no samples are given to the line with the sine. Files go to FOLDER.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

assert len(sys.argv) in (3, 4), __doc__
os.environ["TRITON_PTXAS_PATH"] = str(Path(sys.argv[1]).resolve())
folder = Path(sys.argv[2])
os.environ["TRITON_CACHE_DIR"] = str(folder / "triton-cache")

import torch
import triton
import triton.language as tl
import triton.profiler as proton


@triton.jit
def add(X, Y, Z, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    x = tl.load(X + offs, mask=mask)
    y = tl.load(Y + offs, mask=mask)
    for _ in range(50):
        x = tl.sin(x) + y  # the line with the sine
    tl.store(Z + offs, x, mask=mask)


SINE = next(number for number, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.endswith("# the line with the sine"))
count = 1 << 22
x, y = torch.rand(count, device="cuda"), torch.rand(count, device="cuda")
z = torch.empty_like(x)


def launch():
    add[(triton.cdiv(count, 1024),)](x, y, z, count, BLOCK=1024)


def frames(node):
    yield node
    for child in node.get("children", ()):
        yield from frames(child)


def with_torch():
    """Returns whether the profiler of PyTorch sees five launches."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        for _ in range(5):
            launch()
        torch.cuda.synchronize()
    launches = sum(event.count for event in profile.key_averages() if event.key == "add")
    print(f"torch.profiler: {launches} launches of add")
    return launches == 5


def with_triton(mode):
    """Returns whether the profiler of Triton sees five launches, or gives samples to the line with the sine."""
    name = folder / f"proton-{mode}"
    proton.start(str(name), backend="cupti", mode=mode or None)
    for _ in range(5):
        launch()
    torch.cuda.synchronize()
    proton.finalize()
    seen, samples = 0, {}
    for root in json.loads(Path(f"{name}.hatchet").read_text()):
        for node in frames(root) if "frame" in root else ():
            label, metrics = node["frame"]["name"], node.get("metrics", {})
            if metrics:
                print(f"triton.profiler {mode}: {Path(label).name} {metrics}")
            seen += metrics.get("count", 0) if label == "add" else 0
            if "num_samples" in metrics:
                samples[label] = metrics["num_samples"]
    if not mode:
        return seen == 5
    in_sine = sum(number for label, number in samples.items() if f"{Path(__file__).name}:{SINE}@" in label)
    print(f"{in_sine} of {sum(samples.values())} samples in line {SINE}, which has the sine")
    return in_sine > 0


if __name__ == "__main__":
    parts = {"torch": with_torch, "triton": lambda: with_triton(""), "pcsampling": lambda: with_triton("pcsampling")}
    if sys.argv[3:]:
        # Triton's profiler reads the line table when a module is loaded, so the first launch has to be inside its session.
        if sys.argv[3] != "pcsampling":
            launch()
            torch.cuda.synchronize()
        sys.exit(not parts[sys.argv[3]]())
    print(f"PyTorch {torch.__version__}, Triton {triton.__version__}", flush=True)
    # One process each: a process has one subscriber of CUPTI at most.
    results = [subprocess.run([sys.executable, __file__, *sys.argv[1:3], part], check=False).returncode for part in parts]
    sys.exit(any(results))
