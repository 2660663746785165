#!/usr/bin/env python3
"""Runs Triton programs twice, with two assemblers, and compares every kernel: the memory that it writes, and its time.

    python3 tools/triton/compare.py --ptxas target/release/ptxas --reference /usr/local/cuda/bin/ptxas PROGRAM.py ...

Needs Triton, PyTorch and an NVIDIA GPU. The programs are not changed: each kernel that they launch, by Triton itself or by PyTorch's
inductor, is launched as usual, then its tensors are hashed, then it is timed in a CUDA graph. All configurations of an autotuned kernel run;
the first one is the one that the program continues with, so that both runs launch the same kernels in the same order. Functions of
`triton.testing` that measure run what they would measure once.

A kernel launched repeatedly for timing may add to its own output, so the tensors of later launches need not be right. They are the same in both
runs all the same, unless the kernel adds floating-point numbers by atomics.

With `--reference-twice`, a kernel that writes other memory in a second run with NVIDIA's assembler is reported as `not repeatable`, not as
different: its result depends on the time at which its warps run.
"""

import argparse
import hashlib
import json
import math
import os
import runpy
import subprocess
import sys
import tempfile

LAUNCHES = 10  # in one CUDA graph
REPLAYS = 5  # of the graph; the fastest counts
SIZES_PER_BENCHMARK = 2  # of `triton.testing.perf_report`


def hash_tensors(arguments):
    """Returns a hash of the contents of all tensors among the arguments, and of those inside tensor descriptors."""
    import torch

    torch.cuda.synchronize()
    digest = hashlib.sha256()
    for argument in arguments:
        tensor = getattr(argument, "base", argument)
        if isinstance(tensor, torch.Tensor) and tensor.is_cuda:
            try:
                digest.update(tensor.detach().contiguous().view(torch.uint8).cpu().numpy().tobytes())
            except RuntimeError:  # no view of bytes, for example of a tensor without dimensions
                digest.update(repr(tensor.tolist()).encode())
    return digest.hexdigest()


def time_launches(launch):
    """Returns the microseconds that one launch takes in a CUDA graph, or None if the launch cannot be captured."""
    import torch

    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(LAUNCHES):
                launch()
    except Exception:
        torch.cuda.synchronize()
        return None
    times = []
    graph.replay()
    torch.cuda.synchronize()
    for _ in range(REPLAYS):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1000 / LAUNCHES)
    return min(times)


def code_of(ptx):
    """Returns PTX without line information, which has the path of the cache of the run."""
    lines = ptx.split(".section", 1)[0].splitlines()
    return "\n".join(line for line in lines if not line.strip().startswith((".file", ".loc", "//")))


class Recorder:
    """Writes one line for each distinct kernel that is launched."""

    def __init__(self, path):
        self.file = open(path, "w")
        self.seen = set()

    def record(self, kernel, arguments, launch):
        """Hashes and times a launch whose kernel has not been seen yet."""
        key = hashlib.sha256(code_of(kernel.asm.get("ptx", "")).encode()).hexdigest()
        if key in self.seen:
            return
        self.seen.add(key)
        row = {"name": kernel.name, "ptx": key, "memory": hash_tensors(arguments), "time": time_launches(launch)}
        print(json.dumps(row), file=self.file, flush=True)


def patch_triton(recorder):
    import triton
    from triton.runtime.autotuner import Autotuner
    from triton.runtime.jit import JITFunction

    original = JITFunction.run

    def run(self, *args, grid, warmup, **kwargs):
        kernel = original(self, *args, grid=grid, warmup=warmup, **kwargs)
        if not warmup and kernel is not None and hasattr(kernel, "asm"):
            recorder.record(kernel, list(args) + list(kwargs.values()), lambda: original(self, *args, grid=grid, warmup=False, **kwargs))
        return kernel

    def run_once(call, *_, quantiles=None, **__):
        call()
        return [1.0 for _ in quantiles] if quantiles else 1.0

    def run_benchmark(self, **_):
        for bench in self.benchmarks if isinstance(self.benchmarks, list) else [self.benchmarks]:
            for sizes in bench.x_vals[-SIZES_PER_BENCHMARK:]:
                sizes = sizes if isinstance(sizes, (list, tuple)) else [sizes for _ in bench.x_names]
                for line in bench.line_vals:
                    self.fn(**dict(zip(bench.x_names, sizes)), **{bench.line_arg: line}, **bench.args)

    JITFunction.run = run
    Autotuner.do_bench = property(lambda _: run_once)
    triton.testing.do_bench = run_once
    triton.testing.do_bench_cudagraph = run_once
    triton.testing.Mark.run = run_benchmark


def patch_inductor(recorder):
    """Records the kernels of `torch.compile`, which has its own launcher and its own search over configurations."""
    try:
        from torch._inductor.runtime.triton_heuristics import CachingAutotuner
    except ImportError:
        return
    import torch

    original = CachingAutotuner.run
    # The first configuration in both runs, whatever its time.
    CachingAutotuner.autotune_to_one_config = lambda self, *_, **__: setattr(self, "launchers", self.launchers[:1])

    def run(self, *args, stream, **kwargs):
        result = original(self, *args, stream=stream, **kwargs)
        kernel = getattr(self.compile_results[0], "kernel", None) if getattr(self, "compile_results", None) else None
        if kernel is not None and hasattr(kernel, "asm"):

            def launch():
                original(self, *args, stream=torch.cuda.current_stream().cuda_stream, **kwargs)

            recorder.record(kernel, args, launch)
        return result

    CachingAutotuner.run = run


