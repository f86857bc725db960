"""The system-call filter of a box, assembled by hand as classic BPF: deny by list, allow the rest.

Denied calls fail with EPERM, so that programs go on. `clone3` fails with ENOSYS: the C library then uses
`clone`, whose flags a filter can read. Sockets exist for local, IPv4, IPv6 and netlink only. LeakSanitizer
needs `ptrace` and therefore does not work in a box.
"""

from __future__ import annotations

import errno
import functools
import platform
import struct

from sandbox.errors import SandboxUnavailable

_DENIED: dict[str, tuple[int, int | None]] = {  # name: (x86_64, aarch64)
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bpf": (321, 280),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "create_module": (174, None),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "lookup_dcookie": (212, 18),
    "migrate_pages": (256, 238),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "move_pages": (279, 239),
    "name_to_handle_at": (303, 264),
    "nfsservctl": (180, 42),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "setns": (308, 268),
    "settimeofday": (164, 170),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}
_ARCHITECTURES = {"x86_64": (0, 0xC000003E), "aarch64": (1, 0xC00000B7)}
_CLONE = (56, 220)
_CLONE3 = (435, 435)
_SOCKET = (41, 198)
_NEW_NAMESPACE = 0x7E020080
"""CLONE_NEW{TIME,NS,CGROUP,UTS,IPC,USER,PID,NET}; the low byte is the exit signal except for NEWTIME's
bit."""
_FAMILIES = (1, 2, 10, 16)  # AF_UNIX, AF_INET, AF_INET6, AF_NETLINK

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL = 0x7FFF0000, 0x80000000
_NUMBER, _ARCH, _FIRST_ARGUMENT = 0, 4, 16


def _deny(code: int) -> int:
    return 0x00050000 | code


@functools.cache
def filter_program(machine: str | None = None) -> bytes:
    """The filter as an array of `struct sock_filter`, as `bwrap --seccomp FD` reads it.

    Raises:
        SandboxUnavailable: no table of system calls for this machine.
    """
    machine = machine or platform.machine()
    if machine not in _ARCHITECTURES:
        raise SandboxUnavailable(f"no system-call filter for {machine}", hint="use x86_64 or aarch64")
    column, audit_arch = _ARCHITECTURES[machine]
    code: list[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCH),
        (_EQUAL, 1, 0, audit_arch),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":  # the x32 interface would go around the table
        code += [(_AT_LEAST, 0, 1, 0x40000000), (_RETURN, 0, 0, _deny(errno.EPERM))]
    for numbers in _DENIED.values():
        number = numbers[column]
        if number is not None:
            code += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _deny(errno.EPERM))]
    code += [(_EQUAL, 0, 1, _CLONE3[column]), (_RETURN, 0, 0, _deny(errno.ENOSYS))]
    code += [
        (_EQUAL, 0, 4, _CLONE[column]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACE & ~0xFF),
        (_RETURN, 0, 0, _deny(errno.EPERM)),
        (_RETURN, 0, 0, _ALLOW),
    ]
    families = [(_EQUAL, len(_FAMILIES) - i, 0, family) for i, family in enumerate(_FAMILIES)]
    code += [(_EQUAL, 0, len(families) + 2, _SOCKET[column]), (_LOAD, 0, 0, _FIRST_ARGUMENT)]
    code += [*families, (_RETURN, 0, 0, _deny(errno.EAFNOSUPPORT))]
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def docker_profile() -> dict[str, object]:
    """The same filter in Docker's own form, for x86_64 and aarch64."""

    def deny(names: list[str], code: int, *conditions: tuple[str, int, int]) -> dict[str, object]:
        arguments = [
            {"index": 0, "op": operator, "value": value, "valueTwo": second}
            for operator, value, second in conditions
        ]
        return {"names": names, "action": "SCMP_ACT_ERRNO", "errnoRet": code, "args": arguments}

    bits = [1 << i for i in range(8, 32) if _NEW_NAMESPACE & 1 << i]
    rules = [deny(sorted(_DENIED), errno.EPERM), deny(["clone3"], errno.ENOSYS)]
    rules += [deny(["clone"], errno.EPERM, ("SCMP_CMP_MASKED_EQ", bit, bit)) for bit in bits]
    last = max(_FAMILIES)
    refused = [family for family in range(last) if family not in _FAMILIES]
    rules += [deny(["socket"], errno.EAFNOSUPPORT, ("SCMP_CMP_EQ", family, 0)) for family in refused]
    rules.append(deny(["socket"], errno.EAFNOSUPPORT, ("SCMP_CMP_GT", last, 0)))
    machines = [{"architecture": f"SCMP_ARCH_{name.upper()}"} for name in sorted(_ARCHITECTURES)]
    return {"defaultAction": "SCMP_ACT_ALLOW", "archMap": machines, "syscalls": rules}
