"""asv's benchmarks of rushlight: `bench_<package>_<family>.py` each.

The files come from the working tree, the packages from the measured commit. So rushlight is imported inside `setup`,
parameters do not depend on it, and what a commit does not have is skipped.
"""
