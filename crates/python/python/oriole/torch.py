"""Compiles kernels for PyTorch with Oriole.

>>> import oriole.torch
>>> saxpy = oriole.torch.load(ptx).get_function("saxpy")
>>> saxpy((blocks,), (256,), (n, 2.0, x, y))

Kernels run on PyTorch's current stream. For ``torch.utils.cpp_extension.load_inline``, which calls nvcc, see :mod:`oriole.cuda`.
"""

from __future__ import annotations

import ctypes
import struct
from typing import Any, Iterable, Sequence

from . import Ptx, compile

#: CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES of the CUDA driver.
_MAX_DYNAMIC_SHARED_BYTES = 8
#: Bytes of dynamic shared memory that a kernel has without asking.
_DEFAULT_SHARED_BYTES = 48 << 10
#: CUDA_ERROR_INVALID_VALUE: there is no parameter with this number.
_INVALID_VALUE = 1

_FLOATS = {2: "<e", 4: "<f", 8: "<d"}


class DriverError(RuntimeError):
    """A call of the CUDA driver failed."""


class _Driver:
    """The CUDA driver, which PyTorch has loaded."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")

    def call(self, name: str, *arguments: Any) -> None:
        status = getattr(self.library, name)(*arguments)
        if status != 0:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(status, ctypes.byref(text))
            raise DriverError(f"{name}: {(text.value or b'error').decode()} ({status})")


class Kernel:
    """A kernel of a :class:`Module`."""

    def __init__(self, driver: _Driver, module: Module, name: str) -> None:
        self.name = name
        self._driver = driver
        self._module = module  # Keeps the code loaded.
        self._function = ctypes.c_void_p()
        driver.call("cuModuleGetFunction", ctypes.byref(self._function), module._handle, name.encode())
        self._sizes = self._parameter_sizes()

    def _parameter_sizes(self) -> list[int]:
        """Returns the size of each parameter in bytes, as the cubin has it."""
        sizes: list[int] = []
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        while True:
            number = ctypes.c_size_t(len(sizes))
            status = self._driver.library.cuFuncGetParamInfo(self._function, number, ctypes.byref(offset), ctypes.byref(size))
            if status == _INVALID_VALUE:
                return sizes
            if status != 0:
                raise DriverError(f"cuFuncGetParamInfo: {status}")
            sizes.append(size.value)

    def __call__(self, grid: Sequence[int], block: Sequence[int], args: Iterable[Any] = (), *, shared_bytes: int = 0) -> None:
        """Launches the kernel on PyTorch's current stream.

        :param grid: number of blocks: one to three numbers
        :param block: threads of a block: one to three numbers
        :param args: tensors on the GPU, integers, floats, and ``bytes`` for anything else, in the order of the parameters
        :param shared_bytes: dynamic shared memory
        """
        import torch

        values = list(args)
        if len(values) != len(self._sizes):
            raise TypeError(f"{self.name} has {len(self._sizes)} parameters, not {len(values)}")
        buffers = [ctypes.create_string_buffer(_pack(value, size), size) for value, size in zip(values, self._sizes)]
        pointers = (ctypes.c_void_p * max(len(buffers), 1))(*(ctypes.addressof(buffer) for buffer in buffers))
        if shared_bytes > _DEFAULT_SHARED_BYTES:
            self._driver.call("cuFuncSetAttribute", self._function, _MAX_DYNAMIC_SHARED_BYTES, shared_bytes)
        stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
        self._driver.call("cuLaunchKernel", self._function, *_three(grid), *_three(block), shared_bytes, stream, pointers, None)


class Module:
    """Machine code on the current GPU of PyTorch."""

    def __init__(self, cubin: bytes) -> None:
        import torch

        torch.cuda.init()
        torch.cuda.current_stream().synchronize()  # Makes the context of the device current on this thread.
        self._driver = _Driver()
        self._handle = ctypes.c_void_p()
        self._driver.call("cuModuleLoadData", ctypes.byref(self._handle), cubin)

    def get_function(self, name: str) -> Kernel:
        """Returns the kernel with this name.

        :raises DriverError: if there is none
        """
        return Kernel(self._driver, self, name)

    def __del__(self) -> None:
        driver, handle = getattr(self, "_driver", None), getattr(self, "_handle", None)
        if driver is not None and handle:
            driver.library.cuModuleUnload(handle)


def load(ptx: Ptx, **options: Any) -> Module:
    """Compiles PTX for PyTorch's current GPU and loads it.

    :param options: those of :func:`oriole.compile`
    """
    import torch

    major, minor = torch.cuda.get_device_capability()
    options.setdefault("arch", f"sm_{major}{minor}a" if major >= 9 else f"sm_{major}{minor}")
    return Module(bytes(compile(ptx, **options)))


def _three(numbers: Sequence[int]) -> tuple[int, int, int]:
    if not 1 <= len(numbers) <= 3:
        raise ValueError(f"a grid or block has one to three dimensions, not {len(numbers)}")
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


def _pack(value: Any, size: int) -> bytes:
    """Returns the bytes of a parameter."""
    if hasattr(value, "data_ptr"):
        if not value.is_cuda:
            raise TypeError("a tensor is not on the GPU")
        value = value.data_ptr()
    if isinstance(value, bool):
        value = int(value)
    if isinstance(value, int):
        # Numbers that do not fit raise an OverflowError.
        return value.to_bytes(size, "little", signed=value < 0)
    if isinstance(value, float):
        if size not in _FLOATS:
            raise TypeError(f"a float has 2, 4 or 8 bytes, and the parameter {size}")
        return struct.pack(_FLOATS[size], value)
    data = bytes(value)
    if len(data) != size:
        raise TypeError(f"the parameter has {size} bytes, and the argument {len(data)}")
    return data
