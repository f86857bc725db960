"""The agent domain: a workspace of files and a database to bring into a described state with local tools."""
