"""Compile every kernel ahead of time for one target and print what the compiler says of each, as JSON lines.

Runs in a process of its own, because kernels compile only where they are not interpreted.
Usage: compile_kernels.py BACKEND ARCH DTYPE...
"""

import contextlib
import importlib
import io
import json
import re
import sys
import time

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from wirezip import codecs
from wirezip.codecs.tiles import launch
from wirezip.floats import parse_dtype

WARP_SIZES = {"cuda": 32, "hip": 64}
ARGUMENTS = {
    "body_ptr": "*u8",
    "job_ptr": "*i64",
    "state_ptr": "*i64",
    "choice_ptr": "*i32",
    "error_ptr": "*i64",
    "scratch_ptr": "*u8",
    "numel": "i64",
    "body_bytes": "i64",
    "num_tasks": "i64",
    "G": "constexpr",
}


def kernels_of(name, dtype):
    """Yield kernel, geometry, warps and limit of registers of everything a codec launches on a tensor or a batch."""
    codec = codecs.get(name)
    tiles = codec.geometry(1 << 20, dtype)
    host = importlib.import_module(f"wirezip.codecs.{name}.gpu")
    encoding = importlib.import_module(f"wirezip.codecs.{name}.kernels")
    decoding = importlib.import_module(f"wirezip.codecs.{name}.kernels_decode")
    limit_of = getattr(host, "register_limit", lambda kind, tiles: 0)
    # The look-up of a batch does not depend on the dtype.
    batch = [launch.Variant(batch=True, slack=True)] if dtype == torch.bfloat16 else []
    for variant in (launch.Variant(), *batch):
        geometry = host.geometry_of(tiles, variant)
        if name == "window":
            yield encoding.choose_kernel, geometry, host.CHOOSE_WARPS, 0
        yield encoding.encode_kernel, geometry, host.warps_of(tiles), limit_of("encode", tiles)
        yield decoding.decode_kernel, geometry, host.warps_of(tiles), limit_of("decode", tiles)


def compile_kernel(kernel, geometry, warps, limit, dtype, target):
    """Return the compiled kernel and the log of the assembler."""
    words = {"words_ptr": f"*u{8 * dtype.itemsize}"}
    signature = {name: (words | ARGUMENTS)[name] for name in kernel.arg_names}
    aligned = [i for i, name in enumerate(kernel.arg_names) if name.endswith("_ptr")]
    source = ASTSource(
        fn=kernel,
        signature=signature,
        constexprs={(kernel.arg_names.index("G"),): geometry},
        attrs={(i,): [["tt.divisibility", 16]] for i in aligned},
    )
    options = {"num_warps": warps} | ({"maxnreg": limit} if limit and target.backend == "cuda" else {})
    log = io.StringIO()
    with contextlib.redirect_stdout(log):
        compiled = triton.compile(source, target=target, options=options)
    return compiled, log.getvalue()


def facts(compiled, log):
    """Return registers and the bytes of local memory, as far as the backend tells."""
    if "ptx" in compiled.asm:
        return {
            "local_accesses": len(re.findall(r"\b(?:ld|st)\.local", compiled.asm["ptx"])),
            "spill_bytes": sum(map(int, re.findall(r"(\d+) bytes spill", log))),
            "registers": max(map(int, re.findall(r"Used (\d+) registers", log)), default=None),
        }
    found = re.findall(r"\.(private_segment_fixed_size|vgpr_count|vgpr_spill_count):\s+(\d+)", compiled.asm["amdgcn"])
    numbers = {name: int(number) for name, number in found}
    return {
        "local_accesses": numbers["private_segment_fixed_size"],
        "spill_bytes": 4 * numbers["vgpr_spill_count"],
        "registers": numbers["vgpr_count"],
    }


def main(backend, arch, *dtypes):
    """Compile and print."""
    triton.knobs.nvidia.dump_ptxas_log = True
    target = GPUTarget(backend, int(arch) if arch.isdigit() else arch, WARP_SIZES[backend])
    for dtype in map(parse_dtype, dtypes):
        for name in ("window", "rans"):
            for kernel, geometry, warps, limit in kernels_of(name, dtype):
                started = time.perf_counter()
                compiled, log = compile_kernel(kernel, geometry, warps, limit, dtype, target)
                row = {"codec": name, "kernel": kernel.__name__, "dtype": str(dtype), "warps": warps}
                row |= {"limit": limit, "batch": geometry.batch}
                row |= facts(compiled, log)
                print(json.dumps(row | {"compile_s": round(time.perf_counter() - started, 2)}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
