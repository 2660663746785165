#!/usr/bin/env python3
"""Runs JAX programs on a GPU, once with NVIDIA's ptxas and once with Oriole's, and compares the results bit by bit.

    python3 tools/drop-in/jax_run.py target/release/ptxas [--toolkit FOLDER] [--keep FOLDER] [--compile-only TARGET_CONFIG] [PROGRAM...]

JAX and the CUDA toolkit (`bin/ptxas`, `bin/nvlink`, `nvvm`) have to be installed. XLA calls the ptxas of a folder that this script makes: the toolkit with a
`ptxas` that records its calls. Automatic tuning is off in this comparison, because it chooses kernels by their run time and so may add in another order. A last
run, with Oriole's ptxas and tuning on, compares within a tolerance. `--keep` saves the PTX and the messages of failed calls. The last line is the
row of `docs/drop-in.md`; the exit status is 1 if a program fails or differs.

`--compile-only` needs no GPU: it compiles all programs for a target that a file of XLA describes (`xla/backends/gpu/target_config/specs/h100_sxm.txtpb`, for
example), with both, and compares nothing.
"""

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from pathlib import Path

# XLA would otherwise compile in its own process with NVIDIA's libraries.
EXTERNAL_PTXAS = ["--xla_gpu_enable_libnvptxcompiler=false", "--xla_gpu_enable_libnvjitlink=false"]
# The same kernels in the same order in each run; matrix products by XLA's own kernels, not by cuBLAS.
REPEATABLE = ["--xla_gpu_autotune_level=0", "--xla_gpu_deterministic_ops=true", "--xla_gpu_experimental_autotune_backends=triton"]

# The largest accepted difference with tuning on, relative to the largest magnitude of a result: sums in another order, products in TF32.
TOLERANCE = 2e-2