def run_program(program, path):
    """Runs one program in this process with all its kernels recorded."""
    import torch

    torch.manual_seed(1)
    recorder = Recorder(path)
    patch_triton(recorder)
    patch_inductor(recorder)
    sys.argv = [program]
    sys.path.insert(0, os.path.dirname(os.path.abspath(program)))
    runpy.run_path(program, run_name="__main__")


def run_with(assembler, program, folder, limit, number=1):
    """Runs a program in a process of its own with the given assembler, for the given time. Returns the recorded rows and the end of an error
    message."""
    name = f"{os.path.basename(program)}.{hashlib.sha256(assembler.encode()).hexdigest()[:8]}"
    path = os.path.join(folder, f"{name}.{number}.rows")
    environment = dict(
        os.environ,
        TRITON_PTXAS_PATH=os.path.abspath(assembler),
        TRITON_CACHE_DIR=os.path.join(folder, name + ".cache"),
        TORCHINDUCTOR_CACHE_DIR=os.path.join(folder, name + ".inductor"),
        TORCHINDUCTOR_COMPILE_THREADS="1",
        # The static launcher does not keep the PTX of a kernel.
        TORCHINDUCTOR_USE_STATIC_CUDA_LAUNCHER="0",
        TORCHINDUCTOR_USE_STATIC_TRITON_LAUNCHER="0",
        MPLBACKEND="agg",
    )
    command = [sys.executable, os.path.abspath(__file__), "--run", path, program]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit)
        error = (done.stderr.strip().splitlines() or ["no message"])[-1] if done.returncode else ""
    except subprocess.TimeoutExpired:
        error = f"stopped after {limit} s"
    rows = [json.loads(line) for line in open(path)] if os.path.exists(path) else []
    return rows, error


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ptxas", help="Oriole's ptxas")
    parser.add_argument("--reference", default="/usr/local/cuda/bin/ptxas", help="NVIDIA's ptxas")
    parser.add_argument("--reference-twice", action="store_true", help="run NVIDIA's code twice to find kernels that are not repeatable")
    parser.add_argument("--limit", type=int, default=300, help="seconds for one run of a program")
    parser.add_argument("--run", metavar="FILE", help=argparse.SUPPRESS)
    parser.add_argument("programs", nargs="+", metavar="PROGRAM.py")
    arguments = parser.parse_args()
    if arguments.run:
        run_program(arguments.programs[0], arguments.run)
        return 0
    if not arguments.ptxas:
        parser.error("--ptxas is missing")

    ratios, different, unrepeatable, missing, errors = [], 0, 0, 0, 0
    print("program\tkernel\tptxas us\toriole us\tratio\tmemory")
    with tempfile.TemporaryDirectory() as folder:
        for program in arguments.programs:
            reference, reference_error = run_with(arguments.reference, program, folder, arguments.limit)
            ours, our_error = run_with(arguments.ptxas, program, folder, arguments.limit)
            if our_error or reference_error:
                print(f"# {program}: ptxas: {reference_error or 'ended'}; oriole: {our_error or 'ended'}")
                errors += bool(our_error) and not reference_error
            again = reference
            if arguments.reference_twice:
                again, again_error = run_with(arguments.reference, program, folder, arguments.limit, 2)
                if again_error:
                    print(f"# {program}: ptxas, second run: {again_error}")
            by_ptx = {row["ptx"]: row for row in ours}
            memory_again = {row["ptx"]: row["memory"] for row in again}
            for row in reference:
                other = by_ptx.get(row["ptx"])
                if other is None:
                    missing += 1
                    print(f"{os.path.basename(program)}\t{row['name']}\t\t\t\tnot launched")
                    continue
                if memory_again.get(row["ptx"], row["memory"]) != row["memory"]:
                    memory = "not repeatable"
                else:
                    memory = "same" if row["memory"] == other["memory"] else "different"
                different += memory == "different"
                unrepeatable += memory == "not repeatable"
                ratio = other["time"] / row["time"] if row["time"] and other["time"] else None
                if ratio:
                    ratios.append(ratio)
                figures = f"{row['time']:.2f}\t{other['time']:.2f}\t{ratio:.3f}" if ratio else "\t\t"
                print(f"{os.path.basename(program)}\t{row['name']}\t{figures}\t{memory}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else float("nan")
    print(f"# {len(ratios)} kernels timed, geometric mean {mean:.4f}, largest {max(ratios, default=float('nan')):.3f}")
    if arguments.reference_twice:
        print(f"# {unrepeatable} kernels wrote other bits in two runs with NVIDIA's assembler")
    print(f"# {different} kernels wrote other bits, {missing} were not launched with Oriole, {errors} programs failed with Oriole alone")
    return 1 if different or missing or errors else 0


if __name__ == "__main__":
    sys.exit(main())
