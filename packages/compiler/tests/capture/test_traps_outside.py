"""Traps: clocks, Python's random numbers, messages of `logging`, `warnings` and streams."""

import io
import logging
import random
import sys
import time
import warnings

import numpy as np
import pytest

import rushlight


def numbers(*shape):
    return rushlight.linspace(-1.0, 1.0, rushlight.Size(shape).numel()).reshape(shape)


def test_coins(check):
    def scenario(compile):
        random.seed(3)

        def f(x):
            return x * 2 if random.random() < 0.5 else x + 1

        call = compile(f)
        return [call(numbers(2)) for _ in range(12)], random.random()

    check(scenario, variants=2)


def test_a_generator_of_the_program_and_numbers_beside_tensors(check):
    def scenario(compile):
        generator = random.Random(7)

        def f(x, y):
            share = generator.random()
            noise = random.uniform(-1.0, 1.0)
            return share * x + (1 - share) * y + noise, share, noise

        random.seed(5)
        call = compile(f)
        return [call(numbers(2), numbers(2) + 1) for _ in range(5)], generator.random(), random.random()

    check(scenario, variants=1)


def test_generators_are_put_back_where_a_call_runs_eagerly(check):
    def scenario(compile):
        random.seed(1)
        table = numbers(4)

        def f(i):
            share = random.random()
            return table[i].sum() * share, share

        call = compile(f)
        results = [call(rushlight.tensor([0, 1])), call(rushlight.tensor([2, 3]))]
        with pytest.raises(IndexError):
            call(rushlight.tensor([0, 9]))
        return *results, random.random(), call(rushlight.tensor([1, 1]))

    check(scenario)


def test_actions_of_an_agent(check):
    nn = pytest.importorskip("rushlight.nn")

    def scenario(compile):
        random.seed(4)
        net = nn.Linear(2, 3)
        for p in net.parameters():
            p.data.copy_(numbers(*p.shape))

        def act(x, epsilon):
            if random.random() < epsilon:
                return random.randrange(3)
            with rushlight.no_grad():
                return net(x).argmax().item()

        call = compile(act)
        return [call(numbers(2) * (-1) ** i, 0.5) for i in range(20)], random.random()

    check(scenario, captured=None)


@pytest.mark.parametrize("method", ["gauss", "seed", "shuffle", "choice"])
def test_other_draws(check, method):
    def scenario(compile):
        random.seed(2)

        def f(x):
            items = [1, 2, 3]
            found = {"gauss": lambda: random.gauss(0, 1), "seed": lambda: random.seed(1),
                     "shuffle": lambda: random.shuffle(items), "choice": lambda: random.choice(items)}[method]()
            return x, found, items

        call = compile(f)
        return [call(numbers(2)) for _ in range(4)], random.random()

    check(scenario, captured=None)


def test_clocks(check):
    def scenario(compile):
        seen = []

        def f(x):
            start = time.perf_counter()
            y = x.exp().sum()
            middle = time.perf_counter()
            z = y * 2
            seen.append(time.perf_counter() - middle)
            return z, time.monotonic_ns(), middle - start, time.time()

        call = compile(f)
        for _ in range(3):
            before = time.perf_counter(), time.monotonic_ns(), time.time()
            result, nanoseconds, passed, now = call(numbers(3))
            assert before[1] <= nanoseconds <= time.monotonic_ns()
            assert 0 <= passed <= time.perf_counter() - before[0]
            assert before[2] <= now <= time.time() + 1e-3
            assert type(nanoseconds) is int and type(passed) is float
        return result, all(0 <= s < 1 for s in seen), len(seen)

    check(scenario, variants=1)


