"""The first events go through a workflow before it runs: which plans, with which events, once.

They run in a process of their own, which is thrown away: an operation of a user's own may leave
anything behind, end the process, or never return. What has passed is remembered for each node:
after an edit only what it changed, and what reads that, runs again.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
import time
import warnings
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, Self

from fasthep_smk.config.execution import Execution
from fasthep_smk.config.pools import DEFAULT_POOL
from fasthep_smk.flow.graph import Graph, Node
from fasthep_smk.flow.places import stages_by_id
from fasthep_smk.plan.partitions import Partition, Place, counting, sources_of
from fasthep_smk.plan.rules import Variation
from fasthep_smk.storage.inputs import Inputs
from fasthep_smk.util import files
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.last_words import end_by, say
from fasthep_smk.util.remote import is_remote, server_of
from fasthep_smk.worker.job_end import End, Watch, fork, kill_group

if TYPE_CHECKING:
    from fasthep_smk.flow.records import PartitionData

#: What does not paint.
_CANVAS = "fasthep_smk.flow.laid_out_canvas"
#: How many events are tried; and with how many what has failed: of a few, none may have a muon.
_EVENTS, _MORE_EVENTS = 100, 2000
#: Of this many datasets more than are needed: an own operation may not know each of them, and files
#: may differ.
_MOST_DATASETS = 30
#: From so many events on, a run takes so long that plots are tried before it.
_LARGE = 50_000_000
#: Seconds that all of it may take.
_LONGEST = 60.0
#: Bytes that operations may take more than this process has; or half of the machine's memory.
_MEMORY = 4 << 30
#: Seconds between two looks at whether the process has ended.
_LOOK = 0.01


@dataclass(frozen=True)
class _Flight:
    """Some nodes of a plan, and partitions of which the first events go through them.

    Each node has a digest of what its success follows from. ``ranged``: its sources read a part of
    a file if they are told to.
    """

    graph: Graph
    nodes: Mapping[str, str]
    partitions: tuple[Partition, ...]
    ranged: bool

    def with_events(self, events: int) -> list[PartitionData]:
        """Return the first ``events`` of each partition."""
        partitions = [partition.as_dict() for partition in self.partitions]
        for partition in partitions if self.ranged else ():
            start, stop = partition["start"] or 0, partition["stop"]
            if stop is None and not is_remote(partition["file"]):
                continue  # how many there are is not known
            partition["start"] = start
            partition["stop"] = start + events if stop is None else min(stop, start + events)
        return partitions


class Preflight:
    """A process in which what is new in a workflow runs with its first events, while a block runs.

    ``folder`` is where operations may write; ``without`` are partitions that the run goes without.
    ``plots``: they are drawn, too. So they are for a large run; one that fails after a small run
    costs seconds.
    """

    def __init__(
        self,
        variations: Sequence[Variation],
        document: YamlMapping,
        inputs: Inputs,
        execution: Execution,
        *,
        workflow: str,
        folder: Path,
        without: Container[Place],
        plots: bool,
    ) -> None:
        self._document, self._inputs, self._execution = document, inputs, execution
        self._workflow, self._told, self._without = workflow, folder / "preflight.json", without
        self._folder = folder
        self._draws = plots or any(map(self._is_large, variations[:1]))
        self._passed: set[str] = set()
        #: Those of the plans before, by their content.
        self._plots: set[str] = set()
        self._flown = False
        self._left_out: dict[str, None] = {}
        self._process: Watch | None = None
        self._flights = [flight for variation in variations for flight in self._new_in(variation)]

    def __enter__(self) -> Self:
        if self._flights:
            sys.stdout.flush()
            sys.stderr.flush()
            self._process = fork()
            if self._process is None:
                self._fly()
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            kill_group(self._process.pid)
            os.waitpid(self._process.pid, 0)
            self._process = None

    def outcome(self) -> tuple[list[Finding], list[str]]:
        """Wait for it; return what is wrong with the workflow, and warnings."""
        if self._process is None:
            return [], []
        while os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None:
            time.sleep(_LOOK)
            self._process.look()
        kill_group(self._process.pid)
        end = self._process.end(os.waitpid(self._process.pid, 0)[1])
        self._process = None
        if end.of_job == 0:
            *lists, odd, written = json.loads(self._told.read_text(encoding="utf-8"))
            findings, doubts = ([Finding(**fields) for fields in listed] for listed in lists)
        else:
            findings, doubts = self._ended(end)
            odd, written = [], []
        warnings = [*map(_doubt, doubts), *odd, *written]
        if self._left_out:
            stages = ", ".join(map(repr, self._left_out))
            warnings.append(
                f"stages that need workers of their pool ({stages}), and stages that read their "
                "results, were not tried with the first events"
            )
        if not findings and not doubts and not odd:  # what is odd is said again
            self._inputs.note_passed(self._passed)
        return findings, warnings

    def _ended(self, end: End) -> tuple[list[Finding], list[Finding]]:
        """Return what is wrong if the process has not come to its end: findings, and doubts."""
        stage, op = end.said.get("stage"), end.said.get("op")
        key = stages_by_id(self._document).get(stage or "", (None,))[0]
        of = f"{op} " if op else ""
        if end.was_late:
            problem = (
                f"{of}did not end within {_LONGEST:.0f} s in a trial with {_EVENTS} events; "
                "--no-preflight skips the trial"
            )
        else:
            problem = f"{of}ended the process of its trial with the first events: {end}"
        finding = Finding(file=self._workflow, key=key, problem=problem)
        # Who ran out of memory here may have more of it on a worker.
        is_doubtful = end.was_late or -end.status in (signal.SIGKILL, signal.SIGABRT)
        return ([], [finding]) if is_doubtful else ([finding], [])

    # --- what is to fly ---------------------------------------------------------------------------

    def _new_in(self, variation: Variation) -> Iterator[_Flight]:
        """Yield what is to be run of a plan: what no earlier one had, with what that needs."""
        graph = variation.graph
        chosen = self._first_of_datasets(variation)
        if variation.partitions and not chosen:
            return
        own = [node for node in graph.nodes.values() if self._is_elsewhere(node)]
        left_out = graph.with_readers(node.id for node in own)
        is_whole = len(chosen) == len(variation.dataset_names)
        left_out |= {
            node.id
            for node in graph.nodes.values()
            if (node.scope == "final" and not is_whole)
            or (_is_plot(node) and not self._draws)
            or _writes_anywhere(node)
        }
        of_files = [self._inputs.identity(partition.file) for partition in chosen.values()]
        digests = _digests(variation, of_files)
        passed = self._passed | self._inputs.passed
        new = {name for name, digest in digests.items() if digest not in passed} - left_out
        self._passed |= {digest for name, digest in digests.items() if name not in left_out}
        # Whether a plot can be drawn does not change with a variation.
        plots = {name: repr(_content(node)) for name, node in graph.nodes.items() if _is_plot(node)}
        new -= {name for name, content in plots.items() if content in self._plots}
        self._plots.update(plots.values())
        if new:
            self._left_out |= dict.fromkeys(node.stage for node in own)
            sources = sources_of(graph.nodes.values())
            most = 0 if self._flown else _MOST_DATASETS
            self._flown = True
            yield _Flight(
                graph,
                {name: digests[name] for name in graph.with_inputs(new)},
                tuple(_needed(variation, chosen, new, most=most)),
                all(source.honours_ranges for source in sources),
            )

    def _first_of_datasets(self, variation: Variation) -> dict[str, Partition]:
        """Return the first partition of each dataset that has events, if that can be told."""
        events = counting([variation.graph], self._inputs)
        firsts: dict[str, Partition] = {}
        with_events = set[str]()
        for partition in variation.partitions:
            remote = is_remote(partition.file)
            silent = remote and server_of(partition.file) in self._inputs.silent
            if partition.dataset in with_events or silent or partition.place in self._without:
                continue
            firsts.setdefault(partition.dataset, partition)
            number = events(partition)
            if number != 0:
                stop = partition.stop
                if stop is None and number is not None:
                    stop = (partition.start or 0) + number
                firsts[partition.dataset] = replace(partition, stop=stop)
                with_events.add(partition.dataset)
        return firsts

    def _is_large(self, variation: Variation) -> bool:
        """Whether a plan has very many events, or its files lie elsewhere and may have."""
        events, left = counting([variation.graph], self._inputs), _LARGE
        for partition in variation.partitions:
            number = events(partition)
            if number is None and is_remote(partition.file):
                return True
            left -= number or 0
        return left <= 0

    def _is_elsewhere(self, node: Node) -> bool:
        """Whether an operation of the user's own may need what this machine has not."""
        if node.published:
            return False
        router, site = self._execution.router, self._execution.site
        first = router.route([node.stage], needs_gpu=node.needs_gpu).attempts[0]
        away = first.pool != DEFAULT_POOL and site.system != "local"
        return node.needs_gpu or first.request.gpus > 0 or away

    # --- in the process ---------------------------------------------------------------------------

    def _fly(self) -> NoReturn:
        """Be the process: run all flights, and write down what failed."""
        status = 1
        try:
            end_by(_LONGEST)
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR2):
                signal.signal(number, signal.SIG_DFL)
            quiet = os.open(os.devnull, os.O_WRONLY)
            os.dup2(quiet, 1)
            os.dup2(quiet, 2)
            sys.stdout = sys.stderr = os.fdopen(quiet, "w")
            os.chdir(self._inputs.root)
            os.environ["FASTHEP_SMK_POOL"] = DEFAULT_POOL  # jobs have it
            _limit_memory()
            _paint_nothing()
            written = _watched(str(self._inputs.root))
            try:
                certain, doubtful, odd = self._findings()
            except Exception as error:  # what cannot be tried may be right
                why = f"{type(error).__name__}: {error}"
                problem = f"operations were not tried with the first events: {why}"
                certain, doubtful, odd = [], [Finding(problem=problem)], []
            lists = [[asdict(finding) for finding in listed] for listed in (certain, doubtful)]
            remarks = [
                f"an operation wrote {path} in a trial with the first {_EVENTS} events: remove the "
                "file before the run if its content depends on events"
                for path in written
            ]
            files.write_text(self._told, json.dumps([*lists, odd, remarks]))
            say(done="0")
            status = 0
        finally:
            os._exit(status)

    def _findings(self) -> tuple[list[Finding], list[Finding], list[str]]:
        """Run all flights; return what is wrong, what is perhaps wrong, and what is odd."""
        from fasthep_smk.flow import preflight
        from fasthep_smk.flow.patches.evaluated import look_closely
        from fasthep_smk.worker.causes import column_fix

        look_closely()
        warnings.simplefilter("ignore")  # the jobs give them
        certain, doubtful = dict[object, Finding](), dict[object, Finding]()
        made: preflight.Made = {}
        failed, odd, unreadable = set[str](), dict[str, None](), set[str]()
        for flight in self._flights:
            before = set(failed)
            of_files: list[preflight.Problem] = []
            problems: list[preflight.Problem] = []
            for events in (_EVENTS, _MORE_EVENTS):
                partitions = flight.with_events(events)
                new, remarks = preflight.fly(
                    flight.graph, partitions, flight.nodes, self._folder, made, unreadable
                )
                of_files += [problem for problem in new if problem.is_of_file]
                # What a file has shown counts, although it cannot be read any further.
                problems = [problem for problem in problems if problem.file in unreadable]
                problems += [problem for problem in new if not problem.is_of_file]
                if not problems:
                    break
            odd |= dict.fromkeys(remarks)
            for problem in [*of_files, *problems]:
                if problem.stage and problem.stage in before:
                    continue  # a variation's form of what has been told
                failed.add(problem.stage)
                finding = preflight.finding_of(problem, self._document, workflow=self._workflow)
                hint = finding.hint or column_fix(problem.error, problem.file)
                finding = replace(finding, hint=hint)
                key = (finding.key, problem.file if problem.is_of_file else None)
                (doubtful if problem.is_doubtful else certain).setdefault(key, finding)
        return list(certain.values()), list(doubtful.values()), list(odd)


