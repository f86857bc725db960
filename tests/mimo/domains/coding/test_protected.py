"""Which changes are carried into the verifier's tree, and what the source audit sees."""

from __future__ import annotations

import pytest

from mimo.domains.coding.protected import PROTECTED, matches, refusal
from mimo.domains.coding.sentinel import with_sentinels
from mimo.domains.coding.source_audit import audit_change


@pytest.mark.parametrize(
    "path",
    [
        "conftest.py", "a/b/conftest.py", "CONFTEST.py", "test_a.py", "pkg/test_a.py", "a_test.py",
        "tests/x.txt",
        "pkg/tests/data/a.json", "pytest.ini", "setup.cfg", "pyproject.toml", "sitecustomize.py", "x.pth",
        "a/__pycache__/b.pyc", ".git/config", "x-1.0.dist-info/METADATA", "../up.py", "/abs.py", "json.py",
        "src/json.py", "pytest.py", "_pytest/runner.py", "logging/__init__.py", "ext.so",
    ],
)  # fmt: skip
def test_refused(path: str) -> None:
    assert refusal(path, PROTECTED, frozenset({"mathx"})) is not None


@pytest.mark.parametrize(
    "path", ["mathx.py", "pkg/tools.py", "a.md", "src/pkg/a.py", "attest.py", "pkg/json.py"]
)
def test_allowed(path: str) -> None:
    assert refusal(path, PROTECTED, frozenset({"mathx", "pkg"})) is None


def test_a_package_of_the_tree_may_keep_a_known_name() -> None:
    assert refusal("calendar/core.py", PROTECTED, frozenset({"calendar"})) is None
    assert matches("a/b/test_x.py", "**/test_*.py")


@pytest.mark.parametrize(
    ("code", "route"),
    [
        ("import gc\n", "F10 introspection"),
        ("from _pytest import runner\n", "F07 test framework"),
        ("import sys\nsys._getframe()\n", "F10 introspection"),
        ("import sys\ngetattr(sys, '_get' + 'frame')()\n", "hidden code"),
        ("import os\nos._exit(0)\n", "F08 ends the run"),
        ("class A:\n    def __eq__(self, other):\n        return True\n", "F09 always equal"),
        ("open('/proc/1/mem')\n", "F10 introspection"),
        ("exec('x')\n", "hidden code"),
    ],
)
def test_audit_sees(code: str, route: str) -> None:
    assert route in audit_change("", code)
    assert audit_change(code, code) == []


@pytest.mark.parametrize(
    "code",
    [
        "def f(a):\n    return a + 1\n",
        "class A:\n    def __eq__(self, other):\n        return self.x == other.x\n",
        "class A:\n    def f(self):\n        return self.modules, self.argv, getattr(self, 'name')\n",
        "import os, sys, re\nprint(sys.version, os.path.join('a', 'b'))\n",
        "def broken(:\n",
    ],
)
def test_audit_leaves_honest_code_alone(code: str) -> None:
    assert audit_change("", code) == []


def test_sentinels_wrap_asserted_equalities_only() -> None:
    source = (
        '"""Doc."""\nfrom __future__ import annotations\nimport x\n\ndef test_a(self):\n'
        "    assert f(1) == 2 and g() != h()\n"
        "    assert f(1) < 3\n    y = f(1) == 2\n    self.assertEqual(f(1), z)\n"
    )
    out = with_sentinels(source, "t.py")
    assert "assert mimo_real(f(1)) == 2 and mimo_real(g()) != mimo_real(h())" in out
    assert "assert f(1) < 3" in out
    assert "y = f(1) == 2" in out
    assert "self.assertEqual(mimo_real(f(1)), mimo_real(z))" in out
    assert out.index("__future__") < out.index("mimo_sentinel") < out.index("import x")
