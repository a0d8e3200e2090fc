"""Files for TensorBoard, read back by the library that writes them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import rushlight
from rushlight import nn

pytest.importorskip("tensorboardX")

from rushlight.utils.tensorboard import SummaryWriter  # noqa: E402
from rushlight.utils.tensorboard.graph import model_graph  # noqa: E402


def events(folder):
    """The events of all files in a folder and below: records are framed by a length and two checksums."""
    from tensorboardX.proto.event_pb2 import Event  # beside its use, as the module may be absent

    for path in sorted(Path(folder).rglob("events.*")):
        data, at = path.read_bytes(), 0
        while at < len(data):
            length = int.from_bytes(data[at : at + 8], "little")
            yield path, Event.FromString(data[at + 12 : at + 12 + length])
            at += length + 16


def values(folder):
    return {value.tag: (event.step, value) for _, event in events(folder) for value in event.summary.value}


def test_scalars_histograms_images_figures_and_text(tmp_path):
    figure = pytest.importorskip("matplotlib.figure").Figure()
    figure.subplots().plot([1, 2])
    with SummaryWriter(tmp_path) as writer:
        assert writer.log_dir == writer.get_logdir() == str(tmp_path)
        for step in range(3):
            loss = (rushlight.ones((), requires_grad=True) * step).to(rushlight.bfloat16)
            writer.add_scalar("loss", loss, step)
        writer.add_scalars("both", {"a": rushlight.tensor(1.0), "b": 2}, 1)
        writer.add_histogram("weights", nn.Parameter(rushlight.arange(10.0)), 4)
        writer.add_image("image", rushlight.rand(3, 4, 5), 0)
        writer.add_images("images", rushlight.rand(2, 1, 4, 4), 0)
        writer.add_figure("figure", figure, 0, close=False)
        writer.add_text("words", "a *word*", 0)
        writer.add_pr_curve("curve", rushlight.tensor([0, 1, 1]), rushlight.tensor([0.2, 0.6, 0.4]), 0)
    found = values(tmp_path)
    step, loss = found["loss"]
    assert step == 2 and loss.simple_value == 2.0
    assert found["weights"][1].histo.num == 10 and found["weights"][1].histo.max == 9.0
    assert (found["image"][1].image.height, found["image"][1].image.width) == (4, 5)
    assert found["figure"][1].image.height > 100
    assert found["words/text_summary"][1].tensor.string_val == [b"a *word*"] and "curve" in found
    both = [(path, v) for path, event in events(tmp_path) for v in event.summary.value if v.tag == "both"]
    curves = {path.parent.name: value.simple_value for path, value in both}
    assert curves == {"a": 1.0, "b": 2.0}


def test_settings_with_results(tmp_path):
    with SummaryWriter(tmp_path) as writer:
        writer.add_hparams({"lr": 0.1, "layers": 2}, {"accuracy": rushlight.tensor(0.9)}, run_name="one", global_step=7)
        with pytest.raises(ValueError, match="hparam_domain_discrete"):
            writer.add_hparams({}, {}, {"lr": [0.1, 1.0]})
    step, accuracy = values(tmp_path / "one")["accuracy"]
    assert step == 7 and accuracy.simple_value == pytest.approx(0.9)


def test_embeddings_are_tables(tmp_path):
    points = rushlight.rand(3, 2)
    with SummaryWriter(tmp_path) as writer:
        writer.add_embedding(points, metadata=["a", "b", "c"], tag="points")
    table = np.loadtxt(next(tmp_path.rglob("tensors.tsv")))
    assert np.allclose(table, points.numpy(), atol=1e-5)
    assert next(tmp_path.rglob("metadata.tsv")).read_text().split() == ["a", "b", "c"]


def test_the_graph_has_the_operations_of_each_module(tmp_path):
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.ReLU())
    before = {name: value.clone() for name, value in model.state_dict().items()}
    x = rushlight.rand(2, 4)
    nodes = {node.name: node for node in model_graph(model, x).node}
    assert set(nodes["Sequential/0/linear"].input) == {"input/0", "Sequential/0/weight", "Sequential/0/bias"}
    assert nodes["output/0"].input == ["Sequential/3/relu"]
    shape = nodes["Sequential/0/linear"].attr["_output_shapes"].list.shape[0]
    assert [dim.size for dim in shape.dim] == [2, 3]
    for node in nodes.values():
        assert all(name in nodes for name in node.input)
    assert model.training and all(rushlight.equal(v, before[name]) for name, v in model.state_dict().items())
    with SummaryWriter(tmp_path) as writer:
        writer.add_graph(model, (x,))
    assert sum(bool(event.graph_def) for _, event in events(tmp_path)) == 1


def test_without_the_library_the_error_says_what_to_install():
    code = (
        "import sys; sys.modules['tensorboardX'] = None\n"
        "try:\n    import rushlight.utils.tensorboard\n"
        "except ModuleNotFoundError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "pip install rushlight-nn[tensorboard]" in done.stdout
