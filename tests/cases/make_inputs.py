#!/usr/bin/env python3
"""Writes the input files of the cases. Needs only the standard library; run it again after changing it."""

import json
import math
import pathlib
import struct

HERE = pathlib.Path(__file__).resolve().parent
NUMPY_CODE = {"f": "<f4", "d": "<f8", "e": "<f2", "i": "<i4", "q": "<i8"}
SAFETENSORS_CODE = {"f": "F32", "d": "F64", "e": "F16", "i": "I32", "q": "I64"}
nan, inf = math.nan, math.inf


def npy(path, values, shape=None, code="f"):
    shape = tuple([len(values)] if shape is None else shape)
    text = f"{{'descr': '{NUMPY_CODE[code]}', 'fortran_order': False, 'shape': {shape}, }}"
    text += " " * (-(len(text) + 11) % 64) + "\n"
    data = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode()
    write(path, data + struct.pack(f"<{len(values)}{code}", *values))


def safetensors(path, tensors):
    """tensors: {name: (code, shape, values)}"""
    header, data = {}, b""
    for name, (code, shape, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}{code}", *values)
        header[name] = {
            "dtype": SAFETENSORS_CODE[code],
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(packed)],
        }
        data += packed
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    write(path, struct.pack("<Q", len(text)) + text + data)


def write(path, data):
    path = HERE / path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def two_files(case, target, golden, **kinds):
    npy(f"{case}/target.npy", target, **kinds)
    npy(f"{case}/golden.npy", golden, **kinds)


RAMP = [0.5 * i for i in range(6)]
WRONG = RAMP[:4] + [2.5, 2.5]

# Pairs of single tensors.
two_files("compare_pass", [1.000001, 1e-6, -3], [1, 0, -3])
two_files("compare_fail", WRONG, RAMP, shape=[2, 3])
two_files("compare_nan_mismatch", [1, nan, 3, inf, nan], [1, 2, 3, -inf, nan])
for case in ("compare_dtype_differs", "compare_check_dtype"):
    npy(f"{case}/target.npy", [1, 2, 3], code="e")
    npy(f"{case}/golden.npy", [1, 2, 3], code="f")
npy("compare_shape_mismatch/target.npy", RAMP, shape=[2, 3])
npy("compare_shape_mismatch/golden.npy", RAMP[:4], shape=[2, 2])
npy("compare_reshaped/target.npy", RAMP, shape=[2, 3])
npy("compare_reshaped/golden.npy", RAMP, shape=[3, 2])
two_files("compare_tolerance", [1.0, 2.02, 0.001], [1.0, 2.0, 0.0])
for case in (
    "output_dev_full",
    "output_bad_ending",
    "output_below_a_file",
    "output_not_writable",
    "output_stdout",
    "output_folder",
    "mistakes",
    "stdout_dev_full",
    "closed_pipe",
    "permission_denied",
):
    two_files(case, WRONG, RAMP)

