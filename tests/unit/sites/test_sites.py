"""The site profiles of this repository, and the ones that are generated."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from snakemake import ioutils
from snakemake_executor_plugin_slurm.utils import set_gres_string
from snakemake_executor_plugin_slurm.validation import validate_slurm_extra

from fasthep_smk import sites
from fasthep_smk.cli.site_init import init_site
from fasthep_smk.config.execution import load_site, read_execution
from fasthep_smk.config.requests import Attempt, ResourceRequest, Route
from fasthep_smk.config.site import Site
from fasthep_smk.plan.rules import Bundle, Rule
from fasthep_smk.sites.slurm import Slurm
from fasthep_smk.translate import profile
from fasthep_smk.translate.snakefile import lengthened

PROFILES = Path(__file__).parents[3] / "fasthep_smk/config/profiles"
#: What an attempt of a rule may ask for, with characters that mean something to shells and YAML.
HOSTILE = "$(touch canary) `id` \"q\" 'p' {x} \\ %s : = é"


@pytest.mark.parametrize("name", sorted(path.name for path in PROFILES.iterdir()))
def test_a_profile_of_ours_is_a_valid_site(name: str) -> None:
    found = load_site(str(PROFILES / name), "local", workflow="")
    assert found.system == {"cern-lxbatch": "htcondor"}.get(name, name)
    document = {"execution": {"pools": dict.fromkeys(found.said.get("pool_profiles") or ())}}
    _, findings = read_execution(document, {}, profile=str(PROFILES / name), workflow="")
    assert not findings


@pytest.mark.parametrize("name", ["local", "slurm", "htcondor"])
def test_a_profile_says_what_is_set_without_one(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")  # no batch system to ask
    module = sites.system(name)
    generated = {**module.settings(Site(name)), **profile.BASE, "retries": module.RETRIES}
    generated.pop("resources", None)
    written = yaml.safe_load((PROFILES / name / "config.yaml").read_text())
    assert written == {"executor": name, **generated} if name != "local" else written == generated


def rendered(placement: profile.Placement, *attempts: Attempt) -> dict[str, object]:
    rule = Rule("stage_A", "partition", ("A",), Route(attempts), ("dataset", "part"))
    text = profile.render([rule], placement)
    return dict(yaml.safe_load(text))


def placed(system: str, *attempts: Attempt, **more: object) -> profile.Placement:
    return profile.Placement(Site(system), attempts={"stage_A": attempts}, **more)  # type: ignore[arg-type]


def test_options_reach_snakemake_with_their_exact_value() -> None:
    options = {"htcondor": {"requirements": HOSTILE, "classads": {"Note": "a b"}}}
    attempt = Attempt("default", ResourceRequest(), options)
    settings = rendered(placed("htcondor", attempt), attempt)
    found = settings["set-resources"]["stage_A"]  # type: ignore[index]
    assert eval(found["requirements"]) == HOSTILE  # what Snakemake does with it
    assert eval(found["classad_Note"]) == "a b"


def test_words_for_sbatch_are_quoted_one_by_one() -> None:
    attempt = Attempt("default", ResourceRequest(), {"slurm": {"extra": f"--comment={HOSTILE!r}"}})
    with pytest.raises(ValueError, match="quotation"):
        rendered(placed("slurm", attempt), attempt)
    attempt = Attempt("default", ResourceRequest(), {"slurm": {"extra": ["--comment=$(id) x"]}})
    settings = rendered(placed("slurm", attempt), attempt)
    found = settings["set-resources"]["stage_A"]  # type: ignore[index]
    assert eval(found["slurm_extra"]) == "'--comment=$(id) x'"


def test_what_changes_with_the_attempt_is_an_expression() -> None:
    spot = Attempt("spot", ResourceRequest(), {"slurm": {"partition": "spot"}})
    last = Attempt("safe", ResourceRequest(), {"slurm": {"partition": "long"}})
    settings = rendered(placed("slurm", spot, last), spot, last)
    found = settings["set-resources"]["stage_A"]["slurm_partition"]  # type: ignore[index]
    assert [eval(found, {"attempt": attempt, "min": min}) for attempt in (1, 2, 3)] == [
        "spot",
        "long",
        "long",
    ]


def at(found: object, attempt: int) -> object:
    """What Snakemake makes of a resource at this attempt."""
    return eval(str(found), {"attempt": attempt, "min": min})


def test_a_pool_does_not_get_what_only_the_one_before_it_asks_for() -> None:
    spot = Attempt("spot", ResourceRequest(), {"slurm": {"partition": "spot", "extra": ["--x"]}})
    safe = Attempt("safe", ResourceRequest(), {"slurm": {"qos": "long"}})
    settings = rendered(placed("slurm", spot, safe), spot, safe)
    found = settings["set-resources"]["stage_A"]  # type: ignore[index]
    values = {name: [at(found[name], 1), at(found[name], 2)] for name in found}
    assert values["slurm_partition"] == ["spot", None]
    assert values["slurm_extra"] == ["--x", None]
    assert values["qos"] == [None, "long"]


@pytest.mark.parametrize(
    "options", [{"gpu_model": "a100-pcie-40gb"}, {"gres": "gpu:a100-pcie-40gb:2"}]
)
def test_gpus_whose_name_has_a_dash_are_asked_for_where_the_plugin_lets_us(
    options: dict[str, str],
) -> None:
    """Snakemake's plugin for Slurm (2.8) refuses such a name; sinfo and ``site init`` print it."""
    found = Slurm().resources(Attempt("p", ResourceRequest(gpus=2), {"slurm": options}))
    assert found["slurm_extra"] == "-G a100-pcie-40gb:2"
    job = SimpleNamespace(resources=Resources(found))
    assert set_gres_string(job) == ""
    validate_slurm_extra(job)


