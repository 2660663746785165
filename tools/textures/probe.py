#!/usr/bin/env python3
"""Records what a GPU's texture unit reads at many coordinates, to find the rules by which it filters.

    python3 tools/textures/probe.py FOLDER results.json.gz [GROUP ...]

`FOLDER` has the cubins of the kernels of `kernels.py`. Each probe is a texture and a list of fetches; each fetch has eight words (x, y, z, level, two derivatives by x, two by y; with three dimensions, the
derivatives are the words 3 to 5, and 6, 7 and 1), and four words of result. A group is a function below without `_probes`; without groups, all are executed.
The results are one JSON object for each probe: the description, the texels of each level in hexadecimal digits, the fetches and the results. Needs Python and the
CUDA driver.
"""

import ctypes
import gzip
import json
import pathlib
import random
import struct
import sys

from check import ArrayDescription, Copy, Driver, Place, Resource, Sampler

FORMATS = {"u8": (1, 1), "u16": (2, 2), "s8": (8, 1), "s16": (9, 2), "f16": (0x10, 2), "f32": (0x20, 4)}
ADDRESS = {"wrap": 0, "clamp": 1, "mirror": 2, "border": 3}
NORMALIZED, NO_TRILINEAR_OPTIMIZATION, SEAMLESS = 2, 0x20, 0x40
CUBE_FLAG, GATHER_FLAG = 4, 8
HOST, ARRAY = 1, 3


