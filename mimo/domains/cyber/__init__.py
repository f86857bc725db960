"""The cyber domain: find an input that makes a small program report its planted bug."""
