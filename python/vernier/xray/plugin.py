"""The pytest plug-in: options and the fixture of the tests that ``vernier jprof`` writes.

It is loaded in every run of pytest where the package is installed, so it does nothing, and imports no torch, until a
test asks for its fixture.
"""

import json
import os
import warnings

import pytest

from .._native import VernierError, __version__

_DEFAULT_SEED, _DEFAULT_ORDERS = 42, 6
_ACCELERATORS = ("cuda", "xpu", "npu", "mlu", "mps")  # of torch versions that do not name the one they have


def pytest_addoption(parser):
    group = parser.getgroup("vernier", "unit tests of operators (vernier jprof)")
    group.addoption("--detail_compare_path", metavar="FILE", help="write a row for each result of an operator: csv")
    group.addoption(
        "--xray_device", metavar="NAME", help="device to test, as cuda:1; default: the first accelerator, else cpu"
    )
    group.addoption(
        "--xray_orders",
        type=int,
        default=_DEFAULT_ORDERS,
        metavar="N",
        help="count errors above 1e-1 … 1e-N; default 6",
    )


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_load_initial_conftests(early_config, parser):
    """--seed comes last, when all others have theirs: who has it already keeps it, and we read it."""
    yield
    options = [option for group in [parser._anonymous, *parser._groups] for option in group.options]
    taken = next((option for option in options if "--seed" in option.names()), None)
    if taken is None:
        parser.getgroup("vernier").addoption(
            "--seed",
            dest="vernier_seed",
            type=int,
            default=_DEFAULT_SEED,
            metavar="N",
            help="of the random numbers of each test, its own number is added; default 42",
        )
    elif taken.dest != "vernier_seed":
        early_config.option.vernier_seed_dest = taken.dest  # among the options, because workers get those


def pytest_configure(config):
    path = config.getoption("detail_compare_path", None)
    if path is None or _is_worker(config):
        return
    orders = config.getoption("xray_orders", _DEFAULT_ORDERS)
    from .counts import Details

    config.option.detail_compare_path = path = os.path.abspath(path)  # workers may run in another folder
    try:
        Details(path, orders).begin()
    except VernierError as error:
        raise pytest.UsageError(f"--detail_compare_path, --xray_orders: {error}") from None


def _is_worker(config):
    return hasattr(config, "workerinput")  # of pytest-xdist; the file is begun by who started it


def _seed(config):
    """Ours, or that of another plug-in's --seed, where it is a number."""
    value = config.getoption(getattr(config.option, "vernier_seed_dest", "vernier_seed"), None)
    try:
        return int(value)
    except (TypeError, ValueError):
        return _DEFAULT_SEED


class Xray:
    """What a test needs to know of this run."""

    def __init__(self, config):
        from .counts import Details

        self.seed = _seed(config)
        self.orders = config.getoption("xray_orders", _DEFAULT_ORDERS)
        self.device = _device(config.getoption("xray_device", None))
        self.folder = None  # of the test file
        path = config.getoption("detail_compare_path", None)
        self._details = Details(path, self.orders) if path is not None else None

    def enter(self, folder):
        """The tests that follow lie in ``folder``."""
        if folder == self.folder:
            return
        self.folder = folder
        made_by = _made_by(folder)
        if made_by is not None and made_by != __version__:
            warnings.warn(
                f"{folder} was made by vernier {made_by}, this is {__version__}: use the same package on every machine",
                stacklevel=1,
            )

    def report(self, name, op_name, compared, is_pass, message):
        if self._details is not None:
            self._details.append(name, op_name, str(self.device), compared, is_pass, message)


def _made_by(folder):
    """The version in the manifest of the tests; None: there is none."""
    try:
        with open(os.path.join(folder, "manifest.json"), encoding="utf-8") as file:
            return json.load(file).get("vernier_version")
    except (OSError, ValueError, AttributeError):
        return None


def _device(name):
    import torch

    if name is not None:
        try:
            device = torch.device(name)
            torch.empty(1, device=device)
        except Exception as error:
            raise pytest.UsageError(f"--xray_device {name}: {str(error).partition(chr(10))[0]}") from None
        return device
    current = getattr(getattr(torch, "accelerator", None), "current_accelerator", None)
    if current is not None:
        found = current() if torch.accelerator.is_available() else None
        if found is not None:
            return torch.device(found.type, 0)
    for kind in _ACCELERATORS:
        module = getattr(torch, kind, None) or getattr(torch.backends, kind, None)
        if module is not None and getattr(module, "is_available", bool)():
            return torch.device(kind, 0)
    return torch.device("cpu")


@pytest.fixture(scope="session")
def _xray_session(request):
    return Xray(request.config)


@pytest.fixture
def xray(request, _xray_session):
    """For tests that ``vernier jprof`` wrote."""
    _xray_session.enter(os.path.dirname(str(request.node.fspath)))
    return _xray_session


def pytest_terminal_summary(terminalreporter, config):
    path = config.getoption("detail_compare_path", None)
    if path is not None:
        terminalreporter.write_line(f"details of the operators: {os.path.relpath(path)}")
