"""`SummaryWriter`: tensorboardX's writer with PyTorch's arguments, for tensors."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable
from typing import Any

import tensorboardX

from rushlight import Tensor
from rushlight.nn.modules.module import Module
from rushlight.utils.tensorboard.graph import model_graph


class SummaryWriter(tensorboardX.SummaryWriter):
    """Writes what TensorBoard shows into a folder: `add_scalar`, `add_histogram`, `add_image`, `add_figure`,
    `add_text`, `add_graph`, `add_hparams`, `add_embedding`, `add_pr_curve`, `add_video`, ...

    `log_dir` is the folder, by default one in `runs` named after time and machine, with `comment` at the end. Also a
    context manager, which closes the files. See tensorboardX for each method's arguments.
    """

    def __init__(
        self,
        log_dir: str | os.PathLike | None = None,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 10,
        flush_secs: int = 120,
        filename_suffix: str = "",
    ) -> None:
        super().__init__(
            None if log_dir is None else os.fspath(log_dir),
            comment,
            purge_step,
            max_queue=max_queue,
            flush_secs=flush_secs,
            filename_suffix=filename_suffix,
        )

    @property
    def log_dir(self) -> str:
        """The folder in which the files are."""
        return self.logdir

    def get_logdir(self) -> str:
        """The folder in which the files are."""
        return self.logdir

    def add_graph(
        self, model: Module, input_to_model: Any = None, verbose: bool = False, use_strict_trace: bool = True
    ) -> None:
        """Add the operations that a call of the model runs, grouped by its modules.

        `input_to_model` is a tensor, or a tuple or list of arguments. The call leaves the model as it was. `verbose`
        prints the graph.
        """
        graph = model_graph(model, input_to_model)
        if verbose:
            print(graph)
        self._get_file_writer().add_onnx_graph(graph)

    def add_hparams(
        self,
        hparam_dict: dict[str, Any],
        metric_dict: dict[str, Any],
        hparam_domain_discrete: dict[str, list] | None = None,
        run_name: str | None = None,
        global_step: int | None = None,
    ) -> None:
        """Add settings and the results that they led to, as a run of their own below the folder.

        Raises ValueError for `hparam_domain_discrete`, which the writer library has no place for.
        """
        if hparam_domain_discrete:
            raise ValueError("add_hparams: hparam_domain_discrete is not supported; leave it out")
        settings, results = _plain(dict(hparam_dict)), _plain(dict(metric_dict))
        super().add_hparams(settings, results, run_name or str(time.time()), global_step)


def _plain(value: Any) -> Any:
    """A value with arrays for the tensors in it; bfloat16, which the library cannot handle, as float32."""
    if isinstance(value, Tensor):
        value = value.detach().cpu()
        return (value.float() if value.dtype.itemsize == 2 and value.is_floating_point() else value).numpy()
    if isinstance(value, dict):
        return {key: _scalar(_plain(item)) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _scalar(value: Any) -> Any:
    """Number for an array of one element: what dicts of settings and curves hold."""
    return value.item() if hasattr(value, "item") and value.size == 1 else value


def _with_tensors(method: Callable) -> Callable:
    @functools.wraps(method)
    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return method(self, *map(_plain, args), **{key: _plain(value) for key, value in kwargs.items()})

    return call


for _name in (
    "add_audio add_embedding add_histogram add_image add_image_with_boxes add_images add_mesh add_pr_curve "
    "add_pr_curve_raw add_scalar add_scalars add_video"
).split():
    setattr(SummaryWriter, _name, _with_tensors(getattr(tensorboardX.SummaryWriter, _name)))