def _needed(
    variation: Variation, chosen: Mapping[str, Partition], new: Container[str], *, most: int
) -> Iterator[Partition]:
    """Yield the partition of each kind of dataset: one that other new nodes run for.

    Then come others, ``most`` of them; all for what comes at the end of a run, as plots do.
    """
    graph = variation.graph
    kinds = set[tuple[str, ...]]()
    for dataset, partition in chosen.items():
        facts = variation.dataset(dataset)
        kind = tuple(name for name in graph.nodes if name in new and graph.active(name, facts))
        needs_all = any(graph.nodes[name].scope == "final" for name in kind)
        if kind and (needs_all or kind not in kinds or most > 0):
            most -= kind in kinds
            kinds.add(kind)
            yield partition


def _digests(variation: Variation, of_files: Sequence[str]) -> dict[str, str]:
    """Return for each node what its success follows from."""
    graph = variation.graph
    context = graph.plan.context
    datasets = {
        name: {key: value for key, value in dict(content).items() if key != "files"}
        for name, content in (context.get("datasets") or {}).items()
    }
    resources = dict(graph.plan.execution).get("resources")
    settings = [graph.plan.execution_hooks, context.get("globals"), datasets, resources]
    around = [graph.surroundings, repr(settings), *of_files]
    digests: dict[str, str] = {}
    for node in graph.nodes.values():
        reads = [[digests[ref.node], ref.port, ref.name] for ref in node.inputs]
        own = variation.label if node.sees_variation and not node.published else ""
        digests[node.id] = files.digest_of([around, own, repr([_content(node), reads])])
    return digests


