"""Which private parts of Numba the code relies on. Any release may change them, so pyproject.toml caps the version."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib
from pathlib import Path

import numba
import pytest
from numba.core.registry import CPUDispatcher

import earmark

ROOT = Path(earmark.__file__).parents[2]
PARTS = {
    "llvmlite.binding.ffi": "lib",
    "numba.core.config": "DISABLE_JIT",
    "numba.core.compiler_lock": "global_compiler_lock",
    "numba.core.serialize": "dumps",
    "numba.core.compiler": "CompileResult",
    "numba.core.cgutils": "alloca_once_value gep_inbounds get_or_insert_function is_not_null",
    "numba.core.registry": "cpu_target",
    "numba.np.arrayobj": "make_array populate_array",
    "numba.np.numpy_support": "from_dtype",
}
"""Module -> the names that are used of it."""
OPTIONS = ("forceinline", "_nrt", "no_cfunc_wrapper", "no_cpython_wrapper", "boundscheck", "error_model", "nogil")


@pytest.mark.parametrize("module", PARTS)
def test_the_part_is_there(module: str) -> None:
    for name in PARTS[module].split():
        assert hasattr(importlib.import_module(module), name)


def test_no_other_part_is_used() -> None:
    used = set()
    for file in Path(earmark.__file__).parent.rglob("*.py"):
        private = r"^\s*from (numba\.(?:core|np)[\w.]*|llvmlite\.binding\.[\w.]*) import (.+)$"
        found = re.findall(private, file.read_text(), re.MULTILINE)
        used |= {(module, name.split(" as ")[0].strip()) for module, names in found for name in names.split(",")}
    listed = {(module, name) for module, names in PARTS.items() for name in names.split()}
    assert {(m, n) for m, n in used if (m, n) != ("numba.core", "config")} <= listed


def test_llvm_has_one_lock() -> None:
    with importlib.import_module("llvmlite.binding.ffi").lib._lock:
        pass


def test_compilation_takes_our_options_and_has_a_cache_to_replace() -> None:
    compiled = numba.njit(**dict.fromkeys(OPTIONS, False) | {"error_model": "numpy"})(lambda x: x)
    assert isinstance(compiled, CPUDispatcher)
    assert hasattr(compiled, "_cache") and inspect.ismethod(compiled._cache.load_overload)


def test_the_version_is_capped() -> None:
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("an installed package, without its sources")
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    (asked,) = (one for one in wanted if one.startswith("numba"))
    assert re.fullmatch(r"numba>=[\d.]+,<[\d.]+", asked)
