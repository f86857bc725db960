"""A seeded generator of small C and C++ programs with one planted bug and the input that shows it."""
