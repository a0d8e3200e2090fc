"""Every operation has a benchmark."""


def test_every_operation_has_a_benchmark(tool):
    bench_ops = tool("bench_ops")
    listed = bench_ops.LIST.read_text(encoding="utf-8").split()
    assert listed == bench_ops.names(), "benchmarks/ops.txt is out of date: hatch run bench-ops"
