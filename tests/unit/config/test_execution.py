"""What a user is told about pools, resources and routing, word for word.

Each example of ``messages/*.yaml`` is what stands in the files, in YAML as a user writes it, and
the whole message:
``execution`` is the workflow's section, ``stage`` what its only stage, ``A``, says;
``pools.yaml`` and ``config.yaml`` are the texts of a site's files, ``hep.yaml`` is the section of
a FAST-HEP profile. ``SITE`` stands for the site's folder.
"""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.config.execution import Execution, read_execution
from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.plan.amounts import planned
from fasthep_smk.plan.jobs import make_rules
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.rules import Rule, Variation
from fasthep_smk.translate.placement import place
from fasthep_smk.util.errors import Finding
from tests.unit.plans import define, graph, node

Said = dict[str, Any]
MESSAGES = Path(__file__).parent / "messages"


def examples(*tables: str) -> list[Any]:
    """Return the examples in files: what is said, and the message; the ids are their headings."""
    found = []
    for table in tables:
        text = (MESSAGES / f"{table}.yaml").read_text(encoding="utf-8")
        for name, example in yaml.safe_load(text).items():
            said, message = example["said"], example["message"].rstrip("\n")
            found.append(pytest.param(said, message, id=name))
    return found


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, empty, on a machine on which Snakemake has no profiles."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CONFIG_DIRS", str(tmp_path / "none"))
    return tmp_path


def profile_of(said: Said, folder: Path) -> str | None:
    """Return what ``--profile`` is given; write the site's folder if its files are given."""
    files = [name for name in ("config.yaml", "pools.yaml") if name in said]
    for name in files:
        (folder / "site").mkdir(exist_ok=True)
        (folder / "site" / name).write_text(said[name], encoding="utf-8")
    return str(folder / "site") if files else said.get("profile")


def read(said: Said, folder: Path) -> tuple[Execution | None, list[Finding]]:
    document: Said = {"execution": said.get("execution")}
    if "stage" in said:
        document["analysis"] = {"stages": [{"id": "A", "execution": said["stage"]}]}
    return read_execution(
        document,
        {name: said[name] for name in ("hep.yaml",) if name in said},
        profile=profile_of(said, folder),
        workflow="workflow.yaml",
    )


def shown(messages: list[Any], folder: Path) -> str:
    """Return messages as a user sees them: each once."""
    text = "\n".join(dict.fromkeys(map(str, messages)))
    return text.replace(str(folder / "site"), "SITE")


HERE = "machine: {cpus: 2, memory: 8GB, gpus: 0}"

#: What sinfo prints for its format %R|%l|%c|%m|%G|%T|%P.
SINFO = """\
cpu|1-00:00:00|16|64000|(null)|mixed|cpu*
gpu|30:00|8+|32768+|gpu:a100:4(S:0-1)|idle~|gpu
gpu|30:00|4|16384|(null)|allocated|gpu
long|infinite|4|8000|(null)|idle|long
half|1:00:00|16|64000|(null)|mixed-|half
half|1:00:00|64|512000|(null)|drained|half
old|1:00:00|8|32000|(null)|down*|old"""

WRONG = [
    "section", "pools", "resources", "profiles", "config", "config_of_all", "stages", "too_much",
    "default_pools", "at_once", "sites", "fast_hep_profiles",
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), examples(*WRONG))
def test_what_is_wrong(text: str, message: str, folder: Path) -> None:
    _, findings = read(yaml.safe_load(text), folder)
    assert shown(findings, folder) == message


@pytest.mark.parametrize(("text", "message"), examples("odd", "fine"))
def test_what_is_odd_is_accepted_with_a_word(text: str, message: str, folder: Path) -> None:
    execution, findings = read(yaml.safe_load(text), folder)
    assert findings == []
    assert execution is not None
    assert shown(list(execution.notices), folder) == message


