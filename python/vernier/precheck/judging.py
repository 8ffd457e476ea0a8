"""Outputs of both sides, taken apart into pairs that the library judges."""

import sys

from ._core import FORWARD, Precheck, roll_up

_PLAIN = (bool, int, float, str)


def details(bench, device, thresholds="manual", dtype=None):
    """Every metric of two tensors or arrays of equal shape, by standard: ``{"benchmark": {"rmse": ...}, ...}``.

    ``dtype`` names the device's dtype where ``device`` holds its values widened.
    """
    found = {}
    for name, value in Precheck(thresholds=thresholds).metrics(bench, device, dtype).items():
        standard, metric = name.split(".")
        found.setdefault(standard, {})[metric] = value
    return found


def judge(api, bench, device, policy="manual", thresholds="manual"):
    """One details row, as a dict by English column; blank cells are None. ``api`` is the bare name: "softmax"."""
    precheck = Precheck(policy=policy, thresholds=thresholds)
    precheck.begin(api, api)
    if "dropout" in api:
        precheck.dropout(FORWARD, bench, device)
        return {"Status": precheck.verdict(FORWARD)}
    judge_outputs(precheck, FORWARD, bench, device)
    return precheck.row()


def rollup(statuses):
    """The status of one direction of an API out of those of its rows."""
    return roll_up(statuses)


def judge_outputs(precheck, direction, bench, device, has_float8_inputs=False):
    """Hands every pair of values in two equal structures to the library."""
    if isinstance(bench, (list, tuple)) and isinstance(device, (list, tuple)):
        if len(bench) > len(device):
            precheck.mismatch(direction, "structure", f"{len(bench)} items", f"{len(device)} items")
            return
        for bench_item, device_item in zip(bench, device):  # what the device has more is left out
            judge_outputs(precheck, direction, bench_item, device_item, has_float8_inputs)
    elif _is_tensor(bench) and _is_tensor(device):
        precheck.tensors(direction, bench, device, has_float8_inputs)
    elif not isinstance(bench, type(device)):
        precheck.mismatch(direction, "type", str(type(bench)), str(type(device)))
    elif isinstance(bench, dict):
        if set(bench) != set(device):
            precheck.mismatch(direction, "dict keys", str(sorted(map(str, bench))), str(sorted(map(str, device))))
            return
        values = list(bench.values()), [device[key] for key in bench]
        judge_outputs(precheck, direction, *values, has_float8_inputs)
    elif isinstance(bench, _PLAIN):
        precheck.plain(direction, str(type(bench)), str(type(device)), bench == device)
    elif bench is None:
        precheck.skip(direction, "no bench value")
    else:
        precheck.mismatch(direction, "type", str(type(bench)), str(type(device)))


def _is_tensor(value):
    kinds = (("torch", "Tensor"), ("numpy", "ndarray"))
    return any(isinstance(value, getattr(sys.modules[m], name)) for m, name in kinds if m in sys.modules)