class Resources(dict[str, object]):
    """Those of a job, as the plugin reads them."""

    __getattr__ = dict.__getitem__


def test_gpus_among_the_gres_of_one_pool_are_asked_for_as_ever_by_the_next() -> None:
    one = Attempt("one", ResourceRequest(gpus=1), {"slurm": {"gres": "gpu:a100:1"}})
    other = Attempt("other", ResourceRequest(gpus=1), {})
    settings = rendered(placed("slurm", one, other), one, other)
    found = settings["set-resources"]["stage_A"]  # type: ignore[index]
    assert [at(found["gpu"], attempt) for attempt in (1, 2)] == [0, 1]
    assert [at(found["gres"], attempt) for attempt in (1, 2)] == ["gpu:a100:1", None]


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("'short'", "short"),
        ("short", "short"),
        ("group_u-cms", "group_u-cms"),
        ("1-00:00:00", "1-00:00:00"),
        ("it's", "it's"),
        (30, 30),
        ("max(1, attempt)", 2),
        ("[x for x in (4, 5)][attempt - 1]", 5),
    ],
)
def test_what_a_site_sets_for_all_is_what_a_silent_pool_gets(said: object, meant: object) -> None:
    settings = {"default-resources": {"slurm_partition": said}}
    spot = Attempt("spot", ResourceRequest(), {"slurm": {"partition": "spot"}})
    safe = Attempt("safe", ResourceRequest(), {})
    placement = profile.Placement(
        Site("slurm", settings=settings), attempts={"stage_A": (spot, safe)}
    )
    settings = rendered(placement, spot, safe)
    found = settings["set-resources"]["stage_A"]["slurm_partition"]  # type: ignore[index]
    assert [at(found, attempt) for attempt in (1, 2)] == ["spot", meant]


def test_the_names_in_an_expression_are_those_that_snakemake_knows() -> None:
    known: dict[str, object] = {}
    ioutils.register_in_globals(known)
    assert set(known) <= profile.SNAKEMAKE_NAMES


def test_a_job_needs_as_much_wherever_it_runs() -> None:
    large = Attempt("large", ResourceRequest(memory=2**32), {})
    silent = Attempt("silent", ResourceRequest(), {})
    settings = rendered(placed("slurm", large, silent), large, silent)
    assert settings["set-resources"]["stage_A"]["mem_mb"] == 4096  # type: ignore[index]


def test_only_jobs_of_pools_with_workers_are_counted() -> None:
    spot, safe = (Attempt(name, ResourceRequest()) for name in ("spot", "safe"))
    settings = rendered(placed("slurm", spot, safe, workers={"spot": 2}), spot, safe)
    assert settings["resources"] == {"pool_spot": 2}
    found = settings["set-resources"]["stage_A"]  # type: ignore[index]
    assert [at(found["pool_spot"], attempt) for attempt in (1, 2, 3)] == [1, 0, 0]
    assert "pool_safe" not in found
    assert "set-resources" not in rendered(placed("slurm", spot, safe), spot, safe)


def test_workers_and_company_are_snakemakes_limits_and_groups() -> None:
    attempt = Attempt("my pool", ResourceRequest())
    placement = placed("slurm", attempt, workers={"my pool": 3}, together={"stage_A": 10})
    settings = rendered(placement, attempt)
    (limit,) = settings["resources"].items()  # type: ignore[attr-defined]
    assert limit[0].startswith("pool_my_pool_x")
    assert limit[1] == 3
    assert settings["group-components"] == {"stage_A": 10}