class Device:
    """The GPU with the kernels."""

    def __init__(self, folder):
        self.driver, self.folder, self.modules = Driver(), pathlib.Path(folder), {}

    def function(self, name):
        """Loads a kernel."""
        if name not in self.modules:
            module = ctypes.c_void_p()
            self.driver.cuModuleLoadData(ctypes.byref(module), (self.folder / f"{name}.cubin").read_bytes())
            self.modules[name] = module
        function = ctypes.c_void_p()
        self.driver.cuModuleGetFunction(ctypes.byref(function), self.modules[name], name.encode())
        return function

    def upload(self, array, data, width, height, depth, texel):
        buffer = ctypes.create_string_buffer(data, len(data))
        row = width * texel
        assert len(data) == row * height * depth, (len(data), row, height, depth)
        host, device = Place(kind=HOST, host=ctypes.addressof(buffer), pitch=row, height=height), Place(kind=ARRAY, array=array)
        command = Copy(host, device, row, height, depth)
        self.driver.cuMemcpy3D_v2(ctypes.byref(command))

    def texture(self, probe):
        code, bytes_each = FORMATS[probe["format"]]
        texel = bytes_each * probe["channels"]
        width, height, depth = probe["shape"]
        flags = (CUBE_FLAG if probe["cube"] else 0) | (GATHER_FLAG if probe["kernel"].startswith("tld4") else 0) | probe.get("array_flags", 0)
        description = ArrayDescription(width, height, depth, code, probe["channels"], flags)
        levels = [bytes.fromhex(level) for level in probe["texels"]]
        handle = ctypes.c_void_p()
        if len(levels) > 1:
            self.driver.cuMipmappedArrayCreate(ctypes.byref(handle), ctypes.byref(description), ctypes.c_uint(len(levels)))
        else:
            self.driver.cuArray3DCreate_v2(ctypes.byref(handle), ctypes.byref(description))
        for number, data in enumerate(levels):
            array = handle
            if len(levels) > 1:
                array = ctypes.c_void_p()
                self.driver.cuMipmappedArrayGetLevel(ctypes.byref(array), handle, ctypes.c_uint(number))
            size = [max(1, extent >> number) if extent else 1 for extent in (width, height)]
            layers = 6 if probe["cube"] else max(1, depth >> number) if depth else 1
            self.upload(array, data, *size, layers, texel)
        resource = Resource(kind=1 if len(levels) > 1 else 0, handle=handle.value)
        sampler = Sampler(address=(ADDRESS[probe["address"]],) * 3, filter=int(probe["linear"]), flags=probe["flags"], level_filter=int(probe["linear_levels"]))
        sampler.most = float(len(levels) - 1)
        texture = ctypes.c_uint64()
        self.driver.cuTexObjectCreate(ctypes.byref(texture), ctypes.byref(resource), ctypes.byref(sampler), None)
        return texture

    def buffer(self, size):
        pointer = ctypes.c_void_p()
        self.driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def fetch(self, probe):
        """Returns the four words of each fetch."""
        function, fetches = self.function(probe["kernel"]), probe["fetches"]
        count = len(fetches) // 8
        data = struct.pack(f"{len(fetches)}I", *fetches)
        source, target = self.buffer(len(data)), self.buffer(16 * count)
        self.driver.cuMemcpyHtoD_v2(source, data, ctypes.c_size_t(len(data)))
        texture = self.texture(probe)
        values = [texture, texture, source, target, ctypes.c_uint(count)]
        arguments = (ctypes.c_void_p * 5)(*(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values))
        self.driver.cuLaunchKernel(function, (count + 127) // 128, 1, 1, 128, 1, 1, 0, None, arguments, None)
        self.driver.cuCtxSynchronize()
        results = ctypes.create_string_buffer(16 * count)
        self.driver.cuMemcpyDtoH_v2(results, target, ctypes.c_size_t(16 * count))
        self.driver.cuMemFree_v2(source)
        self.driver.cuMemFree_v2(target)
        return list(struct.unpack(f"{4 * count}I", results.raw))


def bits(number):
    """Returns the bits of a number as a single."""
    return struct.unpack("I", struct.pack("f", number))[0]


def neighbours(number, steps):
    """Returns the bits of a positive number's neighbours among the singles, up to some steps away, and of the number itself."""
    return [bits(number) + step for step in range(-steps, steps + 1)]


def texels(kind, count, source):
    """Returns random texels: for floats, numbers of different magnitudes and signs; otherwise any bits."""
    if kind == "f32":
        return struct.pack(f"{count}f", *(source.choice((1.0, 1.0, 100.0, 0.01)) * source.uniform(-1, 1) for _ in range(count)))
    if kind == "f16":
        return struct.pack(f"{count}e", *(source.choice((1.0, 100.0, 0.01)) * source.uniform(-1, 1) for _ in range(count)))
    return bytes(source.randrange(256) for _ in range(count * FORMATS[kind][1]))


def floats(*numbers):
    return struct.pack(f"{len(numbers)}f", *numbers)


def probe(name, kernel, levels, shape, fetches, kind="f32", channels=1, address="clamp", linear=True, normalized=False, linear_levels=False, cube=False, flags=0):
    """Describes a probe. A fetch is a list of up to eight words: numbers, or bits as integers."""
    words = []
    for fetch in fetches:
        fetch = [word if isinstance(word, int) else bits(word) for word in fetch]
        words += fetch + [0] * (8 - len(fetch))
    flags |= NORMALIZED if normalized else 0
    return dict(name=name, kernel=kernel, format=kind, channels=channels, shape=shape, address=address, linear=linear, normalized=normalized, linear_levels=linear_levels, cube=cube, flags=flags, texels=[level.hex() for level in levels], fetches=words)


def weight_probes(source):
    """One-dimensional textures 0, 1: the result is the weight."""
    step = floats(0.0, 1.0)
    yield probe("weight", "tex_1d", [step], (2, 0, 0), [[0.4 + k / 4096] for k in range(5200)])
    yield probe("weight_ulps", "tex_1d", [step], (2, 0, 0), [[word] for k in range(0, 257, 4) for word in neighbours(0.5 + (k + 0.5) / 256, 12)])
    ramp = floats(*(float(n) for n in range(4096)))
    yield probe("weight_far", "tex_1d", [ramp], (4096, 0, 0), [[base + k / 2048] for base in (100.0, 1000.0, 4000.0) for k in range(1500)])
    for width in (2, 3, 4, 5, 7, 8, 100, 1000, 4096):
        data = floats(*(float(n) for n in range(width)))
        near = [[(k + 0.5) / 256 / width + base / width + step / (1 << 28)] for base in (0, width // 2) for k in range(96, 224) for step in range(-8, 9, 4)]
        anywhere = [[source.uniform(-0.2, 1.2)] for _ in range(1000)]
        for address in ("clamp", "wrap"):
            yield probe(f"weight_normalized_{width}_{address}", "tex_1d", [data], (width, 0, 0), near + anywhere, address=address, normalized=True)


SPECIAL = [0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00000, 0x7F7FFFFF, 0xFF7FFFFF, 0x4B000000, 0x4B7FFFFF, 0x4F000000, 0xCF000000, 0x5F000000, 0x33800000, 0xB3800000]


def outside_probes(source):
    data = floats(10.0, 20.0, 40.0, 80.0)
    for address in ADDRESS:
        for normalized in (False, True):
            if address in ("wrap", "mirror") and not normalized:
                continue
            scale = 1.0 if normalized else 4.0
            places = [[word] for word in SPECIAL]
            places += [[scale * k / 64] for k in range(-300, 301)]
            places += [[scale * source.uniform(-3, 3)] for _ in range(1500)]
            places += [[scale * source.uniform(-3, 3) * 10.0 ** source.randrange(0, 8)] for _ in range(600)]
            places += [[word ^ sign] for edge in (0.25, 0.5, 0.75, 1.0, 1.25, 2.0, 3.0) for word in neighbours(edge * scale, 10) for sign in (0, 1 << 31)]
            for linear in (False, True):
                name = f"outside_{address}_{'normalized' if normalized else 'plain'}_{'linear' if linear else 'nearest'}"
                yield probe(name, "tex_1d", [data], (4, 0, 0), places, address=address, linear=linear, normalized=normalized)


def nearest_probes(source):
    for width in (1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 13, 16, 17, 100, 127, 1000, 4096, 16384):
        data = floats(*(float(n) for n in range(width)))
        edges = range(1, width) if width <= 20 else sorted(source.sample(range(1, width), 20))
        near = [[word] for edge in edges for word in neighbours(edge / width, 12)]
        near += [[edge / width + step * 2.0 ** -exponent] for edge in edges for exponent in range(14, 26) for step in (-1, 1)]
        for address in ("clamp", "wrap", "mirror"):
            yield probe(f"nearest_{width}_{address}", "tex_1d", [data], (width, 0, 0), near, address=address, linear=False, normalized=True)


def sum_probes(source):
    """The rounding of products and sums, with weights that are 256ths."""
    for kind in FORMATS:
        for number in range(12):
            data = texels(kind, 2, source)
            yield probe(f"sum_1d_{kind}_{number}", "tex_1d", [data], (2, 0, 0), [[0.5 + k / 256] for k in range(257)], kind)
        for number in range(8):
            data = texels(kind, 4, source)
            places = [[0.5 + source.randrange(257) / 256, 0.5 + source.randrange(257) / 256] for _ in range(300)]
            yield probe(f"sum_2d_{kind}_{number}", "tex_2d", [data], (2, 2, 0), places, kind)
        for number in range(6):
            data = texels(kind, 8, source)
            places = [[0.5 + source.randrange(257) / 256 for _ in range(3)] for _ in range(300)]
            yield probe(f"sum_3d_{kind}_{number}", "tex_3d", [data], (2, 2, 2), places, kind)
        # All values at a texel itself: the conversion without a filter.
        if FORMATS[kind][1] == 1:
            data = bytes(range(256))
            yield probe(f"value_{kind}", "tex_1d", [data], (256, 0, 0), [[k + 0.5] for k in range(256)], kind, linear=False)
        elif kind != "f32":
            data = struct.pack("4096H", *(source.randrange(65536) for _ in range(4096)))
            yield probe(f"value_{kind}", "tex_1d", [data], (4096, 0, 0), [[k + 0.5] for k in range(4096)], kind, linear=False)
    special = [0x3F800000, 0x7F800000, 0x7FC01234, 0xFF800000, 0x00000001, 0x007FFFFF, 0x7F7FFFFF, 0x00800000, 0x80000001, 0x00400000]
    data = struct.pack(f"{len(special)}I", *special)
    yield probe("special_texels", "tex_1d", [data], (len(special), 0, 0), [[0.5 + k / 16] for k in range(16 * len(special))])
    yield probe("special_texels_nearest", "tex_1d", [data], (len(special), 0, 0), [[0.5 + k] for k in range(len(special))], linear=False)
    half = [0x3C00, 0x7C00, 0x7E01, 0xFC00, 0x0001, 0x03FF, 0x7BFF, 0x0400, 0x8001]
    data = struct.pack(f"{len(half)}H", *half)
    yield probe("special_halves", "tex_1d", [data], (len(half), 0, 0), [[0.5 + k / 16] for k in range(16 * len(half))], "f16")


def level_probes(source):
    levels = [floats(*([float(1 << number)] * (32 >> number))) for number in range(6)]
    places = [[0.5, 0.0, 0.0, k / 2048] for k in range(-100, 2048 * 5 + 200, 3)]
    places += [[0.5, 0.0, 0.0, word] for edge in (0.5, 1.5, 2.5, 0.25, 0.75, 1.0, 2.0) for word in neighbours(edge, 40)]
    places += [[0.5, 0.0, 0.0, edge + sign * 2.0 ** -exponent] for edge in (0.5, 1.5, 3.5, 4.5) for exponent in range(3, 24) for sign in (-1, 1)]
    places += [[0.5, 0.0, 0.0, word] for word in SPECIAL]
    for linear_levels in (False, True):
        for flags in (0, NO_TRILINEAR_OPTIMIZATION):
            name = f"level_{'linear' if linear_levels else 'point'}_{flags}"
            yield probe(name, "tex_level_1d", levels, (32, 0, 0), places, linear=False, normalized=True, linear_levels=linear_levels, flags=flags)
            yield probe(name + "_filtered", "tex_level_1d", levels, (32, 0, 0), places, linear=True, normalized=True, linear_levels=linear_levels, flags=flags)
    for number in range(6):
        levels = [texels("f32", (4 >> level) ** 2, source) for level in range(3)]
        places = [[source.randrange(4 * 256) / 1024, source.randrange(4 * 256) / 1024, 0.0, source.randrange(513) / 256] for _ in range(400)]
        yield probe(f"level_sum_{number}", "tex_level_2d", levels, (4, 4, 0), places, normalized=True, linear_levels=True)


def gather_probes(source):
    data = floats(*(float(n) for n in range(64)))
    places = [[x, 3.5] for base in (1.5, 2.0, 2.5) for k in range(-20, 21) for x in (base + k / 4096,)]
    places += [[word, 3.3] for edge in (1.5, 2.5, 5.5) for word in neighbours(edge, 20)]
    places += [[word, 3.3] for edge in (1.5, 2.5, 5.5) for k in range(-20, 21) for word in neighbours(edge + k / 512, 2)]
    places += [[source.uniform(-2, 10), source.uniform(-2, 10)] for _ in range(500)]
    for linear in (False, True):
        for address in ("clamp", "border"):
            yield probe(f"gather_{address}_{'linear' if linear else 'nearest'}", "tld4_2d", [data], (8, 8, 0), places, address=address, linear=linear)
        scaled = [[bits(struct.unpack("f", struct.pack("I", word))[0] / 8) if isinstance(word, int) else word / 8 for word in place] for place in places]
        for address in ("wrap", "mirror"):
            yield probe(f"gather_{address}_{'linear' if linear else 'nearest'}", "tld4_2d", [data], (8, 8, 0), scaled, address=address, linear=linear, normalized=True)


def cube_probes(source):
    directions = [[x, y, z] for x in (-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0) for y in (-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0) for z in (-2.0, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0)]
    directions += [[source.uniform(-1, 1) for _ in range(3)] for _ in range(1500)]
    for _ in range(400):
        # Near an edge of the cube.
        direction = [source.choice((-1.0, 1.0)), source.choice((-1.0, 1.0)) * (1 - source.randrange(40) / 256), source.uniform(-1, 1)]
        source.shuffle(direction)
        directions.append(direction)
    data = floats(*(float(n) for n in range(96)))
    for linear in (False, True):
        for flags in (0, SEAMLESS):
            yield probe(f"cube_{'linear' if linear else 'nearest'}_{flags}", "tex_cube", [data], (4, 4, 6), directions, linear=linear, normalized=True, cube=True, flags=flags)


def gradient_probes(source):
    levels = [floats(*([float(number)] * (64 >> number) ** 2)) for number in range(7)]
    along = [[0.5, 0.5, 0.0, 0.0, 2.0 ** (k / 64), 0.0, 0.0, 0.0] for k in range(-512, 128)]
    pairs = [[0.5, 0.5, 0.0, 0.0] + [source.choice((0.0, 1.0, 1.0)) * source.uniform(-1, 1) * 2.0 ** source.uniform(-7, 0) for _ in range(4)] for _ in range(3000)]
    special = [[0.5, 0.5, 0.0, 0.0, word, 0, 0, 0] for word in SPECIAL] + [[0.5, 0.5, 0.0, 0.0, 0, word, 0, word] for word in SPECIAL]
    for linear_levels in (False, True):
        yield probe(f"gradient_{'linear' if linear_levels else 'point'}", "tex_grad_2d", levels, (64, 64, 0), along + pairs + special, linear=False, normalized=True, linear_levels=linear_levels)


def length_probes(source):
    """The level that derivatives give: each level of a texture has its number as contents, and two levels are interpolated."""
    def levels(width, height, depth, cube=False):
        count, sizes = max(width, height, depth).bit_length(), lambda number: [max(1, size >> number) for size in (width, height, 1 if cube else depth)]
        return [floats(*([float(number)] * (sizes(number)[0] * sizes(number)[1] * (6 if cube else sizes(number)[2])))) for number in range(count)]

    def one(name, kernel, shape, fetches, cube=False):
        return probe(name, kernel, levels(*(max(1, size) for size in shape), cube), shape, fetches, linear=False, normalized=True, linear_levels=True, cube=cube)

    def plane(*derivatives):
        return [0.5, 0.5, 0.0, 0.0, *derivatives]

    def number(zeros=True):
        return source.choice((0.0, 1.0, 1.0, 1.0)[not zeros:]) * source.uniform(-1, 1) * 2.0 ** source.uniform(-6, 0)

    square = (64, 64, 0)
    octave = [2.0 ** -3 * (1 + k / 4096) for k in range(4096)]
    yield one("length_single", "tex_grad_2d", square, [plane(value, 0.0, 0.0, 0.0) for value in octave])
    yield one("length_single_y", "tex_grad_2d", square, [plane(0.0, 0.0, 0.0, -value) for value in octave[::8]])
    yield one("length_single_ulps", "tex_grad_2d", square, [plane(struct.unpack("f", struct.pack("I", word))[0], 0.0, 0.0, 0.0) for k in range(1, 256, 5) for word in neighbours(2.0 ** -3 * (1 + k / 256), 3)])
    for base in (1.0, 1.25, 1.7):
        side = [base / 8 * k / 2048 for k in range(2049)]
        yield one(f"length_pair_{base}", "tex_grad_2d", square, [plane(base / 8, value, 0.0, 0.0) for value in side])
        yield one(f"length_rows_{base}", "tex_grad_2d", square, [plane(base / 8, 0.0, value, 0.0) for value in side])
        yield one(f"length_mixed_{base}", "tex_grad_2d", square, [plane(base / 8, 0.0, value, -value / 2) for value in side])
    yield one("length_pairs", "tex_grad_2d", square, [plane(number(False), number(False), 0.0, 0.0) for _ in range(5000)])
    yield one("length_rows", "tex_grad_2d", square, [plane(number(False), 0.0, number(False), 0.0) for _ in range(5000)])
    yield one("length_all", "tex_grad_2d", square, [plane(*(number() for _ in range(4))) for _ in range(12000)])
    for width, height in ((48, 20), (100, 100), (64, 4), (63, 65)):
        yield one(f"length_{width}_{height}", "tex_grad_2d", (width, height, 0), [plane(*(number() for _ in range(4))) for _ in range(3000)])
    special = SPECIAL + [0x7F7FFFFF, 0xFF7FFFFF, 0x00800000, 0x3F800000]
    yield one("length_special", "tex_grad_2d", square, [[0.5, 0.5, 0.0, 0.0, a, b, c, d] for a in special for b in (0, a) for c in (0, 0x3D000000, a) for d in (0, a)])
    yield one("length_1d", "tex_grad_1d", (64, 0, 0), [plane(number(), 7.0, number(), 7.0) for _ in range(3000)])
    yield one("length_1d_100", "tex_grad_1d", (100, 0, 0), [plane(number(), 0.0, number(), 0.0) for _ in range(2000)])
    volume = [[0.5, 0.0, 0.5, value, 0.0, 0.0, 0.0, 0.0] for value in octave[::4]]
    volume += [[0.5, 0.0, 0.5, value, value * k / 64, 0.0, 0.0, 0.0] for value in (0.125, 0.2) for k in range(65)]
    volume += [[0.5, 0.0, 0.5, value, 0.0, value * k / 64, 0.0, 0.0] for value in (0.125, 0.2) for k in range(65)]
    volume += [[0.5, 0.0, 0.5, value, 0.0, 0.0, value * k / 64, 0.0] for value in (0.125, 0.2) for k in range(65)]
    volume += [[source.uniform(0, 1), number(), source.uniform(0, 1)] + [number() for _ in range(5)] for _ in range(6000)]
    yield one("length_3d", "tex_grad_3d", (32, 32, 32), volume)
    yield one("length_3d_40", "tex_grad_3d", (40, 20, 10), volume[-2000:])
    faces = [[1.0, 0.0, 0.0, 0.0, value, 0.0, 0.0, 0.0] for value in octave[::8]]
    faces += [[1.0, 0.0, 0.0, 0.0, value, value * k / 32, 0.0, 0.0] for value in (0.125, 0.2) for k in range(33)]
    faces += [[1.0, 0.0, 0.0, 0.0, value, 0.0, 0.0, value * k / 32] for value in (0.125, 0.2) for k in range(33)]
    faces += [[source.choice((-1.0, 1.0)), source.uniform(-0.5, 0.5), source.uniform(-0.5, 0.5)] + [number() for _ in range(5)] for _ in range(3000)]
    yield one("length_cube", "tex_grad_cube", (32, 32, 6), faces, True)


def level_weight_probes(source):
    """The weights of texels in two levels: each of four channels is one for every second column and row of one level."""
    def contents(size, is_used, layers):
        numbers = [0.0] * (4 * size * size * len(layers))
        for z, is_layer_used in enumerate(layers):
            for y in range(size):
                for x in range(size):
                    numbers[4 * ((z * size + y) * size + x) + 2 * (y % 2) + x % 2] = float(is_used and is_layer_used)
        return floats(*numbers)

    def places(count, depth):
        for number in range(count):
            step = source.choice((1024, 4096, 1 << 16))
            x, y, z = (source.randrange(step) / step for _ in range(3))
            yield [x, y, z if depth else 0.0, source.choice((source.randrange(257) / 256, source.randrange(8) / 8))]

    plane, volume = list(places(6000, 0)), list(places(5000, 1))
    for used in (0, 1):
        levels = [contents(8 >> level, level == used, (True,)) for level in range(2)]
        yield probe(f"level_weight_2d_{used}", "tex_level_2d", levels, (8, 8, 0), plane, channels=4, address="wrap", normalized=True, linear_levels=True)
        for slices in (0, 1):
            levels = [contents(8 >> level, level == used, [z % 2 == slices for z in range(8 >> level)]) for level in range(2)]
            yield probe(f"level_weight_3d_{used}{slices}", "tex_level_3d", levels, (8, 8, 8), volume, channels=4, address="wrap", normalized=True, linear_levels=True)
    # Texels of different magnitudes: the rounding of sums of two levels.
    for kind in ("f32", "f16"):
        for number in range(6):
            levels = [texels(kind, (4 >> level) ** 2, source) for level in range(3)]
            fetches = [[source.randrange(4 * 256) / 1024, source.randrange(4 * 256) / 1024, 0.0, source.randrange(513) / 256] for _ in range(300)]
            yield probe(f"level_sum_{kind}_{number}", "tex_level_2d", levels, (4, 4, 0), fetches, kind, normalized=True, linear_levels=True)


def compare_probes(source):
    """What a comparison gives with the samplers that CUDA makes."""
    data = floats(*(number / 16 for number in range(16)))
    places = [[source.randrange(64) / 16, source.randrange(64) / 16, 0.0, 0.0, source.choice((source.uniform(-0.5, 1.5), source.randrange(17) / 16))] for _ in range(1000)]
    for kernel in ("tex_2d_compare", "tex_level_2d_compare", "tld4_2d_compare"):
        for linear in (False, True):
            for address in ("clamp", "border"):
                yield probe(f"{kernel}_{'linear' if linear else 'nearest'}_{address}", kernel, [data], (4, 4, 0), places, linear=linear, address=address)
    depth = dict(probe("depth_array", "tex_2d_compare", [data], (4, 4, 0), places), array_flags=0x10)
    yield depth
    faces = floats(*(number / 32 for number in range(24)))
    directions = [[source.uniform(-1, 1) for _ in range(3)] + [0.0, source.uniform(0, 1)] for _ in range(300)]
    yield probe("cube_compare", "tex_cube_compare", [faces], (2, 2, 6), directions, normalized=True, cube=True)
    bytes_ = bytes(16 * number for number in range(16))
    yield probe("bytes_compare", "tex_2d_compare", [bytes_], (4, 4, 0), places, "u8")


def sample_probes(source):
    """Multisampled fetches of a texture with one sample."""
    data = floats(*(float(number) for number in range(16)))
    fetches = [[sample, x, y, 0] for sample in range(4) for y in range(4) for x in range(4)]
    yield probe("samples", "tex_2dms", [data], (4, 4, 0), fetches)


def main():
    source = random.Random(1)
    groups = (weight_probes, outside_probes, nearest_probes, sum_probes, level_probes, gather_probes, cube_probes, gradient_probes, length_probes, level_weight_probes, compare_probes, sample_probes)
    wanted = [group for group in groups if group.__name__.removesuffix("_probes") in sys.argv[3:]] or groups
    probes = [probe for group in wanted for probe in group(source)]
    device = Device(sys.argv[1])
    with gzip.open(sys.argv[2], "wt", compresslevel=6) as file:
        for one in probes:
            try:
                one["results"] = device.fetch(one)
            except RuntimeError as error:
                one["error"] = str(error)
            file.write(json.dumps(one) + "\n")
            print(one["name"], len(one["fetches"]) // 8, one.get("error", ""), flush=True)


if __name__ == "__main__":
    main()