def test_all_stages_are_looked_at() -> None:
    stages = [
        {"id": "it's", "execution": {"require": "gpu"}},
        {"id": "B", "execution": {"fallback": "nowhere"}},
        {"id": "C"},
    ]
    document = {"execution": {"pools": {"cpu": {}}}, "analysis": {"stages": stages}}
    _, findings = read_execution(document, {}, profile=None, workflow="workflow.yaml")
    assert [finding.key for finding in findings] == [
        """analysis.stages["it's"].execution.require""",
        "analysis.stages['B'].execution.fallback",
    ]


def attempts(text: str, folder: Path) -> tuple[Attempt, ...]:
    """Return the attempts of the stage of an example without findings."""
    execution, findings = read(yaml.safe_load(text), folder)
    assert findings == []
    assert execution is not None
    return execution.router.route(["A"]).attempts


@pytest.mark.parametrize(
    ("pool", "stage", "memory"),
    [
        # Twice as much each time, up to all that a worker has.
        ("{resources: {memory: 10GB}, config: {retries: 4}}", "memory: 1GB", [1, 2, 4, 8, 10]),
        ("{resources: {memory: 8GB}, config: {retries: 3}}", "memory: 2GB", [2, 4, 8, 8]),
        ("{resources: {memory: 8GB}}", "memory: 2GB", [2]),
        # By another factor, exactly.
        (
            "{resources: {memory: 4GB}, config: {retries: 3, memory_growth: 1.1}}",
            "memory: 1GB",
            [1, Fraction("1.1"), Fraction("1.21"), Fraction("1.331")],
        ),
        (
            "{resources: {memory: 4GB}, config: {retries: 2, memory_growth: 1.5}}",
            "memory: 1B",
            [Fraction(amount, 10**9) for amount in (1, 2, 3)],  # 1, 1.5 and 2.25 bytes, rounded up
        ),
        (
            "{resources: {memory: 1PB}, config: {retries: 100, memory_growth: 100}}",
            "memory: 1GB",
            [1, 100, 10_000, *[10**6] * 98],
        ),
        (
            "{resources: {memory: 4GB}, config: {retries: 100, memory_growth: 1.01}}",
            "memory: 1GB",
            [min(Fraction("1.01") ** number, Fraction(4)) for number in range(101)],
        ),
        (
            "{resources: {memory: 8GB}, config: {retries: 2, memory_growth: 1}}",
            "memory: 2GB",
            [2, 2, 2],
        ),
        # A job with a whole worker, or on a pool of unknown size, has nothing to grow into.
        ("{resources: {memory: 4GB}, config: {retries: 2}}", "memory: 4GB", [4] * 3),
        ("{resources: {memory: 4GB}, config: {retries: 2}}", "cpus: 1", [4] * 3),
        ("{resources: {memory: 4GB}, config: {retries: 2}}", "memory: null", [None] * 3),
        ("{config: {retries: 2}}", "memory: 4GB", [4] * 3),
        ("{config: {retries: 2}}", "cpus: 1", [None] * 3),
    ],
)  # fmt: skip
def test_a_job_that_is_tried_again_gets_more_memory(
    pool: str, stage: str, memory: list[Any], folder: Path
) -> None:
    text = f"{{execution: {{pools: {{p: {pool}}}}}, stage: {{require: p, resources: {{{stage}}}}}}}"
    amounts = [attempt.request.memory for attempt in planned(attempts(text, folder))]
    expected = [None if one is None else pytest.approx(one * 10**9, rel=1e-7) for one in memory]
    assert amounts == expected


def test_the_fallback_asks_for_more_than_the_attempts_before_it(folder: Path) -> None:
    text = """
    execution:
      pools:
        a: {resources: {memory: 3GB}, config: {retries: 2}}
        b: {resources: {memory: 16GB}, config: {memory_growth: 3}}
        c: {}
    stage: {prefer: a, fallback: %s, resources: {memory: 1GB}}
    """
    found = [
        [
            (attempt.pool, attempt.request.memory)
            for attempt in planned(attempts(text % last, folder))
        ]
        for last in ("b", "c")
    ]
    first = [("a", 10**9), ("a", 2 * 10**9)]
    assert found == [[*first, ("b", 6 * 10**9)], [*first, ("c", 10**9)]]


