"""Without the libraries of the `hpc` extra the benchmark runs; the codecs that need them are skipped by name."""

import json
import subprocess
import sys

import pytest

BLOCKED = "import sys; sys.modules['numcodecs'] = None; from wirezip.cli import main; sys.exit(main(sys.argv[1:]))"


def bench(*words):
    command = [sys.executable, "-c", BLOCKED, "bench", *words]
    outcome = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


@pytest.mark.parametrize(
    "words", [("codec", "--bytes", "4K", "-n", "1", "--no-peers"), ("p2p", "-b", "4K", "-n", "1", "-w", "0")]
)
def test_unavailable_codecs_are_skipped_with_the_reason(words, tmp_path):
    target = tmp_path / "rows.json"
    output = " ".join(bench(*words, "--codec", "raw,zstd", "--json", str(target)).split())
    assert "skipped codec zstd: codec zstd is not available here" in output
    assert "pip install 'wirezip[hpc]'" in output
    assert {row["codec"] for row in json.loads(target.read_text())} <= {"none", "raw"}
