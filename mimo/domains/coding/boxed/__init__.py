"""Programs that run inside the verifier's box; they import the standard library (and pytest) only."""
