"""Metrics and judged rows of pairs of tensors against the reference's."""

import ast
import math
import re

import numpy as np
import pytest
import torch
from vernier import VernierError, precheck

from . import golden

KERNELS = ["kernels_float16", "kernels_bfloat16", "kernels_float32", "kernels_float64", "kernels_mixed"]
PAIRS = [(case, pair) for case in KERNELS for pair in golden.load(case, "expected.json")["pairs"]]
PACKS = {case: golden.Pack(golden.CASES / case / "tensors.npy") for case in KERNELS}
IDS = [f"{case}-{pair['name']}" for case, pair in PAIRS]


def overflowed(recorded, pair, pack):
    """The reference scales units in the last place in single precision, where we do not overflow."""
    return not math.isfinite(golden.number(recorded)) and np.isfinite(pack.array(pair["bench"])).all()


@pytest.mark.parametrize(("case", "pair"), PAIRS, ids=IDS)
def test_metrics_are_the_references(case, pair):
    pack, relative = PACKS[case], golden.tolerance(pair)
    sides = pack.tensor(pair["bench"]), pack.tensor(pair["device"])
    dtype = pair["device"]["dtype"]
    for thresholds in pair["profiles"]:
        want = {group: dict(metrics) for group, metrics in pair["profiles"]["peer"].items()}
        if thresholds == "manual":
            changed = {k: v for k, v in pair["profiles"]["manual"].items() if isinstance(v, dict)}
            want.update((group, dict(metrics)) for group, metrics in changed.items())
            arrays = pack.array(pair["bench"]), pack.array(pair["device"])
            for group, rtol in (
                ("absolute_threshold", golden.RTOL),
                ("accumulative_error_compare", golden.RTOL_ACCUMULATIVE),
            ):
                want[group]["inf_nan_error_ratio"] = golden.inf_nan_rate(*arrays, dtype, rtol)
        if overflowed(want["ulp_compare"]["max_ulp_error"], pair, pack):
            del want["ulp_compare"]
        got = precheck.details(*sides, thresholds=thresholds)
        for group, metrics in want.items():
            for key, value in metrics.items():
                mine = got[group].get(key) if key != "message" else value
                if isinstance(value, bool):
                    assert mine is value, (group, key)
                else:
                    bound = 0 if group == "cosine" else relative[group == "ulp_compare"]
                    absolute = 1e-9 if group == "cosine" else 1e-12
                    assert golden.same(value, mine, bound, absolute), (thresholds, group, key, value, mine)


@pytest.mark.parametrize(("case", "pair"), PAIRS, ids=IDS)
def test_judged_rows_are_the_references(case, pair):
    pack, relative = PACKS[case], golden.tolerance(pair)
    sides = pack.tensor(pair["bench"]), pack.tensor(pair["device"])
    for key, cells in pair["rows"].items():
        policy, thresholds, api = key.split("/")
        want = {golden.DETAILS.get(column, column): cell for column, cell in cells.items()}
        if thresholds == "manual" and "inf/nan error rate" in want:
            rtol = golden.RTOL_ACCUMULATIVE if api == "test_api" else golden.RTOL
            arrays = pack.array(pair["bench"]), pack.array(pair["device"])
            want["inf/nan error rate"] = golden.inf_nan_rate(*arrays, pair["device"]["dtype"], rtol)
        got = precheck.judge(api, *sides, policy=policy, thresholds=thresholds)
        for column in [*golden.DETAILS.values(), "Status"][1:]:
            is_ulp = "ULP" in column
            if is_ulp and "Maximum ULP error" in want and overflowed(want["Maximum ULP error"], pair, pack):
                continue
            absolute = 1e-9 if column == "Cosine similarity" else 1e-12
            assert golden.same(want.get(column), got[column], relative[is_ulp], absolute), (
                key,
                column,
                want.get(column),
            )


DISCRETE = golden.load("kernels_discrete", "expected.json")


