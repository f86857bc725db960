"""Programs that run in boxes: the workspace's own tools, and the reader of a database for the verifier."""
