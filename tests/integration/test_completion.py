"""Completion in the shells themselves: what a press of TAB gives."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.programs import program

pytestmark = pytest.mark.integration

#: What is typed before TAB, and what must be offered.
CASES = {
    "fasthep-smk statu": {"status"},
    "fasthep-smk run workf": {"workflow.yaml"},
    "fasthep-smk run workflow.yaml --chunk": {"--chunk-size"},
    "fasthep-smk workflow.yaml --chunk": {"--chunk-size"},
    "fasthep-smk run workflow.yaml --granularity ": {"auto", "stage"},
    "fasthep-smk run workflow.yaml --outdir dat": {"data"},
    "fasthep-smk site ini": {"init"},
    "fasthep-smk site init ": {"slurm", "htcondor", "local"},
    "fasthep-smk completion ": {"bash", "zsh", "fish"},
    "fasthep-smk init --from-root fil": {"file.root"},
}
BASH = """\
eval "$(fasthep-smk completion bash)"
function=$(complete -p fasthep-smk | sed 's/.*-F \\([^ ]*\\).*/\\1/')
read -ra COMP_WORDS <<< "$1"
[[ $1 == *" " ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
$function
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with something to complete, and the command."""
    for name in ("workflow.yaml", "file.root"):
        (tmp_path / name).touch()
    (tmp_path / "data").mkdir()
    command = tmp_path / "bin/fasthep-smk"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fasthep_smk "$@"\n')
    command.chmod(command.stat().st_mode | stat.S_IXUSR)
    return tmp_path


def said(command: list[str], folder: Path) -> set[str]:
    path = f"{folder / 'bin'}:{os.environ['PATH']}"
    variables = {**os.environ, "PATH": path, "HOME": str(folder)}
    done = subprocess.run(command, cwd=folder, env=variables, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return set(done.stdout.split("\n"))


@pytest.mark.parametrize("typed", CASES)
def test_bash(folder: Path, typed: str) -> None:
    (folder / "ask").write_text(BASH)
    assert CASES[typed] <= said([program("bash"), "ask", typed], folder)


@pytest.mark.parametrize("typed", CASES)
def test_fish(folder: Path, typed: str) -> None:
    ask = 'fasthep-smk completion fish | source; complete -C "$argv[1]"'
    found = said([program("fish"), "-c", ask, typed], folder)
    assert CASES[typed] <= {line.partition("\t")[0].rstrip("/") for line in found}


ZSH = """\
zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z 'PROMPT=; autoload -Uz compinit && compinit -u -d "$HOME/dump"'
zpty -w z 'eval "$(fasthep-smk completion zsh)"; print ready-"now"'
zpty -r z line '*ready-now*' || exit 1
zpty -w -n z "$1"$'\\t\\t'
found= quiet=0
while (( quiet < 20 )); do
    sleep 0.1
    if zpty -r -t z line; then found+=$line quiet=0; else (( quiet++ )); fi
done
zpty -d z
print -r -- "$found"
"""


# In zsh, options are completed after a command only: not in the short form without "run".
@pytest.mark.parametrize("typed", sorted(set(CASES) - {"fasthep-smk workflow.yaml --chunk"}))
def test_zsh(folder: Path, typed: str) -> None:
    (folder / "ask").write_text(ZSH)
    text = "\n".join(said([program("zsh"), "-f", "ask", typed], folder))
    assert {word for word in CASES[typed] if word not in text} == set(), text