@pytest.mark.parametrize(("longest", "minutes"), [(None, 30), (20 * 60, 20), (5 * 60, 10)])
def test_a_bundle_has_the_time_of_all_its_jobs_but_no_more_than_the_site_gives(
    longest: int | None, minutes: int
) -> None:
    attempt = Attempt("default", ResourceRequest(walltime=600))
    rule = Rule("stage_A", "partition", ("A",), Route((attempt,)), ("dataset", "part"))
    rule.bundles["d/bundle_0"] = Bundle("stage_A", ("d", "bundle_0"), ("d/0", "d/1", "d/2"))
    [found] = lengthened(rule, [attempt], lambda _: longest)
    assert found.request.walltime == 60 * minutes


@pytest.mark.parametrize(
    ("system", "option", "minutes"),
    [("slurm", "partitions", 25), ("htcondor", "flavours", 25), ("local", "executor", 30)],
)
def test_a_bundle_lasts_no_longer_than_the_longest_partition_or_flavour(
    system: str, option: str, minutes: int
) -> None:
    """One that asked for more would never start, or be refused."""
    options = {system: {option: {"short": "20m", "day": "25m"}}}
    attempt = Attempt("default", ResourceRequest(walltime=600), options)
    rule = Rule("stage_A", "partition", ("A",), Route((attempt,)), ("dataset", "part"))
    rule.bundles["d/bundle_0"] = Bundle("stage_A", ("d", "bundle_0"), ("d/0", "d/1", "d/2"))
    [found] = lengthened(rule, [attempt], placed(system, attempt).longest)
    assert found.request.walltime == minutes * 60


def test_the_sites_own_settings_have_the_last_word(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "executor: slurm\njobs: 7\nresources: [mem_mb=9]\n"
        "set-resources: ['stage_A:slurm_partition=mine']\njobscript: script.sh\n"
    )
    (tmp_path / "script.sh").write_text("")
    site = load_site(str(tmp_path), "local", workflow="")
    attempt = Attempt("default", ResourceRequest(), {"slurm": {"partition": "other", "qos": "q"}})
    placement = profile.Placement(site, {"default": 2}, {"stage_A": (attempt,)})
    settings = rendered(placement, attempt)
    assert settings["jobs"] == 7
    assert settings["resources"] == {"pool_default": 2, "mem_mb": 9}
    own = settings["set-resources"]["stage_A"]  # type: ignore[index]
    assert own.pop("pool_default") == 1  # what the limit counts
    assert own == {"slurm_partition": "mine", "qos": '"q"'}
    assert settings["jobscript"] == str(tmp_path / "script.sh")


def test_a_first_profile_of_this_machine_can_be_used(tmp_path: Path) -> None:
    written, invented = init_site("local", tmp_path / "here")
    assert [path.name for path in written] == ["config.yaml", "pools.yaml"]
    assert invented == []
    site = load_site(str(tmp_path / "here"), "local", workflow="")
    assert site.machine["cpus"] >= 1
    with pytest.raises(Exception, match="exists: choose another folder"):
        init_site("local", tmp_path / "here")


def test_what_no_batch_system_says_is_named_as_an_example_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Slurm names no time for a job; a profile without one would be of no use."""
    sinfo = tmp_path / "sinfo"
    sinfo.write_text(
        "#!/bin/sh\necho 'empty|infinite|0|0|(null)|n/a|empty*'\n"
        "echo 'cpu|1-00:00:00|4|16000|(null)|idle|cpu'\n"
    )
    sinfo.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    _, invented = init_site("slurm", tmp_path / "site")
    text = "default.config.walltime, 01:00:00: Slurm ends a job that takes longer"
    assert invented == [text]
    lines = (tmp_path / "site/pools.yaml").read_text().splitlines()
    assert (
        "# The batch system does not report these values: adapt the examples to your jobs:" in lines
    )
    assert f"#     {text}" in lines


def test_a_batch_system_that_is_not_here_has_no_first_profile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Exception, match="slurm does not answer on this machine"):
        init_site("slurm", tmp_path / "site")
    assert not (tmp_path / "site").exists()


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("1:0", "exit code 1:0"),
        ("143:0", "exit code 143:0, signal 15 (terminated)"),
        ("0:9", "exit code 0:9, signal 9 (killed)"),
    ],
)
def test_slurm_s_exit_codes_name_their_signals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, said: str
) -> None:
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\necho 'JobState=FAILED ExitCode={code} NodeList=n1'\n")
    scontrol.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Slurm().fate("7") == f"Slurm: FAILED, {said}, node n1"
