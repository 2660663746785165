"""Writes the kernels whose predicted and measured times are compared: tools/timing/kernels/*.ptx.

Each is a kernel test that expects nothing in particular: its header says how it is launched. They are of many kinds (chains, parallel
work for each pipe, shared and global memory, atomics, barriers, divergence, small applications) and of launch shapes from one
warp to the whole GPU, and long enough to time.

    python3 tools/timing/generate.py
"""

import pathlib

FOLDER = pathlib.Path(__file__).parent / "kernels"
SMS = 132

REGISTERS = """    .reg .b16 %h<32>;
    .reg .b32 %r<160>;
    .reg .f32 %f<160>;
    .reg .f64 %d<64>;
    .reg .b64 %l<64>;
    .reg .pred %p<16>;
"""

# Thread in the block, block, threads of a block, thread in the grid, threads of the grid.
START = """    ld.param.u64 %l0, [out];
    cvta.to.global.u64 %l0, %l0;
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r5, %nctaid.x;
    mad.lo.u32 %r4, %r2, %r3, %r1;
    mul.lo.u32 %r5, %r5, %r3;
"""

WRITTEN = []


def kernel(name, about, grid, block, n, body, *, setup="", finish="%r10", buffers=(), shared=0, prologue=""):
    """A kernel with a result in register `finish`; `body` may use %r0 (n) and what START leaves."""
    header = [
        "// kernel-test 1", f"// about: {about}", f"// kernel: {name}", f"// grid: {grid} 1 1", f"// block: {block} 1 1",
    ]
    threads = grid * block
    header.append(f"// param out: u32[{max(threads, 64)}] = zero")
    header.append(f"// param n: u32 = {n:x}")
    header += [f"// param {label}: u32[{count}] = {fill}" for label, count, fill in buffers]
    header.append(f"// expect out: exact = ?*{max(threads, 64)}")
    parameters = ",\n".join(["    .param .u64 out", "    .param .u32 n"] + [f"    .param .u64 {label}" for label, _, _ in buffers])
    loads = "".join(
        f"    ld.param.u64 %l{at}, [{label}];\n    cvta.to.global.u64 %l{at}, %l{at};\n"
        for at, (label, _, _) in enumerate(buffers, 1)
    )
    memory = f"    .shared .align 16 .b8 tile[{shared}];\n" if shared else ""
    store = "" if finish is None else f"""    mul.wide.u32 %l60, %r4, 4;
    add.u64 %l60, %l0, %l60;
    st.global.b32 [%l60], {finish};
"""
    text = "\n".join(header) + f"""

.version 8.0
.target sm_80
.address_size 64
{prologue}
.visible .entry {name}(
{parameters}
)
{{
{REGISTERS}{memory}{START}{loads}{setup}{body}{store}    ret;
}}
"""
    assert name not in WRITTEN, name
    WRITTEN.append(name)
    (FOLDER / f"{name}.ptx").write_text(text)


def loop(body, label="L", count="%r0", counter="%r150", predicate="%p15"):
    return f"""    mov.u32 {counter}, 0;
{label}:
{body}    add.u32 {counter}, {counter}, 1;
    setp.lt.u32 {predicate}, {counter}, {count};
    @{predicate} bra {label};
"""


def lines(*text):
    return "".join(f"    {line};\n" for line in text)


def shapes(full_blocks=2, full_threads=1024):
    """One warp, one block of eight, the GPU with many warps."""
    return [("warp", 1, 32), ("block", 1, 256), ("gpu", full_blocks * SMS, full_threads)]


