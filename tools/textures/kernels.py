#!/usr/bin/env python3
"""Writes the kernels of the probes as PTX, a file for each: fetches, stores, reductions and queries of one texture or surface.

    python3 tools/textures/kernels.py FOLDER
    for file in FOLDER/*.ptx; do ptxas -arch=sm_90 $file -o ${file%.ptx}.cubin; done

Thread i reads eight words of input (x y z w a b c d), executes one instruction and writes four words of result. The driver refuses modules with some of
the instructions, so each kernel is a module of its own.
"""

import pathlib
import sys

HEADER = """\
.version 8.1
.target {target}
.address_size 64
"""
KERNEL = """
.visible .entry {name}(.param .u64 t, .param .u64 s, .param .u64 in, .param .u64 out, .param .u32 n)
{{
    .reg .b64 %t, %s, %i, %o, %w;
    .reg .b32 %n, %k, %c, %b, %l;
    .reg .b32 %x<8>, %r<4>;
    .reg .pred %p;
    mov.u32 %c, %ctaid.x;
    mov.u32 %b, %ntid.x;
    mov.u32 %l, %tid.x;
    mad.lo.u32 %k, %c, %b, %l;
    ld.param.u32 %n, [n];
    setp.ge.u32 %p, %k, %n;
    @%p exit;
    ld.param.u64 %t, [t];
    ld.param.u64 %s, [s];
    ld.param.u64 %i, [in];
    mad.wide.u32 %i, %k, 32, %i;
    ld.param.u64 %o, [out];
    mad.wide.u32 %o, %k, 16, %o;
    ld.global.v4.b32 {{%x0, %x1, %x2, %x3}}, [%i];
    ld.global.v4.b32 {{%x4, %x5, %x6, %x7}}, [%i+16];
    mov.b32 %r0, 0;
    mov.b32 %r1, 0;
    mov.b32 %r2, 0;
    mov.b32 %r3, 0;
    mov.b64 %w, {{%x4, %x5}};
    {body};
    st.global.v4.b32 [%o], {{%r0, %r1, %r2, %r3}};
    ret;
}}
"""
RESULT, ALL, TWO = "{%r0, %r1, %r2, %r3}", "{%x0, %x1, %x2, %x3}", "{%x0, %x1}"
FETCHES = {
    "tex_1d": f"tex.1d.v4.f32.f32 {RESULT}, [%t, {{%x0}}]",
    "tex_2d": f"tex.2d.v4.f32.f32 {RESULT}, [%t, {TWO}]",
    "tex_3d": f"tex.3d.v4.f32.f32 {RESULT}, [%t, {ALL}]",
    "tex_cube": f"tex.cube.v4.f32.f32 {RESULT}, [%t, {ALL}]",
    "tex_level_1d": f"tex.level.1d.v4.f32.f32 {RESULT}, [%t, {{%x0}}], %x3",
    "tex_level_2d": f"tex.level.2d.v4.f32.f32 {RESULT}, [%t, {TWO}], %x3",
    "tex_level_3d": f"tex.level.3d.v4.f32.f32 {RESULT}, [%t, {ALL}], %x3",
    "tex_grad_1d": f"tex.grad.1d.v4.f32.f32 {RESULT}, [%t, {{%x0}}], {{%x4}}, {{%x6}}",
    "tex_grad_2d": f"tex.grad.2d.v4.f32.f32 {RESULT}, [%t, {TWO}], {{%x4, %x5}}, {{%x6, %x7}}",
    "tex_grad_3d": f"tex.grad.3d.v4.f32.f32 {RESULT}, [%t, {ALL}], {{%x3, %x4, %x5, %x5}}, {{%x6, %x7, %x1, %x1}}",
    "tex_grad_cube": f"tex.grad.cube.v4.f32.f32 {RESULT}, [%t, {ALL}], {{%x3, %x4, %x5, %x5}}, {{%x6, %x7, %x1, %x1}}",
    "tld4_2d": f"tld4.r.2d.v4.f32.f32 {RESULT}, [%t, {TWO}]",
    "tex_2d_compare": f"tex.2d.v4.f32.f32 {RESULT}, [%t, {TWO}], %x4",
    "tex_level_2d_compare": f"tex.level.2d.v4.f32.f32 {RESULT}, [%t, {TWO}], %x3, %x4",
    "tex_cube_compare": f"tex.cube.v4.f32.f32 {RESULT}, [%t, {ALL}], %x4",
    "tld4_2d_compare": f"tld4.r.2d.v4.f32.f32 {RESULT}, [%t, {TWO}], %x4",
    "tex_2dms": f"tex.2dms.v4.f32.s32 {RESULT}, [%t, {ALL}]",
}
QUERIES = {
    "txq": ("width", "height", "depth", "channel_data_type", "channel_order", "normalized_coords", "array_size", "num_mipmap_levels", "num_samples", "filter_mode", "addr_mode_0", "addr_mode_1", "addr_mode_2"),
    "suq": ("width", "height", "depth", "channel_data_type", "channel_order", "array_size", "memory_layout"),
}
SAMPLER_QUERIES = ("force_unnormalized_coords", "filter_mode", "addr_mode_0", "addr_mode_1", "addr_mode_2")
DATA = {"": "%x4", ".v2": "{%x4, %x5}", ".v4": "{%x4, %x5, %x6, %x7}"}


