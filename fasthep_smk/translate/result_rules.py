"""Rules for a Snakefile of a user's own: it waits for results of the analysis as for any file.

What is missing or old only ``fasthep-smk why`` knows: files that operations have read count, and
so does what came back from an earlier edit. So the module asks it whenever Snakemake starts, and
one job runs the analysis as usual, with its lock, its pools and all that it has finished.

Snakemake deletes the outputs of a job before it starts, and after it has failed. The rule that
declares results therefore runs nothing, and waits for a marker that the job leaves. Where a result
is there, Snakemake does not miss the marker; so it waits for a stamp, too, which is new as long as
anything is old. Files that nothing makes now wait for a job that always fails.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from fasthep_smk.config.run_settings import RunSettings
from fasthep_smk.storage import layout

#: Options that decide what the analysis is; and those that also count when it runs.
_WHAT = ("chunk_size", "granularity", "bundle", "profile", "shrink_to_fit", "sizes", "identity")
_HOW = ("accept_missing", "allow_expiring", "waiting", "keep")

RULES = f'''\
"""The results of an analysis, for a Snakefile of your own:

    module fasthep:
        snakefile: "build/smk/results.smk"
        prefix: "build"

    use rule * from fasthep as fasthep_*
"""

import json
import os
import shlex
import subprocess
from pathlib import Path

from snakemake.exceptions import WorkflowError

SMK = Path(os.path.abspath(str(workflow.current_basedir)))
BUILD = SMK.parent
HOW = json.loads((SMK / "results.json").read_text(encoding="utf-8"))
HAND_OVER = [*HOW["program"], str(BUILD)]


def is_build(path):
    """Whether a path leads to the build folder."""
    return os.path.exists(path) and os.path.samefile(path, BUILD)


def named(path):
    """Return how a rule here calls a file of the build folder, with the prefix of the module."""
    above = workflow.modifier.path_modifier.replace_prefix("smk")
    if is_build(os.path.dirname(os.path.abspath(above))):
        return path
    here = os.path.relpath(BUILD)
    if above == "smk":
        return os.path.join(here, path)
    raise WorkflowError(
        f"{{SMK / 'results.smk'}}: the prefix of the module is not its build folder, "
        f"which is  prefix: {{json.dumps(here)}}"
    )


def asked():
    """Return the results of the analysis, and other files in the folders of results."""
    done = subprocess.run([*HAND_OVER, "ask"], stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise WorkflowError("fasthep-smk does not take the analysis: see its message above")
    return json.loads(done.stdout)


# In a process that runs a single job, the inputs of the job exist.
FOUND = asked() if workflow.is_main_process else {{"made": [], "left_over": []}}
MARKER, OLD = named("{layout.HANDED_OVER}"), named("{layout.OLD_RESULTS}")
NOT_MADE, LEFT_OVER = named("{layout.NOT_MADE}"), named("{layout.LEFT_OVER}")


def command(*words):
    """Return a command for a shell, with braces that Snakemake leaves alone."""
    return shlex.join([*HAND_OVER, *words]).replace("{{", "{{{{").replace("}}", "}}}}")


rule analysis:
    """Make the results of the analysis that are missing or old."""
    output:
        MARKER,
    localrule: True
    threads: workflow.resource_settings.cores or 1
    shell:
        command("run") + " {{threads}}"


rule results:
    """Results of the analysis."""
    input:
        MARKER,
        OLD,
    output:
        [named(path) for path in FOUND["made"]],


rule refuse:
    """Say that nothing makes a file that a rule waits for."""
    output:
        NOT_MADE,
    localrule: True
    shell:
        command("refuse")


rule left_over:
    """Files of earlier runs: the analysis, as it is now, does not make them."""
    input:
        NOT_MADE,
        LEFT_OVER,
    output:
        [named(path) for path in FOUND["left_over"]],
'''


def how_to_ask(root: Path, workflow: Path, settings: RunSettings) -> str:
    """Return as JSON how the module asks, and which options the analysis was translated with."""
    content = {
        "program": [sys.executable, "-P", "-m", "fasthep_smk.cli.hand_over"],
        "folder": str(root),
        "workflow": str(workflow),
        "what": settings.to_words(_WHAT),
        "how": settings.to_words(_HOW),
        "only": settings.variation,
    }
    return json.dumps(content, indent=1) + "\n"
