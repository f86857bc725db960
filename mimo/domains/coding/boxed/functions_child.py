"""The untrusted half of the functions runner: imports the policy's modules and calls them on request.

One JSON line per call on the inherited descriptor 0, one per answer on descriptor 1. Values travel as Python
literals, so an object with its own idea of equality cannot cross.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import resource
import sys
from typing import Any


def main() -> None:
    """Serve calls until the other half closes the pipe."""
    requests = os.fdopen(os.dup(0), "r", encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    sys.path.append(sys.argv[1])
    seconds = int(sys.argv[2])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    for line in requests:
        request = json.loads(line)
        try:
            function = getattr(importlib.import_module(request["module"]), request["function"])
            arguments = request["arguments"]
            answer = {"value": repr(function(*_literal(arguments[0]), **_literal(arguments[1])))}
        except Exception as error:  # noqa: BLE001 - whatever the policy's code raises is the answer
            answer = {"error": type(error).__name__, "message": str(error)[:200]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _literal(text: str) -> Any:
    return ast.literal_eval(text)


if __name__ == "__main__":
    main()
