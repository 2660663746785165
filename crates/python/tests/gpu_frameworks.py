"""Runs kernels that Oriole compiled with CuPy and PyTorch on a GPU, and compares the results with those of numpy.

    python3 crates/python/tests/gpu_frameworks.py

Needs the wheel, CuPy and PyTorch, and for the last part nvcc and a host compiler. pytest does not collect this file.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy

import oriole
import oriole.cuda
import oriole.cupy
import oriole.torch

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .entry saxpy(.param .u32 n, .param .f32 alpha, .param .u64 x, .param .u64 y)
{
    .reg .pred %p; .reg .b32 %i, %block, %threads, %thread, %n; .reg .f32 %alpha, %xi, %yi; .reg .b64 %px, %py;
    mov.u32 %block, %ctaid.x; mov.u32 %threads, %ntid.x; mov.u32 %thread, %tid.x;
    mad.lo.u32 %i, %block, %threads, %thread;
    ld.param.u32 %n, [n]; setp.ge.u32 %p, %i, %n;
    @%p bra done;
    ld.param.f32 %alpha, [alpha]; ld.param.u64 %px, [x]; ld.param.u64 %py, [y];
    mad.wide.u32 %px, %i, 4, %px; mad.wide.u32 %py, %i, 4, %py;
    ld.global.f32 %xi, [%px]; ld.global.f32 %yi, [%py];
    fma.rn.f32 %yi, %alpha, %xi, %yi; st.global.f32 [%py], %yi;
done: ret;
}
"""

CUDA = """
extern "C" __global__ void reverse_sums(const float* x, double* out, int n) {
    __shared__ double part[256];
    double sum = 0;
    for (int i = threadIdx.x; i < n; i += 256) sum += x[(size_t)blockIdx.x * n + i];
    part[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 128; step > 0; step /= 2) {
        if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) out[gridDim.x - 1 - blockIdx.x] = part[0];
}
"""

EXTENSION = """
#include <torch/extension.h>
__global__ void triple(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 3.0f * x[i];
}
torch::Tensor triple_all(torch::Tensor x) {
    auto y = torch::empty_like(x);
    int n = x.numel();
    triple<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
    return y;
}
"""

COUNT = 100_000
X = (numpy.arange(COUNT) % 1000).astype(numpy.float32)
Y = (numpy.arange(COUNT) % 77).astype(numpy.float32)


def expect(what, found, wanted):
    if not numpy.array_equal(found, wanted):
        sys.exit(f"{what}: wrong results")
    print(f"{what}: {wanted.size} results correct", flush=True)


def with_cupy():
    import cupy

    x, y = cupy.asarray(X), cupy.asarray(Y)
    saxpy = oriole.cupy.load(PTX).get_function("saxpy")
    saxpy(((COUNT + 255) // 256,), (256,), (numpy.uint32(COUNT), numpy.float32(2), x, y))
    expect(f"CuPy {cupy.__version__}, PTX", cupy.asnumpy(y), 2 * X + Y)
    rows = X.reshape(100, -1)
    out = cupy.zeros(100, numpy.float64)
    sums = oriole.cupy.load_cuda(CUDA).get_function("reverse_sums")
    sums((100,), (256,), (cupy.asarray(rows), out, numpy.int32(rows.shape[1])))
    expect(f"CuPy {cupy.__version__}, CUDA C++ through NVRTC", cupy.asnumpy(out), rows.astype(numpy.float64).sum(axis=1)[::-1])


def with_torch():
    import torch

    for level in range(4):
        x, y = torch.from_numpy(X).cuda(), torch.from_numpy(Y).cuda()
        saxpy = oriole.torch.load(PTX, opt_level=level).get_function("saxpy")
        with torch.cuda.stream(torch.cuda.Stream()):
            torch.cuda.current_stream().wait_stream(torch.cuda.default_stream())
            saxpy(((COUNT + 255) // 256,), (256,), (COUNT, 2.0, x, y))
        torch.cuda.synchronize()
        expect(f"PyTorch {torch.__version__}, PTX, -O{level}", y.cpu().numpy(), 2 * X + Y)


def with_nvcc():
    """Compiles an extension of PyTorch with nvcc, and counts the calls of Oriole's ptxas."""
    import torch

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recording = folder / "ptxas"
        recording.write_text(f"#!/bin/sh\necho \"$*\" >>'{folder}/calls'\nexec '{oriole.ptxas_path()}' \"$@\"\n")
        recording.chmod(0o755)
        home = oriole.cuda.make_toolkit(folder / "cuda", ptxas=recording)
        oriole.cuda.install(folder / "installed", home)
        major, minor = torch.cuda.get_device_capability()
        os.environ["TORCH_CUDA_ARCH_LIST"] = f"{major}.{minor}"
        # The toolkit of `install` has the program itself; the one with the record is used here.
        os.environ["CUDA_HOME"] = home
        from torch.utils import cpp_extension

        cpp_extension.CUDA_HOME = home
        (folder / "build").mkdir()
        extension = cpp_extension.load_inline(
            "oriole_triple", "torch::Tensor triple_all(torch::Tensor x);", EXTENSION, functions=["triple_all"], build_directory=str(folder / "build")
        )
        found = extension.triple_all(torch.from_numpy(X).cuda()).cpu().numpy()
        calls = len((folder / "calls").read_text().splitlines())
        oriole.cuda.uninstall()
    expect(f"PyTorch {torch.__version__}, load_inline, {calls} calls of ptxas", found, 3 * X)


if __name__ == "__main__":
    parts = {"cupy": with_cupy, "torch": with_torch, "nvcc": with_nvcc}
    failed = False
    for part in sys.argv[1:] or parts:
        # One process each: the frameworks do not share a context with each other's mistakes.
        failed |= subprocess.run([sys.executable, "-c", f"import gpu_frameworks as g; g.{parts[part].__name__}()"], cwd=Path(__file__).parent, check=False).returncode != 0
    sys.exit(failed)
