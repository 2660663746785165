#!/usr/bin/env python3
"""Executes the texture and surface kernels of the corpus on a GPU and compares Oriole's code with that of ptxas, bit for bit, and their times.

    python3 tools/textures/check.py --oriole target/release/oriole --ptxas /usr/local/cuda/bin/ptxas [--arch sm_90a]

17 kernels of corpus/textures.ptx, texture_imaging.ptx and texture_volumes.ptx are compiled by both at -O0 and -O3. For each code, textures, surfaces and buffers
are made anew with the same contents; after the launch, all buffers and surfaces must be equal to those of ptxas' code of the same level (at -O0,
products and sums are not joined). Needs Python and the CUDA driver. The exit status is 1 if anything differs.
"""

import argparse
import ctypes
import math
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SIZE = 64  # width and height of images
LAYERED, SURFACE, CUBE, GATHER = 1, 2, 4, 8  # flags of arrays
FORMATS = {"u8": (1, 1), "f32": (0x20, 4)}  # CUarray_format and bytes of a channel
LAUNCHES = 50


class ArrayDescription(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in ("width", "height", "depth")] + [("format", ctypes.c_int), ("channels", ctypes.c_uint), ("flags", ctypes.c_uint)]


class Place(ctypes.Structure):
    """One side of a copy."""

    _fields_ = [(name, ctypes.c_size_t) for name in ("x", "y", "z", "level")] + [("kind", ctypes.c_int)]
    _fields_ += [(name, ctypes.c_void_p) for name in ("host", "device", "array", "reserved")] + [("pitch", ctypes.c_size_t), ("height", ctypes.c_size_t)]


class Copy(ctypes.Structure):
    _fields_ = [("source", Place), ("target", Place)] + [(name, ctypes.c_size_t) for name in ("width", "height", "depth")]


class Resource(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("pad", ctypes.c_int), ("handle", ctypes.c_void_p), ("rest", ctypes.c_int * 30), ("flags", ctypes.c_uint)]


class Sampler(ctypes.Structure):
    _fields_ = [("address", ctypes.c_int * 3), ("filter", ctypes.c_int), ("flags", ctypes.c_uint), ("anisotropy", ctypes.c_uint)]
    _fields_ += [("level_filter", ctypes.c_int), ("bias", ctypes.c_float), ("least", ctypes.c_float), ("most", ctypes.c_float)]
    _fields_ += [("border", ctypes.c_float * 4), ("reserved", ctypes.c_int * 12)]