@pytest.mark.parametrize(
    ("text", "slurm", "htcondor"),
    [
        ("execution: {pools: {p: {config: {queue: a, account: b}}}}",
         {"partition": "a", "account": "b"}, {"job_flavour": "a", "accounting_group": "b"}),
        # The word of a stronger layer wins over the option of a weaker one, and the other way.
        ("""
         execution: {config: {slurm: {partition: weak, qos: q}}, pools: {p: {config: {queue: a}}}}
         """, {"partition": "a", "qos": "q"}, {"job_flavour": "a"}),
        ("execution: {config: {queue: weak}, pools: {p: {config: {slurm: {partition: a}}}}}",
         {"partition": "a"}, {"job_flavour": "weak"}),
        ("""
         pools.yaml: "default: {config: {slurm: {partition: weak}}}"
         execution: {config: {queue: a}, pools: {p: {}}}
         """, {"partition": "a"}, {"job_flavour": "a"}),
        ("""
         execution: {pools: {p: {config: {slurm: {account: weak}}}}}
         stage: {require: p, config: {account: a}}
         """, {"account": "a"}, {"accounting_group": "a"}),
        # Side by side, the system's own word wins.
        ("execution: {pools: {p: {config: {queue: a, slurm: {partition: b}}}}}",
         {"partition": "b"}, {"job_flavour": "a"}),
        # A null takes back what is weaker.
        ("execution: {config: {queue: weak}, pools: {p: {config: {queue: null}}}}", {}, {}),
        ("""
         execution: {config: {slurm: {partition: weak, qos: q}}, pools: {p: {config: {queue: a}}}}
         stage: {require: p, config: {queue: null}}
         """, {"qos": "q"}, {}),
        ("""
         execution: {config: {slurm: {qos: weak}}, pools: {p: {config: {slurm: null, queue: a}}}}
         """, {"partition": "a"}, {"job_flavour": "a"}),
        ("execution: {config: {queue: weak}, pools: {p: {config: {slurm: {partition: null}}}}}",
         {}, {"job_flavour": "weak"}),
    ],
)  # fmt: skip
def test_queue_and_account_are_words_of_each_system(
    text: str, slurm: Said, htcondor: Said, folder: Path
) -> None:
    said = {"stage": {"require": "p"}, **yaml.safe_load(text)}
    (attempt,) = attempts(yaml.safe_dump(said), folder)
    options = dict(attempt.options)
    del options["executor"]
    assert options == {"local": {}, "slurm": slurm, "htcondor": htcondor}