# One column of three is off, by more in some rows than in others; and a row that is NaN.
two_files(
    "compare_worst",
    [float(i) + (0.25 * (i // 8) if i % 8 == 5 else 0) for i in range(48)],
    [float(i) for i in range(48)],
    shape=[2, 3, 8],
)
two_files(
    "compare_worst_nan",
    [nan if i // 4 == 2 else i + 100.0 * (i == 1) for i in range(16)],
    [float(i) for i in range(16)],
    shape=[4, 4],
)

# Folders and checkpoints.
for name, (code, shape, target, golden) in {
    "equal": ("f", [3], [1, 2, 3], [1, 2, 3]),
    "scalar": ("d", [], [1.5], [1.5]),
    "empty": ("f", [0, 4], [], []),
    "whole": ("q", [2], [7, -9], [7, -9]),
}.items():
    npy(f"compare_folders/target/{name}.npy", target, shape, code)
    npy(f"compare_folders/golden/{name}.npy", golden, shape, code)
safetensors(
    "compare_unmatched/target.safetensors", {"a": ("f", [1], [1]), "new": ("f", [2], [1, 2]), "b": ("f", [1], [2])}
)
safetensors(
    "compare_unmatched/golden.safetensors", {"b": ("f", [1], [2]), "old": ("i", [1], [1]), "a": ("f", [1], [1])}
)
safetensors(
    "compare_fuzzy/target.safetensors",
    {
        "module.layer.1.w": ("f", [1], [1]),
        "module.layer.10.w": ("f", [1], [10]),
        "conv.4.forward.input.0": ("f", [1], [4]),
        "conv.9.forward.input.0": ("f", [1], [9]),
        "layer.2.w": ("f", [1], [2]),
    },
)
safetensors(
    "compare_fuzzy/golden.safetensors",
    {
        "layer.1.w": ("f", [1], [1]),
        "layer.10.w": ("f", [1], [10]),
        "layer.20.w": ("f", [1], [2]),
        "conv.0.forward.input.0": ("f", [1], [4]),
        "conv.1.forward.input.0": ("f", [1], [9]),
    },
)
for case in ("compare_position", "compare_zero_pairs"):
    safetensors(f"{case}/target.safetensors", {"x": ("f", [1], [1]), "y": ("f", [1], [2])})
    safetensors(f"{case}/golden.safetensors", {"p": ("f", [1], [1]), "q": ("f", [1], [2])})
safetensors("compare_position/longer.safetensors", {"p": ("f", [1], [1]), "q": ("f", [1], [2]), "r": ("f", [1], [3])})
safetensors("compare_rename/target.safetensors", {"npu.h.1.w": ("f", [1], [1]), "npu.h.10.w": ("f", [1], [10])})
safetensors("compare_rename/golden.safetensors", {"gpu.layer.7.w": ("f", [1], [1]), "gpu.h.10.w": ("f", [1], [10])})
long_name = "n" * 10_000
safetensors("names_long/target.safetensors", {long_name: ("f", [1], [1])})
safetensors("names_long/golden.safetensors", {long_name: ("f", [1], [2])})

MANY_TARGET = {
    "a.good": ("f", [2], [1, 2]),
    "b.off_by_a_bit": ("f", [2], [1.5, 2]),
    "c.nan": ("f", [1], [nan]),
    "d.only_target": ("f", [1], [0]),
    "e.far_off": ("f", [2], [100, -100]),
    "f.half": ("e", [2], [0.5, 0.25]),
}
MANY_GOLDEN = {
    "a.good": ("f", [2], [1, 2]),
    "b.off_by_a_bit": ("f", [2], [1, 2]),
    "c.nan": ("f", [1], [1]),
    "e.far_off": ("f", [2], [1, 2]),
    "f.half": ("e", [2], [0.5, 0.25]),
    "g.only_golden": ("f", [1], [0]),
}
for case in (
    "report_formats",
    "report_sort",
    "report_only",
    "report_top",
    "report_quiet",
    "report_threads",
    "compare_strict",
):
    safetensors(f"{case}/target.safetensors", MANY_TARGET)
    safetensors(f"{case}/golden.safetensors", MANY_GOLDEN)

# Damage.
for side in ("target", "golden"):
    for name in ("first", "second", "third"):
        npy(f"damaged_file/{side}/{name}.npy", RAMP)
broken = HERE / "damaged_file/target/second.npy"
broken.write_bytes(broken.read_bytes()[:-5])
npy("damaged_only/target/one.npy", RAMP)
npy("damaged_only/golden/one.npy", RAMP)
broken = HERE / "damaged_only/target/one.npy"
broken.write_bytes(broken.read_bytes()[:20])

# inspect
safetensors(
    "inspect_table/model.safetensors",
    {
        "embed.weight": ("f", [2, 3], RAMP),
        "layer.0.bias": ("e", [2], [0.5, nan]),
        "layer.0.mask": ("i", [4], [0, 1, 0, -2]),
        "scale": ("d", [], [2.0]),
    },
)
for case in ("inspect_stats", "inspect_formats", "inspect_only"):
    write(f"{case}/model.safetensors", (HERE / "inspect_table/model.safetensors").read_bytes())
npy("inspect_damaged/dump/good.npy", RAMP)
write("inspect_damaged/dump/bad.npy", b"\x93NUMPY\x01\x00\xff\xff{'descr'")
write("inspect_damaged/dump/notes.txt", b"not a tensor\n")
npy("inspect_missing/here.npy", RAMP)
npy("names_awkward/one.npy", [1])
npy("names_awkward/two.npy", [2])
npy("symlink_loop/target/w.npy", RAMP)
npy("symlink_loop/golden/w.npy", RAMP)


# Graph mode: a dump file with one float32 output, encoded by hand.
def field(number, value):
    """A number, or bytes with their length; small ones only."""
    return bytes([number << 3, value]) if isinstance(value, int) else bytes([number << 3 | 2, len(value)]) + value


def ge_dump(path, values):
    data = struct.pack(f"<{len(values)}f", *values)
    shape = field(1, bytes([len(values)]))
    output = field(1, 1) + field(2, 2) + field(3, shape) + field(6, len(data)) + field(7, shape) + field(9, 1)
    header = field(1, b"2.0") + field(3, output)
    write(path, struct.pack("<Q", len(header)) + header + data)


def graph(path, nodes):
    text = 'name: "graph_1"\n'
    for op, node in nodes:
        text += f'op {{\n  name: "{op}"\n  output_desc {{\n    attr {{\n      key: "_fx_tensor_name"\n      value {{\n'
        text += f'        s: "{node}.OUTPUT.0"\n      }}\n    }}\n  }}\n}}\n'
    write(path, text.encode())


for case in ("torchair_folder", "torchair_screen", "torchair_swapped"):
    token = f"{case}/ge/worldsize1_global_rank0/20251017071200/0/model/1/0"
    node = f"{case}/fx/worldsize1_global_rank0/graph_1/0"
    graph(
        f"{case}/ge/dynamo_original_graph_1_rank_0_pid_1_ts_1.txt",
        [("Add_1", "add-aten.add"), ("Mul_2", "mul-aten.mul")],
    )
    ge_dump(f"{token}/Add.Add_1.1.2.1706596912161941", RAMP)
    ge_dump(f"{token}/Mul.Mul_2.1.2.1706596912161942", [2 * x for x in RAMP])
    ge_dump(f"{token}/Sub.Unknown_3.1.2.1706596912161943", RAMP)
    npy(f"{node}/add-aten.add.OUTPUT.0.20251031071200000001.npy", RAMP)
    npy(f"{node}/mul-aten.mul.OUTPUT.0.20251031071200000002.npy", RAMP)
    npy(f"{node}/mul-aten.mul.OUTPUT.1.20251031071200000002.npy", RAMP)
for case in ("parse_files", "shrink_files", "shrink_read_only"):
    ge_dump(f"{case}/dump/Add.Add_1.1.2.1706596912161941", RAMP)
    npy(f"{case}/dump/add-aten.add.OUTPUT.0.20251031071200000001.npy", RAMP)
write("parse_files/dump/Bad.Bad_1.1.2.1706596912161942", b"12345678 not a dump")
write("shrink_files/dump/graph.txt", b"not a dump\n")