def _content(node: Node) -> list[object]:
    meta = {name: value for name, value in node.meta.items() if name != "variation"}
    return [node.role, node.impl, node.implementation, node.params, meta]


def _is_plot(node: Node) -> bool:
    """Whether FAST-HEP makes something of a finished histogram or table."""
    return node.role == "sink" and node.scope == "final" and node.published


def _watched(root: str) -> dict[str, None]:
    """Return files below a folder that this process opens to write from now on, as it does so."""
    written: dict[str, None] = {}

    def look(event: str, args: tuple[object, ...]) -> None:
        if event == "open" and isinstance(args[0], str) and isinstance(args[2], int):
            path = os.path.abspath(args[0])  # noqa: PTH100
            writes = args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
            if writes and path.startswith(f"{root}/") and "/__pycache__/" not in path:
                written[os.path.relpath(path, root)] = None

    sys.addaudithook(look)
    return written


def _writes_anywhere(node: Node) -> bool:
    """Whether a sink of the user's own is given an absolute path: only it knows for what."""
    texts = (text for text in dict(node.params).values() if isinstance(text, str))
    return (
        node.role == "sink" and not node.published and any(text.startswith("/") for text in texts)
    )


def _limit_memory() -> None:
    """Let an operation that wants very much memory fail here, before others on the machine do."""
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + max(_MEMORY, there // 2)
    resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


def _paint_nothing() -> None:
    """Let matplotlib lay plots out only, also where it is imported later."""
    os.environ["MPLBACKEND"] = f"module://{_CANVAS}"
    if "matplotlib" in sys.modules:
        sys.modules["matplotlib"].use(os.environ["MPLBACKEND"])


def _doubt(finding: Finding) -> str:
    """Return the warning of what may go well in the run."""
    where = f"{finding.key}: " if finding.key else ""
    value = f"{finding.value!r}: " if finding.value else ""
    return f"{where}{value}{finding.problem}"
