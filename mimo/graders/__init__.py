"""How good a finished rollout is: facts by program analysis, rubrics, ranking, maintainer classes."""
