"""Checks of what a box can reach: network, privileges, the host, other boxes."""

from __future__ import annotations

import os
import secrets
import socket
import tempfile
from pathlib import Path

from sandbox.conformance.opener import WORKDIR, Opener

_NETWORK = """
import socket
def attempt(name, family, kind, address):
    try:
        s = socket.socket(family, kind); s.settimeout(2); s.connect(address); s.send(b"x")
    except OSError: return
    print("reached", name)
inet, inet6, unix = socket.AF_INET, socket.AF_INET6, socket.AF_UNIX
for host in ("1.1.1.1", "8.8.8.8", "169.254.169.254", "172.17.0.1", "10.0.0.1"):
    attempt(host, inet, socket.SOCK_STREAM, (host, 53)); attempt(host, inet, socket.SOCK_DGRAM, (host, 53))
attempt("host's port", inet, socket.SOCK_STREAM, ("127.0.0.1", PORT))
attempt("v6", inet6, socket.SOCK_STREAM, ("2606:4700:4700::1111", 53))
attempt("abstract socket", unix, socket.SOCK_STREAM, "\\0ABSTRACT")
for path in ("PATH", "/run/docker.sock", "/var/run/docker.sock"):
    attempt(path, unix, socket.SOCK_STREAM, path)
try: print("reached DNS", socket.getaddrinfo("example.com", 80))
except OSError: pass
for family in (40, 38, 17):
    try: socket.socket(family, socket.SOCK_STREAM); print("reached family", family)
    except OSError: pass
print("interfaces", [name for _, name in socket.if_nameindex()])
"""
_PRIVILEGES = """
import ctypes, os
status = dict(line.split(":", 1) for line in open("/proc/self/status").read().splitlines())
for key in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
    if int(status[key], 16): print("capability", key, status[key])
if status["NoNewPrivs"].strip() != "1" or status["Seccomp"].strip() != "2": print("no filter")
if os.getuid() == 0: print("root")
libc = ctypes.CDLL(None, use_errno=True)
for flag in (0x10000000, 0x20000, 0x40000000, 0x20000000):
    if libc.unshare(flag) == 0: print("unshare", hex(flag))
if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0: print("mount")
if libc.ptrace(0, 0, 0, 0) == 0: print("ptrace")
if libc.setns(0, 0) == 0: print("setns")
if libc.chroot(b"/tmp") == 0: print("chroot")
for path in ("/etc/passwd", "/usr/bin/cat", "/usr/x", "/x", "/dev/x", "/proc/sys/kernel/hostname"):
    try: open(path, "w"); print("writable", path)
    except OSError: pass
print("hostname", os.uname().nodename)
"""


def check_no_network(open_box: Opener) -> None:
    """No TCP, UDP, IPv6, DNS, no port or socket of the host, no exotic socket family; the box's own loopback
    works."""
    with (
        tempfile.TemporaryDirectory() as folder,
        socket.socket() as tcp,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX) as abstract,
        open_box() as box,
    ):
        tcp.bind(("127.0.0.1", 0))
        path, name = f"{folder}/s", f"mimo-{secrets.token_hex(4)}"
        named.bind(path)
        abstract.bind(f"\0{name}")
        for listener in (tcp, named, abstract):
            listener.listen()
        Path(path).chmod(0o777)
        Path(folder).chmod(0o755)
        program = _NETWORK.replace("PORT", str(tcp.getsockname()[1])).replace("ABSTRACT", name)
        box.write(f"{WORKDIR}/n.py", program.replace('"PATH"', repr(path)).encode())
        result = box.exec("python3 n.py")
        assert result.output == "interfaces ['lo']\n", result.output
        server = "python3 -m http.server 8000 --bind 127.0.0.1 >/dev/null 2>&1 & "
        server += (
            "for i in $(seq 100); do (: > /dev/tcp/127.0.0.1/8000) 2>/dev/null && break; sleep 0.1; done; "
        )
        client = "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:8000/a.txt').status)\""
        assert box.exec(server + client).output.strip() == "200", "the box's own loopback does not work"


def check_no_privileges(open_box: Opener) -> None:
    """No capability, no new privileges, a filter, no namespaces, nothing of the root file system writable."""
    with open_box() as box:
        box.write(f"{WORKDIR}/p.py", _PRIVILEGES.encode())
        result = box.exec("python3 p.py")
        assert result.output == "hostname sbx\n", result.output
        assert box.exec("find / -xdev -perm /6000 2>/dev/null").output == ""


def check_nothing_of_the_host(open_box: Opener) -> None:
    """No variable, descriptor, argument, process or folder name of ours is visible."""
    secret = f"secret{secrets.token_hex(8)}"
    os.environ["MIMO_CONFORMANCE"] = secret
    with tempfile.TemporaryDirectory(prefix=secret) as folder:
        leaked = os.open(folder, os.O_RDONLY)
        os.set_inheritable(leaked, True)
        try:
            with open_box(env={"GIVEN": "1"}) as box:
                files = "/proc/[0-9]*/environ /proc/[0-9]*/cmdline /proc/self/mountinfo /proc/self/cgroup"
                look = f"env; cat {files}"
                seen = box.exec(f"({look}) 2>/dev/null | tr '\\0' '\\n'", max_output_bytes=1 << 20).output
                descriptors = box.exec(
                    "python3 -c 'import os; print(sorted(os.listdir(\"/proc/self/fd\")))'"
                ).output
                ids = box.exec("ls -d /proc/[0-9]* | wc -l").output
                names = box.exec("env | cut -d= -f1 | sort | tr '\\n' ' '").output
        finally:
            os.close(leaked)
            del os.environ["MIMO_CONFORMANCE"]
    assert secret not in seen
    assert "conformance" not in seen, "the label is visible"
    assert "GIVEN=1" in seen
    assert descriptors == "['0', '1', '2', '3']\n", descriptors
    assert int(ids) < 12, f"{ids} processes are visible"
    expected = {"GIVEN", "HOME", "LANG", "OLDPWD", "PATH", "PWD", "SHLVL", "TERM", "USER", "_"}
    assert set(names.split()) <= expected, names


def check_boxes_are_apart(open_box: Opener) -> None:
    """What one box writes, in its tree or elsewhere, no other box and no snapshot has."""
    spec = open_box.spec({"a.txt": b"a\n"})
    with open_box({"a.txt": b"a\n"}) as one, open_box({"a.txt": b"a\n"}) as two:
        one.exec("echo changed > a.txt; echo x > new; echo x > /tmp/t; echo x > /dev/shm/s; sleep 77 &")
        seen = two.exec("cat a.txt; ls; ls /tmp /dev/shm; cat /proc/[0-9]*/cmdline | tr -d '\\0'").output
        assert "changed" not in seen
        assert "new" not in seen
        assert "sleep77" not in seen
        assert one.exec("cat a.txt").output == "changed\n"
    assert (spec.snapshot / "a.txt").read_bytes() == b"a\n"


def check_readonly_folders(open_box: Opener) -> None:
    """A folder mounted read-only is readable and cannot be changed."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        Path(folder, "t.txt").write_text("tests\n")
        with open_box(readonly={"/opt/tests": Path(folder)}) as box:
            assert box.exec("cat /opt/tests/t.txt").output == "tests\n"
            assert box.exec(
                "echo x > /opt/tests/t.txt || echo x > /opt/tests/n || rm /opt/tests/t.txt"
            ).exit_code
        assert Path(folder, "t.txt").read_text() == "tests\n"


CHECKS = (
    check_no_network,
    check_no_privileges,
    check_nothing_of_the_host,
    check_boxes_are_apart,
    check_readonly_folders,
)
