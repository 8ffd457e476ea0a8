#!/usr/bin/env python3
"""Writes the GE dump and ATB files beside it, and those of the fuzzers' corpus."""

import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "python"))
import ge_dumps as ge  # noqa: E402

CORPUS = HERE.parents[2] / "fuzz" / "corpus"


def main():
    count = np.arange(6, dtype=np.float32).reshape(2, 3)
    plain = np.arange(2 * 3 * 2 * 2, dtype=np.float16).reshape(2, 3, 2, 2)
    files = {
        "ge_plain.dump": ge.dump_bytes(
            [ge.Tensor(count), ge.Tensor(count.astype(np.int64), packed=False)],
            [ge.Tensor(count.astype(np.float16)), ge.Tensor(ge.bfloat16(count)[0], "bfloat16")],
            buffers=[b"buf"], spaces=[b"space"],
        ),
        "ge_layouts.dump": ge.dump_bytes(
            [ge.Tensor(ge.pack_nz(plain.reshape(4, 6), 16, 16), original=(4, 6), layout="FRACTAL_NZ"),
             ge.Tensor(ge.pack_nc1hwc0(plain), original=plain.shape, layout="NC1HWC0")],
            [ge.Tensor(ge.pack_fractal_z(plain), original=plain.shape, layout="FRACTAL_Z"),
             ge.Tensor(ge.pack_fractal_z_grouped(plain, 2), original=plain.shape, layout="FRACTAL_Z", sub_format=2),
             ge.Tensor(plain.transpose(0, 2, 3, 1), original=plain.shape, layout="NHWC")],
        ),
        "ge_packed.dump": ge.dump_bytes(
            [ge.Tensor(bytes([0x10, 0xF2]), "int4", (4,)), ge.Tensor(bytes([0xA1]), "uint1", (8,))],
            [ge.Tensor(bytes([0x00, 0x80, 0x08, 0x6F, 0xEF]), "hifloat8", (5,)),
             ge.Tensor(bytes([0x7F, 0xFF, 0x38]), "float8_e4m3fn", (3,)),
             ge.Tensor(bytes([0x7C, 0xFC, 0x3C]), "float8_e5m2", (3,)), ge.Tensor(b"text", "string", (1,))],
        ),
    }  # fmt: skip
    for name, data in files.items():
        (HERE / name).write_bytes(data)
        (CORPUS / "ge_dump" / name.replace(".", "_")).write_bytes(data)
    head = "$Version=1.0\n$Object.Count=1\n$Object.Length=24\nformat=2\ndtype=0\ndims=2,3\n$Object.data=0,24\n$End=1\n"
    (HERE / "atb.bin").write_bytes(head.encode() + count.tobytes())
    (CORPUS / "atb_bin" / "float32").write_bytes(head.encode() + count.tobytes())
    attribute = 'attr {\n  key: "_executor {"\n  value {\n    s: "a \\"quoted\\" \\303\\251"\n  }\n}\n'
    add = ("Add_2", ["a: b:0", "arg1_1:0", "x:-1"], ["add-aten.add.Tensor.OUTPUT.0"])
    graph = ge.graph_text([add, ("Relu_3", ["Add_2:0"], [])], attribute)
    (CORPUS / "graph_text" / "graph").write_text(graph)


if __name__ == "__main__":
    main()