def arithmetic():
    integer = lines("add.u32 %r10, %r4, 3", "add.u32 %r11, %r4, 5", "add.u32 %r12, %r4, 7", "add.u32 %r13, %r4, 9",
                    "add.u32 %r14, %r2, 77", "xor.b32 %r15, %r1, 0x5555")
    chain = lines("add.u32 %r10, %r10, %r14", "xor.b32 %r10, %r10, %r15") * 8
    wide = "".join(lines(f"add.u32 %r{x}, %r{x}, %r14", f"xor.b32 %r{x}, %r{x}, %r15") for x in range(10, 14)) * 4
    join = lines("xor.b32 %r10, %r10, %r11", "xor.b32 %r12, %r12, %r13", "xor.b32 %r10, %r10, %r12")
    floats = "".join(lines(f"cvt.rn.f32.u32 %f{x}, %r4", f"add.f32 %f{x}, %f{x}, 0f3F8{x:05X}") for x in range(10, 22))
    sums = lines(*[f"add.f32 %f10, %f10, %f{x}" for x in range(11, 18)], "mov.b32 %r10, %f10")
    for where, grid, block in shapes():
        n = 1000 if where != "gpu" else 200
        kernel(f"alu_chain_{where}", "dependent additions and xors", grid, block, n, loop(chain), setup=integer)
        kernel(f"alu_wide_{where}", "four chains of additions and xors", grid, block, n // 2, loop(wide) + join, setup=integer)
        kernel(f"fma_chain_{where}", "dependent fused multiply-adds", grid, block, n,
               loop(lines("fma.rn.f32 %f10, %f10, %f20, %f21") * 16) + lines("mov.b32 %r10, %f10"), setup=floats)
        kernel(f"fma_wide_{where}", "eight chains of fused multiply-adds", grid, block, n // 2,
               loop("".join(lines(f"fma.rn.f32 %f{x}, %f{x}, %f20, %f21") for x in range(10, 18)) * 8) + sums, setup=floats)
        mad = lines("mad.lo.u32 %r10, %r10, %r14, %r15") * 16
        kernel(f"imad_chain_{where}", "dependent integer multiply-adds", grid, block, n, loop(mad), setup=integer)
        root = lines("ex2.approx.f32 %f10, %f10", "mul.f32 %f10, %f10, %f20") * 4
        kernel(f"mufu_chain_{where}", "dependent exponentials", grid, block, n, loop(root) + lines("mov.b32 %r10, %f10"), setup=floats)
        double = lines("fma.rn.f64 %d1, %d1, %d2, %d3") * 8
        kernel(f"double_chain_{where}", "dependent double-precision fused multiply-adds", grid, block, n, loop(double) +
               lines("cvt.rn.f32.f64 %f10, %d1", "mov.b32 %r10, %f10"),
               setup=lines("cvt.rn.f64.u32 %d1, %r4", "cvt.rn.f64.u32 %d2, %r2", "cvt.rn.f64.u32 %d3, %r1"))
    outer = "".join(lines(f"fma.rn.f32 %f{20 + 4 * a + b}, %f{10 + a}, %f{14 + b}, %f{20 + 4 * a + b}") for a in range(4) for b in range(4))
    start = "".join(lines(f"cvt.rn.f32.u32 %f{x}, %r4", f"add.f32 %f{x}, %f{x}, 0f3F8{x:05X}") for x in range(10, 36))
    collect = lines(*[f"add.f32 %f20, %f20, %f{x}" for x in range(21, 36)], "mov.b32 %r10, %f20")
    kernel("outer_gpu", "outer products of four by four in registers", SMS, 512, 400, loop(outer * 4) + collect, setup=start)
    kernel("outer_block", "outer products of four by four in registers, one block", 1, 128, 400, loop(outer * 4) + collect, setup=start)
    mixed = "".join(lines(f"fma.rn.f32 %f{x}, %f{x}, %f20, %f21", f"add.u32 %r{x}, %r{x}, %r14", f"xor.b32 %r{x}, %r{x}, %r15")
                    for x in range(10, 14)) * 4
    kernel("mixed_gpu", "single precision and integers side by side", 2 * SMS, 512, 300,
           loop(mixed) + join + lines("mov.b32 %r11, %f10", "xor.b32 %r10, %r10, %r11", "mov.b32 %r11, %f11", "xor.b32 %r10, %r10, %r11",
                                      "mov.b32 %r11, %f12", "xor.b32 %r10, %r10, %r11", "mov.b32 %r11, %f13", "xor.b32 %r10, %r10, %r11"),
           setup=integer + floats)
    kernel("wide_multiply_gpu", "64-bit multiply-adds", SMS, 512, 300,
           loop(lines("mad.wide.u32 %l10, %r10, %r14, %l10", "cvt.u32.u64 %r10, %l10") * 8), setup=integer + lines("mov.u64 %l10, 5"))
    kernel("convert_gpu", "conversions there and back", SMS, 512, 300,
           loop(lines("cvt.rn.f32.s32 %f10, %r10", "cvt.rzi.s32.f32 %r10, %f10") * 4), setup=integer)
    kernel("popc_gpu", "population counts", SMS, 512, 300,
           loop(lines("popc.b32 %r11, %r10", "add.u32 %r10, %r10, %r11") * 4), setup=integer)
    kernel("half_gpu", "packed half-precision fused multiply-adds", 2 * SMS, 512, 500,
           loop("".join(lines(f"fma.rn.f16x2 %r{x}, %r{x}, %r14, %r15") for x in range(10, 14)) * 4) + join, setup=integer)
    kernel("divide_gpu", "integer division", SMS, 256, 150,
           loop(lines("div.u32 %r11, %r10, %r14", "add.u32 %r10, %r10, %r11") * 2), setup=integer)
    kernel("sqrt_gpu", "exact square roots and divisions", SMS, 256, 200,
           loop(lines("sqrt.rn.f32 %f11, %f10", "div.rn.f32 %f10, %f11, %f20", "add.f32 %f10, %f10, %f21")) + lines("mov.b32 %r10, %f10"),
           setup=floats)
    long = "".join(lines(f"add.u32 %r{10 + x % 4}, %r{10 + x % 4}, %r{14 + x % 2}", f"xor.b32 %r{10 + (x + 1) % 4}, %r{10 + (x + 1) % 4}, {x + 77}")
                   for x in range(6000))
    kernel("long_code_gpu", "a loop of 12,000 instructions", SMS, 128, 3, loop(long) + join, setup=integer)
    kernel("long_code_warp", "a loop of 12,000 instructions, one warp", 1, 32, 4, loop(long) + join, setup=integer)


def lanes():
    start = lines("add.u32 %r10, %r4, 3")
    shuffle = lines("shfl.sync.bfly.b32 %r11, %r10, 1, 31, -1", "add.u32 %r10, %r10, %r11") * 4
    kernel("shuffle_warp", "dependent shuffles", 1, 32, 1000, loop(shuffle), setup=start)
    kernel("shuffle_gpu", "shuffles of many warps", SMS, 1024, 200, loop(shuffle), setup=start)
    vote = lines("setp.gt.u32 %p1, %r10, %r1", "vote.sync.ballot.b32 %r11, %p1, -1", "add.u32 %r10, %r10, %r11") * 4
    kernel("ballot_gpu", "votes of many warps", SMS, 512, 300, loop(vote), setup=start)
    reduce_ = "".join(lines(f"shfl.sync.down.b32 %r11, %r10, {step}, 31, -1", "add.u32 %r10, %r10, %r11") for step in (16, 8, 4, 2, 1))
    kernel("warp_sum_gpu", "sums over warps", 4 * SMS, 256, 300, loop(reduce_), setup=start)


def shared_memory():
    base = lines("mov.u32 %r20, tile")
    fill = lines("shl.b32 %r21, %r1, 2", "add.u32 %r21, %r20, %r21", "st.shared.b32 [%r21], %r1", "mov.u32 %r10, 0") + "    bar.sync 0;\n"
    chase = lines("and.b32 %r11, %r10, 31", "shl.b32 %r11, %r11, 2", "add.u32 %r11, %r11, %r20", "ld.shared.b32 %r10, [%r11]",
                  "add.u32 %r10, %r10, 1") * 4
    kernel("shared_chase_warp", "dependent loads from shared memory", 1, 32, 1000, loop(chase), setup=base + fill, shared=4096)
    for ways in (1, 2, 4, 8, 32):
        # Lane l reads word l * ways, one of several places in turn.
        address = lines(f"mul.lo.u32 %r22, %r1, {4 * ways}", "and.b32 %r22, %r22, 16383", "add.u32 %r22, %r20, %r22")
        zero = loop(lines("st.shared.b32 [%r23], %r1", "add.u32 %r23, %r23, 1024"), label="Z", count="16", counter="%r151")
        prepare = base + lines("shl.b32 %r23, %r1, 2", "add.u32 %r23, %r20, %r23") + zero + "    bar.sync 0;\n" + address + lines("mov.u32 %r10, 0")
        reads = "".join(lines(f"ld.shared.b32 %r{30 + x}, [%r22+{16384 + 4 * x}]") for x in range(8))
        adds = "".join(lines(f"add.u32 %r10, %r10, %r{30 + x}") for x in range(8))
        turn = lines("xor.b32 %r22, %r22, 16")
        kernel(f"shared_{ways}way_gpu", f"loads from shared memory, {ways} words of each bank", SMS, 256, 600 if ways < 8 else 200,
               loop(reads + adds + turn), setup=prepare, shared=32768 + 1024)
    wide = lines("shl.b32 %r22, %r1, 4", "and.b32 %r22, %r22, 8191", "add.u32 %r22, %r20, %r22")
    quads = "".join(lines(f"ld.shared.v4.f32 {{%f10, %f11, %f12, %f13}}, [%r22+{16 * x}]", "fma.rn.f32 %f20, %f10, %f11, %f20",
                          "fma.rn.f32 %f21, %f12, %f13, %f21") for x in range(4))
    kernel("shared_vector_gpu", "loads of 16 bytes from shared memory", SMS, 512, 400,
           loop(quads) + lines("add.f32 %f20, %f20, %f21", "mov.b32 %r10, %f20"), setup=base + fill + wide + lines("mov.f32 %f20, 0f00000000", "mov.f32 %f21, 0f00000000"),
           shared=16384)
    turn = lines("st.shared.b32 [%r21], %r10") + "    bar.sync 0;\n" + lines("xor.b32 %r22, %r21, 128", "ld.shared.b32 %r11, [%r22]", "add.u32 %r10, %r10, %r11") + "    bar.sync 0;\n"
    for threads, blocks, name in ((64, 1, "small"), (256, SMS, "gpu"), (1024, 2 * SMS, "full")):
        kernel(f"exchange_{name}", "exchange through shared memory between barriers", blocks, threads, 900, loop(turn), setup=base + fill, shared=8192)
    barrier = "    bar.sync 0;\n" * 4 + lines("add.u32 %r10, %r10, %r1")
    for threads, blocks, name in ((128, 1, "small"), (1024, 1, "block"), (512, 4 * SMS, "gpu")):
        kernel(f"barrier_{name}", "barriers of the block", blocks, threads, 600, loop(barrier), setup=lines("mov.u32 %r10, 1"))
    kernel("atomic_shared_one", "additions to one word of shared memory", SMS, 256, 150,
           loop(lines("atom.shared.add.u32 %r11, [%r20], %r1", "add.u32 %r10, %r10, %r11")), setup=base + fill, shared=4096)
    kernel("atomic_shared_many", "additions to words of shared memory of each thread's own", SMS, 256, 600,
           loop(lines("atom.shared.add.u32 %r11, [%r21], %r1", "add.u32 %r10, %r10, %r11")), setup=base + fill, shared=4096)


def global_memory():
    small, large = 1 << 22, 24 << 20
    for name, words in (("l1", 1 << 11), ("l2", 1 << 21)):
        step = 37 if name == "l1" else 104729
        hop = lines(f"add.u32 %r11, %r10, {step}", f"and.b32 %r11, %r11, {words - 1}", "mul.wide.u32 %l10, %r11, 4", "add.u64 %l10, %l1, %l10",
                    "ld.global.b32 %r10, [%l10]") * 2
        kernel(f"chase_{name}_warp", f"dependent loads, {words} words", 1, 32, 400, loop(hop), setup=lines("mov.u32 %r10, 0"),
               buffers=[("a", words, "index")])
    copy = lines("mul.wide.u32 %l10, %r10, 4", "add.u64 %l11, %l1, %l10", "add.u64 %l12, %l2, %l10", "ld.global.b32 %r11, [%l11]",
                 "st.global.b32 [%l12], %r11", "add.u32 %r10, %r10, %r5")
    index = lines("mov.u32 %r10, %r4")
    for name, words, blocks, threads in (("l2", small, 4 * SMS, 512), ("dram", large, 4 * SMS, 512), ("few", 1 << 19, 32, 128)):
        rounds = words // (blocks * threads)
        kernel(f"copy_{name}", f"copies {words} words", blocks, threads, rounds, loop(copy), setup=index, finish=None,
               buffers=[("a", words, "index"), ("b", words, "zero")])
    vector = lines("mul.wide.u32 %l10, %r10, 16", "add.u64 %l11, %l1, %l10", "add.u64 %l12, %l2, %l10", "ld.global.v4.b32 {%r11, %r12, %r13, %r14}, [%l11]",
                   "st.global.v4.b32 [%l12], {%r11, %r12, %r13, %r14}", "add.u32 %r10, %r10, %r5")
    for name, words in (("l2", small), ("dram", large)):
        kernel(f"copy_vector_{name}", f"copies {words} words by four", 4 * SMS, 512, words // 4 // (4 * SMS * 512), loop(vector), setup=index, finish=None,
               buffers=[("a", words, "index"), ("b", words, "zero")])
    saxpy = lines("mul.wide.u32 %l10, %r10, 4", "add.u64 %l11, %l1, %l10", "add.u64 %l12, %l2, %l10", "ld.global.f32 %f1, [%l11]",
                  "ld.global.f32 %f2, [%l12]", "fma.rn.f32 %f2, %f1, 0f40000000, %f2", "st.global.f32 [%l12], %f2", "add.u32 %r10, %r10, %r5")
    kernel("saxpy_l2", "y = 2x + y", 2 * SMS, 1024, 8, loop(saxpy), setup=index, finish=None, buffers=[("a", 1 << 22, "index"), ("b", 1 << 22, "zero")])
    for stride in (2, 8, 32):
        words = 1 << 22
        read = lines(f"mul.lo.u32 %r11, %r10, {stride}", f"and.b32 %r11, %r11, {words - 1}", "mul.wide.u32 %l10, %r11, 4", "add.u64 %l11, %l1, %l10",
                     "ld.global.b32 %r12, [%l11]", "add.u32 %r13, %r13, %r12", "add.u32 %r10, %r10, %r5")
        kernel(f"stride_{stride}", f"loads of every word of {stride}", 2 * SMS, 512, 128, loop(read), setup=index + lines("mov.u32 %r13, 0"), finish="%r13",
               buffers=[("a", words, "index")])
    for name, words, blocks in (("gather_gpu", 1 << 22, 2 * SMS), ("gather_block", 1 << 22, 1), ("gather_small", 1 << 12, SMS)):
        read = "".join(lines("mad.lo.u32 %r10, %r10, 1664525, 1013904223", "shr.u32 %r11, %r10, 8", f"and.b32 %r11, %r11, {words - 1}", "mul.wide.u32 %l10, %r11, 4",
                             "add.u64 %l11, %l1, %l10", "ld.global.b32 %r12, [%l11]", "add.u32 %r13, %r13, %r12") for _ in range(2))
        kernel(name, f"loads of random words of {words}", blocks, 512, 80, loop(read), setup=lines("mul.lo.u32 %r10, %r4, 7919", "mov.u32 %r13, 0"), finish="%r13",
               buffers=[("a", words, "index")])
    write = lines("mul.wide.u32 %l10, %r10, 4", "add.u64 %l11, %l1, %l10", "st.global.b32 [%l11], %r10", "add.u32 %r10, %r10, %r5")
    kernel("fill_l2", "stores only", 4 * SMS, 512, 12, loop(write), setup=index, finish=None, buffers=[("a", 12 * 4 * SMS * 512, "zero")])
    sums = lines("mul.wide.u32 %l10, %r10, 4", "add.u64 %l11, %l1, %l10", "ld.global.b32 %r12, [%l11]", "add.u32 %r13, %r13, %r12", "add.u32 %r10, %r10, %r5")
    tree = "".join(lines(f"shfl.sync.down.b32 %r12, %r13, {step}, 31, -1", "add.u32 %r13, %r13, %r12") for step in (16, 8, 4, 2, 1))
    last = lines("and.b32 %r14, %r1, 31", "setp.eq.u32 %p1, %r14, 0", "@%p1 red.global.add.u32 [%l0], %r13")
    for blocks, threads in ((SMS, 256), (4 * SMS, 512)):
        rounds = (1 << 22) // (blocks * threads)
        kernel(f"sum_{blocks}x{threads}", "sum of a buffer", blocks, threads, rounds, loop(sums) + tree + last, setup=index + lines("mov.u32 %r13, 0"), finish=None,
               buffers=[("a", 1 << 22, "index")])
    kernel("atomic_one", "additions of all threads to one word", 8, 256, 40, loop(lines("atom.global.add.u32 %r11, [%l1], %r1", "add.u32 %r10, %r10, %r11")),
           setup=lines("mov.u32 %r10, 0"), buffers=[("a", 64, "zero")])
    kernel("atomic_many", "additions to words of each thread's own", SMS, 256, 150,
           lines("mul.wide.u32 %l10, %r4, 4", "add.u64 %l10, %l1, %l10") + loop(lines("atom.global.add.u32 %r11, [%l10], %r1", "add.u32 %r10, %r10, %r11")),
           setup=lines("mov.u32 %r10, 0"), buffers=[("a", SMS * 256, "zero")])
    kernel("atomic_spread", "reductions to 4,096 words", SMS, 512, 40,
           loop(lines("mad.lo.u32 %r10, %r10, 1664525, 1013904223", "shr.u32 %r11, %r10, 12", "and.b32 %r11, %r11, 4095", "mul.wide.u32 %l10, %r11, 4",
                      "add.u64 %l10, %l1, %l10", "red.global.add.u32 [%l10], 1")),
           setup=lines("mul.lo.u32 %r10, %r4, 7919"), buffers=[("a", 4096, "zero")])


def control():
    work = "".join(lines("add.u32 %r10, %r10, %r14", "xor.b32 %r10, %r10, %r15") for _ in range(8))
    other = "".join(lines("mad.lo.u32 %r10, %r10, %r14, %r15") for _ in range(8))
    start = lines("add.u32 %r10, %r4, 3", "add.u32 %r14, %r2, 77", "xor.b32 %r15, %r1, 0x5555", "and.b32 %r16, %r1, 1")
    halves = lines("setp.eq.u32 %p1, %r16, 0", "@%p1 bra E") + work + "    bra J;\nE:\n" + other + "J:\n"
    kernel("diverge_warp", "two sides of a branch", 1, 32, 500, loop(halves), setup=start)
    kernel("diverge_gpu", "two sides of a branch", SMS, 512, 200, loop(halves), setup=start)
    kernel("uneven_gpu", "as many rounds as the lane's number", SMS, 512, 100,
           loop(lines("mov.u32 %r20, 0", "and.b32 %r21, %r1, 31") + "I:\n" + lines("mad.lo.u32 %r10, %r10, %r14, %r15", "add.u32 %r20, %r20, 1", "setp.le.u32 %p1, %r20, %r21",
                "@%p1 bra I")), setup=start)
    escape = lines("mov.u32 %r20, 0", "mov.f32 %f3, 0f00000000", "mov.f32 %f4, 0f00000000") + "M:\n" + lines(
        "mul.f32 %f5, %f3, %f3", "mul.f32 %f6, %f4, %f4", "add.f32 %f7, %f5, %f6", "setp.gt.f32 %p1, %f7, 0f40800000", "@%p1 bra D",
        "mul.f32 %f8, %f3, %f4", "sub.f32 %f3, %f5, %f6", "add.f32 %f3, %f3, %f1", "fma.rn.f32 %f4, %f8, 0f40000000, %f2",
        "add.u32 %r20, %r20, 1", "setp.lt.u32 %p2, %r20, %r0", "@%p2 bra M") + "D:\n"
    plane = lines("and.b32 %r21, %r4, 255", "shr.u32 %r22, %r4, 8", "cvt.rn.f32.u32 %f1, %r21", "cvt.rn.f32.u32 %f2, %r22",
                  "fma.rn.f32 %f1, %f1, 0f3C400000, 0fC0000000", "fma.rn.f32 %f2, %f2, 0f3C000000, 0fBF800000")
    kernel("mandelbrot", "the set, 256 by 256", 256, 256, 1024, escape, setup=plane, finish="%r20")
    kernel("many_blocks", "many short blocks", 64 * SMS, 128, 60, loop(work), setup=start)
    kernel("one_too_many", "one block more than fit at once", 16 * SMS + 1, 128, 300, loop(work), setup=start)
    kernel("empty", "nothing", 1, 32, 0, "", finish=None)
    kernel("little_work", "one block of little work on each multiprocessor", SMS, 64, 600, loop(work), setup=start)


def applications():
    size = 512
    matrix = lines("and.b32 %r20, %r1, 15", "shr.u32 %r21, %r1, 4", f"and.b32 %r22, %r2, {size // 16 - 1}", f"shr.u32 %r23, %r2, {(size // 16).bit_length() - 1}",
                   "shl.b32 %r24, %r23, 4", "add.u32 %r24, %r24, %r21", "shl.b32 %r25, %r22, 4", "add.u32 %r25, %r25, %r20", "mov.f32 %f10, 0f00000000",
                   "mov.u32 %r26, tile", f"mul.lo.u32 %r27, %r24, {size}", "add.u32 %r27, %r27, %r20", "mul.wide.u32 %l10, %r27, 4", "add.u64 %l10, %l1, %l10",
                   f"mul.lo.u32 %r28, %r21, {size}", "add.u32 %r28, %r28, %r25", "mul.wide.u32 %l11, %r28, 4", "add.u64 %l11, %l2, %l11",
                   "shl.b32 %r29, %r1, 2", "add.u32 %r29, %r26, %r29", "shl.b32 %r30, %r21, 6", "add.u32 %r30, %r26, %r30", "shl.b32 %r31, %r20, 2", "add.u32 %r31, %r26, %r31")
    products = "".join(lines(f"ld.shared.f32 %f1, [%r30+{4 * k}]", f"ld.shared.f32 %f2, [%r31+{1024 + 64 * k}]", "fma.rn.f32 %f10, %f1, %f2, %f10") for k in range(16))
    tile = lines("ld.global.f32 %f1, [%l10]", "ld.global.f32 %f2, [%l11]", "st.shared.f32 [%r29], %f1", "st.shared.f32 [%r29+1024], %f2") + "    bar.sync 0;\n" + products \
        + "    bar.sync 0;\n" + lines("add.u64 %l10, %l10, 64", f"add.u64 %l11, %l11, {64 * size}")
    blocks = (size // 16) ** 2
    kernel("matmul_tile", "product of matrices by tiles of 16 by 16", blocks, 256, size // 16, loop(tile) + lines("mov.b32 %r10, %f10"), setup=matrix, shared=2048,
           buffers=[("a", size * size, "index"), ("b", size * size, "index")])
    kernel("matmul_block", "one tile of a product of matrices", 1, 256, size // 16, loop(tile) + lines("mov.b32 %r10, %f10"), setup=matrix, shared=2048,
           buffers=[("a", size * size, "index"), ("b", size * size, "index")])
    for pad in (0, 1):
        row = 4 * (32 + pad)
        body = lines("mov.u32 %r26, tile", "and.b32 %r20, %r1, 31", "shr.u32 %r21, %r1, 5", "mul.wide.u32 %l10, %r4, 4", "add.u64 %l11, %l1, %l10", "add.u64 %l12, %l2, %l10",
                     f"mul.lo.u32 %r22, %r21, {row}", "shl.b32 %r23, %r20, 2", "add.u32 %r22, %r22, %r23", "add.u32 %r22, %r22, %r26",
                     f"mul.lo.u32 %r24, %r20, {row}", "shl.b32 %r25, %r21, 2", "add.u32 %r24, %r24, %r25", "add.u32 %r24, %r24, %r26")
        move = lines("ld.global.b32 %r11, [%l11]", "st.shared.b32 [%r22], %r11") + "    bar.sync 0;\n" + lines("ld.shared.b32 %r12, [%r24]", "st.global.b32 [%l12], %r12") + "    bar.sync 0;\n"
        kernel(f"transpose_{'padded' if pad else 'plain'}", "transposes tiles of 32 by 32", 2 * SMS, 1024, 60, loop(move), setup=body, finish=None, shared=32 * row,
               buffers=[("a", 2 * SMS * 1024, "index"), ("b", 2 * SMS * 1024, "zero")])
    bodies = lines("mov.u32 %r26, tile", "and.b32 %r20, %r1, 255", "shl.b32 %r20, %r20, 4", "add.u32 %r20, %r26, %r20", "cvt.rn.f32.u32 %f1, %r4", "mul.f32 %f2, %f1, 0f3F000000", "mul.f32 %f3, %f1, 0f3E800000",
                   "st.shared.v4.f32 [%r20], {%f1, %f2, %f3, %f1}", "mov.f32 %f20, 0f00000000", "mov.f32 %f21, 0f00000000", "mov.f32 %f22, 0f00000000", "mov.u32 %r21, %r26") + "    bar.sync 0;\n"
    pull = "".join(lines(f"ld.shared.v4.f32 {{%f4, %f5, %f6, %f7}}, [%r21+{16 * k}]", "sub.f32 %f4, %f4, %f1", "sub.f32 %f5, %f5, %f2", "sub.f32 %f6, %f6, %f3", "fma.rn.f32 %f8, %f4, %f4, 0f3DCCCCCD",
                         "fma.rn.f32 %f8, %f5, %f5, %f8", "fma.rn.f32 %f8, %f6, %f6, %f8", "rsqrt.approx.ftz.f32 %f9, %f8", "mul.f32 %f10, %f9, %f9", "mul.f32 %f10, %f10, %f9",
                         "mul.f32 %f10, %f10, %f7", "fma.rn.f32 %f20, %f4, %f10, %f20", "fma.rn.f32 %f21, %f5, %f10, %f21", "fma.rn.f32 %f22, %f6, %f10, %f22") for k in range(4))
    total = lines("add.f32 %f20, %f20, %f21", "add.f32 %f20, %f20, %f22", "mov.b32 %r10, %f20")
    for blocks, name in ((SMS, "gpu"), (4 * SMS, "full")):
        kernel(f"nbody_{name}", "attraction between bodies", blocks, 256, 200, loop(pull + lines("add.u32 %r21, %r21, 64")) + total, setup=bodies, shared=16384)
    clear = lines("mov.u32 %r26, tile", "shl.b32 %r20, %r1, 2", "add.u32 %r20, %r26, %r20", "mov.u32 %r21, 0", "st.shared.b32 [%r20], %r21") + "    bar.sync 0;\n"
    count = lines("mul.wide.u32 %l10, %r10, 4", "add.u64 %l11, %l1, %l10", "ld.global.b32 %r11, [%l11]", "mul.lo.u32 %r11, %r11, 0x9E3779B1", "shr.u32 %r11, %r11, 24", "shl.b32 %r11, %r11, 2",
                  "add.u32 %r11, %r26, %r11", "atom.shared.add.u32 %r12, [%r11], 1", "add.u32 %r10, %r10, %r5")
    merge = "    bar.sync 0;\n" + lines("ld.shared.b32 %r12, [%r20]", "mul.wide.u32 %l10, %r1, 4", "add.u64 %l10, %l0, %l10", "red.global.add.u32 [%l10], %r12")
    kernel("histogram", "counts of 256 values", 2 * SMS, 256, 32, loop(count) + merge, setup=clear + lines("mov.u32 %r10, %r4"), finish=None, shared=1024,
           buffers=[("a", 32 * 2 * SMS * 256, "index")])
    width = 1024
    stencil = lines("mul.wide.u32 %l10, %r10, 4", "add.u64 %l11, %l1, %l10", "add.u64 %l12, %l2, %l10", "ld.global.f32 %f1, [%l11]", "ld.global.f32 %f2, [%l11+4]", "ld.global.f32 %f3, [%l11+8]",
                    f"ld.global.f32 %f4, [%l11+{4 * width}]", f"ld.global.f32 %f5, [%l11+{8 * width}]", "add.f32 %f1, %f1, %f2", "add.f32 %f3, %f3, %f4", "add.f32 %f1, %f1, %f3", "add.f32 %f1, %f1, %f5",
                    "mul.f32 %f1, %f1, 0f3E4CCCCD", "st.global.f32 [%l12], %f1", "add.u32 %r10, %r10, %r5")
    cells = 16 * 2 * SMS * 256
    kernel("stencil", "means of five neighbours", 2 * SMS, 256, 16, loop(stencil), setup=lines("mov.u32 %r10, %r4"), finish=None,
           buffers=[("a", cells + 4 * width, "zero"), ("b", cells, "zero")])
    scan = "".join(lines(f"shfl.sync.up.b32 %r12|%p1, %r11, {step}, 0, -1", "@%p1 add.u32 %r11, %r11, %r12") for step in (1, 2, 4, 8, 16))
    rows = lines("mul.wide.u32 %l10, %r10, 4", "add.u64 %l11, %l1, %l10", "ld.global.b32 %r11, [%l11]") + scan + lines("st.global.b32 [%l11], %r11", "add.u32 %r10, %r10, %r5")
    kernel("scan_warps", "prefix sums of warps", 4 * SMS, 256, 16, loop(rows), setup=lines("mov.u32 %r10, %r4"), finish=None, buffers=[("a", 16 * 4 * SMS * 256, "index")])
    polynomial = lines("fma.rn.f32 %f11, %f10, 0f3C000000, 0f3D000000") + "".join(lines(f"fma.rn.f32 %f11, %f11, %f10, 0f3{x}000000") for x in "DEF") + lines(
        "ex2.approx.f32 %f12, %f11", "lg2.approx.f32 %f13, %f10", "mul.f32 %f10, %f12, %f13", "add.f32 %f10, %f10, 0f40000000")
    kernel("transcend_gpu", "polynomials, exponentials, logarithms", 2 * SMS, 512, 400, loop(polynomial) + lines("mov.b32 %r10, %f10"), setup=lines("cvt.rn.f32.u32 %f10, %r4", "add.f32 %f10, %f10, 0f3F800000"))


def unseen():
    """Kernels that no figure was fitted to."""
    start = lines("add.u32 %r10, %r4, 3", "add.u32 %r14, %r2, 77", "xor.b32 %r15, %r1, 0x5555")
    shift = "".join(lines("shl.b32 %r11, %r10, 13", "xor.b32 %r10, %r10, %r11", "shr.u32 %r11, %r10, 17", "xor.b32 %r10, %r10, %r11", "shl.b32 %r11, %r10, 5",
                          "xor.b32 %r10, %r10, %r11") for _ in range(2))
    kernel("new_xorshift_gpu", "random numbers by shifts", 2 * SMS, 256, 400, loop(shift), setup=start)
    kernel("new_xorshift_few", "random numbers by shifts, 20 blocks", 20, 128, 400, loop(shift), setup=start)
    kernel("new_remainder_gpu", "remainders", SMS, 128, 150, loop(lines("rem.u32 %r11, %r10, %r14", "mad.lo.u32 %r10, %r11, 7, %r10")), setup=start)
    long = lines("cvt.u64.u32 %l10, %r4", "add.u64 %l11, %l10, 12345678901")
    kernel("new_integer64_gpu", "64-bit sums and products", SMS, 256, 200, loop(lines("mul.lo.u64 %l10, %l10, %l11", "add.u64 %l10, %l10, 77", "xor.b64 %l10, %l10, %l11") * 2)
           + lines("cvt.u32.u64 %r10, %l10"), setup=long)
    angle = lines("cvt.rn.f32.u32 %f10, %r4", "mul.f32 %f10, %f10, 0f3C23D70A")
    kernel("new_sine_gpu", "sines and cosines", 2 * SMS, 256, 200, loop(lines("sin.approx.f32 %f11, %f10", "cos.approx.f32 %f12, %f10", "fma.rn.f32 %f10, %f11, %f12, %f10")) + lines("mov.b32 %r10, %f10"),
           setup=angle)
    kernel("new_sine_warp", "sines and cosines, one warp", 1, 32, 500, loop(lines("sin.approx.f32 %f11, %f10", "cos.approx.f32 %f12, %f10", "fma.rn.f32 %f10, %f11, %f12, %f10")) + lines("mov.b32 %r10, %f10"),
           setup=angle)
    bits = lines("brev.b32 %r11, %r10", "popc.b32 %r12, %r11", "clz.b32 %r13, %r10", "add.u32 %r10, %r11, %r12", "add.u32 %r10, %r10, %r13")
    kernel("new_bits_gpu", "reversed, counted and leading bits", 2 * SMS, 256, 200, loop(bits), setup=start)
    kernel("new_half_convert", "to half precision and back", SMS, 512, 200, loop(lines("cvt.rn.f16.f32 %h1, %f10", "cvt.f32.f16 %f11, %h1", "fma.rn.f32 %f10, %f11, 0f3F000000, 0f3F800000") * 2)
           + lines("mov.b32 %r10, %f10"), setup=angle)
    # A row of a matrix for each warp, four words a lane.
    row = lines("shr.u32 %r20, %r4, 5", "and.b32 %r21, %r4, 31", "shl.b32 %r22, %r20, 9", "add.u32 %r22, %r22, %r21", "mul.wide.u32 %l10, %r22, 16", "add.u64 %l10, %l1, %l10", "mul.wide.u32 %l11, %r21, 16",
                "add.u64 %l11, %l2, %l11", "mov.f32 %f20, 0f00000000")
    dot = lines("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%l10]", "ld.global.v4.f32 {%f5, %f6, %f7, %f8}, [%l11]", "fma.rn.f32 %f20, %f1, %f5, %f20", "fma.rn.f32 %f20, %f2, %f6, %f20",
                "fma.rn.f32 %f20, %f3, %f7, %f20", "fma.rn.f32 %f20, %f4, %f8, %f20", "add.u64 %l10, %l10, 512", "add.u64 %l11, %l11, 512")
    fold = "".join(lines("mov.b32 %r30, %f20", f"shfl.sync.down.b32 %r31, %r30, {step}, 31, -1", "mov.b32 %f21, %r31", "add.f32 %f20, %f20, %f21") for step in (16, 8, 4, 2, 1)) + lines("mov.b32 %r10, %f20")
    kernel("new_matrix_vector", "a matrix of 4,224 by 2,048 times a vector", 4 * SMS, 256, 16, loop(dot) + fold, setup=row, buffers=[("a", 4 * SMS * 8 * 2048, "zero"), ("b", 2048, "zero")])
    # Softmax of rows of 1,024 in registers and shared memory.
    part = lines("mul.wide.u32 %l10, %r4, 16", "add.u64 %l10, %l1, %l10", "mov.u32 %r26, tile", "shr.u32 %r27, %r1, 5", "shl.b32 %r27, %r27, 2", "add.u32 %r27, %r26, %r27", "and.b32 %r28, %r1, 31",
                 "setp.eq.u32 %p2, %r28, 0")
    powers = lines("ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%l10]", *[f"mul.f32 %f{x}, %f{x}, 0f3FB8AA3B" for x in range(1, 5)], *[f"ex2.approx.f32 %f{x}, %f{x}" for x in range(1, 5)],
                   "add.f32 %f20, %f1, %f2", "add.f32 %f21, %f3, %f4", "add.f32 %f20, %f20, %f21") + fold + lines("@%p2 st.shared.f32 [%r27], %f20") + "    bar.sync 0;\n" \
        + lines("ld.shared.v4.f32 {%f5, %f6, %f7, %f8}, [%r26]", "ld.shared.v4.f32 {%f9, %f10, %f11, %f12}, [%r26+16]", *[f"add.f32 %f5, %f5, %f{x}" for x in range(6, 13)], "rcp.approx.f32 %f5, %f5",
                *[f"mul.f32 %f{x}, %f{x}, %f5" for x in range(1, 5)], "st.global.v4.f32 [%l10], {%f1, %f2, %f3, %f4}") + "    bar.sync 0;\n"
    kernel("new_softmax", "softmax of rows of 1,024, some rounds", 8 * SMS, 256, 8, loop(powers), setup=part, shared=64, finish=None, buffers=[("a", 8 * SMS * 1024, "zero")])
    # A register tile of four by four from shared memory.
    grid4 = lines("mov.u32 %r26, tile", "and.b32 %r20, %r1, 15", "shr.u32 %r21, %r1, 4", "shl.b32 %r20, %r20, 4", "shl.b32 %r21, %r21, 4", "add.u32 %r20, %r26, %r20", "add.u32 %r21, %r26, %r21",
                  "shl.b32 %r22, %r1, 4", "add.u32 %r22, %r26, %r22", "mov.f32 %f1, 0f3F800000", "st.shared.v4.f32 [%r22], {%f1, %f1, %f1, %f1}", *[f"mov.f32 %f{x}, 0f00000000" for x in range(20, 36)]) + "    bar.sync 0;\n"
    tile4 = "".join(lines(f"ld.shared.v4.f32 {{%f1, %f2, %f3, %f4}}, [%r20+{256 * k}]", f"ld.shared.v4.f32 {{%f5, %f6, %f7, %f8}}, [%r21+{4096 + 256 * k}]")
                    + "".join(lines(f"fma.rn.f32 %f{20 + 4 * a + b}, %f{1 + a}, %f{5 + b}, %f{20 + 4 * a + b}") for a in range(4) for b in range(4)) for k in range(8))
    collect = lines(*[f"add.f32 %f20, %f20, %f{x}" for x in range(21, 36)], "mov.b32 %r10, %f20")
    kernel("new_register_tile", "products of tiles in shared memory", 2 * SMS, 256, 40, loop(tile4) + collect, setup=grid4, shared=8192)
    # Hillis and Steele's scan in shared memory.
    place = lines("mov.u32 %r26, tile", "shl.b32 %r20, %r1, 2", "add.u32 %r20, %r26, %r20", "mov.u32 %r10, %r1")
    steps = "".join(lines("st.shared.b32 [%r20], %r10") + "    bar.sync 0;\n" + lines(f"setp.ge.u32 %p1, %r1, {step}", "mov.u32 %r11, 0", f"@%p1 ld.shared.b32 %r11, [%r20+-{4 * step}]", "add.u32 %r10, %r10, %r11") + "    bar.sync 0;\n"
                    for step in (1, 2, 4, 8, 16, 32, 64, 128))
    kernel("new_block_scan", "prefix sums of blocks of 256", 4 * SMS, 256, 20, loop(steps), setup=place, shared=1024)
    # Bitonic steps in shared memory.
    network = "".join(lines("st.shared.b32 [%r20], %r10") + "    bar.sync 0;\n" + lines(f"xor.b32 %r12, %r1, {step}", "shl.b32 %r12, %r12, 2", "add.u32 %r12, %r26, %r12", "ld.shared.b32 %r11, [%r12]", f"and.b32 %r13, %r1, {step}", "setp.eq.u32 %p1, %r13, 0", "min.u32 %r16, %r10, %r11",
                                                                                     "max.u32 %r17, %r10, %r11", "selp.b32 %r10, %r16, %r17, %p1") + "    bar.sync 0;\n" for step in (256, 128, 64, 32, 16, 8, 4, 2, 1))
    kernel("new_sort_network", "steps of a sorting network on 512 words", SMS, 512, 20, loop(network), setup=place + lines("mul.lo.u32 %r10, %r4, 0x9E3779B1"), shared=2048)
    wide_store = lines(f"mul.lo.u32 %r11, %r10, 64", f"and.b32 %r11, %r11, {(1 << 22) - 1}", "mul.wide.u32 %l10, %r11, 4", "add.u64 %l11, %l1, %l10", "st.global.b32 [%l11], %r10", "add.u32 %r10, %r10, %r5")
    kernel("new_strided_stores", "stores of every 64th word", SMS, 256, 64, loop(wide_store), setup=lines("mov.u32 %r10, %r4"), finish=None, buffers=[("a", 1 << 22, "zero")])
    twice = lines("mul.wide.u32 %l10, %r10, 4", "add.u64 %l11, %l1, %l10", "add.u64 %l12, %l2, %l10", "ld.global.f32 %f1, [%l11]", "ld.global.f32 %f2, [%l12]", "fma.rn.f32 %f20, %f1, %f2, %f20", "add.u32 %r10, %r10, %r5")
    zero = lines("mov.u32 %r10, %r4", "mov.f32 %f20, 0f00000000")
    kernel("new_dot_dram", "a scalar product of long vectors", 4 * SMS, 512, (16 << 20) // (4 * SMS * 512), loop(twice) + lines("mov.b32 %r10, %f20"), setup=zero, buffers=[("a", 16 << 20, "zero"), ("b", 16 << 20, "zero")])
    kernel("new_dot_thin", "a scalar product, a warp on each multiprocessor", SMS, 32, 60, loop(twice) + lines("mov.b32 %r10, %f20"), setup=zero, buffers=[("a", SMS * 32 * 60, "zero"), ("b", SMS * 32 * 60, "zero")])
    # Random branches of a state machine.
    machine = lines("mad.lo.u32 %r10, %r10, 1664525, 1013904223", "shr.u32 %r11, %r10, 30", "setp.eq.u32 %p1, %r11, 0", "@%p1 bra A0", "setp.eq.u32 %p2, %r11, 1", "@%p2 bra A1", "xor.b32 %r12, %r12, %r10", "shr.u32 %r12, %r12, 1") \
        + "    bra A9;\nA0:\n" + lines("mad.lo.u32 %r12, %r12, %r10, 5") + "    bra A9;\nA1:\n" + lines("add.u32 %r12, %r12, %r10", "popc.b32 %r13, %r12", "add.u32 %r12, %r12, %r13") + "A9:\n"
    kernel("new_states_gpu", "a state machine with random branches", SMS, 256, 150, loop(machine), setup=lines("mul.lo.u32 %r10, %r4, 7919", "mov.u32 %r12, 1"), finish="%r12")
    spread = lines("mad.lo.u32 %r10, %r10, 1664525, 1013904223", "shr.u32 %r11, %r10, 16", "mul.wide.u32 %l10, %r11, 4", "add.u64 %l10, %l1, %l10", "atom.global.max.u32 %r12, [%l10], %r10", "add.u32 %r13, %r13, %r12")
    kernel("new_atomic_max", "maxima at 65,536 words", SMS, 256, 40, loop(spread), setup=lines("mul.lo.u32 %r10, %r4, 7919", "mov.u32 %r13, 0"), finish="%r13", buffers=[("a", 1 << 16, "zero")])
    kernel("new_vote_count", "counts by votes into one word of shared memory", 2 * SMS, 256, 100, loop(lines("mad.lo.u32 %r10, %r10, 1664525, 1013904223", "setp.lt.s32 %p1, %r10, 0", "vote.sync.ballot.b32 %r11, %p1, -1", "popc.b32 %r11, %r11",
           "setp.eq.u32 %p2, %r28, 0", "@%p2 atom.shared.add.u32 %r12, [%r26], %r11")), setup=lines("mov.u32 %r26, tile", "mul.lo.u32 %r10, %r4, 7919", "and.b32 %r28, %r1, 31"), shared=128)
    held = lines("mov.u32 %r26, tile", "shl.b32 %r20, %r1, 2", "add.u32 %r20, %r26, %r20", "mov.u32 %r10, %r4", "st.shared.b32 [%r20], %r10") + "    bar.sync 0;\n"
    kernel("new_low_occupancy", "blocks of 40 KiB of shared memory", 5 * SMS, 64, 300, loop(lines("ld.shared.b32 %r11, [%r20+256]", "mad.lo.u32 %r10, %r10, %r11, %r10", "st.shared.b32 [%r20+256], %r10")), setup=held, shared=40960)
    doubles = lines("mul.wide.u32 %l10, %r10, 8", "add.u64 %l11, %l1, %l10", "add.u64 %l12, %l2, %l10", "ld.global.f64 %d1, [%l11]", "ld.global.f64 %d2, [%l11+8]", "ld.global.f64 %d3, [%l11+16]", "add.f64 %d1, %d1, %d3",
                    "fma.rn.f64 %d1, %d2, 0d4000000000000000, %d1", "mul.f64 %d1, %d1, 0d3FD0000000000000", "st.global.f64 [%l12], %d1", "add.u32 %r10, %r10, %r5")
    cells = 12 * 2 * SMS * 512
    kernel("new_double_stencil", "means of three neighbours in double precision", 2 * SMS, 512, 12, loop(doubles), setup=lines("mov.u32 %r10, %r4"), finish=None, buffers=[("a", 2 * cells + 64, "zero"), ("b", 2 * cells, "zero")])
    taps = "".join(lines(f"ld.shared.f32 %f1, [%r20+{4 * k}]", f"fma.rn.f32 %f20, %f1, 0f3E{k:02d}0000, %f20") for k in range(9))
    kernel("new_convolution", "nine taps from shared memory", 4 * SMS, 256, 100, loop(taps + lines("mul.f32 %f20, %f20, 0f3F000000")) + lines("mov.b32 %r10, %f20"),
           setup=lines("mov.u32 %r26, tile", "shl.b32 %r20, %r1, 2", "add.u32 %r20, %r26, %r20", "cvt.rn.f32.u32 %f1, %r4", "st.shared.f32 [%r20], %f1", "st.shared.f32 [%r20+64], %f1", "mov.f32 %f20, 0f00000000") + "    bar.sync 0;\n", shared=2048)


def main():
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.ptx"):
        old.unlink()
    for part in (arithmetic, lanes, shared_memory, global_memory, control, applications, unseen):
        part()
    print(len(WRITTEN), "kernels")


main()
