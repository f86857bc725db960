"""Checks of `exec`: exit codes, state, output, time."""

from __future__ import annotations

import resource
import threading
import time

from sandbox.conformance.opener import WORKDIR, Opener


def check_exit_codes_and_output(open_box: Opener) -> None:
    """Exit codes arrive, both streams are merged in order, there is no input."""
    with open_box() as box:
        result = box.exec("echo one; echo two >&2; echo three; exit_with() { return $1; }; exit_with 7")
        assert (result.exit_code, result.output) == (7, "one\ntwo\nthree\n"), result
        assert not result.timed_out
        assert not result.truncated
        assert result.limit is None
        assert box.exec("cat").output == "", "a command can read something from its input"
        assert box.exec("no-such-program-here").exit_code == 127
        assert box.exec("if then").exit_code not in (0, None), "a syntax error looks like success"
        assert box.exec("kill -9 $BASHPID & wait $!").exit_code == 137
        assert box.exec("").exit_code == 0
        assert box.exec("echo a\0b").exit_code != 0, "a NUL byte in a command"


def check_state_persists(open_box: Opener) -> None:
    """Folder, variables, functions stay from command to command; `exit` starts a new shell in the same
    folder."""
    with open_box({"d/x": b"1"}) as box:
        assert box.exec("pwd").output == f"{WORKDIR}\n"
        box.exec("cd d; v=5; export w=6; f() { echo f; }; declare -A m; m[k]=9")
        assert box.exec("pwd; echo $v $w ${m[k]}; f").output == f"{WORKDIR}/d\n5 6 9\nf\n"
        assert box.exec("break; continue; set -u; set +u; echo ok").output.endswith("ok\n")
        assert box.exec("exit 3").exit_code == 3
        assert box.exec("pwd; echo [$v]").output == f"{WORKDIR}/d\n[]\n"
        assert box.exec("set -e; false; echo not here").exit_code == 1
        assert box.exec("echo still $(pwd)").output == f"still {WORKDIR}/d\n"
        assert box.exec("exec true").exit_code == 0
        box.exec("exec >/dev/null")
        assert box.exec("echo seen").output == "seen\n"


def check_timeout_kills_the_tree(open_box: Opener) -> None:
    """A timeout ends the command with children that left its session; the box goes on in the same folder."""
    with open_box({"d/x": b"1"}) as box:
        box.exec("cd d; (sleep 300 &) ; sleep 0.05")
        started = time.monotonic()
        result = box.exec(
            "echo before; setsid sleep 301 & nohup setsid -f sleep 302; sleep 303", timeout_s=0.5
        )
        assert result.timed_out, result
        assert result.exit_code is None
        assert "before" in result.output
        assert time.monotonic() - started < 5
        assert _sleeps(box.exec("cat /proc/[0-9]*/cmdline | tr '\\0' ' '").output) == {"300"}
        assert box.exec("pwd").output == f"{WORKDIR}/d\n"
        result = box.exec("while :; do :; done", timeout_s=0.3)
        assert result.timed_out, "a loop in the shell itself is not ended"
        assert box.exec("trap '' TERM INT HUP; sleep 304", timeout_s=0.3).timed_out
        assert box.exec("echo alive").output == "alive\n"


def _sleeps(commands: str) -> set[str]:
    words = commands.split()
    return {
        words[i + 1] for i, word in enumerate(words[:-1]) if word == "sleep" and words[i + 1].startswith("30")
    }


def check_child_holding_output(open_box: Opener) -> None:
    """A background child that keeps the output open delays nothing, and its later output forges nothing."""
    with open_box() as box:
        started = time.monotonic()
        assert box.exec("sleep 5 & echo done").output == "done\n"
        assert time.monotonic() - started < 2
        box.exec("(while sleep 0.01; do echo noise; done) &")
        result = box.exec("echo mine; sleep 0.1")
        assert result.exit_code == 0
        assert "mine\n" in result.output


