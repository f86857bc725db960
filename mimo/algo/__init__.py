"""The mathematics of the recipe: pure functions on tensors, one idea a file.

Shapes: `[rollouts]` runs over all rollouts of a batch, `[groups]` over its groups, `group` says which group a
rollout belongs to (any order, any sizes). float64 in gives float64 out; float32 works too.
"""