def test_steps_that_are_timed(check):
    nn = pytest.importorskip("rushlight.nn")

    def scenario(compile):
        net, times = nn.Linear(2, 1), []
        for p in net.parameters():
            p.data.fill_(0.5)
        optimizer = rushlight.optim.SGD(net.parameters(), 0.1)

        def step(x):
            start = time.time()
            loss = net(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            elapsed = time.time() - start
            times.append(elapsed)
            if elapsed > 100:
                return "slow"
            return loss.item(), net(x).sum().item()

        call = compile(step)
        return [call(numbers(3, 2)) for _ in range(3)], all(t >= 0 for t in times), len(times)

    check(scenario, variants=1)


def records(compile, f, *calls, level=logging.INFO):
    """What a function logs, and gives."""
    logger, stream = logging.getLogger("rushlight.traps"), io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logging.Formatter("%(name)s %(levelname)s %(filename)s:%(lineno)d %(funcName)s %(message)s"))
    logger.handlers, logger.propagate = [handler], False
    logger.setLevel(level)
    try:
        call = compile(f(logger))
        results = [call(*args) for args in calls]
        logger.setLevel(logging.ERROR)
        return *results, call(*calls[0]), stream.getvalue()
    finally:
        logger.handlers, logger.propagate = [], True


def test_logging(check):
    def scenario(compile):
        def made(logger):
            def f(x):
                logger.info("loss %.3f of %s", x.sum().item(), tuple(x.shape))
                y = x * 2
                logger.debug("hidden")
                if logger.isEnabledFor(logging.WARNING):
                    logger.warning(f"first {y[0].item():.2f}")
                return y

            return f

        return records(compile, made, (numbers(3) + 1,), (numbers(3) + 2,))

    check(scenario)


def test_logging_to_the_program_itself_is_left_to_eager_execution(check):
    class Keep(logging.Handler):
        def emit(self, record):
            kept.append(record.getMessage())

    kept = []

    def scenario(compile):
        kept.clear()
        logger = logging.getLogger("rushlight.traps.kept")
        logger.handlers, logger.propagate = [Keep()], False
        logger.setLevel(logging.INFO)

        def f(x):
            logger.info("now")
            return x * len(kept)

        call = compile(f)
        return call(numbers(2)), call(numbers(2)), list(kept)

    check(scenario, captured=False)


@pytest.mark.parametrize("errors", [False, True])
def test_warnings(check, errors):
    def scenario(compile):
        def warns(x):
            warnings.warn("odd", DeprecationWarning)  # noqa: B028  the default is what is tried
            warnings.warn("of the caller", stacklevel=2)
            return x * 2

        def f(x):
            return warns(x)

        call = compile(f)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = [call(numbers(2)), call(numbers(2))]
        with warnings.catch_warnings():
            warnings.simplefilter("error" if errors else "ignore")
            if not errors:
                return results, call(numbers(2)), len(caught)
            with pytest.raises(DeprecationWarning):
                call(numbers(2))
        return results, [(str(w.message), w.category.__name__, w.filename, w.lineno) for w in caught]

    check(scenario, captured=None if errors else True)


@pytest.mark.parametrize("level", [2, 3])
@pytest.mark.parametrize("errors", [False, True])
def test_warnings_that_name_who_calls_the_program(check, level, errors):
    def scenario(compile):
        def f(x):
            warnings.warn("of the caller", stacklevel=level)
            return x * 2

        call = compile(f)

        def calls(x):
            return call(x), call(x + 1)

        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("default")  # once for each line that is named
            results = [calls(numbers(2)), calls(numbers(2))]
        told = [(str(w.message), w.filename, w.lineno) for w in caught]
        if errors:
            with warnings.catch_warnings(), pytest.raises(UserWarning):
                warnings.simplefilter("error")
                calls(numbers(2))
        return results, told

    check(scenario, captured=not errors)


def test_streams(check):
    def scenario(compile):
        before, sys.stderr = sys.stderr, io.StringIO()
        try:
            def f(x):
                print("shown", x.sum().item(), x)
                count = sys.stderr.write("written\n")
                return x * count

            call = compile(f)
            return call(numbers(2)), call(numbers(2)), sys.stderr.getvalue()
        finally:
            sys.stderr = before

    check(scenario)


