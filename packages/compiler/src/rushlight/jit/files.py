"""`save` and `load`: all programs of a scripted function or module, with one set of weights, in one file."""

from __future__ import annotations

import json
from typing import Any

from rushlight.export.archive import (
    FORMAT,
    Tensors,
    check_format,
    described,
    opened,
    program_of,
    read_tensors,
    to_json,
    write,
)
from rushlight.export.module import module_base
from rushlight.jit.loaded import Programs, loaded_module
from rushlight.jit.script import ScriptFunction, is_script_module

_MARKER = "script.json"


def save(m: Any, f: Any, _extra_files: dict[str, str | bytes] | None = None) -> None:
    """Store a scripted or traced function or module: a program for each kind of call that there was, and the weights.

    A path is written in one step at the end. Raises TypeError for what is not scripted, RuntimeError when it was never
    called, and, naming the line, when a call cannot be captured whole. PyTorch does not read the file.

    Example:
        >>> import io, rushlight
        >>> double = rushlight.jit.script(lambda x: x * 2)
        >>> _ = double(rushlight.ones(1))
        >>> file = io.BytesIO()
        >>> rushlight.jit.save(double, file)
        >>> _ = file.seek(0)
        >>> rushlight.jit.load(file)(rushlight.ones(1))
        tensor([2.])
    """
    if is_script_module(m):
        kind, name, methods = "module", m.original_name, m.methods()
        methods = {key: method for key, method in methods.items() if key == "forward" or method.seen()}
    elif isinstance(m, (ScriptFunction, Programs)):
        kind, name, methods = "function", m.name, {"forward": m}
    else:
        raise TypeError(f"save: expected a scripted or traced function or module, got {type(m).__name__}; call "
                        "rushlight.jit.script or rushlight.jit.trace first")
    tensors, files = Tensors(), dict[str, bytes]()
    stored: dict[str, list] = {}
    for key, method in methods.items():
        for training, program in method.programs():
            description, graph = described(program, tensors)
            files[f"graphs/{len(files)}.txt"] = graph.encode()
            stored.setdefault(key, []).append({"training": training, **description})
    data = {"format": FORMAT, "kind": kind, "name": name, "methods": stored, "tensors": tensors.metas,
            "arguments": {key: methods[key].argument_names() for key in stored},
            "training": bool(m.training) if kind == "module" else None}
    for key, content in (_extra_files or {}).items():
        files[f"extra/{key}"] = content.encode() if isinstance(content, str) else content
    write(f, {_MARKER: to_json(data), **files, **tensors.files})


def load(f: Any, map_location: Any = None, _extra_files: dict[str, Any] | None = None) -> Any:
    """What `save` has stored: a function, or a module with its weights. No source is needed and no code is run.

    It answers the kinds of calls that were stored. The values of `_extra_files` are replaced by what is stored under
    their names, as bytes, empty where there is nothing. Raises ValueError when there is no such file, RuntimeError for
    a damaged file or another kind of file.
    """
    if map_location is not None and str(map_location) != "cpu":
        raise NotImplementedError(f"load: map_location={map_location!r}: scripts run on the CPU")
    try:
        with opened(f, _MARKER, "script") as archive:
            data = json.loads(archive.read(_MARKER))
            check_format(data)
            descriptions = [d for stored in data["methods"].values() for d in stored]
            tensors = read_tensors(archive.read, data["tensors"], descriptions)
            number = 0
            methods: dict[str, Programs] = {}
            for key, stored in data["methods"].items():
                programs = []
                for description in stored:
                    graph = archive.read(f"graphs/{number}.txt").decode()
                    if description["training"] not in (None, True, False):
                        raise ValueError(f"no mode: {description['training']!r}")
                    programs.append((description["training"], program_of(description, graph, tensors)))
                    number += 1
                if not key.isidentifier() or not programs:
                    raise ValueError(f"no method: {key!r}")
                names = [str(name) for name in data["arguments"][key]]
                methods[key] = Programs(str(data["name"]) if key == "forward" else key, programs, names)
            for key in _extra_files or {}:  # bytes, and none where there is no such file, as in PyTorch
                stored_there = f"extra/{key}" in archive
                _extra_files[key] = archive.read(f"extra/{key}") if stored_there else b""  # type: ignore[index]
            if data["kind"] == "function":
                return methods["forward"]
            return loaded_module(module_base(), str(data["name"]), methods, bool(data["training"]))
    except FileNotFoundError:
        raise ValueError(f"load: the provided filename {f} does not exist") from None
