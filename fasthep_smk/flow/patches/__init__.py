"""The register of what we change in other people's code while it runs.

Each change is a ``Patch`` below: what it replaces, why, the entry for the project that it belongs
to, which has the version, and when it is deleted. It is made through the ``Patch``, which refuses
what is not registered; ``tests/unit/flow/patches/test_patches.py`` finds those that are made
without one, and compares all of them with the packages that are installed. What most of them save
is measured by ``python -m tests.benchmarks patches``.

A patch changes what a module or a class does. What is set on one object of another project, as its
state, is none: the number of an attempt of Snakemake's job (``job.attempt``, a public attribute),
the settings of Matplotlib (``rcParams``), and Python's own hooks (``sys.path_hooks``, audit hooks).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass

_SCHEDULER = "snakemake.scheduling.job_scheduler:JobScheduler"
_SLURM = "snakemake_executor_plugin_slurm"
_A_RELEASE = "a release has the fix"
_EVALUATING = (
    "build_lepton_met_candidate", "build_pairs", "build_recoil", "choose", "cutflow", "define",
    "di_object_mass", "hist", "select_objects", "selection_flag",
)  # fmt: skip


@dataclass(frozen=True)
class Patch:
    """A change of other people's code, and why it is made."""

    #: The attributes that are replaced, as ``module:Class.name`` or ``module:name``.
    replaces: tuple[str, ...]
    why: str
    #: The script in ``docs/upstream``, which names its entry on the page there.
    upstream: str
    #: When it is deleted.
    until: str
    #: The module of ours that makes the change, and the tests that it changes no result.
    module: str
    test: str

    def make(self, owner: object, **attributes: object) -> None:
        """Replace attributes of a module, a class or an object until the process ends."""
        for name, value in attributes.items():
            assert any(target.endswith((f":{name}", f".{name}")) for target in self.replaces), name
            setattr(owner, name, value)

    @contextlib.contextmanager
    def made(self, owner: object, **attributes: object) -> Iterator[None]:
        """Replace attributes of a module, a class or an object in the block."""
        before = {name: getattr(owner, name) for name in attributes}
        self.make(owner, **attributes)
        try:
            yield
        finally:
            self.make(owner, **before)


# --- FAST-HEP, and the YAML that it reads ---

QUICK_YAML = Patch(
    replaces=("yaml:safe_load", "yaml:safe_dump"),
    why="most of a compile's time is PyYAML's: each profile is read some eight times",
    upstream="yaml-read-by-python.py",
    until="profiles are kept, and libyaml is used",
    module="flow/patches/quick_yaml.py",
    test="tests/unit/flow/patches/test_quick_yaml.py",
)
NAMING = Patch(
    replaces=("yaml:safe_dump",),
    why="what is compiled in a temporary folder names the build folder that it is meant for",
    upstream="plans-name-their-folder.py",
    until="plans name files relative to their folder",
    module="flow/patches/naming.py",
    test="tests/unit/flow/patches/test_naming.py",
)
QUICK_GIT = Patch(
    replaces=("hepflow.compiler.hooks.software:git_state",),
    why="each answer of git waits up to a tenth of a second to be looked at",
    upstream="command-runner-polls.py",
    until="git is asked without a poll",
    module="flow/patches/quick_git.py",
    test="tests/unit/flow/patches/test_quick_git.py",
)
KNOWN_ENTRIES = Patch(
    replaces=("fasthep_curator.compile_hooks.root_tree_metadata:_inspect_dataset_files",),
    why="each compile opens all files of a dataset without nevents, one after the other",
    upstream="files-opened-by-each-compile.py",
    until="what is known of files is kept",
    module="flow/patches/known_entries.py",
    test="tests/unit/flow/patches/test_known_entries.py",
)
PARSED_EXPRESSIONS = Patch(
    replaces=("hepflow.compiler.expr_symbols:symbols_in_expr",),
    why="only FAST-HEP knows which texts of a workflow are expressions",
    upstream="expressions-are-not-told.py",
    until="a compiled plan lists its expressions",
    module="flow/patches/parsed_expressions.py",
    test="tests/unit/flow/patches/test_parsed_expressions.py",
)
EVALUATED = Patch(
    replaces=tuple(f"fasthep_carpenter.operations.{name}:eval_expr" for name in _EVALUATING),
    why="values that are missing are dropped, and lists of a fixed length paired with other events",
    upstream="columns-lose-values.py",
    until="columns and weights of such types are refused",
    module="flow/patches/evaluated.py",
    test="tests/unit/flow/patches/test_evaluated.py",
)
LATE_IMPORTS = Patch(
    replaces=("sys:modules",),
    why="compiling draws nothing, but imports matplotlib and mplhep: half a second",
    upstream="compiling-imports-matplotlib.py",
    until="specs can be read without matplotlib",
    module="flow/patches/late.py",
    test="tests/unit/flow/patches/test_late.py",
)
BARE_PARSL = Patch(
    replaces=("sys:modules",),
    why="each of a pilot's three processes imports all that Parsl has: two seconds of CPU a pilot",
    upstream="parsl-imports-everything.py",
    until="its processes import what they use",
    module="contrib/pilots/interchange.py",
    test="tests/unit/contrib/pilots/test_interchange.py",
)