def unified():
    kernels = dict(FETCHES)
    for opcode, properties in QUERIES.items():
        kernels |= {f"{opcode}_{name}": f"{opcode}.{name}.b32 %r0, [%t]" for name in properties}
    kernels |= {f"txq_level_{name}": f"txq.level.{name}.b32 %r0, [%t], %x0" for name in ("width", "height", "depth")}
    for mode in ("trap", "clamp", "zero"):
        for vector, data in DATA.items():
            count = vector.lstrip(".")
            kernels[f"sust_p_1d{count}_{mode}"] = f"sust.p.1d{vector}.b32.{mode} [%t, {{%x0}}], {data}"
        kernels[f"sust_p_2d_{mode}"] = f"sust.p.2d.v4.b32.{mode} [%t, {TWO}], {DATA['.v4']}"
        kernels[f"sust_p_3d_{mode}"] = f"sust.p.3d.v4.b32.{mode} [%t, {ALL}], {DATA['.v4']}"
        kernels[f"sust_p_a1d_{mode}"] = f"sust.p.a1d.v4.b32.{mode} [%t, {{%x2, %x0}}], {DATA['.v4']}"
        kernels[f"suld_b_2d_{mode}"] = f"suld.b.2d.b32.{mode} %r0, [%t, {TWO}]"
        kernels[f"suld_b_2dv4_{mode}"] = f"suld.b.2d.v4.b32.{mode} {RESULT}, [%t, {TWO}]"
        kernels[f"suld_b_2db8_{mode}"] = f"suld.b.2d.b8.{mode} %r0, [%t, {TWO}]"
        kernels[f"sust_b_2d_{mode}"] = f"sust.b.2d.b32.{mode} [%t, {TWO}], %x4"
        kernels[f"suld_b_a2d_{mode}"] = f"suld.b.a2d.b32.{mode} %r0, [%t, {{%x2, %x0, %x1, %x1}}]"
    for operation in ("add", "min", "max", "and", "or"):
        kernels[f"sured_p_{operation}"] = f"sured.p.{operation}.1d.b32.trap [%t, {{%x0}}], %x4"
        kernels[f"sured_p_2d_{operation}"] = f"sured.p.{operation}.2d.b32.zero [%t, {TWO}], %x4"
    for operation in ("min", "max"):
        kernels[f"sured_p_{operation}_b64"] = f"sured.p.{operation}.1d.b64.trap [%t, {{%x0}}], %w"
    return kernels


def independent():
    kernels = {"pair_2d": f"tex.2d.v4.f32.f32 {RESULT}, [%t, %s, {TWO}]", "pair_level_2d": f"tex.level.2d.v4.f32.f32 {RESULT}, [%t, %s, {TWO}], %x3"}
    kernels["pair_3d"] = f"tex.3d.v4.f32.f32 {RESULT}, [%t, %s, {ALL}]"
    kernels["pair_grad_2d"] = f"tex.grad.2d.v4.f32.f32 {RESULT}, [%t, %s, {TWO}], {{%x4, %x5}}, {{%x6, %x7}}"
    kernels["pair_gather"] = f"tld4.r.2d.v4.f32.f32 {RESULT}, [%t, %s, {TWO}]"
    kernels["pair_compare"] = f"tex.2d.v4.f32.f32 {RESULT}, [%t, %s, {TWO}], %x4"
    return kernels | {f"sampler_{name}": f"txq.{name}.b32 %r0, [%s]" for name in SAMPLER_QUERIES}


def main():
    folder = pathlib.Path(sys.argv[1])
    for target, kernels in (("sm_75", unified()), ("sm_75, texmode_independent", independent())):
        for name, body in kernels.items():
            (folder / f"{name}.ptx").write_text(HEADER.format(target=target) + KERNEL.format(name=name, body=body))


if __name__ == "__main__":
    main()
