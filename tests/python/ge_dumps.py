"""Writes graph-mode dumps: binary GE files, FX trees, graph texts. Knows nothing of the reader under test.

The messages are encoded here from their published field numbers, by hand and in the plainest way; the storage layouts
are packed with NumPy's own transpositions.
"""

import struct

import numpy as np

TYPES = {
    "undefined": 0, "float32": 1, "float16": 2, "int8": 3, "uint8": 4, "int16": 5, "uint16": 6, "int32": 7, "int64": 8,
    "uint32": 9, "uint64": 10, "bool": 11, "float64": 12, "string": 13, "complex64": 16, "complex128": 17,
    "resource": 23, "bfloat16": 27, "int4": 28, "uint1": 29, "hifloat8": 33, "float8_e5m2": 34, "float8_e4m3fn": 35,
}  # fmt: skip
FORMATS = {"NCHW": 0, "NHWC": 1, "ND": 2, "NC1HWC0": 3, "FRACTAL_Z": 4, "HWCN": 16, "FRACTAL_NZ": 29, "NDC1HWC0": 32}


def varint(value):
    out = bytearray()
    value &= (1 << 64) - 1
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def text(field, value):
    value = value.encode() if isinstance(value, str) else bytes(value)
    return varint(field << 3 | 2) + varint(len(value)) + value


def shape_message(dims, packed=True):
    if packed:
        return text(1, b"".join(varint(d) for d in dims)) if len(dims) else b""
    return b"".join(number(1, d) for d in dims)


class Tensor:
    """One tensor of a dump file: stored bytes and what the header says of them."""

    def __init__(self, data, kind=None, shape=None, original=None, layout="ND", sub_format=0, size=None, address=4096,
                 extra=b"", packed=True):  # fmt: skip
        array = np.asarray(data) if not isinstance(data, (bytes, bytearray)) else None
        self.bytes = bytes(data) if array is None else np.ascontiguousarray(array).tobytes()
        kind = kind or str(array.dtype)
        self.kind = TYPES[kind] if isinstance(kind, str) else kind
        self.shape = list(array.shape if shape is None else shape)
        self.original = self.shape if original is None else list(original)
        self.layout = FORMATS[layout] if isinstance(layout, str) else layout
        self.sub_format, self.address, self.extra, self.packed = sub_format, address, extra, packed
        self.size = len(self.bytes) if size is None else size

    def message(self, is_input):
        size, original, sub_format, address = (5, 6, 7, 8) if is_input else (6, 7, 8, 9)
        return b"".join([
            number(1, self.kind), number(2, self.layout), text(3, shape_message(self.shape, self.packed)),
            number(size, self.size), text(original, shape_message(self.original, self.packed)),
            number(sub_format, self.sub_format), number(address, self.address), self.extra,
        ])  # fmt: skip


def dump_bytes(inputs=(), outputs=(), buffers=(), spaces=(), header_extra=b"", op_name="op"):
    header = text(1, "2.0") + number(2, 1706596912161941)
    header += b"".join(text(3, t.message(False)) for t in outputs)
    header += b"".join(text(4, t.message(True)) for t in inputs)
    header += b"".join(text(5, number(1, 0) + number(3, len(b))) for b in buffers)
    header += text(6, op_name) + header_extra
    header += b"".join(text(8, number(1, 0) + number(3, len(s))) for s in spaces)
    payload = b"".join([*(t.bytes for t in inputs), *(t.bytes for t in outputs), *buffers, *spaces])
    return struct.pack("<Q", len(header)) + header + payload