def check_flood_is_bounded(open_box: Opener) -> None:
    """200 MB of output stay bounded in our memory; first and last bytes are kept."""
    with open_box() as box:
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = box.exec("echo first; head -c 200000000 /dev/zero | tr '\\0' x; echo; echo last")
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert result.exit_code == 0, result
        assert result.truncated
        assert result.output.startswith("first\nxxx")
        assert result.output.endswith("xxx\nlast\n")
        assert len(result.output) < 30_000
        assert grown < 40_000, f"memory grew by {grown} KiB"
        small = box.exec("seq 10000", max_output_bytes=100)
        assert small.truncated
        assert len(small.output) < 200
        assert box.exec("sleep 5 | yes", timeout_s=0.5).timed_out


def check_binary_output(open_box: Opener) -> None:
    """Bytes that are no text, NUL included, arrive as replacement characters and break nothing."""
    with open_box() as box:
        result = box.exec("printf 'a\\000b\\377\\376c\\033[31m\\n'; exit_code=4; (exit 4)")
        assert result.exit_code == 4
        assert result.output == "a\0b\ufffd\ufffdc\x1b[31m\n", repr(result.output)
        assert box.exec("head -c 100000 /dev/urandom").exit_code == 0
        assert box.exec("echo 'ä€😀'").output == "ä€😀\n"


def check_end_cannot_be_forged(open_box: Opener) -> None:
    """Neither printing nor reaching for the shell's pipes makes a command look finished or successful."""
    with open_box() as box:
        record = 'b"0" * 32 + b"\\0000\\000/\\0"'
        spoof = f"import os\nfor fd in range(1, 256):\n  try: os.write(fd, {record})\n  except OSError: 0\n"
        box.write(f"{WORKDIR}/spoof.py", spoof.encode())
        result = box.exec("python3 spoof.py; sleep 0.2; echo end; (exit 9)")
        assert result.exit_code == 9, result
        assert result.output.endswith("end\n")
        reach = "for p in /proc/[0-9]*; do ls $p/fd; cat $p/environ; head -c1 $p/mem; done"
        program = f"import subprocess; subprocess.run(['sh', '-c', '{reach}'])"
        box.write(f"{WORKDIR}/reach.py", program.encode())
        assert box.exec("python3 reach.py >/dev/null 2>&1; (exit 5)").exit_code == 5
        forge = (
            "import os,glob\nfor p in glob.glob('/proc/[0-9]*/fd/*'):\n"
            "  if p.split('/')[2] in (str(os.getpid()), 'self'): continue\n"
            "  try:\n    fd = os.open(p, os.O_RDWR); where = os.readlink(f'/proc/self/fd/{fd}')\n"
            "    if where not in ('/dev/null', os.readlink('/proc/self/fd/1')): print('opened', p, where)\n"
            "  except OSError: pass\n"
        )
        box.write(f"{WORKDIR}/forge.py", forge.encode())
        assert "opened" not in box.exec("python3 forge.py").output, "a child can open the shell's pipes"


def check_large_commands(open_box: Opener) -> None:
    """A command of 300 kB, quotes and newlines included, arrives whole."""
    with open_box() as box:
        text = ('it\'s "quoted" $HOME `x` \\ \n' * 11_000)[:300_000]
        result = box.exec(f"cat > big <<'END-OF-TEXT'\n{text}\nEND-OF-TEXT\nwc -c < big")
        assert result.output.strip() == str(len(text) + 1), result.output


def check_many_boxes(open_box: Opener) -> None:
    """Many boxes in threads at once keep apart and all answer."""
    answers: dict[int, str] = {}

    def one(number: int) -> None:
        with open_box() as box:
            box.exec(f"x={number}; sleep 0.2")
            answers[number] = box.exec("echo $x; ls").output

    threads = [threading.Thread(target=one, args=(number,)) for number in range(open_box.many)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert answers == {number: f"{number}\na.txt\n" for number in range(open_box.many)}, answers


CHECKS = (
    check_exit_codes_and_output,
    check_state_persists,
    check_timeout_kills_the_tree,
    check_child_holding_output,
    check_flood_is_bounded,
    check_binary_output,
    check_end_cannot_be_forged,
    check_large_commands,
    check_many_boxes,
)
