"""The visual domain: write or repair a drawing; what it looks like, rendered by us, decides."""