def plain(text):
    match = re.match(r"slice\((.*)\)$", text)
    return slice(*ast.literal_eval(f"[{match.group(1)}]")) if match else ast.literal_eval(text)


@pytest.mark.parametrize("pair", DISCRETE["pairs"], ids=lambda pair: pair["name"])
def test_integers_builtin_values_and_mismatches(pair):
    pack = golden.Pack(golden.CASES / "kernels_discrete" / "tensors.npy")
    sides = [pack.tensor(pair[s]) if s in pair else plain(pair[s + "_object"]) for s in ("bench", "device")]
    want = {golden.DETAILS.get(column, column): cell for column, cell in pair["row"].items()}
    kind = want.get("DEVICE Dtype", "")
    if kind == "torch.int16":  # an integer like the others, which the reference leaves out
        size = sides[0].numel()
        rate = (sides[0] != sides[1]).double().mean().item() if size else None
        want.update({"Binary consistency error rate": rate, "Status": "error" if rate else "pass" if size else "SKIP"})
    elif "complex" in kind:
        want["Status"] = "SKIP"
    elif kind.startswith("<class") and want["Status"] == "error":
        want["Binary consistency error rate"] = 1
    got = precheck.judge(pair["api"], *sides)
    for column in ["Bench Dtype", "DEVICE Dtype", "Shape", *golden.DETAILS.values(), "Status"]:
        if column != "API name":
            assert golden.same(want.get(column), got[column], 1e-9), (column, want.get(column), got[column])


@pytest.mark.parametrize(("name", "item"), DISCRETE["rollup"].items())
def test_rollup(name, item):
    assert precheck.rollup(item["items"]) == item.get("manual_status", item["peer_status"])


def test_rollup_of_nothing_and_of_another_word():
    assert precheck.rollup([]) == " "
    with pytest.raises(ValueError, match="expected pass"):
        precheck.rollup(["good"])


@pytest.mark.parametrize(("name", "item"), DISCRETE["dropout"].items())
def test_dropout_is_judged_by_its_zeros(name, item):
    sides = [torch.ones(item["numel"]) for _ in range(2)]
    for side, zeros in zip(sides, (item["bench_zeros"], item["device_zeros"])):
        side[:zeros] = 0
    assert precheck.judge("dropout", *sides) == {"Status": item["status"]}


def test_8_bit_floats_by_the_tapered_standard():
    case = golden.load("kernels_fp8_ulp", "expected.json")["pairs"]
    pack = golden.Pack(golden.CASES / "kernels_fp8_ulp" / "tensors.npy")
    for pair in case:
        arrays = [np.array(pack.array(pair[side])) for side in ("bench", "device")]
        got = precheck.details(*arrays, dtype="torch.float8_e4m3fn")["ulp_compare"]
        ulp = np.abs(pack.array(pair["ulp"]))
        assert got["max_ulp_error"] == pytest.approx(ulp.max(), rel=1e-9)
        assert got["mean_ulp_error"] == pytest.approx(ulp.mean(), rel=1e-9)
        assert got["ulp_error_proportion"] == np.mean(ulp > 1)


def test_the_columns_that_are_filled_follow_the_policy():
    bench = torch.linspace(0.5, 2, 40, dtype=torch.float64)
    filled = {
        policy: {k for k, v in precheck.judge("matmul", bench, bench.float(), policy=policy).items() if v is not None}
        for policy in ("manual", "per_api")
    }
    assert "Mean ULP error" in filled["per_api"]
    assert "Mean ULP error" not in filled["manual"]
    assert "Root-mean-square error (RMSE)" in filled["manual"]


def test_mistakes_are_told():
    with pytest.raises(VernierError, match="policy"):
        precheck.judge("add", torch.ones(1), torch.ones(1), policy="mine")
    with pytest.raises(VernierError, match="shapes differ"):
        precheck.details(torch.ones(2), torch.ones(3))
    with pytest.raises(VernierError, match="floating-point"):
        precheck.details(torch.ones(2), torch.ones(2, dtype=torch.int64))
