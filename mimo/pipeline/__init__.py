"""The engine that runs a recipe's stages: plan, keys, subprocesses, stop and resume (docs/pipeline.md)."""
