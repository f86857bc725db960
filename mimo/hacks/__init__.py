"""The catalogue of leak routes: per route a probe, a scrub rule and an audit signature.

    with open_scene(tree, commit, secrets) as scene:    # a work tree and what must not be in it
        scene.box = look_inside(box)                    # what a command in a fresh box sees
        findings = find_leaks(scene)
        cleaned = scrub_copy(scene, leaks_only(findings), scratch)
    audit_rollout(rollout, facts)                       # was a route used? -> HackFinding

`docs/probe-hacks.md` lists the routes.
"""
