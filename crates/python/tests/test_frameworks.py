"""Helpers for CuPy, PyTorch and nvcc. A GPU is not needed: stand-ins take the place of the frameworks. `gpu_frameworks.py` uses the real ones."""

import os
import struct
import subprocess
import sys
import types
from pathlib import Path

import pytest

import oriole
import oriole.cuda
import oriole.cupy
import oriole.torch


@pytest.fixture
def toolkit(tmp_path):
    """A folder like that of the CUDA toolkit. Its nvcc, like NVIDIA's, calls the ptxas next to its own file, links resolved."""
    folder = tmp_path / "cuda"
    (folder / "bin").mkdir(parents=True)
    (folder / "include").mkdir()
    (folder / "include" / "cuda.h").write_text("// header")
    nvcc = folder / "bin" / "nvcc"
    nvcc.write_text('#!/bin/sh\nexec "$(dirname "$(readlink -f "$0")")/ptxas" "$@"\n')
    (folder / "bin" / "nvcc.profile").write_text("TOP = $(_HERE_)/..\n")
    ptxas = folder / "bin" / "ptxas"
    ptxas.write_text("#!/bin/sh\necho NVIDIA\n")
    for program in (nvcc, ptxas):
        program.chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """Removes the variables before a test and restores them after it."""
    for variable in ["CUDA_HOME", "CUDA_PATH", "NVCC"]:
        monkeypatch.delenv(variable, raising=False)
    yield
    oriole.cuda.uninstall()


def test_nvcc_of_the_made_toolkit_calls_oriole(toolkit, tmp_path):
    version = lambda nvcc: subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=True).stdout
    assert version(toolkit / "bin" / "nvcc") == "NVIDIA\n"
    made = Path(oriole.cuda.make_toolkit(tmp_path / "made", toolkit))
    assert "oriole" in version(made / "bin" / "nvcc").lower()
    assert (made / "include" / "cuda.h").read_text() == "// header"
    assert version(toolkit / "bin" / "nvcc") == "NVIDIA\n", "the installed toolkit must not change"
    with pytest.raises(FileExistsError):
        oriole.cuda.make_toolkit(made, toolkit)


def test_install_sets_variables_and_uninstall_restores_them(toolkit, tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_HOME", str(toolkit))
    extension = types.SimpleNamespace(CUDA_HOME=str(toolkit))
    monkeypatch.setitem(sys.modules, "torch.utils.cpp_extension", extension)
    path = os.environ["PATH"]
    made = oriole.cuda.install(tmp_path / "made")
    assert os.environ["CUDA_HOME"] == os.environ["CUDA_PATH"] == extension.CUDA_HOME == made
    assert os.environ["NVCC"] == str(Path(made, "bin", "nvcc"))
    assert os.environ["PATH"] == os.pathsep.join([str(Path(made, "bin")), path])
    oriole.cuda.uninstall()
    assert (os.environ["CUDA_HOME"], os.environ["PATH"], extension.CUDA_HOME) == (str(toolkit), path, str(toolkit))
    assert "CUDA_PATH" not in os.environ and "NVCC" not in os.environ


def test_a_missing_toolkit_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(Path, "is_file", lambda self: False)
    with pytest.raises(FileNotFoundError, match="CUDA_HOME"):
        oriole.cuda.find_toolkit()


def test_cupy_loads_the_cubin_of_the_current_device(saxpy, monkeypatch):
    loaded = []
    cuda = types.ModuleType("cupy.cuda")
    cuda.Device = lambda: types.SimpleNamespace(compute_capability="90")
    cuda.Module = lambda: types.SimpleNamespace(load=loaded.append)
    cupy = types.ModuleType("cupy")
    cupy.cuda = cuda
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setitem(sys.modules, "cupy.cuda", cuda)
    oriole.cupy.load(saxpy)
    oriole.cupy.load(saxpy, arch="sm_80", opt_level=1)
    assert loaded == [oriole.compile(saxpy, "sm_90a").data, oriole.compile(saxpy, "sm_80", 1).data]


def test_parameters_of_kernels_are_packed_by_their_size():
    tensor = types.SimpleNamespace(is_cuda=True, data_ptr=lambda: 0x7F0012345678)
    assert oriole.torch._pack(tensor, 8) == struct.pack("<Q", 0x7F0012345678)
    assert oriole.torch._pack(-2, 4) == struct.pack("<i", -2)
    assert oriole.torch._pack(2**32 - 1, 4) == b"\xff" * 4
    assert oriole.torch._pack(True, 1) == b"\x01"
    assert oriole.torch._pack(1.5, 4) == struct.pack("<f", 1.5)
    assert oriole.torch._pack(1.5, 8) == struct.pack("<d", 1.5)
    assert oriole.torch._pack(b"abc", 3) == b"abc"
    with pytest.raises(OverflowError):
        oriole.torch._pack(2**32, 4)
    with pytest.raises(TypeError, match="not on the GPU"):
        oriole.torch._pack(types.SimpleNamespace(is_cuda=False, data_ptr=lambda: 1), 8)
    for value, size in [(1.0, 1), (b"abc", 4)]:
        with pytest.raises(TypeError, match="bytes"):
            oriole.torch._pack(value, size)
    assert oriole.torch._three((7,)) == (7, 1, 1)
    with pytest.raises(ValueError, match="three"):
        oriole.torch._three(())
