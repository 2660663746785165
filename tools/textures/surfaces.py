#!/usr/bin/env python3
"""Records what a GPU does with formatted surface stores and reductions, accesses outside of surfaces, separate samplers, and queries.

    python3 tools/textures/surfaces.py FOLDER results.json [KIND ...]

`FOLDER` has the cubins of the kernels of `kernels.py`. A failed launch ends the CUDA context, so the experiments after it run in another process. The results are one JSON object for each: its description, and
the contents of the surface afterwards or the words of result, or the error. Needs Python and the CUDA driver.
"""

import ctypes
import json
import pathlib
import random
import struct
import subprocess
import sys

from check import ArrayDescription, Copy, Driver, Place, Resource, Sampler
from kernels import QUERIES, SAMPLER_QUERIES

# Format: CUarray_format, bytes of a channel, numbers of channels.
FORMATS = {"u8": (1, 1, (1, 2, 4)), "u16": (2, 2, (1, 2, 4)), "u32": (3, 4, (1, 2, 4)), "s8": (8, 1, (1, 2, 4)), "s16": (9, 2, (1, 2, 4)), "s32": (10, 4, (1, 2, 4))}
FORMATS |= {"f16": (0x10, 2, (1, 2, 4)), "f32": (0x20, 4, (1, 2, 4))}
NORMALIZED_FORMATS = {f"{sign}norm{bits}x{count}": (0xC0 + 6 * (sign == "s") + 3 * (bits == 16) + step, bits // 8, (count,)) for sign in "us" for bits in (8, 16) for step, count in enumerate((1, 2, 4))}
SURFACE, LAYERED = 2, 1
CLEAN = 0x5A  # the bytes of a new surface


class Device:
    def __init__(self, folder):
        self.driver, self.folder = Driver(), pathlib.Path(folder)

    def function(self, name):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.driver.cuModuleLoadData(ctypes.byref(module), (self.folder / f"{name}.cubin").read_bytes())
        self.driver.cuModuleGetFunction(ctypes.byref(function), module, name.encode())
        return function

    def array(self, kind, channels, shape, data=None, flags=SURFACE):
        code, width, _ = (FORMATS | NORMALIZED_FORMATS)[kind]
        array, description = ctypes.c_void_p(), ArrayDescription(*shape, code, channels, flags)
        self.driver.cuArray3DCreate_v2(ctypes.byref(array), ctypes.byref(description))
        rows = [max(1, size) for size in shape]
        size = rows[0] * rows[1] * rows[2] * channels * width
        self.copy(array, bytes([CLEAN]) * size if data is None else data, rows, channels * width)
        return array, rows, channels * width

    def copy(self, array, data, rows, texel):
        """Copies bytes to an array, or returns those of an array if there is no data."""
        buffer = ctypes.create_string_buffer(data or bytes(rows[0] * rows[1] * rows[2] * texel), rows[0] * rows[1] * rows[2] * texel)
        host, device = Place(kind=1, host=ctypes.addressof(buffer), pitch=rows[0] * texel, height=rows[1]), Place(kind=3, array=array)
        command = Copy(*((host, device) if data else (device, host)), rows[0] * texel, rows[1], rows[2])
        self.driver.cuMemcpy3D_v2(ctypes.byref(command))
        return buffer.raw

    def surface(self, array):
        handle, resource = ctypes.c_uint64(), Resource(kind=0, handle=array.value)
        self.driver.cuSurfObjectCreate(ctypes.byref(handle), ctypes.byref(resource))
        return handle.value

    def texture(self, array, address, linear, flags, levels=0):
        handle, resource = ctypes.c_uint64(), Resource(kind=1 if levels else 0, handle=array.value)
        sampler = Sampler(address=address, filter=linear, flags=flags, level_filter=linear, most=float(levels))
        self.driver.cuTexObjectCreate(ctypes.byref(handle), ctypes.byref(resource), ctypes.byref(sampler), None)
        return handle.value

    def buffer(self, size):
        pointer = ctypes.c_void_p()
        self.driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
        return pointer

    def launch(self, kernel, image, sampler, words):
        function, count = self.function(kernel), len(words) // 8
        data = struct.pack(f"{len(words)}I", *words)
        source, target = self.buffer(len(data)), self.buffer(16 * count)
        self.driver.cuMemcpyHtoD_v2(source, data, ctypes.c_size_t(len(data)))
        values = [ctypes.c_uint64(image), ctypes.c_uint64(sampler), source, target, ctypes.c_uint(count)]
        arguments = (ctypes.c_void_p * 5)(*(ctypes.cast(ctypes.pointer(value), ctypes.c_void_p) for value in values))
        self.driver.cuLaunchKernel(function, (count + 63) // 64, 1, 1, 64, 1, 1, 0, None, arguments, None)
        self.driver.cuCtxSynchronize()
        results = ctypes.create_string_buffer(16 * count)
        self.driver.cuMemcpyDtoH_v2(results, target, ctypes.c_size_t(16 * count))
        return list(struct.unpack(f"{4 * count}I", results.raw))


def bits(number):
    return struct.unpack("I", struct.pack("f", number))[0]


def values_of(kind, count, source):
    """Returns words to store: all kinds of integers, or of floats."""
    small = [0, 1, 0x7F, 0x80, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFF80, 0xFFFFFF7F, 0xFFFF8000, 0xFFFF7FFF, 0x1FF, 0x1234]
    if not kind.startswith("f") and "norm" not in kind:
        return [source.choice(small) if source.random() < 0.6 else source.getrandbits(source.randrange(1, 33)) for _ in range(count)]
    special = [0, 1 << 31, 1, 0x007FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7F800001, 0xFFC12345, 0x7F7FFFFF, 0x477FE000, 0x477FEFFF, 0x477FF000, 0x33000000, 0x33000001, 0x33800000, 0x38800000, 0x387FFFFF, 0x3F800000, 0xBF800000]
    special += [bits((2 * k + 1) / 510) + step for k in (0, 1, 100, 127, 254) for step in (-1, 0, 1)] + [bits((2 * k + 1) / 131070) + step for k in (0, 30000) for step in (-1, 0, 1)]
    special += [bits(-(2 * k + 1) / 254) + step for k in (0, 63, 126) for step in (-1, 0, 1)] + [bits((2 * k + 1) / 254) + step for k in (0, 63, 126) for step in (-1, 0, 1)]
    special += [bits(1 + (2 * k + 1) / 2048) + step for k in (0, 1, 2, 3) for step in (-1, 0, 1)]
    return [source.choice(special) if source.random() < 0.6 else bits(source.uniform(-1.3, 1.3) * source.choice((1, 1, 1e-3, 1e4, 2.0 ** -17))) for _ in range(count)]


def experiments():
    """Yields the names of the experiments."""
    for kind, (_, _, channels) in (FORMATS | NORMALIZED_FORMATS).items():
        for count in channels:
            yield from (f"store {kind} {count} {vector}" for vector in ("1d", "1dv2", "1dv4"))
            if count == 1:
                yield from (f"reduce {kind} 1 {operation}" for operation in ("add", "min", "max", "and", "or"))
    yield from (f"reduce {kind} {count} {operation}_b64" for kind, count in (("u32", 2), ("s32", 2), ("f32", 2)) for operation in ("min", "max"))
    yield from (f"outside {kernel}_{mode}" for mode in ("clamp", "zero", "trap") for kernel in ("sust_p_1dv4", "sust_p_2d", "sust_p_3d", "sust_p_a1d", "suld_b_2d", "suld_b_2dv4", "suld_b_2db8", "sust_b_2d", "suld_b_a2d"))
    yield from (f"outside sured_p_2d_{operation}" for operation in ("add",))
    yield from (f"pair {kernel}" for kernel in ("pair_2d", "pair_level_2d", "pair_gather", "pair_compare", "pair_3d", "pair_grad_2d"))
    yield "query textures"
    yield "query surfaces"
    yield "query samplers"


def store(folder, kind, count, vector):
    device, source = Device(folder), random.Random(f"{kind}{count}")
    size = 256
    array, rows, texel = device.array(kind, int(count), (size, 0, 0))
    words = [word for x in range(size) for word in [x, 0, 0, 0, *values_of(kind, 4, source)]]
    device.launch(f"sust_p_{vector}_trap", device.surface(array), 0, words)
    return dict(words=words, contents=device.copy(array, None, rows, texel).hex())


def reduce(folder, kind, count, operation):
    device, source = Device(folder), random.Random(f"{kind}{count}")
    size, (_, width, _) = 256, (FORMATS | NORMALIZED_FORMATS)[kind]
    old = [value & ((1 << 8 * width) - 1) for value in values_of("f32" if kind == "f32" else "u32", size * int(count), source)]
    old = b"".join(value.to_bytes(width, "little") for value in old)
    array, rows, texel = device.array(kind, int(count), (size, 0, 0), old)
    words = [word for x in range(size) for word in [x, 0, 0, 0, *values_of(kind, 4, source)]]
    device.launch(f"sured_p_{operation}", device.surface(array), 0, words)
    return dict(words=words, old=old.hex(), contents=device.copy(array, None, rows, texel).hex())


def outside(folder, kernel):
    device, loads = Device(folder), kernel.startswith("suld")
    shape, flags = (8, 4, 0), SURFACE
    if "1d" in kernel:
        shape = (8, 0, 0)
    if "3d" in kernel:
        shape = (8, 4, 2)
    if "a1d" in kernel or "a2d" in kernel:
        shape, flags = (8, 4 if "a2d" in kernel else 0, 3), SURFACE | LAYERED
    kind, channels = ("u32", 1) if "sured" in kernel or "b_" in kernel else ("u16", 4)
    found = []
    scale = (8 if "v4" in kernel else 4) if "_b_" in kernel else 1
    for x, y, z in [(0, 0, 0), (7, 1, 1), (8, 0, 0), (-1, 0, 0), (100, 2, 0), (3, 4, 0), (3, -1, 0), (3, 9, 0), (3, 1, 2), (3, 1, -1), (3, 1, 7), (8, 4, 0), (-5, -5, 0), (7.5, 0, 0), (6, 2, 0)]:
        size = max(1, shape[0]) * max(1, shape[1]) * max(1, shape[2])
        data = b"".join(struct.pack("I", 0x01010000 + number) if kind == "u32" else struct.pack("4H", *(4 * number + k for k in range(4))) for number in range(size))
        array, rows, texel = device.array(kind, channels, shape, data, flags)
        place = [int(x * scale), y, z]
        words = [word & 0xFFFFFFFF for word in [*place, 0, 0xAAAA, 0xBBBB, 0xCCCC, 0xDDDD]]
        try:
            result = device.launch(kernel, device.surface(array), 0, words)
            new = device.copy(array, None, rows, texel)
            found.append(dict(place=place, result=result, changed=[[at, new[at]] for at in range(len(new)) if new[at] != data[at]]))
        except RuntimeError as error:
            found.append(dict(place=place, error=str(error)))
            break
    return dict(shape=shape, format=kind, channels=channels, places=found, loads=loads)


def pair(folder, kernel):
    device, source = Device(folder), random.Random(kernel)
    shape = (4, 4, 4 if "3d" in kernel else 0)
    size = 64 if "3d" in kernel else 16
    data = struct.pack(f"{size}f", *(float(number) / 16 for number in range(size)))
    array, *_ = device.array("f32", 1, shape, data, 8 if "gather" in kernel else 0)
    # Sampler: addressing, filter, flags (2: normalized coordinates).
    states = [((1, 1, 1), 0, 0), ((1, 1, 1), 1, 0), ((0, 0, 0), 1, 2), ((2, 2, 2), 0, 2), ((3, 3, 3), 1, 0)]
    textures = [device.texture(array, *state) for state in states]
    words = [word for _ in range(200) for word in [*(bits(source.uniform(-3, 8) * source.choice((1, 0.2))) for _ in range(3)), 0, *(bits(source.uniform(0, 1)) for _ in range(4))]]
    found = []
    for texture in textures:
        for other in textures:
            found.append(dict(texture=texture, sampler=other, both=device.launch(kernel, texture & 0xFFFFF, other >> 20 & 0xFFF, words)))
    found.append(dict(texture=textures[0], sampler=textures[2], whole=device.launch(kernel, textures[0] & 0xFFFFF, textures[2], words)))
    found.append(dict(texture=textures[0], sampler=textures[2], with_sampler=device.launch(kernel, textures[0], textures[2] >> 20 & 0xFFF, words)))
    return dict(states=states, words=words, data=data.hex(), pairs=found)


def query(folder, what):
    device, found = Device(folder), []
    for kind, (_, _, channels) in (FORMATS | NORMALIZED_FORMATS).items():
        for count in channels:
            for shape, flags in (((8, 0, 0), 0), ((8, 4, 0), 0), ((8, 4, 2), 0), ((8, 4, 3), LAYERED), ((8, 0, 3), LAYERED), ((4, 4, 6), 4), ((4, 4, 12), 5)):
                if shape != (8, 4, 0) and (kind, count) != ("f32", 4):
                    continue
                for state in (((1, 1, 1), 0, 0), ((0, 2, 3), 0, 2), ((3, 1, 1), int(kind == "f32"), 1)):
                    entry = dict(format=kind, channels=count, shape=shape, flags=flags, state=state)
                    try:
                        array, *_ = device.array(kind, count, shape, None, flags | SURFACE)
                        handle = device.surface(array) if what == "surfaces" else device.texture(array, *state)
                        names = {"textures": [f"txq_{name}" for name in QUERIES["txq"]], "surfaces": [f"suq_{name}" for name in QUERIES["suq"]], "samplers": [f"sampler_{name}" for name in SAMPLER_QUERIES]}[what]
                        entry["handle"] = handle
                        sampler = handle >> 20 & 0xFFF
                        for name in names:
                            try:
                                entry[name] = device.launch(name, handle, sampler, [0] * 8)[0]
                            except RuntimeError as error:
                                entry[name] = str(error)
                    except RuntimeError as error:
                        entry["error"] = str(error)
                    found.append(entry)
                    if what == "surfaces":
                        break
    return dict(entries=found)


def perform(folder, names):
    """Writes a line for each experiment; ends after the first failed launch, because the context is lost."""
    for name in names:
        kind, *rest = name.split()
        try:
            result = {"store": store, "reduce": reduce, "outside": outside, "pair": pair, "query": query}[kind](folder, *rest)
        except RuntimeError as error:
            result = dict(error=str(error))
        print(json.dumps(dict(name=name) | result), flush=True)
        if "cuCtxSynchronize" in json.dumps(result):
            break


def main():
    folder, output, wanted = sys.argv[1], pathlib.Path(sys.argv[2]), sys.argv[3:]
    if wanted and wanted[0] == "perform":
        return perform(folder, wanted[1:])
    names, lines = [name for name in experiments() if not wanted or name.split()[0] in wanted], []
    while names:
        # Later ones follow in the same process.
        done = subprocess.run([sys.executable, __file__, folder, output, "perform", *names], capture_output=True, text=True)
        found = done.stdout.splitlines() or [json.dumps(dict(name=names[0], error=(done.stderr.strip().splitlines() or ["no result"])[-1]))]
        lines += found
        names = names[len(found):]
        output.write_text("\n".join(lines) + "\n")
    for line in lines:
        result = json.loads(line)
        print(result["name"], result.get("error", ""))


if __name__ == "__main__":
    main()
