"""The library under test, compiled: each call must do what the same call does eagerly."""

import collections

from harness.compare import Mismatch, reason
from harness.side import NotApplicable, Side, field_names

SEED = 20


class CompiledSide(Side):
    """A library whose functions are compiled; `eager` is the same library without that.

    A call is made three times from equal arguments and one seed: eagerly, compiled for the first
    time, and compiled again. All three must agree in values, dtype, strides, requires_grad, what
    they did to the arguments and to the random state, or in the exception.
    """

    def __init__(self, eager, backend):
        super().__init__(eager.lib)
        self.eager, self.backend = eager, backend
        self._fates = collections.Counter()

    def from_array(self, array):
        return self.eager.from_array(array)

    def to_array(self, tensor):
        return self.eager.to_array(tensor)

    def call(self, function, arguments, values=True):
        made = []
        wanted = self._run(function, arguments, made)
        if isinstance(wanted[0], NotApplicable):
            raise wanted[0]
        compiled = self.lib.compile(function, backend=self.backend)
        for time in ("the first", "the second"):
            got = self._run(compiled, arguments, made)
            try:
                self._agree(wanted, got, values)
            except Mismatch as error:
                raise Mismatch(f"{time} compiled call differs from the eager one: {error}") from None
        self._note(compiled)
        if isinstance(got[0], Exception):
            raise got[0]
        return got[:3]

    def compiled(self, module):
        return self.lib.compile(module, backend=self.backend)

    def _run(self, function, arguments, made):
        args, kwargs = arguments()
        made.append((args, kwargs))  # alive to the end: addresses must not decide anything
        self.lib.manual_seed(SEED)
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            result = error
        return result, args, kwargs, self.lib.get_rng_state()

    def take_fates(self):
        """How many functions were captured since this was last asked, and why others were not."""
        fates, self._fates = self._fates, collections.Counter()
        return fates

    def _note(self, compiled):
        """Count what became of the call; a failure of the compiler itself is an error."""
        state = getattr(compiled, "_rushlight_state", None)
        if state is None:
            return
        if state.entries:
            self._fates["captured"] += 1
        for text in state.aborts:
            if text.startswith("the compiler failed"):
                raise Mismatch(text)
            self._fates[text] += 1

    def _agree(self, wanted, got, values):
        if isinstance(wanted[0], Exception) or isinstance(got[0], Exception):
            described = [reason(x[0]) if isinstance(x[0], Exception) else "a result"
                         for x in (wanted, got)]
            if described[0] != described[1]:
                raise Mismatch(f"expected {described[0]}, got {described[1]}")
        else:
            self._same(wanted[0], got[0], values, "result")
        self._same(wanted[1], got[1], values, "arguments")
        self._same(wanted[2], got[2], values, "keywords")
        if not self.lib.equal(wanted[3], got[3]):
            raise Mismatch("another state of the random number generator")

    def _same(self, wanted, got, values, path):
        if type(wanted) is not type(got):
            raise Mismatch(f"{path}: expected a {type(wanted).__name__}, got a {type(got).__name__}")
        if self.is_tensor(wanted):
            self._same_tensor(wanted, got, values, path)
        elif isinstance(wanted, (list, tuple)):
            if (len(wanted), field_names(wanted)) != (len(got), field_names(got)):
                raise Mismatch(f"{path}: expected {len(wanted)} items, got {len(got)}")
            for index, pair in enumerate(zip(wanted, got)):
                self._same(*pair, values, f"{path}[{index}]")
        elif isinstance(wanted, dict):
            if list(wanted) != list(got):
                raise Mismatch(f"{path}: expected keys {list(wanted)}, got {list(got)}")
            for key in wanted:
                self._same(wanted[key], got[key], values, f"{path}[{key!r}]")
        elif isinstance(wanted, (int, float, complex, str, bool)) and values:
            if repr(wanted) != repr(got):
                self._close(wanted, got, path)

    def _same_tensor(self, wanted, got, values, path):
        for name in ("dtype", "shape", "device", "requires_grad", "is_leaf"):
            if getattr(wanted, name) != getattr(got, name):
                raise Mismatch(f"{path}: expected {name} {getattr(wanted, name)}, "
                               f"got {getattr(got, name)}")
        if wanted.stride() != got.stride() and wanted.numel():
            raise Mismatch(f"{path}: expected strides {wanted.stride()}, got {got.stride()}")
        if values:
            self._close(got.detach(), wanted.detach(), path)

    def _close(self, got, wanted, path):
        try:
            self.lib.testing.assert_close(got, wanted, equal_nan=True)
        except AssertionError as error:
            raise Mismatch(f"{path}: {reason(error).removeprefix('AssertionError: ')}") from None
