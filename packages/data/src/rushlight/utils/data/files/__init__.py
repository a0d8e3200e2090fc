"""Datasets over the files that people have. Nothing is read before it is asked for, and worker processes open files
themselves."""
