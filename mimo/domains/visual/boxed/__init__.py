"""Programs that run inside the verifier's box; they import nothing of ours."""