def programs():
    """Returns a function and its arguments by name. All inputs are computed by numpy from one seed."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax import lax

    random = np.random.default_rng(7)
    normal = lambda *shape: random.standard_normal(shape, dtype=np.float32)
    integers = lambda *shape: random.integers(-(2**31), 2**31, shape, dtype=np.int64).astype(np.int32)

    def elementwise(x, y):
        return jnp.exp(-x * x) + jnp.tanh(y) * jnp.sin(x) + jnp.sqrt(jnp.abs(y)) / (1.0 + x * x), jnp.log1p(jnp.abs(x)), jnp.power(jnp.abs(x), y)

    def integer(x, y):
        odd = y | 1
        return x // odd, x % odd, lax.population_count(x), lax.clz(y), jnp.left_shift(x, y & 31), x.astype(jnp.int64) * y

    def double(x):
        x = x.astype(jnp.float64)
        return jnp.exp(x), jnp.sin(x) / (2.0 + jnp.cos(x)), jnp.sqrt(jnp.abs(x)), jnp.cumsum(x, axis=0)

    def half(x):
        x = x.astype(jnp.bfloat16)
        return (x * 2 + 1).astype(jnp.float32), jax.nn.gelu(x).astype(jnp.float32), jnp.sum(x.astype(jnp.float16), axis=1).astype(jnp.float32)

    def reductions(x):
        return jnp.sum(x, axis=0), jnp.sum(x, axis=1), jnp.max(x), jnp.argmax(x, axis=1), jnp.var(x), jnp.all(x < 9.0)

    def softmax(x):
        return jax.nn.softmax(x, axis=-1), jax.nn.logsumexp(x, axis=0)

    def layer_norm(x, scale):
        centered = x - jnp.mean(x, axis=-1, keepdims=True)
        return centered * lax.rsqrt(jnp.mean(centered * centered, axis=-1, keepdims=True) + 1e-5) * scale

    def matmul(a, b):
        product = jnp.dot(a.astype(jnp.bfloat16), b.astype(jnp.bfloat16), preferred_element_type=jnp.float32)
        return product, jax.nn.relu(jnp.dot(a, b) + 1.0)

    def transpose(x):
        return jnp.transpose(x.reshape(64, 64, -1), (2, 0, 1)), jnp.flip(x, axis=1), jnp.concatenate([x[:, ::2], x[:, 1::2]], axis=1)

    def gather_scatter(x, index):
        row = jnp.abs(index[:, 0]) % x.shape[0]
        return x[row], jnp.zeros((x.shape[0],), jnp.int32).at[row].add(index[:, 1]), jnp.zeros_like(x).at[row % 16].max(x[row])

    def sort(x, index):
        return jnp.sort(x, axis=1), jnp.argsort(index[:, 0]), lax.top_k(x, 5)

    def scan(x, weights):
        def step(state, row):
            state = jnp.tanh(state @ weights + row)
            return state, jnp.sum(state)

        return lax.scan(step, jnp.zeros_like(x[0]), x)

    def loop(x):
        return lax.while_loop(lambda s: s[0] < 100, lambda s: (s[0] + 1, jnp.where(s[1] > 0, s[1] * 0.5, s[1] * 3 + 1)), (0, x))

    def random_numbers(seed):
        key = jax.random.key(seed)
        return jax.random.bits(key, (4096,)), jax.random.uniform(key, (4096,)), jax.random.normal(key, (4096,)), jax.random.permutation(key, 1000)

    def attention(x):
        query, key, value = x[:, :256].reshape(-1, 4, 64), x[:, 256:512].reshape(-1, 4, 64), x[:, 512:768].reshape(-1, 4, 64)
        scores = jnp.einsum("qhd,khd->hqk", query, key) / 8.0
        mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
        return jnp.einsum("hqk,khd->qhd", jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1), value)

    def training(x, labels, weights):
        def loss(weights):
            hidden = jax.nn.gelu(x @ weights[0] + weights[1])
            logits = hidden @ weights[2] + weights[3]
            return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1))

        def step(weights, _):
            value, gradients = jax.value_and_grad(loss)(weights)
            return jax.tree.map(lambda weight, gradient: weight - 0.1 * gradient, weights, gradients), value

        return lax.scan(step, weights, None, length=10)

    square, wide = normal(512, 512), normal(256, 1024)
    layers = (normal(256, 128) * 0.06, np.zeros(128, np.float32), normal(128, 10) * 0.1, np.zeros(10, np.float32))
    return {
        "elementwise": (elementwise, (normal(1000, 333), normal(1000, 333))),
        "integer": (integer, (integers(10000), integers(10000))),
        "double": (double, (normal(300, 70),)),
        "half": (half, (normal(128, 1024),)),
        "reductions": (reductions, (normal(700, 1100),)),
        "softmax": (softmax, (wide,)),
        "layer_norm": (layer_norm, (wide, normal(1024))),
        "matmul": (matmul, (normal(256, 384), normal(384, 192))),
        "transpose": (transpose, (normal(128, 4096),)),
        "gather_scatter": (gather_scatter, (wide, integers(2000, 2))),
        "sort": (sort, (normal(64, 500), integers(3000, 1))),
        "scan": (scan, (normal(50, 128), normal(128, 128) * 0.1)),
        "loop": (loop, (normal(5000),)),
        "random_numbers": (random_numbers, (np.int32(5),)),
        "attention": (attention, (normal(256, 768),)),
        "training": (training, (normal(64, 256), random.integers(0, 10, 64).astype(np.int32), layers)),
        "long_sum": (lambda x: jnp.sum(x @ x), (square,)),
    }


def run_programs(output, names, target_config):
    """Runs, or only compiles, the programs in this process; writes the results to a file, and one line of JSON about all programs."""
    import jax
    import numpy as np

    jax.config.update("jax_enable_x64", True)
    sharding = None
    if target_config:
        from jax.experimental import topologies

        # Compilation alone: any device of the described kind.
        topology = topologies.get_topology_desc(platform="cuda", target_config=Path(target_config).read_text(), topology="1x1x1")
        sharding = jax.sharding.SingleDeviceSharding(topology.devices[0])
        device = topology.devices[0].device_kind
    else:
        device = jax.devices()[0].device_kind
        if jax.default_backend() != "gpu":
            raise RuntimeError(f"JAX found no GPU; its default is {jax.default_backend()}")
    results, errors = {}, {}
    for name, (function, arguments) in programs().items():
        if names and name not in names:
            continue
        try:
            if sharding:
                shapes = jax.tree.map(lambda array: jax.ShapeDtypeStruct(array.shape, array.dtype, sharding=sharding), arguments)
                jax.jit(function).lower(*shapes).compile()
            else:
                leaves = jax.tree.leaves(jax.jit(function)(*arguments))
                results |= {f"{name}.{number}": np.asarray(leaf) for number, leaf in enumerate(leaves)}
        except Exception:  # A failure of XLA or of a kernel; the other programs are still of interest.
            errors[name] = traceback.format_exc().strip().split("\n")[-1][:2000]
    np.savez(output, **results)
    print(json.dumps({"jax": jax.__version__, "device": device, "errors": errors}))


def find_toolkit():
    """Returns the folder of an installed CUDA toolkit: that of the Python packages, or that of the nvcc in the search path."""
    candidates = []
    package = importlib.util.find_spec("nvidia")
    for folder in package.submodule_search_locations if package else []:
        candidates += [Path(folder, "cu13"), Path(folder, "cuda_nvcc")]
    if os.environ.get("CUDA_HOME"):
        candidates.append(Path(os.environ["CUDA_HOME"]))
    if shutil.which("nvcc"):
        candidates.append(Path(shutil.which("nvcc")).resolve().parent.parent)
    candidates.append(Path("/usr/local/cuda"))
    for folder in candidates:
        if Path(folder, "bin/ptxas").exists() and Path(folder, "nvvm").exists():
            return folder
    sys.exit("jax_run.py: no CUDA toolkit; give its folder with --toolkit")


def recording_toolkit(work, toolkit, ptxas, keep):
    """Makes a folder like that of the toolkit, whose ptxas records its calls and calls the given one; returns it and the record."""
    work.mkdir()
    (work / "bin").mkdir()
    for part in toolkit.iterdir():
        if part.name != "bin":
            (work / part.name).symlink_to(part.resolve())
    for program in (toolkit / "bin").iterdir():
        if program.name != "ptxas":
            (work / "bin" / program.name).symlink_to(program.resolve())
    record = work / "calls"
    record.touch()
    failed = f"mkdir -p '{keep}'; cp \"$@\" '{keep}' 2>/dev/null; echo \"$*: $status\" >>'{keep}/failed'" if keep else ":"
    # XLA deletes its files after the call, so those of a failed call are copied here. Its search for the newest PTX version fails on purpose.
    (work / "bin/ptxas").write_text(
        f"#!/bin/sh\necho \"$*\" >>'{record}'\n'{ptxas}' \"$@\"\nstatus=$?\nif [ $status != 0 ]; then {failed}; fi\nexit $status\n"
    )
    (work / "bin/ptxas").chmod(0o755)
    return work, record


def measure(label, folder, record, flags, arguments):
    """Runs the programs in a new process; returns what it said, its results, and the number of compilations by ptxas."""
    import numpy as np

    output = folder / "results.npz"
    record.write_text("")
    variables = {
        "CUDA_ROOT": str(folder),
        "PATH": f"{folder}/bin:{os.environ['PATH']}",
        "XLA_FLAGS": " ".join([f"--xla_gpu_cuda_data_dir={folder}", *EXTERNAL_PTXAS, *flags]),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    }
    command = [sys.executable, __file__, "--child", output, "-", *arguments.programs]
    if arguments.compile_only:
        command[4:4] = ["--compile-only", arguments.compile_only]
        variables["JAX_SKIP_CUDA_CONSTRAINTS_CHECK"] = "1"  # It would load the CUDA runtime.
    result = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"jax_run.py: {label}: exit status {result.returncode}\n{result.stdout[-4000:]}{result.stderr[-8000:]}")
    said = json.loads(result.stdout.strip().split("\n")[-1])
    calls = [line for line in record.read_text().splitlines() if ".ptx" in line or "-o" in line.split()]
    print(f"{label}: {len(calls)} compilations by ptxas, {len(said['errors'])} programs failed", flush=True)
    for name, error in said["errors"].items():
        print(f"  {name}: {error}", flush=True)
    if not calls:
        sys.exit(f"jax_run.py: {label}: XLA did not call ptxas\n{result.stderr[-4000:]}")
    return said, dict(np.load(output)), len(calls)


def compare(expected, found, tolerance):
    """Prints the results that differ; returns the number of them. Without a tolerance, all bits have to agree."""
    import numpy as np

    count = 0
    for name, left in expected.items():
        right = found.get(name)
        if right is None or left.shape != right.shape or left.dtype != right.dtype:
            print(f"  {name}: missing or of another shape")
            count += 1
        elif left.tobytes() != right.tobytes():
            different = int(np.sum(left != right))
            largest = np.max(np.abs(left.astype(np.float64) - right.astype(np.float64)))
            scale = max(np.max(np.abs(left.astype(np.float64))), 1e-30)
            if tolerance is None or not largest <= tolerance * scale:
                print(f"  {name}: {different} of {left.size} values differ, by {largest:.3g} at most; largest value {scale:.3g}")
                count += 1
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ptxas", type=Path)
    parser.add_argument("programs", nargs="*", help="without them, all")
    parser.add_argument("--toolkit", type=Path, help="folder of the CUDA toolkit")
    parser.add_argument("--keep", type=Path, help="folder for the input of failed calls")
    parser.add_argument("--compile-only", metavar="TARGET_CONFIG", help="compile for this target, run nothing")
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_intermixed_args()
    if arguments.child:
        return run_programs(arguments.child, arguments.programs, arguments.compile_only)
    ptxas = arguments.ptxas.resolve(strict=True)
    toolkit = arguments.toolkit or find_toolkit()
    keep = arguments.keep and arguments.keep.resolve()
    print(f"toolkit: {toolkit}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        nvidia = recording_toolkit(Path(name, "nvidia"), toolkit, (toolkit / "bin/ptxas").resolve(), None)
        ours = recording_toolkit(Path(name, "oriole"), toolkit, ptxas, keep)
        said, expected, reference_calls = measure("NVIDIA's ptxas", *nvidia, REPEATABLE, arguments)
        again, found, calls = measure("Oriole's ptxas", *ours, REPEATABLE, arguments)
        tuned_calls = different_tuned = 0
        failed = {**said["errors"], **again["errors"]}
        different = compare(expected, found, None)
        if not arguments.compile_only:
            tuned, tuned_results, tuned_calls = measure("Oriole's ptxas, with automatic tuning", *ours, [], arguments)
            failed |= tuned["errors"]
            different_tuned = compare(expected, tuned_results, TOLERANCE)
    count = len(arguments.programs) or len(programs())
    if arguments.compile_only:
        what = f"{count} programs compiled for {said['device']}"
        result = f"{count - len(failed)} compiled; {calls} calls of ptxas, {reference_calls} with NVIDIA's"
    else:
        what = f"{count} jitted programs on an {said['device']}, without automatic tuning and with it"
        result = (
            f"{len(found) - different} of {len(expected)} results equal those with NVIDIA's ptxas bit by bit, "
            f"{len(expected) - different_tuned} with tuning within {TOLERANCE:g}; {calls} and {tuned_calls} calls of ptxas"
        )
    print(f"| JAX (XLA) | {said['jax']} | {what} | {result} |")
    sys.exit(1 if failed or different or different_tuned else 0)


if __name__ == "__main__":
    main()
