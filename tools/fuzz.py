#!/usr/bin/env python3
"""Call operations with random operands for a while, and report what is wrong: a case for each operation.

    hatch run fuzz --seconds 600
    hatch run fuzz --only add,softmax --seed 3
    hatch run fuzz --case "Case(op='add', dtype='int8', layouts=('strided',), seed=5)"
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback
import warnings

from rushlight.testing import fuzz


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="names of operations, with commas between them")
    parser.add_argument("--case", help="run one case, as it was printed")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    fuzz.operations()
    if options.case:
        print("right" if fuzz.check(eval(options.case, {"Case": fuzz.Case})) else "not a call that the operation takes")
        return 0
    wrong: dict[str, str] = {}
    end, count, done = time.monotonic() + options.seconds, 0, 0
    for case in fuzz.cases(options.seed, options.only.split(",") if options.only else None):
        if time.monotonic() > end:
            break
        if case.op in wrong:
            continue
        try:
            done += fuzz.check(case)
        except Exception as error:
            wrong[case.op] = str(error) if isinstance(error, AssertionError) else traceback.format_exc(limit=-3)
            print(f"{case!r}\n    {wrong[case.op].removeprefix(repr(case) + ': ')}", flush=True)
        count += 1
    print(f"{done} calls checked, {count - done - len(wrong)} refused, {len(wrong)} operations wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