class Driver:
    """The functions of the CUDA driver, which fail with an exception."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        self.cuInit(0)
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self.cuDeviceGet(ctypes.byref(device), 0)
        self.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
        self.cuCtxSetCurrent(context)

    def __getattr__(self, name):
        function = getattr(self.library, name)

        def call(*arguments):
            status = function(*arguments)
            if status:
                raise RuntimeError(f"{name}: error {status}")

        return call


def bytes_of(kind, count, seed):
    """Returns random bytes: small numbers for f32, any bytes for u8."""
    source = random.Random(seed)
    if kind == "u8":
        return bytes(source.randrange(256) for _ in range(count))
    return struct.pack(f"{count}f", *(round(source.random() * 8) / 8 for _ in range(count)))


class Launch:
    """The arguments of one launch, and what it may change."""

    def __init__(self, driver, module):
        self.driver, self.module, self.results, self.seed = driver, module, [], 0

    def array(self, kind, channels, shape, flags=0):
        """Makes an array with random contents. `shape` is width, height and depth; 0 for dimensions that do not exist."""
        code, width = FORMATS[kind]
        array, description = ctypes.c_void_p(), ArrayDescription(*shape, code, channels, flags)
        self.driver.cuArray3DCreate_v2(ctypes.byref(array), ctypes.byref(description))
        rows = [max(1, number) for number in shape]
        self.seed += 1
        data = bytes_of(kind, rows[0] * rows[1] * rows[2] * channels, self.seed)
        row = rows[0] * channels * width
        self.copy(array, ctypes.create_string_buffer(data, len(data)), row, rows, True)
        return array, row, rows

    def copy(self, array, buffer, row, rows, to_array):
        host, device = Place(kind=1, host=ctypes.addressof(buffer), pitch=row, height=rows[1]), Place(kind=3, array=array)
        command = Copy(*((host, device) if to_array else (device, host)), row, rows[1], rows[2])
        self.driver.cuMemcpy3D_v2(ctypes.byref(command))

    def texture(self, kind="f32", channels=4, shape=(SIZE, SIZE, 0), flags=0, linear=False, normalized=False, integers=False, address=1):
        array, _, _ = self.array(kind, channels, shape, flags)
        sampler = Sampler(address=(address,) * 3, filter=int(linear), flags=(2 if normalized else 0) | (1 if integers else 0), most=8.0)
        return self.object("cuTexObjectCreate", Resource(kind=0, handle=array.value), ctypes.byref(sampler), None)

    def surface(self, kind="f32", channels=4, shape=(SIZE, SIZE, 0), flags=0):
        array, row, rows = self.array(kind, channels, shape, flags | SURFACE)

        def read():
            buffer = ctypes.create_string_buffer(row * rows[1] * rows[2])
            self.copy(array, buffer, row, rows, False)
            return buffer.raw

        self.results.append(read)
        return self.object("cuSurfObjectCreate", Resource(kind=0, handle=array.value))

    def line(self, count):
        """Makes a texture of floats in linear memory."""
        resource = Resource(kind=2, handle=self.buffer(bytes_of("f32", count, 7), False).value)
        resource.rest[0], resource.rest[1] = FORMATS["f32"][0], 1
        ctypes.memmove(ctypes.byref(resource, Resource.rest.offset + 8), struct.pack("Q", 4 * count), 8)
        sampler = Sampler(address=(1,) * 3)
        return self.object("cuTexObjectCreate", resource, ctypes.byref(sampler), None)

    def object(self, create, resource, *rest):
        handle = ctypes.c_uint64()
        getattr(self.driver, create)(ctypes.byref(handle), ctypes.byref(resource), *rest)
        return handle

    def buffer(self, contents, is_result=True):
        """Makes a buffer with these bytes, or with this number of zeros."""
        data = bytes(contents) if isinstance(contents, int) else contents
        pointer = ctypes.c_void_p()
        self.driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(len(data)))
        self.driver.cuMemcpyHtoD_v2(pointer, data, ctypes.c_size_t(len(data)))

        def read():
            buffer = ctypes.create_string_buffer(len(data))
            self.driver.cuMemcpyDtoH_v2(buffer, pointer, ctypes.c_size_t(len(data)))
            return buffer.raw

        if is_result:
            self.results.append(read)
        return pointer

    def constant(self, name, data):
        pointer, size = ctypes.c_void_p(), ctypes.c_size_t()
        self.driver.cuModuleGetGlobal_v2(ctypes.byref(pointer), ctypes.byref(size), self.module, name.encode())
        self.driver.cuMemcpyHtoD_v2(pointer, data, ctypes.c_size_t(len(data)))

    def handles(self, count):
        return struct.pack(f"{count}Q", *(self.texture(address=number % 2, channels=4).value for number in range(count)))


I, F = ctypes.c_int, ctypes.c_float
PLANE, LINE, VOLUME = ((4, 8, 1), (16, 8, 1)), ((16, 1, 1), (64, 1, 1)), ((4, 8, 8), (16, 8, 1))


def floats(count, seed, scale=1.0):
    source = random.Random(seed)
    return struct.pack(f"{count}f", *(scale * (2 * source.random() - 1) for _ in range(count)))


def integers(count, seed, limit):
    source = random.Random(seed)
    return struct.pack(f"{count}i", *(source.randrange(limit) for _ in range(count)))


class Float2(ctypes.Structure):
    _fields_ = [("x", F), ("y", F)]


class Scene(ctypes.Structure):
    _fields_ = [("color", ctypes.c_uint64), ("depth", ctypes.c_uint64), ("target", ctypes.c_uint64), ("scale", Float2), ("width", I), ("height", I)]


def taps(launch):
    launch.constant("taps", bytes_of("f32", 17, 3))


def blend_frames(launch):
    launch.constant("frames", launch.handles(8))
    return [launch.buffer(4 * SIZE * SIZE), I(SIZE), I(2), F(0.25)]


def gather_rows(launch):
    first = struct.pack("1025i", *(5 * row for row in range(1025)))
    parts = [launch.buffer(part, False) for part in (first, integers(5120, 1, 256), floats(5120, 2))]
    return [launch.line(256), *parts, launch.buffer(4096), I(1024)]


def with_taps(arguments):
    def make(launch):
        taps(launch)
        return arguments(launch)

    return make


OUT = 16 * SIZE * SIZE
# Kernel: file, grid and block, arguments.
KERNELS = {
    "convolve_rows": ("texture_imaging", PLANE, with_taps(lambda l: [l.texture(channels=1), l.buffer(OUT), I(SIZE), I(SIZE), I(5)])),
    "convolve_fixed": ("texture_imaging", PLANE, with_taps(lambda l: [l.texture(linear=True), l.surface()])),
    "bilateral": ("texture_imaging", PLANE, lambda l: [l.texture(), l.buffer(OUT), I(SIZE), I(SIZE), I(2), F(0.1), F(0.2)]),
    "halve": ("texture_imaging", PLANE, lambda l: [l.texture("u8", 4, (2 * SIZE, 2 * SIZE, 0), integers=True), l.surface("u8"), I(SIZE), I(SIZE)]),
    "compose": ("texture_imaging", PLANE, lambda l: [Scene(l.texture(linear=True, normalized=True).value, l.texture(channels=1, normalized=True).value, l.surface().value, Float2(1 / 64, 1 / 64), SIZE, SIZE), F(0.5)]),
    "blend_frames": ("texture_imaging", ((1, SIZE, 1), (SIZE, 1, 1)), blend_frames),
    "sum_list": ("texture_imaging", ((1, SIZE, 1), (SIZE, 1, 1)), lambda l: [l.buffer(l.handles(11), False), I(11), l.buffer(OUT), I(SIZE)]),
    "pick_material": ("texture_imaging", LINE, lambda l: [l.buffer(l.handles(5), False), l.buffer(integers(1024, 4, 5), False), l.buffer(floats(2048, 5, 60.0), False), l.buffer(16384), I(1000)]),
    "cast_rays": ("texture_volumes", LINE, lambda l: [l.texture(channels=1, shape=(SIZE, SIZE, 8), linear=True, normalized=True), l.texture(shape=(SIZE, 0, 0), linear=True, normalized=True), l.buffer(floats(6144, 6, 0.2), False), l.buffer(16384), I(1000), I(20), F(0.9)]),
    "gradient": ("texture_volumes", VOLUME, lambda l: [l.texture(channels=1, shape=(SIZE, SIZE, 8)), l.buffer(8 * OUT), I(SIZE), I(SIZE)]),
    "reflect": ("texture_volumes", LINE, lambda l: [l.texture(shape=(SIZE, SIZE, 6), flags=CUBE, normalized=True), l.texture(shape=(SIZE, SIZE, 12), flags=CUBE | LAYERED, normalized=True), l.buffer(floats(4096, 8), False), l.buffer(16384), I(1000), I(1)]),
    "gather_rows": ("texture_volumes", LINE, gather_rows),
    "corners": ("texture_volumes", PLANE, lambda l: [l.texture(flags=GATHER, normalized=True), l.texture(shape=(SIZE, SIZE, 4), flags=LAYERED, normalized=True), l.buffer(OUT), Float2(1 / 64, 1 / 64), I(2)]),
    "diffuse": ("texture_volumes", PLANE, lambda l: [l.surface(channels=1, shape=(SIZE, SIZE, 8)), l.surface(channels=1, shape=(SIZE, SIZE, 8)), I(SIZE), I(SIZE), I(8), F(0.1)]),
    "paint": ("texture_volumes", ((1, 1, 1), (64, 1, 1)), lambda l: [l.surface("u8", shape=(SIZE, SIZE, 4), flags=LAYERED), l.surface(channels=2, shape=(SIZE, 0, 0)), l.buffer(struct.pack("128H", *(n * 37 % 64 for n in range(128))), False), I(60), I(1)]),
    "sample_textures": ("textures", ((SIZE, 1, 1), (SIZE, 1, 1)), lambda l: [l.line(SIZE), l.texture(linear=True, normalized=True), l.texture(channels=2, shape=(SIZE, SIZE, 8), normalized=True), l.texture(shape=(SIZE, SIZE, 6), flags=CUBE, normalized=True), l.buffer(OUT)]),
    "copy_surfaces": ("textures", PLANE, lambda l: [l.surface("u8", shape=(2 * SIZE, SIZE, 0)), l.surface("u8"), l.surface(channels=1, shape=(SIZE, SIZE, 8)), I(SIZE), I(SIZE)]),
}


def execute(driver, cubin, name):
    """Launches a kernel with fresh arguments; returns its results and the microseconds of one of many further launches."""
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    driver.cuModuleLoadData(ctypes.byref(module), cubin)
    driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
    launch = Launch(driver, module)
    _, (grid, block), make = KERNELS[name]
    values = make(launch)
    arguments = (ctypes.c_void_p * len(values))(*(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values))
    start = lambda: driver.cuLaunchKernel(function, *grid, *block, 0, None, arguments, None)
    start()
    driver.cuCtxSynchronize()
    results = [read() for read in launch.results]
    events = [ctypes.c_void_p(), ctypes.c_void_p()]
    for event in events:
        driver.cuEventCreate(ctypes.byref(event), 0)
    driver.cuEventRecord(events[0], None)
    for _ in range(LAUNCHES):
        start()
    driver.cuEventRecord(events[1], None)
    driver.cuCtxSynchronize()
    milliseconds = ctypes.c_float()
    driver.cuEventElapsedTime(ctypes.byref(milliseconds), *events)
    return results, 1000 * milliseconds.value / LAUNCHES


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--oriole", type=pathlib.Path, required=True)
    parser.add_argument("--ptxas", type=pathlib.Path, required=True)
    parser.add_argument("--arch", default="sm_90a")
    options = parser.parse_args()
    driver, wrong, ratios = Driver(), 0, []
    with tempfile.TemporaryDirectory() as folder:
        codes = {}
        for file in ("textures", "texture_imaging", "texture_volumes"):
            source, out = ROOT / f"corpus/{file}.ptx", pathlib.Path(folder, "code.cubin")
            commands = {f"ptxas -O{level}": [options.ptxas, f"-arch={options.arch}", f"-O{level}", source, "-o", out] for level in "03"}
            commands |= {f"oriole -O{level}": [options.oriole, "compile", source, "--arch", options.arch, "-O", level, "-o", out] for level in "03"}
            for which, command in commands.items():
                subprocess.run(command, check=True)
                codes[file, which] = out.read_bytes()
        print("kernel\tptxas us\t-O3 us\tresult")
        for name, (file, *_) in KERNELS.items():
            outcomes = {which: execute(driver, codes[file, which], name) for which in commands}
            different = [f"-O{level}" for level in "03" if outcomes[f"oriole -O{level}"][0] != outcomes[f"ptxas -O{level}"][0]]
            (expected, reference), (_, own) = outcomes["ptxas -O3"], outcomes["oriole -O3"]
            if not any(any(result) for result in expected):
                different.append("ptxas' results are all zero")
            wrong += bool(different)
            ratios.append(own / reference)
            print(f"{name}\t{reference:.2f}\t{own:.2f}\t{'different: ' + ', '.join(different) if different else 'same'}", flush=True)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    print(f"# {len(KERNELS)} kernels, {wrong} different; geometric mean of the times {mean:.3f}")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