PILOT_START = Patch(
    replaces=("parsl.multiprocessing:SpawnContext", "importlib.metadata:distributions"),
    why="each worker of a pilot is a new Python, and all packages of the node are listed",
    upstream="parsl-imports-everything.py",
    until="its processes import what they use",
    module="contrib/pilots/manager.py",
    test="tests/integration/test_pilots.py",
)

# --- Python ---

ENVIRONMENT = Patch(
    replaces=("os:_Environ.__class__",),
    why="an environment variable that own code reads is an input of its result",
    upstream="python-does-not-audit-variables.py",
    until="there is an audit event for it",
    module="worker/observe.py",
    test="tests/unit/worker/test_observe.py",
)

# --- Snakemake ---

FALLBACK = Patch(
    replaces=("snakemake.rules:Rule.expand_resources",),
    why="a job that has moved to another pool asks for what that one has; and one that is "
    "measured for what others took",
    upstream="snakemake-evaluates-resources-by-attempt.py",
    until="an executor can say what a job asks for",
    module="executors/fallback.py",
    test="tests/unit/executors/test_fallback.py",
)
SIZES_ONCE = Patch(
    replaces=(f"{_SCHEDULER}.update_input_sizes",),
    why="after each job the sizes of what all waiting jobs read are asked for: 500 jobs, 0.1 s",
    upstream="input-sizes-asked-again.py",
    until=_A_RELEASE,
    module="executors/start.py",
    test="tests/unit/executors/test_start.py",
)
END_AT_ONCE = Patch(
    replaces=(f"{_SCHEDULER}._schedule_reevalutation",),
    why="each look at all jobs plans another a second later, and Snakemake waits for the last ones",
    upstream="snakemake-ends-late.py",
    until=_A_RELEASE,
    module="executors/start.py",
    test="tests/integration/test_snakemake_process.py",
)
KEPT_FOLDERS = Patch(
    replaces=("snakemake.dag:DAG.cleanup_workdir",),
    why="Snakemake removes empty folders of missing input files, and their parents",
    upstream="snakemake-removes-folders.py",
    until=_A_RELEASE,
    module="executors/start.py",
    test="tests/unit/executors/test_start_folders.py",
)
TEMPORARY_FOLDER = Patch(
    replaces=("snakemake.workflow:tempfile",),
    why="a Snakemake that is killed leaves its temporary folder",
    upstream="snakemake-leaves-temporary-folders.py",
    until=_A_RELEASE,
    module="executors/start.py",
    test="tests/unit/executors/test_start_folders.py",
)

# --- Snakemake's executors for batch systems ---

SLURM = Patch(
    replaces=(f"{_SLURM}:validate_or_get_slurm_job_id",),
    why="a job beside whose number sbatch prints something else is refused, or taken for another",
    upstream="slurm-plugin-reads-banners.py",
    until=_A_RELEASE,
    module="executors/slurm.py",
    test="tests/clusters/test_accounts.py",
)
