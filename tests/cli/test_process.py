"""The command line as a process: exit codes, streams and what gets imported."""

import os
import signal
import subprocess
import sys
import time

import pytest

WIREZIP = [sys.executable, "-m", "wirezip"]


def run(*arguments, **options):
    return subprocess.run([*WIREZIP, *arguments], capture_output=True, text=True, timeout=120, check=False, **options)


def test_version_and_error(tmp_path):
    done = run("--version")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("wirezip ")
    done = run("inspect", str(tmp_path / "none"))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"wirezip: error: cannot read {tmp_path / 'none'}: No such file or directory\n"
    done = run("inspect", str(tmp_path / "none"), "--debug")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_closed_pipe():
    reader, writer = os.pipe()
    process = subprocess.Popen([*WIREZIP, "codecs", "--json"], stdout=writer, stderr=subprocess.PIPE)
    os.close(writer)
    os.close(reader)
    _, err = process.communicate(timeout=120)
    assert err == b""
    assert process.returncode == 1


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_signals_leave_nothing_behind(tmp_path, number, code):
    source = tmp_path / "large.bin"
    with source.open("wb") as file:
        file.truncate(1 << 36)
    process = subprocess.Popen(
        [*WIREZIP, "compress", str(source), str(tmp_path / "out.wz"), "--dtype", "fp32", "--codec", "zstd"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # A parent started in the background ignores SIGINT, and a child inherits that.
        preexec_fn=lambda: signal.signal(number, signal.SIG_DFL),
    )
    try:
        deadline = time.monotonic() + 100
        while not list(tmp_path.glob(".wirezip-*")) and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        process.send_signal(number)
        out, err = process.communicate(timeout=100)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out) == (code, b"")
    assert b"Traceback" not in err
    assert [path.name for path in tmp_path.iterdir()] == ["large.bin"]


def test_start_up_imports_little():
    script = (
        "import sys; from wirezip.cli import main; main(['--help']);"
        "heavy = {'matplotlib', 'numba', 'triton', 'numcodecs', 'rich', 'psutil', 'wirezip.bench', 'wirezip.files'};"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr.strip() == "[]"
