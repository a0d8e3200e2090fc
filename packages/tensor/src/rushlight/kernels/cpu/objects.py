"""Object code of kernels: made of LLVM's modules, kept as bytes, loaded into this process.

An object holds the kernel and what Python calls (see `answer`). It names no address of this process; functions of
Python and of the C library are found when it is loaded, in a millisecond.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

from llvmlite import binding

from rushlight.kernels.cpu.builtin import FASTCALL, Method, new_builtin
from rushlight.kernels.cpu.host import host

# What `answer` calls. Names of our own, because the interpreter's symbols are not visible everywhere.
_PYTHON = {
    "rushlight_as_integer": "PyLong_AsUnsignedLongLongMask", "rushlight_as_double": "PyFloat_AsDouble",
    "rushlight_failed": "PyErr_Occurred", "rushlight_save": "PyEval_SaveThread",
    "rushlight_restore": "PyEval_RestoreThread", "rushlight_new_integer": "PyLong_FromLongLong",
    "rushlight_new_double": "PyFloat_FromDouble", "rushlight_keep": "Py_IncRef", "rushlight_refuse": "PyErr_SetString",
    "PyThread_acquire_lock": "PyThread_acquire_lock", "PyThread_release_lock": "PyThread_release_lock",
}  # fmt: skip
_methods: list[Method] = []
_type_error = ctypes.c_void_p(id(TypeError))


@cache
def _machine() -> Any:
    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    name, features = host()
    return binding.Target.from_default_triple().create_target_machine(
        cpu=name, features=features, opt=3, jit=True, reloc="default", codemodel="jitdefault"
    )


@cache
def _engine() -> Any:
    """What holds all loaded objects."""
    for name, function in _PYTHON.items():
        binding.add_symbol(name, ctypes.cast(getattr(ctypes.pythonapi, function), ctypes.c_void_p).value)
    binding.add_symbol("rushlight_none", id(None))
    binding.add_symbol("rushlight_type_error", ctypes.addressof(_type_error))
    empty = binding.parse_assembly("")
    empty.triple = binding.get_default_triple()
    engine = binding.create_mcjit_compiler(empty, _machine())
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(engine))  # kernels may run while the interpreter ends
    return engine


def make_object(text: str) -> bytes:
    """The object code of a module's text, as quick as LLVM can make it run."""
    machine = _machine()
    module = _parsed(text)
    options = binding.create_pipeline_tuning_options(speed_level=3)
    options.loop_vectorization, options.slp_vectorization = True, False
    builder = binding.create_pass_builder(machine, options)
    builder.getModulePassManager().run(module, builder)
    return machine.emit_object(module)


def make_simple_object(text: str) -> bytes:
    """The object code of a module whose loops LLVM could not make better: a quarter of the time to make."""
    machine = _machine()
    module = _parsed(text)
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    passes.add_simplify_cfg_pass()
    passes.add_instruction_combine_pass()
    passes.add_loop_rotate_pass()
    passes.run(module, binding.create_pass_builder(machine, binding.create_pipeline_tuning_options(speed_level=1)))
    return machine.emit_object(module)


def _parsed(text: str) -> Any:
    module = binding.parse_assembly(text)
    module.triple, module.data_layout = binding.get_default_triple(), str(_machine().target_data)
    return module


def load_function(code: bytes, name: str) -> int:
    """The address of a function in an object. Names are unique in a process."""
    engine = _engine()
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    return engine.get_function_address(name)


def load_object(code: bytes, name: str) -> tuple[Callable[..., Any], int]:
    """The kernel in an object as Python calls it, and its address."""
    method = Method(b"kernel", load_function(code, f"answer_{name}"), FASTCALL, None)
    _methods.append(method)
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    return new_builtin(ctypes.addressof(method), None, None), _engine().get_function_address(f"kernel_{name}")
