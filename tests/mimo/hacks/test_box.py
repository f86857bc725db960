"""Families D and E in real boxes: a clean box has no finding; what is planted in its environment is found."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from mimo.hacks.needles import Secrets, build_needles
from mimo.hacks.probe import CannotScrub, find_leaks, leaks_only, look_inside
from mimo.hacks.scene import Expected, open_scene
from tests.mimo.hacks.conftest import Environment
from tests.mimo.hacks.prepared import Prepared, secrets

NGINX = {"pid": 77, "parent": 0, "cmdline": "nginx", "name": "nginx", "environ": None}


def test_generated_environments_have_no_finding_at_all(generated: Prepared, environment: Environment) -> None:
    for task in generated.tasks:
        environment.task, environment.secrets = task, secrets(generated, task)
        environment.tree = generated.store.snapshot(task)
        findings, _ = environment.probe(box=True, snapshot=False)
        assert findings == [], (task.family, findings)


@pytest.mark.parametrize(
    ("name", "value", "route"),
    [
        ("HTTPS_PROXY", "http://10.0.0.1:3128", "E02"),
        ("no_proxy", "localhost", "E02"),
        ("PIP_FIND_LINKS", "/wheels", "B07"),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "/other/objects", "A07"),
        ("GITHUB_TOKEN", "x", "C11"),
        ("HINT", "{fixed}", "C04"),
        ("RUN_NAME", "{task_id}", "C05"),
    ],
)
def test_a_variable_that_leaks_is_found_and_dropped(
    environment: Environment, name: str, value: str, route: str
) -> None:
    filled = value.format(fixed=environment.fixed.decode(), task_id=environment.task.task_id)
    environment.env = {name: filled}
    findings, cleaned = environment.probe(box=True)
    assert (route, f"env:{name}") in {(found.route, found.path) for found in findings}
    assert cleaned is not None
    assert cleaned.drop_env == {name}


def test_a_leak_of_the_box_itself_cannot_be_scrubbed(environment: Environment) -> None:
    with environment.box(environment.tree, {}) as box:
        box.exec("echo left > /tmp/report.txt; (sleep 30 &)")
        seen = look_inside(box)
    with open_scene(environment.tree, environment.task.base_commit, environment.secrets) as scene:
        scene.box, scene.strict = seen, False
        scene.expected = Expected()
        found = {(item.route, item.path) for item in leaks_only(find_leaks(scene))}
        from mimo.hacks.probe import scrub_copy

        with pytest.raises(CannotScrub):
            scrub_copy(scene, leaks_only(find_leaks(scene)), environment.folder)
    assert ("C02", "/tmp/report.txt") in found


def test_every_weakness_of_a_box_is_a_finding(environment: Environment) -> None:
    """Answers of a box that is open in every way, judged one by one (no such box is made here)."""
    with environment.box(environment.tree, {}) as box:
        good: dict[str, Any] = dict(look_inside(box))
    weak: list[tuple[str, str, Any]] = [
        ("D08", "status", {**good["status"], "CapEff": "00000000a80425fb"}),
        ("D08", "status", {**good["status"], "NoNewPrivs": "0"}),
        ("D08", "user_namespace", True),
        ("D05", "sockets", ["/var/run/docker.sock"]),
        ("E06", "sockets", ["@/tmp/.X11-unix/X0"]),
        ("D02", "secrets", ["/etc/shadow"]),
        ("D06", "writable", ["/cache"]),
        ("D11", "devices", [*good["devices"], "nvidia0"]),
        ("D07", "sys", True),
        ("D04", "descriptors", {"9": {"to": "/etc/shadow", "kind": 0}}),
        ("D03", "processes", [*good["processes"], NGINX]),
        ("D07", "mounts", [*good["mounts"], f"1 2 0:1 /runs/{environment.task.task_id} /work rw"]),
        ("E01", "reached", {"tcp:1.1.1.1:443": "connected"}),
        ("D09", "reached", {"tcp:169.254.169.254:80": "a route exists"}),
        ("E01", "routes", ["eth0\t00000000\t0101A8C0"]),
        ("E01", "interfaces", ["lo", "eth0"]),
        ("E03", "resolver", "resolved"),
        ("E05", "listeners", ["0100007F:1F90"]),
        ("E06", "families", ["AF_VSOCK"]),
    ]  # fmt: skip
    with open_scene(environment.tree, environment.task.base_commit, environment.secrets) as scene:
        scene.strict = False
        scene.box = good
        assert find_leaks(scene) == []
        for route, key, value in weak:
            scene.box = {**copy.deepcopy(good), key: value}
            assert [found.route for found in find_leaks(scene)] == [route], key


def test_needles_do_not_need_a_box() -> None:
    assert build_needles(Secrets(ids=("gabcdef",)), []).ids == (b"gabcdef",)