@pytest.mark.parametrize("name", ["emit", "format", "makeRecord", "handle"])
def test_a_method_of_logging_that_is_replaced_is_seen(check, name):
    def scenario(compile):
        seen = []
        stream = io.StringIO()
        logger = logging.Logger("rushlight.traps", logging.INFO)
        handler = logging.StreamHandler(stream)
        logger.addHandler(handler)

        def f(x):
            logger.info("now")
            return x * len(seen)

        call = compile(f)
        first = call(numbers(2))
        owner = logger if name in ("makeRecord", "handle") else handler
        original = getattr(owner, name)
        setattr(owner, name, lambda *args: [seen.append(name), original(*args)][1])
        return first, call(numbers(2)), call(numbers(2)), stream.getvalue(), seen

    check(scenario, captured=False)


def test_messages_of_the_root_logger_name_the_line_of_the_program(check):
    def scenario(compile):
        stream, root, before = io.StringIO(), logging.root, (logging.root.handlers, logging.root.level)
        handler = logging.StreamHandler(stream)
        handler.setFormatter(logging.Formatter("%(filename)s:%(lineno)d %(funcName)s %(message)s"))
        root.handlers = [handler]
        try:
            def f(x):
                logging.warning("odd %d", 3)  # noqa: LOG015
                return x * 2

            call = compile(f)
            return call(numbers(2)), call(numbers(2)), stream.getvalue()
        finally:
            root.handlers, _ = before

    check(scenario)


@pytest.mark.parametrize("fn", [
    lambda x, k: (x, pow(np.float64(k), -1)),
    lambda x, k: (x, np.array([k * 1j]).astype(float)[0]),
    lambda x, k: (x, np.mean(np.zeros(int(k)))),
    lambda x, k: (x, float(np.complex128(k))),
])
def test_what_numpy_warns_of(check, fn):
    def scenario(compile):
        call, seen = compile(fn), []
        for k in (1.0, 0.0, 0.0, 2.0):
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                seen += [str(call(rushlight.ones(2), k)[1]), [str(w.message) for w in said]]
        return seen

    check(scenario, captured=None)


# the function; what happens between calls
NUMPY_DRAWS = {
    "share of a mixture": (
        "def f(x):\n    lam = np.random.beta(0.4, a); return lam * x + (1 - lam) * x.flip(0), lam, a, np.random.rand()",
        "a = 0.7 | np.random.seed(4) | v = np.random.rand() | a = 2 | np.random.beta = lambda a, b: 0.5 | "
        "np.random.beta = kept"),
    "coin": (
        "def f(x): return x * 2 if np.random.uniform(0.0, 1.0) < a else x + np.random.randint(3)",
        "np.random.seed(4) | np.random.seed(6) | a = 0.1 | np.random.set_state(state) | a = 0.9"),
    "draw before an error": (
        "def f(x): k = np.random.rand(); return x[torch.tensor([i])] * k, v, a",
        "i = 1 | i = 7 | v = np.random.rand() | i = 0"),
    "arguments that numpy refuses": (
        "def f(x): return x * np.random.gamma(a)", "a = -1.0 | a = 2.0 | a = float('nan') | a = [1.0, 2.0] | a = 0"),
    "generator of the program": (
        "def f(x): return x * draw() + np.random.randn()",
        "own.seed(8) | draw = np.random.RandomState(2).rand | draw = own.rand"),
}


@pytest.mark.parametrize("case", NUMPY_DRAWS)
def test_random_numbers_of_numpy(case, check, calls):
    setup = ("import numpy as np; kept = np.random.beta; np.random.seed(0); state = np.random.get_state(); v = 0\n"
             "a = 0.4; i = 2; own = np.random.RandomState(1); draw = own.rand")
    changes = [*NUMPY_DRAWS[case], "a = np.random.rand()"]
    expected = calls(setup, changes[0], " | ".join(changes[1:]), lambda fn: fn)
    assert calls(setup, changes[0], " | ".join(changes[1:]), check.compile) == expected
    assert check.states[0].captures
