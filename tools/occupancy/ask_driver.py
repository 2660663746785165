#!/usr/bin/env python3
"""Asks the CUDA driver how many blocks fit on a multiprocessor, for many kernels and launches.

    prepare OUT_DIR ORIOLE [ARCH]   compiles the kernels, no GPU needed
    ask DIR > occupancy_sm_XX.tsv   needs a GPU with its driver, and Python's own library only

The kernels differ in static shared memory and in named barriers. Their number of registers is written into the cubin just before
the driver reads it, so every count can be asked for. A line of the output is a kernel with its dynamic shared memory and its preferred
carve-out (-1: none); its columns are block sizes. `-` is a launch shape that the driver refuses to judge.
"""

import ctypes
import pathlib
import struct
import subprocess
import sys

KIB = 1024
STATIC_BYTES = [0, 4, 1000, 1024, 10 * KIB, 24 * KIB + 16, 48 * KIB]
BARRIERS = [1, 2, 3, 4, 5, 8, 16]
BLOCK_SIZES = [1, 16, 31, 32, 33, 48, 64, 65, 96, 100, 128, 129, 160, 192, 200, 224, 256, 288, 320, 352, 384, 416, 448, 480, 512, 544, 576,
               608, 640, 672, 704, 736, 768, 769, 800, 832, 864, 896, 960, 992, 993, 1000, 1024]
DYNAMIC_BYTES = [0, 1, 128, 1000, KIB, 2 * KIB, 5 * KIB, 6 * KIB, 7 * KIB, 7 * KIB + 1, 10 * KIB, 15 * KIB, 16 * KIB, 20 * KIB, 27 * KIB,
                 31 * KIB, 37 * KIB - 1, 37 * KIB, 48 * KIB - 1, 48 * KIB, 49 * KIB, 56 * KIB, 56 * KIB + 1, 63 * KIB, 75 * KIB,
                 75 * KIB + 1, 99 * KIB, 100 * KIB, 113 * KIB, 113 * KIB + 1, 114 * KIB, 160 * KIB, 163 * KIB, 195 * KIB, 200 * KIB,
                 226 * KIB + 1, 227 * KIB]
CARVE_OUTS = [0, 1, 4, 10, 25, 43, 44, 50, 75, 90, 100]

KERNEL = """.version 8.0
.target {arch}
.address_size 64
.visible .entry probe(.param .u64 out)
{{
    .reg .b64 %address;
    .reg .b32 %value;
    {variable}
    ld.param.u64 %address, [out];
    mov.u32 %value, %tid.x;
    {store}
    {barrier}
    {load}
    st.global.u32 [%address], %value;
    ret;
}}
"""


def kernel_text(arch, static_bytes, barriers):
    return KERNEL.format(
        arch=arch,
        variable=f".shared .align 4 .b8 room[{static_bytes}];" if static_bytes else "",
        store="st.shared.u32 [room], %value;" if static_bytes else "",
        load="ld.shared.u32 %value, [room];" if static_bytes else "",
        barrier=f"bar.sync {barriers - 1};" if barriers else "",
    )


def kernels():
    return [(size, 0) for size in STATIC_BYTES] + [(0, count) for count in BARRIERS]


def prepare(folder, oriole, arch="sm_90"):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for static_bytes, barriers in kernels():
        source = folder / f"probe_{static_bytes}_{barriers}.ptx"
        source.write_text(kernel_text(arch, static_bytes, barriers))
        subprocess.run([oriole, "compile", source, "-o", source.with_suffix(".cubin"), "--arch", arch], check=True)


def with_registers(cubin, count):
    """The cubin with another number of registers: the attribute REGCOUNT (4-byte header, symbol, value)."""
    header = bytes([0x04, 0x2F, 0x08, 0x00])
    if cubin.count(header) != 1:
        raise SystemExit("the cubin has not exactly one register count")
    place = cubin.index(header) + 8
    return cubin[:place] + struct.pack("<I", count) + cubin[place + 4:]


