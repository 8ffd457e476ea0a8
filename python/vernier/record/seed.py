"""Repeatable runs: seeds, deterministic algorithms, and who asked for random numbers."""

import csv
import functools
import os
import random
import sys
import time
import traceback

from . import log
from .errors import RecordError, parameter_error

_DETERMINISTIC_ENVIRONMENT = {
    "cuda": {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"},
    "npu": {"HCCL_DETERMINISTIC": "true", "LCCL_DETERMINISTIC": "1"},
}
# Functions that draw random numbers: library -> (where they are, names). A missing name is left out.
_RANDOM_FUNCTIONS = {
    "python_random": (
        lambda: random,
        (
            "random",
            "randint",
            "uniform",
            "choice",
            "choices",
            "shuffle",
            "sample",
            "randrange",
            "gauss",
            "normalvariate",
            "betavariate",
            "expovariate",
            "gammavariate",
            "lognormvariate",
            "triangular",
            "vonmisesvariate",
            "paretovariate",
            "weibullvariate",
            "getrandbits",
            "randbytes",
        ),
    ),
    "numpy_random": (
        lambda: _module("numpy.random"),
        (
            "rand",
            "randn",
            "randint",
            "random",
            "random_sample",
            "ranf",
            "sample",
            "choice",
            "shuffle",
            "permutation",
            "uniform",
            "normal",
            "standard_normal",
            "binomial",
            "poisson",
            "exponential",
            "beta",
            "gamma",
            "gumbel",
            "laplace",
            "logistic",
            "lognormal",
            "multinomial",
            "bytes",
            "dirichlet",
            "geometric",
            "pareto",
            "rayleigh",
            "triangular",
            "weibull",
        ),
    ),
    "torch_random": (
        lambda: _module("torch"),
        (
            "rand",
            "rand_like",
            "randn",
            "randn_like",
            "randint",
            "randint_like",
            "randperm",
            "bernoulli",
            "multinomial",
            "normal",
            "poisson",
            "binomial",
            "dropout",
            "dropout_",
            "alpha_dropout",
            "feature_dropout",
            "feature_alpha_dropout",
            "native_dropout",
            "rrelu",
            "rrelu_",
        ),
    ),
    "tensor_random": (
        lambda: _module("torch").Tensor,
        (
            "bernoulli",
            "bernoulli_",
            "cauchy_",
            "exponential_",
            "geometric_",
            "log_normal_",
            "multinomial",
            "normal_",
            "random_",
            "uniform_",
        ),
    ),
}
_wrapped = []  # what random_save and seed_all(is_enhanced=True) have replaced, with the originals


def _module(name):
    __import__(name)
    return sys.modules[name]


def seed_all(seed=1234, mode=False, rm_dropout=False, is_enhanced=False):
    """Seeds Python, NumPy and torch. ``mode``: deterministic algorithms only. ``rm_dropout``: dropouts let everything
    through (call it before models are built). ``is_enhanced``: every call of a random function starts from the same
    state, so equal calls give equal numbers."""
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed <= 2**32 - 1:
        raise parameter_error("seed", seed, "a whole number from 0 to 4294967295")
    for key, value in (("mode", mode), ("rm_dropout", rm_dropout), ("is_enhanced", is_enhanced)):
        if not isinstance(value, bool):
            raise parameter_error(key, value, "True or False")
    import torch

    random.seed(seed)
    os.environ["PYTHONHASHSEED"] = str(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed)
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(mode)
    for device, variables in _DETERMINISTIC_ENVIRONMENT.items():
        backend = getattr(torch, device, None)
        if backend is not None and hasattr(backend, "is_available") and backend.is_available():
            backend.manual_seed_all(seed)
            os.environ.update(variables if mode else {})
    if torch.cuda.is_available():
        torch.backends.cudnn.deterministic = True
        torch.backends.cudnn.benchmark = False
    if rm_dropout:
        _remove_dropout()
    if is_enhanced:
        _wrap_random_functions(_from_the_same_state)


def _remove_dropout():
    functional = _module("torch.nn.functional")
    for name in ("dropout", "dropout2d", "dropout3d"):
        original = getattr(functional, name)

        def through(input, p=0.5, training=True, inplace=False, *, _original=original):
            return _original(input, 0.0, training, inplace)

        setattr(functional, name, functools.wraps(original)(through))


def _states():
    torch = _module("torch")
    numpy = sys.modules.get("numpy")
    return random.getstate(), numpy.random.get_state() if numpy else None, torch.random.get_rng_state()


def _restore(states):
    random.setstate(states[0])
    if states[1] is not None:
        sys.modules["numpy"].random.set_state(states[1])
    _module("torch").random.set_rng_state(states[2])


def _from_the_same_state(library, name, original):
    states = _states()

    def draw(*args, **kwargs):
        _restore(states)
        return original(*args, **kwargs)

    return draw


def random_save(output_path="./output"):
    """From now on each call of a random function adds a line, name and call stack, to a csv file in ``output_path``."""
    if not isinstance(output_path, str) or not output_path:
        raise parameter_error("output_path", output_path, "the path of a folder")
    from .debugger import _rank

    rank = _rank(None)
    who = f"proc{os.getpid()}" if rank is None else f"rank{rank}"
    path = os.path.join(output_path, f"random_{who}_{time.strftime('%Y%m%d%H%M%S')}.csv")
    try:
        os.makedirs(output_path, exist_ok=True)
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerow(("api_name", "stack"))
    except OSError as error:
        raise RecordError(RecordError.FILE, f"{path}: {error.strerror}") from None
    counts, failures = {}, []

    def recorded(library, name, original):
        def draw(*args, **kwargs):
            number = counts[library, name] = counts.get((library, name), -1) + 1
            frames = "".join(traceback.format_stack()[:-1])
            try:
                with open(path, "a", newline="", encoding="utf-8") as file:
                    csv.writer(file).writerow((f"{library}.{name}.{number}", frames))
            except OSError as error:
                if not failures:
                    log.warning(f"random_save: {path}: {error.strerror}; calls from here on may be missing")
                failures.append(error.errno)
            return original(*args, **kwargs)

        return draw

    _wrap_random_functions(recorded)
    return path


def _wrap_random_functions(make):
    for library, (owner_of, names) in _RANDOM_FUNCTIONS.items():
        if library == "numpy_random" and "numpy" not in sys.modules:
            continue
        owner = owner_of()
        for name in names:
            original = getattr(owner, name, None)
            if original is not None:
                wrapped = functools.wraps(original, updated=())(make(library, name, original))
                inherited = isinstance(owner, type) and name not in vars(owner)
                _wrapped.append((owner, name, original, inherited))
                setattr(owner, name, wrapped)


def _unwrap_random_functions():
    """Puts every random function back, for tests."""
    while _wrapped:
        owner, name, original, inherited = _wrapped.pop()
        if inherited:
            delattr(owner, name)
        else:
            setattr(owner, name, original)
