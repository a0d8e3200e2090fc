"""Calls that reach outside of a program: clocks, random numbers, `logging`, `warnings`, streams of text."""

from __future__ import annotations

import functools
import logging
import os
import random
import sys
import warnings
from types import FunctionType
from typing import Any

import numpy as np

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.late import LateV
from rushlight.compiler.capture.outside import (
    CLOCKS,
    caller_warned_plainly,
    log,
    logs_plainly,
    warn,
    warn_caller,
    warns_plainly,
)
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.value import NONE, Obj, TensorV, Value, constant

Args = list[Value]
Kwargs = dict[str, Value]
_DRAWS = ("random", "getrandbits")
_NUMPY_DRAWS = frozenset("rand random random_sample randn randint uniform normal standard_normal beta gamma "
                         "exponential binomial poisson laplace lognormal triangular".split())


def shown(session: Session, x: Value) -> Value:
    """A value as it is now, for a message."""
    if isinstance(x, TensorV):
        return session.recorder.snapshot(x.tracer)
    if not isinstance(x, LateV):
        session.plain(x)
    return x


def builtin(session: Session, fn: Any, args: Args, kwargs: Kwargs) -> Value | None:
    """A call of a builtin; None for those that reach not outside, or are not known here."""
    if fn in CLOCKS and not args and not kwargs:
        return session.outside.clock(fn)
    owner, name = getattr(fn, "__self__", None), fn.__name__
    if isinstance(owner, random.Random) and name in _DRAWS and not kwargs:
        return _draw(session, owner, None, name, args)
    if getattr(fn, "__objclass__", None) is random.Random.__base__ and name in _DRAWS and args and not kwargs:
        generator, *rest = args
        if isinstance(generator, Obj) and isinstance(generator.obj, random.Random):
            return _draw(session, generator.obj, generator.source, name, rest)
    if fn is warnings.warn:
        return _warn(session, args, kwargs)
    return None


def _draw(session: Session, owner: random.Random, source: Any, name: str, args: Args) -> Value:
    if source is not None:
        source.check_type()
        session.note(owner, source)
    numbers = [session.plain(a) for a in args]
    if len(numbers) != (name == "getrandbits") or any(type(k) is not int or k <= 0 for k in numbers):
        raise Abort("a random number with other arguments")
    return session.outside.draw(owner, source, name, numbers)


def numpy_draw(session: Session, fn: Obj, args: Args, kwargs: Kwargs) -> Value | None:
    """`numpy.random.beta(a, a)`: a draw from the generator that numpy keeps for all; None for other methods."""
    owner, name = fn.obj.__self__, getattr(fn.obj, "__name__", "")
    if type(owner) is not np.random.RandomState or name not in _NUMPY_DRAWS:
        return None
    if fn.source is not None:
        fn.source.check_identity()
    numbers = [session.plain(a) for a in args]
    if kwargs or not all(type(k) in (int, float) and k - k == 0 for k in numbers):
        raise Abort("random numbers of numpy with other arguments than numbers")
    return session.outside.draw(owner, None, name, numbers)


def _warn(session: Session, args: Args, kwargs: Kwargs) -> Value:
    given = dict(zip(("message", "category", "stacklevel"), args)) | kwargs
    message, category = session.plain(given["message"]), session.concrete(given.get("category", NONE)) or UserWarning
    level = session.concrete(given["stacklevel"]) if "stacklevel" in given else 1
    if given.keys() - {"message", "category", "stacklevel"} or type(message) is not str or not (
            isinstance(category, type) and issubclass(category, Warning)):
        raise Abort("a warning with other arguments")
    if type(level) is not int or level < 1:
        raise Abort("a warning with other arguments")
    if level <= len(session.frames):
        frame = session.frames[-level]
        ask = functools.partial(warns_plainly, message, category, frame.globals.get("__name__") or "<sys>", frame.line)
        say = functools.partial(warn, frame.globals, frame.code.co_filename, frame.line)
    else:
        outer = level - len(session.frames)
        ask = functools.partial(caller_warned_plainly, outer, message, category)
        say = functools.partial(warn_caller, outer)
    if not ask():
        raise Abort("a warning that is an error")
    session.settings.append((ask, True))
    session.outside.say(say, [constant(message), constant(category)])
    return NONE


def stream(session: Session, owner: Obj, name: str, args: Args) -> Value:
    """`sys.stdout.write(text)`, `sys.stderr.flush()`."""
    if owner.source is None or not any(owner.obj is x for x in (sys.stdout, sys.stderr)):
        raise Abort("a stream")
    owner.source.check_identity()
    if name == "flush" and not args:
        session.outside.say(owner.obj.flush, [])
        return NONE
    if name != "write" or len(args) != 1 or type(session.plain(args[0])) is not str:
        raise Abort(f"{name} of a stream")
    session.outside.say(owner.obj.write, args)
    return constant(len(session.plain(args[0])))


def _logged(level: int) -> Any:
    def call(session: Session, args: Args, kwargs: Kwargs) -> Value:
        logger, message, *rest = args
        if not isinstance(logger, Obj) or kwargs or not logs_plainly(logger.obj):
            raise Abort("logging with options, or to handlers of the program")
        if logger.source is not None:
            logger.source.check_identity()
        session.settings.append((functools.partial(logs_plainly, logger.obj), True))
        frame = next(f for f in reversed(session.frames) if os.path.normcase(f.code.co_filename) != logging._srcfile)
        give = functools.partial(log, logger.obj, level, frame.code.co_filename, frame.line, frame.code.co_name)
        session.outside.say(give, [shown(session, x) for x in (message, *rest)])
        return NONE

    return call


def _enabled(session: Session, args: Args, kwargs: Kwargs) -> Value:
    logger, level = args
    if not isinstance(logger, Obj) or type(logger.obj) not in (logging.Logger, logging.RootLogger):
        raise Abort("a logger of the program")
    if logger.source is not None:
        logger.source.check_identity()
    ask = functools.partial(logger.obj.isEnabledFor, session.concrete(level))
    answer = bool(ask())
    session.settings.append((lambda: bool(ask()), answer))
    return constant(answer)


FUNCTIONS: dict[FunctionType, Any] = {
    logging.Logger.debug: _logged(logging.DEBUG), logging.Logger.info: _logged(logging.INFO),
    logging.Logger.warning: _logged(logging.WARNING), logging.Logger.error: _logged(logging.ERROR),
    logging.Logger.critical: _logged(logging.CRITICAL), logging.Logger.isEnabledFor: _enabled,
}
