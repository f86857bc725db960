"""Tasks of other formats as task folders: a place at a time, each with its reason where it cannot be."""