def test_queue_and_account_are_resources_of_any_other_executor(folder: Path) -> None:
    said = "execution: {pools: {p: {config: {queue: a, account: b, executor: {account: c, n: 1}}}}}"
    (attempt,) = attempts(f"stage: {{require: p}}\n{said}", folder)
    assert attempt.options["executor"] == {"queue": "a", "account": "c", "n": 1}


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        # The name of a class replaces all that weaker layers say of resources.
        ("""
         pools.yaml: "default: {resources: {memory: 8GB, gpus: 1}}"
         execution: {resources: {big: {cpus: 2}}, pools: {p: {resources: big}}}
         """, ResourceRequest(cpus=2)),
        ("""
         hep.yaml: {pools: {p: {resources: {cpus: 8, disk: 1GB}}}}
         execution: {resources: {big: {cpus: 2}}, pools: {p: {resources: big}}}
         """, ResourceRequest(cpus=2)),
        ("""
         execution:
           resources: {small: {cpus: 2, disk: 1GB}, big: {cpus: 4}}
           pool_profiles: {w: {resources: small}}
           pools: {p: {use: w, resources: big}}
         """, ResourceRequest(cpus=4)),
        # What a stronger layer writes out lies over the class.
        ("""
         execution:
           resources: {big: {cpus: 2, memory: 8GB}}
           pool_profiles: {w: {resources: big}}
           pools: {p: {use: w, resources: {cpus: 4}}}
         """, ResourceRequest(cpus=4, memory=8 * 10**9)),
        # A null takes back what is weaker: all of it, or one value.
        ("""
         execution: {pools: {p: {resources: {memory: 8GB, cpus: 2}, config: {walltime: 1h}}}}
         stage: {require: p, resources: null, config: null}
         """, ResourceRequest()),
        ("""
         execution: {pools: {p: {resources: {memory: 8GB, cpus: 2}, config: {walltime: 1h}}}}
         stage: {require: p, resources: {memory: null}, config: {walltime: null}}
         """, ResourceRequest(cpus=2)),
        ("""
         execution: {config: {walltime: 1h, retries: 3}, pools: {p: {config: {retries: null}}}}
         """, ResourceRequest(walltime=3600)),
        ("""
         execution: {config: {walltime: 1h, retries: 3}, pools: {p: {}}}
         stage: {require: p, config: {retries: null}}
         """, ResourceRequest(walltime=3600)),
    ],
)  # fmt: skip
def test_a_stronger_layer_replaces_or_takes_back(
    text: str, asked: ResourceRequest, folder: Path
) -> None:
    said = {"stage": {"require": "p"}, **yaml.safe_load(text)}
    (attempt,) = attempts(yaml.safe_dump(said), folder)
    assert attempt.request == asked


def rules(execution: Execution, stage: Said) -> list[Rule]:
    """Return the rules of a workflow of one stage and one file."""
    sim = {"name": "sim", "eventtype": "mc", "files": ["s.root"]}
    source = node("source", "events", tree="events", branches=["px"])
    made = define("A", "read.events", "px", execution=stage)
    partition = Partition("events__sim__0_0", "sim", "s.root", "events", "0_0")
    variation = Variation(None, graph(source, made, datasets={"sim": sim}), (partition,))
    return make_rules([variation], "auto", identity=str, router=execution.router)


def placed(said: Said, folder: Path, *, shrink: bool = False) -> tuple[str, str]:
    """Return what is in the way of a workflow at a site, and what its user should know."""
    execution, findings = read(said, folder)
    assert execution is not None, findings
    assert findings == []
    _, found, notes = place(rules(execution, said["stage"]), execution, shrink=shrink)
    return shown(found, folder), shown(notes, folder)


@pytest.mark.parametrize(("text", "message"), examples("too_large"))
def test_a_pool_that_is_larger_than_the_machine(text: str, message: str, folder: Path) -> None:
    assert placed({**yaml.safe_load(text), "pools.yaml": HERE}, folder) == (message, "")


@pytest.mark.parametrize(("text", "note"), examples("fallen_back"))
def test_a_fallback_that_fits_is_taken_at_once(text: str, note: str, folder: Path) -> None:
    assert placed({**yaml.safe_load(text), "pools.yaml": HERE}, folder) == ("", note)


@pytest.mark.parametrize(
    ("pool", "stage", "seconds"),
    [
        ("{}", "fallback: default, fallback_after: 30m", 1800),
        ("{fallback_after: 30m}", "fallback: default", 1800),
        ("{fallback_after: 30m}", "fallback: default, fallback_after: 20", 20),
        ("{fallback_after: 30m}", "fallback: default, fallback_after: null", None),
        ("{}", "fallback: default", None),
    ],
)
def test_a_job_waits_for_its_pool_as_long_as_it_is_told(
    pool: str, stage: str, seconds: int | None, folder: Path
) -> None:
    """A stage has the last word; a machine without a queue has nothing to wait in."""
    text = f"{{execution: {{pools: {{gpu: {pool}}}}}, stage: {{prefer: gpu, {stage}}}}}"
    said = yaml.safe_load(text)
    found = {}
    for system in ("slurm", "local"):
        execution, findings = read({**said, "config.yaml": f"executor: {system}"}, folder)
        assert execution is not None, findings
        placement, _, _ = place(rules(execution, said["stage"]), execution)
        found[system] = [*placement.fallback_after.values()]
    assert found == {"slurm": [seconds] if seconds else [], "local": []}