def bfloat16(values):
    """Bits of float32 values cut to bfloat16, and what they stand for."""
    bits = (np.asarray(values, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    return bits, (bits.astype(np.uint32) << 16).view(np.float32)


def padded(array, shape):
    return np.pad(array, [(0, want - have) for have, want in zip(array.shape, shape)])


def up(n, unit):
    return -(-n // unit)


def pack_nz(plain, m0=16, k0=16):
    *lead, m, k = plain.shape
    m1, k1 = up(m, m0), up(k, k0)
    wide = padded(plain, (*lead, m1 * m0, k1 * k0)).reshape(*lead, m1, m0, k1, k0)
    n = len(lead)
    return wide.transpose(*range(n), n + 2, n, n + 1, n + 3)


def pack_nc1hwc0(plain, c0=16):
    n, c, h, w = plain.shape
    c1 = up(c, c0)
    return padded(plain, (n, c1 * c0, h, w)).reshape(n, c1, c0, h, w).transpose(0, 1, 3, 4, 2)


def pack_ndc1hwc0(plain, c0=16):
    n, c, d, h, w = plain.shape
    c1 = up(c, c0)
    return padded(plain, (n, c1 * c0, d, h, w)).reshape(n, c1, c0, d, h, w).transpose(0, 3, 1, 4, 5, 2)


def pack_fractal_z(plain, c0=16, n0=16):
    n, c, h, w = plain.shape
    c1, n1 = up(c, c0), up(n, n0)
    wide = padded(plain, (n1 * n0, c1 * c0, h, w)).reshape(n1, n0, c1, c0, h, w)
    return wide.transpose(2, 4, 5, 0, 1, 3).reshape(c1 * h * w, n1, n0, c0)


def pack_fractal_z_grouped(plain, groups, c0=16):
    """Element by element, as the published formula says."""
    n, c, h, w = plain.shape
    o = n // groups
    e = min(np.lcm(np.lcm(c, c0) // c, np.lcm(o, 16) // o), groups)
    c1, o16 = up(e * c, c0), up(e * o, 16) * 16
    out = np.zeros(up(groups, e) * c1 * h * w * o16 * c0, plain.dtype)
    for i in np.ndindex(n, c, h, w):
        g, k, channel = i[0] // o, i[0] % o, (i[0] // o % e) * c + i[1]
        at = ((((g // e) * c1 + channel // c0) * h + i[2]) * w + i[3]) * o16 * c0
        out[at + (g % e * o + k) * c0 + channel % c0] = plain[i]
    return out.reshape(up(groups, e) * c1 * h * w, o16 // 16, 16, c0)


def graph_text(ops, tail=""):
    """`ops`: (name, inputs, FX tensor names of its outputs)."""
    lines = ['name: "graph_1"']
    for name, inputs, nodes in ops:
        lines += ["op {", f'  name: "{name}"', '  type: "Any"', *(f'  input: "{i}"' for i in inputs)]
        for node in nodes:
            lines += ["  output_desc {", "    attr {", '      key: "_fx_tensor_name"', "      value {",
                      f'        s: "{node}"', "      }", "    }", "  }"]  # fmt: skip
        lines.append("}")
    return "\n".join(lines) + "\n" + tail


class Pair:
    """A GE tree and an FX tree of one rank and one graph, current layout."""

    def __init__(self, root, rank=0, world=1, token=0):
        self.ge, self.fx = root / "ge", root / "fx"
        self.rank, self.token, self.ops, self.time = rank, token, [], 1706596912161941
        name = f"worldsize{world}_global_rank{rank}"
        self.token_folder = self.ge / name / "20251017071200" / "0" / "model" / "1" / str(token)
        self.fx_folder = self.fx / name / "graph_1" / str(token)
        for folder in (self.token_folder, self.fx_folder):
            folder.mkdir(parents=True, exist_ok=True)

    def add(self, op, inputs=(), outputs=(), fx_inputs=(), fx_outputs=(), kind="Add", data=None):
        """One operator; `fx_…` are arrays. Gives the path of its dump file."""
        node = f"{op.lower()}-aten.{op.lower()}.default"
        self.time += 137
        path = self.token_folder / f"{kind}.{op}.1.2.{self.time}"
        path.write_bytes(dump_bytes(inputs, outputs) if data is None else data)
        for word, arrays in (("INPUT", fx_inputs), ("OUTPUT", fx_outputs)):
            for i, array in enumerate(arrays):
                np.save(self.fx_folder / f"{node}.{word}.{i}.20251031071200000001.npy", array)
        self.ops.append((op, (), [f"{node}.OUTPUT.{i}" for i in range(max(1, len(outputs)))]))
        return path

    def write_graph(self, tail=""):
        name = f"dynamo_original_graph_1_rank_{self.rank}_pid_1_ts_20251017071211190258.txt"
        (self.ge / name).write_text(graph_text(self.ops, tail))
        return self
