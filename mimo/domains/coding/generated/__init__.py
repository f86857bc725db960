"""A seeded generator of small repositories with one wrong line and tests that show it."""
