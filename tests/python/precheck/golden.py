"""The reference's results under tests/golden/precheck, and how numbers are held against them."""

import csv
import io
import json
import math
from pathlib import Path

import numpy as np
import torch

CASES = Path(__file__).resolve().parents[2] / "golden" / "precheck"
SIXTEEN_BIT = ("torch.float16", "torch.bfloat16")
RTOL = {"torch.float16": 2.0**-10, "torch.bfloat16": 2.0**-8, "torch.float32": 2.0**-20}
RTOL_ACCUMULATIVE = {"torch.float16": 2.0**-8, "torch.bfloat16": 2.0**-7, "torch.float32": 2.0**-11}
LARGEST = {"torch.float16": 65504.0, "torch.bfloat16": 3.3895313892515355e38, "torch.float32": 3.4028234663852886e38}
# The reference's columns -> ours
DETAILS = {
    "API Name": "API name",
    "余弦相似度": "Cosine similarity",
    "最大绝对误差": "Maximum absolute error",
    "双百指标": "Dual-100 metric",
    "双千指标": "Dual-1000 metric",
    "双万指标": "Dual-10000 metric",
    "二进制一致错误率": "Binary consistency error rate",
    "误差均衡性": "Error balance",
    "均方根误差": "Root-mean-square error (RMSE)",
    "小值域错误占比": "Error ratio in small value range",
    "相对误差最大值": "Maximum relative error",
    "相对误差平均值": "Mean relative error",
    "inf/nan错误率": "inf/nan error rate",
    "相对误差错误率": "Relative error rate",
    "绝对误差错误率": "Absolute error rate",
    "ULP误差最大值": "Maximum ULP error",
    "ULP误差平均值": "Mean ULP error",
    "ULP误差大于阈值占比": "Proportion of ULP errors greater than the threshold",
}


def load(*path):
    return json.loads(CASES.joinpath(*path).read_text(encoding="utf-8"))


def read_csv(path):
    """Rows as {column: text}, columns by their English names."""
    text = Path(path).read_bytes().decode("utf-8-sig")
    header, *rows = csv.reader(io.StringIO(text, newline=""))
    header = [DETAILS.get(name, name) for name in header]
    return [dict(zip(header, row + [" "] * (len(header) - len(row)))) for row in rows]


class Pack:
    """The tensors of a case, one behind the other as doubles."""

    def __init__(self, path):
        self._data = np.load(path)

    def array(self, ref):
        count = int(np.prod(ref["shape"], dtype=np.int64))
        if "complex" in ref["dtype"]:
            pairs = self._data[ref["at"] : ref["at"] + 2 * count].reshape(-1, 2)
            return (pairs[:, 0] + 1j * pairs[:, 1]).reshape(ref["shape"])
        return self._data[ref["at"] : ref["at"] + count].reshape(ref["shape"])

    def tensor(self, ref):
        return torch.from_numpy(np.array(self.array(ref))).to(getattr(torch, ref["dtype"].replace("torch.", "")))


def number(value):
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def blank(value):
    return value is None or (isinstance(value, str) and not value.strip())


def same(want, got, relative, absolute=1e-12):
    """Two cells: nothing, a word or a number."""
    if blank(want) or blank(got):
        return blank(want) and blank(got)
    a, b = number(want), number(got)
    if a is None or b is None:
        return str(want) == str(got)
    if not math.isfinite(a):
        return a == b or (math.isnan(a) and math.isnan(b))
    return abs(a - b) <= relative * abs(a) + absolute


def tolerance(pair):
    """Of a metric, and of one in units of the last place: the reference works in single precision where it can."""
    bench, device = pair["bench"]["dtype"], pair["device"]["dtype"]
    single = device == "torch.bfloat16" or "torch.float64" not in (bench, device)
    return 2e-5 if single else 1e-9, 2e-5 if single or device in SIXTEEN_BIT else 1e-9


def inf_nan_rate(bench, device, dtype, rtol):
    """Positions with something special that do not match, over all elements."""
    with np.errstate(all="ignore"):
        b = bench.astype(np.float16 if dtype == "torch.float16" else np.float32).astype(np.float64)
        special = ~(np.isfinite(b) & np.isfinite(device))
        cb, cd = (np.clip(x, -LARGEST[dtype], LARGEST[dtype]) for x in (b, device))
        alike = (np.isnan(b) & np.isnan(device)) | (np.abs(cd - cb) <= rtol[dtype] * np.abs(cb))
        return float(np.sum(special & ~alike) / b.size)