@pytest.mark.parametrize(("text", "notes"), examples("shrunk"))
def test_shrink_to_fit_lists_what_it_cuts(text: str, notes: str, folder: Path) -> None:
    said = {**yaml.safe_load(text), "pools.yaml": HERE}
    assert placed(said, folder, shrink=True) == ("", notes)


@pytest.mark.parametrize(("text", "message"), examples("too_long"))
def test_a_walltime_above_the_limit_of_the_site(text: str, message: str, folder: Path) -> None:
    limits = "limits: {walltime: '01:00:00'}"
    assert placed({**yaml.safe_load(text), "pools.yaml": limits}, folder) == (message, "")


@pytest.fixture
def sinfo(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a command ``sinfo`` that prints what stands in ``sinfo.txt`` beside it."""
    commands = folder / "commands"
    commands.mkdir()
    (commands / "sinfo").write_text(f"#!/bin/sh\nexec /bin/cat '{commands}/sinfo.txt'\n")
    (commands / "sinfo").chmod(0o755)
    monkeypatch.setenv("PATH", str(commands))
    return commands


@pytest.mark.parametrize(("text", "message"), examples("on_slurm"))
def test_what_slurm_can_never_run(text: str, message: str, sinfo: Path, folder: Path) -> None:
    (sinfo / "sinfo.txt").write_text(SINFO)
    said = {"config.yaml": "executor: slurm", **yaml.safe_load(text)}
    assert placed(said, folder) == (message, "")


def test_a_partition_whose_nodes_are_all_down_is_not_refused(sinfo: Path, folder: Path) -> None:
    """They come back: all of them count."""
    (sinfo / "sinfo.txt").write_text(SINFO)
    text = "{execution: {pools: {p: {resources: {cpus: %s}, config: {queue: old}}}}, stage: %s}"
    said = {"config.yaml": "executor: slurm", **yaml.safe_load(text % (8, "{require: p}"))}
    assert placed(said, folder) == ("", "")
    said |= yaml.safe_load(text % (9, "{require: p}"))
    assert "expected: at most 8\n" in placed(said, folder)[0]


@pytest.mark.parametrize(
    "answer",
    ["slurm_load_partitions: no controller", "cpu|1:00", "\n"],
    ids=["words", "half-a-line", "an-empty-line"],
)
def test_an_answer_that_is_none_is_in_nobodys_way(answer: str, sinfo: Path, folder: Path) -> None:
    (sinfo / "sinfo.txt").write_text(answer)
    text = "{execution: {pools: {p: {config: {queue: cpu}}}}, stage: {require: p}}"
    said = {**yaml.safe_load(text), "config.yaml": "executor: slurm"}
    assert placed(said, folder) == ("", "")


@pytest.mark.parametrize(
    ("resources", "measured"),
    [
        ("[mem_mb=3000]", False),
        ("{mem: 3GB}", False),
        ("[\"slurm_extra='--mem-per-cpu=3G'\"]", False),
        ("[htcondor_request_mem_mb=3000]", False),
        ("[slurm_account=members]", True),
        ("[]", True),
    ],
)
def test_jobs_are_measured_unless_the_site_says_what_memory_they_get(
    resources: str, measured: bool, folder: Path
) -> None:
    config = f"{{executor: slurm, default-resources: {resources}}}"
    execution, findings = read({"execution": {}, "config.yaml": config}, folder)
    assert execution is not None, findings
    assert execution.router.measures("default", []) == (("memory",) if measured else ())