class Driver:
    NUM_REGS, SHARED_BYTES, MAX_THREADS, MAX_DYNAMIC, CARVE_OUT = 4, 1, 0, 8, 9

    def __init__(self):
        self.cuda = ctypes.CDLL("libcuda.so.1")
        self.check(self.cuda.cuInit(0))
        self.device, context = ctypes.c_int(), ctypes.c_void_p()
        self.check(self.cuda.cuDeviceGet(ctypes.byref(self.device), 0))
        self.check(self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), self.device))
        self.check(self.cuda.cuCtxSetCurrent(context))

    def check(self, status):
        if status:
            raise SystemExit(f"the driver answers error {status}")

    def device_attribute(self, code):
        value = ctypes.c_int()
        status = self.cuda.cuDeviceGetAttribute(ctypes.byref(value), code, self.device)
        return None if status else value.value

    def load(self, image):
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        self.check(self.cuda.cuModuleLoadData(ctypes.byref(module), image))
        self.check(self.cuda.cuModuleGetFunction(ctypes.byref(function), module, b"probe"))
        return module, function

    def unload(self, module):
        self.check(self.cuda.cuModuleUnload(module))

    def function_attribute(self, function, code):
        value = ctypes.c_int()
        self.check(self.cuda.cuFuncGetAttribute(ctypes.byref(value), code, function))
        return value.value

    def set_attribute(self, function, code, value):
        return self.cuda.cuFuncSetAttribute(function, code, value) == 0

    def blocks(self, function, size, dynamic):
        value = ctypes.c_int(-1)
        status = self.cuda.cuOccupancyMaxActiveBlocksPerMultiprocessor(
            ctypes.byref(value), function, ctypes.c_int(size), ctypes.c_size_t(dynamic))
        return "-" if status else str(value.value)


def questions():
    """(static, barriers, registers, dynamic, carve-out) of every line, in order."""
    for registers in range(8, 256):
        yield 0, 0, registers, 0, -1
    for static_bytes in STATIC_BYTES:
        for registers in (16, 72):
            for dynamic in DYNAMIC_BYTES:
                if (static_bytes, dynamic) != (0, 0):
                    yield static_bytes, 0, registers, dynamic, -1
    for barriers in BARRIERS:
        for registers in (16, 64, 168):
            for dynamic in (0, 10 * KIB, 56 * KIB):
                yield 0, barriers, registers, dynamic, -1
    for carve_out in CARVE_OUTS:
        for static_bytes in (0, 10 * KIB):
            for dynamic in (0, KIB, 7 * KIB, 15 * KIB, 20 * KIB, 48 * KIB, 75 * KIB, 113 * KIB, 227 * KIB):
                yield static_bytes, 0, 32, dynamic, carve_out


def ask(folder):
    folder = pathlib.Path(folder)
    driver = Driver()
    images = {key: (folder / f"probe_{key[0]}_{key[1]}.cubin").read_bytes() for key in kernels()}
    version = ctypes.c_int()
    driver.check(driver.cuda.cuDriverGetVersion(ctypes.byref(version)))
    name = ctypes.create_string_buffer(96)
    driver.check(driver.cuda.cuDeviceGetName(name, 96, driver.device))
    print(f"# {name.value.decode()}, CUDA driver {version.value}: answers of cuOccupancyMaxActiveBlocksPerMultiprocessor")
    print("# written by tools/occupancy/ask_driver.py; `-` is a shape that the driver refuses to judge")
    attributes = {code: driver.device_attribute(code) for code in (1, 8, 9, 10, 12, 39, 75, 76, 81, 82, 97, 106, 111)}
    print("# device attributes: " + " ".join(f"{code}={value}" for code, value in attributes.items()))
    print("\t".join(["static", "barriers", "registers", "dynamic", "carve_out"] + [str(size) for size in BLOCK_SIZES]))
    for static_bytes, barriers, registers, dynamic, carve_out in questions():
        # Loaded anew for each line: attributes set for an earlier one would stay.
        module, function = driver.load(with_registers(images[static_bytes, barriers], registers))
        seen = driver.function_attribute(function, Driver.NUM_REGS)
        if seen != registers:
            raise SystemExit(f"asked for {registers} registers, the driver sees {seen}")
        shared = driver.function_attribute(function, Driver.SHARED_BYTES)
        if shared != static_bytes:
            raise SystemExit(f"asked for {static_bytes} bytes of static shared memory, the driver sees {shared}")
        allowed = dynamic + static_bytes <= 48 * KIB or driver.set_attribute(function, Driver.MAX_DYNAMIC, dynamic)
        if carve_out >= 0 and not driver.set_attribute(function, Driver.CARVE_OUT, carve_out):
            raise SystemExit("the carve-out is refused")
        answers = [driver.blocks(function, size, dynamic) if allowed else "-" for size in BLOCK_SIZES]
        print("\t".join([str(static_bytes), str(barriers), str(registers), str(dynamic), str(carve_out)] + answers))
        driver.unload(module)


def main():
    if len(sys.argv) >= 4 and sys.argv[1] == "prepare":
        prepare(*sys.argv[2:5])
    elif len(sys.argv) == 3 and sys.argv[1] == "ask":
        ask(sys.argv[2])
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
