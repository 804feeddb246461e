"""What a user is told about pools, resources and routing, word for word.

Each example is what stands in the files, in YAML as a user writes it, and the whole message:
``execution`` is the workflow's section, ``stage`` what its only stage, ``A``, says;
``pools.yaml`` and ``config.yaml`` are the texts of a site's files, ``hep.yaml`` is the section of
a FAST-HEP profile. ``SITE`` stands for the site's folder.
"""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.config.execution import Execution, read_execution
from fasthep_smk.config.requests import Attempt, ResourceRequest
from fasthep_smk.plan.jobs import make_rules
from fasthep_smk.plan.partitions import Partition
from fasthep_smk.plan.rules import Rule, Variation
from fasthep_smk.translate.placement import place
from fasthep_smk.util.errors import Finding
from tests.unit.plans import define, graph, node

Said = dict[str, Any]


def examples(*tables: str) -> list[Any]:
    """Return the examples of tables: what is said, and the message; the ids are their headings."""
    found = []
    for block in (block for table in tables for block in table.split("\n## ")[1:]):
        name, _, rest = block.partition("\n")
        said, _, message = rest.partition("\n->")
        found.append(pytest.param(said, message.strip("\n"), id=name))
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


SECTION = r"""
## execution-is-text
execution: text
->
workflow.yaml: execution: is not a valid value
    found: 'text'
    expected: pools, resources and how to run
## execution-is-a-list
execution: [pools]
->
workflow.yaml: execution: is a list
    found: ['pools']
    expected: pools, resources and how to run
## unknown-key
execution: {pool: {gpu: {}}}
->
workflow.yaml: execution.pool: unknown key
    expected: backend, strategy, profiles, resources, pools, pool_profiles, default_pools, environment, staging, credentials, config
    hint: did you mean 'pools'?
## unknown-key-in-capitals
execution: {Pools: {gpu: {}}}
->
workflow.yaml: execution.Pools: unknown key
    expected: backend, strategy, profiles, resources, pools, pool_profiles, default_pools, environment, staging, credentials, config
    hint: did you mean 'pools'?
## key-that-is-a-yes
execution: {on: true}
->
workflow.yaml: execution[True]: this key is not text
    found: True
    expected: a name; put quotes around it if it looks like a number or a yes/no
## pools-is-a-list
execution: {pools: [gpu]}
->
workflow.yaml: execution.pools: is a list
    found: ['gpu']
    expected: pools by name
## pool-is-a-number
execution: {pools: {gpu: 3}}
->
workflow.yaml: execution.pools.gpu: is not a valid value
    found: 3
    expected: workers, resources, use, config
## pool-is-text
execution: {pools: {gpu: large}}
->
workflow.yaml: execution.pools.gpu: is not a valid value
    found: 'large'
    expected: workers, resources, use, config
## backend-is-null
execution: {backend: null}
->
workflow.yaml: execution.backend: is not a valid value
    found: None
    expected: text
## config-is-a-list
execution: {config: [1]}
->
workflow.yaml: execution.config: is a list
    found: [1]
    expected: a mapping
## strategy-misspelt
execution: {strategy: slrum}
->
workflow.yaml: execution.strategy: no such strategy here
    found: 'slrum'
    expected: local, slurm, htcondor
    hint: did you mean 'slurm'?
## strategy-in-capitals
execution: {strategy: Slurm}
->
workflow.yaml: execution.strategy: no such strategy here
    found: 'Slurm'
    expected: local, slurm, htcondor
    hint: did you mean 'slurm'?
## strategy-unknown
execution: {strategy: pbs}
->
workflow.yaml: execution.strategy: no such strategy here
    found: 'pbs'
    expected: local, slurm, htcondor
    hint: or choose a site with --profile
## strategy-empty
execution: {strategy: ''}
->
workflow.yaml: execution.strategy: no such strategy here
    found: ''
    expected: local, slurm, htcondor
    hint: or choose a site with --profile
## strategy-is-a-number
execution: {strategy: 3}
->
workflow.yaml: execution.strategy: is not a valid value
    found: 3
    expected: local, slurm or htcondor
## strategy-is-a-list
execution: {strategy: [slurm]}
->
workflow.yaml: execution.strategy: is a list
    found: ['slurm']
    expected: local, slurm or htcondor
"""  # noqa: E501

POOLS = r"""
## pool-key-unknown
execution: {pools: {gpu: {worker: 2}}}
->
workflow.yaml: execution.pools.gpu.worker: unknown key
    expected: use, workers, resources, config
    hint: did you mean 'workers'?
## pool-key-of-resources
execution: {pools: {gpu: {memory: 4GB}}}
->
workflow.yaml: execution.pools.gpu.memory: unknown key
    expected: use, workers, resources, config
## pool-name-is-a-number
execution: {pools: {2018: {workers: 1}}}
->
workflow.yaml: execution.pools[2018]: this key is not text
    found: 2018
    expected: a name; put quotes around it if it looks like a number or a yes/no
## pool-name-is-an-on
execution: {pools: {on: {workers: 1}}}
->
workflow.yaml: execution.pools[True]: this key is not text
    found: True
    expected: a name; put quotes around it if it looks like a number or a yes/no
## pool-name-is-a-no
execution: {pools: {no: {workers: 1}}}
->
workflow.yaml: execution.pools[False]: this key is not text
    found: False
    expected: a name; put quotes around it if it looks like a number or a yes/no
## pool-name-is-null
execution: {pools: {null: {workers: 1}}}
->
workflow.yaml: execution.pools[None]: this key is not text
    found: None
    expected: a name; put quotes around it if it looks like a number or a yes/no
## pool-name-empty
execution: {pools: {'': {workers: 1}}}
->
workflow.yaml: execution.pools['']: is no name for a pool
    found: ''
    expected: a name, without spaces at its ends
## pool-name-with-spaces-around
execution: {pools: {' gpu': {}}}
stage: {require: ' gpu'}
->
workflow.yaml: execution.pools[' gpu']: is no name for a pool
    found: ' gpu'
    expected: a name, without spaces at its ends
## pool-name-with-a-space
execution: {pools: {a b: {use: large}}}
->
workflow.yaml: execution.pools['a b'].use: no pool profile of this name
    found: 'large'
    expected: a profile in pools.yaml or in execution.pool_profiles
## pool-name-with-an-apostrophe
execution: {pools: {it's: {resources: large}}}
->
workflow.yaml: execution.pools["it's"].resources: no resource class of this name
    found: 'large'
    expected: a class in execution.resources, or cpus, memory, disk, gpus written here
## pool-name-with-a-newline
execution: {pools: {"a\nb": {config: {walltime: '00:00:00'}}}}
->
workflow.yaml: execution.pools['a\nb'].config.walltime: is not a valid value
    found: '00:00:00'
    expected: more than no time at all
## pool-name-with-shell
execution: {pools: {'$(id) {x}': {use: large}}}
->
workflow.yaml: execution.pools['$(id) {x}'].use: no pool profile of this name
    found: 'large'
    expected: a profile in pools.yaml or in execution.pool_profiles
## pool-name-with-an-escape
execution: {pools: {"\e[31m": {use: large}}}
->
workflow.yaml: execution.pools['\x1b[31m'].use: no pool profile of this name
    found: 'large'
    expected: a profile in pools.yaml or in execution.pool_profiles
## workers-zero
execution: {pools: {gpu: {workers: 0}}}
->
workflow.yaml: execution.pools.gpu.workers: is too small
    found: 0
    expected: a whole number, 1 or more
## workers-negative
execution: {pools: {gpu: {workers: -1}}}
->
workflow.yaml: execution.pools.gpu.workers: is too small
    found: -1
    expected: a whole number, 1 or more
## workers-a-fraction
execution: {pools: {gpu: {workers: 2.7}}}
->
workflow.yaml: execution.pools.gpu.workers: is not a valid value
    found: 2.7
    expected: a whole number, 1 or more
## workers-a-yes
execution: {pools: {gpu: {workers: yes}}}
->
workflow.yaml: execution.pools.gpu.workers: is not a valid value
    found: True
    expected: a whole number, 1 or more
## workers-text
execution: {pools: {gpu: {workers: two}}}
->
workflow.yaml: execution.pools.gpu.workers: is not a valid value
    found: 'two'
    expected: a whole number, 1 or more
## workers-a-number-as-text
execution: {pools: {gpu: {workers: '2'}}}
->
workflow.yaml: execution.pools.gpu.workers: is not a valid value
    found: '2'
    expected: a whole number, 1 or more
    hint: a number between quotes is text: leave the quotes out
## workers-not-a-number
execution: {pools: {gpu: {workers: .nan}}}
->
workflow.yaml: execution.pools.gpu.workers: is not a valid value
    found: nan
    expected: a whole number, 1 or more
## workers-with-an-exponent
execution: {pools: {gpu: {workers: 1e3}}}
->
workflow.yaml: execution.pools.gpu.workers: is not a valid value
    found: '1e3'
    expected: a whole number, 1 or more
## workers-a-list
execution: {pools: {gpu: {workers: [1]}}}
->
workflow.yaml: execution.pools.gpu.workers: is a list
    found: [1]
    expected: a whole number, 1 or more
## workers-a-mapping
execution: {pools: {gpu: {workers: {a: 1}}}}
->
workflow.yaml: execution.pools.gpu.workers: is a mapping
    found: {'a': 1}
    expected: a whole number, 1 or more
"""

RESOURCES = r"""
## cpus-zero
execution: {pools: {gpu: {resources: {cpus: 0}}}}
->
workflow.yaml: execution.pools.gpu.resources.cpus: is too small
    found: 0
    expected: a whole number, 1 or more
## cpus-half
execution: {pools: {gpu: {resources: {cpus: 0.5}}}}
->
workflow.yaml: execution.pools.gpu.resources.cpus: is not a valid value
    found: 0.5
    expected: a whole number, 1 or more
## cpus-all
execution: {pools: {gpu: {resources: {cpus: all}}}}
->
workflow.yaml: execution.pools.gpu.resources.cpus: is not a valid value
    found: 'all'
    expected: a whole number, 1 or more
## cpus-octal-as-text
execution: {pools: {gpu: {resources: {cpus: '08'}}}}
->
workflow.yaml: execution.pools.gpu.resources.cpus: is not a valid value
    found: '08'
    expected: a whole number, 1 or more
## cpus-in-arabic-digits
execution: {pools: {gpu: {resources: {cpus: ٣}}}}
->
workflow.yaml: execution.pools.gpu.resources.cpus: is not a valid value
    found: '٣'
    expected: a whole number, 1 or more
## memory-without-a-unit
execution: {pools: {gpu: {resources: {memory: 16}}}}
->
workflow.yaml: execution.pools.gpu.resources.memory: is not a valid value
    found: 16
    expected: a number with a unit, such as 4GB or 4GiB
## memory-with-half-a-unit
execution: {pools: {gpu: {resources: {memory: 16G}}}}
->
workflow.yaml: execution.pools.gpu.resources.memory: is not a valid value
    found: '16G'
    expected: a number with a unit, such as 4GB or 4GiB
## memory-with-an-unknown-unit
execution: {pools: {gpu: {resources: {memory: 4EB}}}}
->
workflow.yaml: execution.pools.gpu.resources.memory: is not a valid value
    found: '4EB'
    expected: a number with a unit, such as 4GB or 4GiB
## memory-zero
execution: {pools: {gpu: {resources: {memory: 0GB}}}}
->
workflow.yaml: execution.pools.gpu.resources.memory: is not a valid value
    found: '0GB'
    expected: more than nothing
## memory-negative
execution: {pools: {gpu: {resources: {memory: -4GB}}}}
->
workflow.yaml: execution.pools.gpu.resources.memory: is not a valid value
    found: '-4GB'
    expected: a number with a unit, such as 4GB or 4GiB
## memory-half-a-byte
execution: {pools: {gpu: {resources: {memory: 1.5B}}}}
->
workflow.yaml: execution.pools.gpu.resources.memory: is not a valid value
    found: '1.5B'
    expected: a whole number of bytes
## memory-with-a-comma
execution: {pools: {gpu: {resources: {memory: 4,5GB}}}}
->
workflow.yaml: execution.pools.gpu.resources['5GB']: unknown key
    expected: cpus, memory, disk, gpus
workflow.yaml: execution.pools.gpu.resources.memory: is not a valid value
    found: 4
    expected: a number with a unit, such as 4GB or 4GiB
## memory-a-list
execution: {pools: {gpu: {resources: {memory: [4GB]}}}}
->
workflow.yaml: execution.pools.gpu.resources.memory: is a list
    found: ['4GB']
    expected: a number with a unit, such as 4GB or 4GiB
## gpus-yes
execution: {pools: {gpu: {resources: {gpus: yes}}}}
->
workflow.yaml: execution.pools.gpu.resources.gpus: is not a valid value
    found: True
    expected: a whole number, 0 or more
## gpus-negative
execution: {pools: {gpu: {resources: {gpus: -1}}}}
->
workflow.yaml: execution.pools.gpu.resources.gpus: is too small
    found: -1
    expected: a whole number, 0 or more
## gpus-with-a-model
execution: {pools: {gpu: {resources: {gpus: a100:1}}}}
->
workflow.yaml: execution.pools.gpu.resources.gpus: is not a valid value
    found: 'a100:1'
    expected: a whole number, 0 or more
## resource-misspelt
execution: {pools: {gpu: {resources: {gpu: 1}}}}
->
workflow.yaml: execution.pools.gpu.resources.gpu: unknown key
    expected: cpus, memory, disk, gpus
    hint: did you mean 'gpus'?
## resource-in-capitals
execution: {pools: {gpu: {resources: {CPUs: 1}}}}
->
workflow.yaml: execution.pools.gpu.resources.CPUs: unknown key
    expected: cpus, memory, disk, gpus
    hint: did you mean 'cpus'?
## resources-a-list
execution: {pools: {gpu: {resources: [gpu]}}}
->
workflow.yaml: execution.pools.gpu.resources: is a list
    found: ['gpu']
    expected: the name of a class in execution.resources, or cpus, memory, disk, gpus
## resources-a-number
execution: {pools: {gpu: {resources: 5}}}
->
workflow.yaml: execution.pools.gpu.resources: is not a valid value
    found: 5
    expected: the name of a class in execution.resources, or cpus, memory, disk, gpus
## resources-empty-text
execution: {pools: {gpu: {resources: ''}}}
->
workflow.yaml: execution.pools.gpu.resources: is not a valid value
    found: ''
    expected: the name of a class in execution.resources, or cpus, memory, disk, gpus
## class-unknown
execution: {resources: {gpu: {gpus: 1}}, pools: {gpu: {resources: gpuu}}}
->
workflow.yaml: execution.pools.gpu.resources: no resource class of this name
    found: 'gpuu'
    expected: gpu
    hint: did you mean 'gpu'?
## class-where-there-is-none
execution: {pools: {gpu: {resources: big}}}
->
workflow.yaml: execution.pools.gpu.resources: no resource class of this name
    found: 'big'
    expected: a class in execution.resources, or cpus, memory, disk, gpus written here
## class-that-is-an-input
execution: {resources: {table: {kind: file, path: t.csv}}, pools: {gpu: {resources: table}}}
->
workflow.yaml: execution.pools.gpu.resources: no resource class of this name
    found: 'table'
    expected: a class in execution.resources, or cpus, memory, disk, gpus written here
## class-is-a-number
execution: {resources: {gpu: 3}}
->
workflow.yaml: execution.resources.gpu: is not a valid value
    found: 3
    expected: a resource class, or an input resource if it has a kind
## class-is-null
execution: {resources: {gpu: null}}
->
workflow.yaml: execution.resources.gpu: is not a valid value
    found: None
    expected: a resource class, or an input resource if it has a kind
## class-key-misspelt
execution: {resources: {gpu: {gpu: 1}}}
->
workflow.yaml: execution.resources.gpu.gpu: unknown key
    expected: cpus, memory, disk, gpus
    hint: did you mean 'gpus'?
## class-with-a-bad-amount
execution: {resources: {gpu: {gpus: two}}}
->
workflow.yaml: execution.resources.gpu.gpus: is not a valid value
    found: 'two'
    expected: a whole number, 0 or more
## class-that-nobody-uses
execution: {resources: {gpu: {memory: 0GB}}}
->
workflow.yaml: execution.resources.gpu.memory: is not a valid value
    found: '0GB'
    expected: more than nothing
## input-resource-misspelt
execution: {resources: {table: {kin: file, path: t.csv}}}
->
workflow.yaml: execution.resources.table.kin: unknown key
    expected: cpus, memory, disk, gpus
workflow.yaml: execution.resources.table.path: unknown key
    expected: cpus, memory, disk, gpus
"""

PROFILES = r"""
## profile-unknown
execution: {pools: {gpu: {use: gpu_wrker}}, pool_profiles: {gpu_worker: {}}}
->
workflow.yaml: execution.pools.gpu.use: no pool profile of this name
    found: 'gpu_wrker'
    expected: gpu_worker
    hint: did you mean 'gpu_worker'?
## profile-where-there-is-none
execution: {pools: {gpu: {use: gpu_worker}}}
->
workflow.yaml: execution.pools.gpu.use: no pool profile of this name
    found: 'gpu_worker'
    expected: a profile in pools.yaml or in execution.pool_profiles
## profile-name-empty
execution: {pools: {gpu: {use: ''}}}
->
workflow.yaml: execution.pools.gpu.use: is not a valid value
    found: ''
    expected: the name of a pool profile
## profile-using-a-profile
execution: {pool_profiles: {gpu: {use: other}}}
->
workflow.yaml: execution.pool_profiles.gpu.use: unknown key
    expected: workers, resources, config
## profile-with-bad-workers
execution: {pool_profiles: {gpu: {workers: many}}}
->
workflow.yaml: execution.pool_profiles.gpu.workers: is not a valid value
    found: 'many'
    expected: a whole number, 1 or more
## profile-of-an-unknown-class
execution: {pools: {gpu: {use: w}}, pool_profiles: {w: {resources: nix}}}
->
workflow.yaml: execution.pool_profiles.w.resources: no resource class of this name
    found: 'nix'
    expected: a class in execution.resources, or cpus, memory, disk, gpus written here
## profile-that-nobody-uses
execution: {pool_profiles: {gpu: {resources: nix}}}
->
workflow.yaml: execution.pool_profiles.gpu.resources: no resource class of this name
    found: 'nix'
    expected: a class in execution.resources, or cpus, memory, disk, gpus written here
"""

CONFIG = r"""
## config-key-misspelt
execution: {pools: {gpu: {config: {wall_time: 1h}}}}
->
workflow.yaml: execution.pools.gpu.config.wall_time: unknown key
    expected: walltime, retries, partitions_per_job, memory_growth, queue, account, slurm, htcondor, local
    hint: did you mean 'walltime'?
## config-key-in-capitals
execution: {pools: {gpu: {config: {SLURM: {}}}}}
->
workflow.yaml: execution.pools.gpu.config.SLURM: unknown key
    expected: walltime, retries, partitions_per_job, memory_growth, queue, account, slurm, htcondor, local
    hint: did you mean 'slurm'?
## config-of-a-pool-a-list
execution: {pools: {gpu: {config: []}}}
->
workflow.yaml: execution.pools.gpu.config: is a list
    found: []
    expected: walltime, retries, and what a batch system wants to know
## walltime-zero
execution: {pools: {gpu: {config: {walltime: 0}}}}
->
workflow.yaml: execution.pools.gpu.config.walltime: is too small
    found: 0
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## walltime-zero-as-a-clock
execution: {pools: {gpu: {config: {walltime: '00:00:00'}}}}
->
workflow.yaml: execution.pools.gpu.config.walltime: is not a valid value
    found: '00:00:00'
    expected: more than no time at all
## walltime-empty
execution: {pools: {gpu: {config: {walltime: ''}}}}
->
workflow.yaml: execution.pools.gpu.config.walltime: is not a valid value
    found: ''
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## walltime-negative
execution: {pools: {gpu: {config: {walltime: -1}}}}
->
workflow.yaml: execution.pools.gpu.config.walltime: is too small
    found: -1
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## walltime-without-seconds
execution: {pools: {gpu: {config: {walltime: 09:30}}}}
->
workflow.yaml: execution.pools.gpu.config.walltime: is not a valid value
    found: '09:30'
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## walltime-of-sixty-minutes
execution: {pools: {gpu: {config: {walltime: '24:60:00'}}}}
->
workflow.yaml: execution.pools.gpu.config.walltime: is not a valid value
    found: '24:60:00'
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## walltime-a-fraction
execution: {pools: {gpu: {config: {walltime: 2.5}}}}
->
workflow.yaml: execution.pools.gpu.config.walltime: is not a valid value
    found: 2.5
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## walltime-a-yes
execution: {pools: {gpu: {config: {walltime: on}}}}
->
workflow.yaml: execution.pools.gpu.config.walltime: is not a valid value
    found: True
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## walltime-in-words
execution: {pools: {gpu: {config: {walltime: 2 days}}}}
->
workflow.yaml: execution.pools.gpu.config.walltime: is not a valid value
    found: '2 days'
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## walltime-of-centuries
execution: {pools: {gpu: {config: {walltime: 100000d}}}}
->
workflow.yaml: execution.pools.gpu.config.walltime: is not a valid value
    found: '100000d'
    expected: less than a hundred years
## retries-as-text
execution: {pools: {gpu: {config: {retries: '3'}}}}
->
workflow.yaml: execution.pools.gpu.config.retries: is not a valid value
    found: '3'
    expected: a whole number, 0 to 100
    hint: a number between quotes is text: leave the quotes out
## retries-negative
execution: {pools: {gpu: {config: {retries: -1}}}}
->
workflow.yaml: execution.pools.gpu.config.retries: is too small
    found: -1
    expected: a whole number, 0 to 100
## retries-a-no
execution: {pools: {gpu: {config: {retries: no}}}}
->
workflow.yaml: execution.pools.gpu.config.retries: is not a valid value
    found: False
    expected: a whole number, 0 to 100
## retries-in-words
execution: {pools: {gpu: {config: {retries: many}}}}
->
workflow.yaml: execution.pools.gpu.config.retries: is not a valid value
    found: 'many'
    expected: a whole number, 0 to 100
## retries-without-end
execution: {pools: {gpu: {config: {retries: 1000000000}}}}
->
workflow.yaml: execution.pools.gpu.config.retries: is too large
    found: 1000000000
    expected: a whole number, 0 to 100
## memory-growth-below-one
execution: {pools: {gpu: {config: {memory_growth: 0.5}}}}
->
workflow.yaml: execution.pools.gpu.config.memory_growth: is too small
    found: 0.5
    expected: a number, 1 to 100: a job is tried again with so many times the memory
## memory-growth-with-an-exponent
execution: {pools: {gpu: {config: {memory_growth: 1e1}}}}
->
workflow.yaml: execution.pools.gpu.config.memory_growth: is not a valid value
    found: '1e1'
    expected: a number, 1 to 100: a job is tried again with so many times the memory
## memory-growth-without-end
execution: {pools: {gpu: {config: {memory_growth: .inf}}}}
->
workflow.yaml: execution.pools.gpu.config.memory_growth: is too large
    found: inf
    expected: a number, 1 to 100: a job is tried again with so many times the memory
## memory-growth-not-a-number
execution: {pools: {gpu: {config: {memory_growth: .nan}}}}
->
workflow.yaml: execution.pools.gpu.config.memory_growth: is not a valid value
    found: nan
    expected: a number, 1 to 100: a job is tried again with so many times the memory
## queue-a-no
execution: {pools: {gpu: {config: {queue: no}}}}
->
workflow.yaml: execution.pools.gpu.config.queue: is not a valid value
    found: False
    expected: a name without spaces, such as long
## account-a-number
execution: {pools: {gpu: {config: {account: 42}}}}
->
workflow.yaml: execution.pools.gpu.config.account: is not a valid value
    found: 42
    expected: a name, or several with commas in between
## slurm-is-text
execution: {pools: {gpu: {config: {slurm: gpu}}}}
->
workflow.yaml: execution.pools.gpu.config.slurm: is not a valid value
    found: 'gpu'
    expected: options of Slurm
## slurm-key-misspelt
execution: {pools: {gpu: {config: {slurm: {partitions: gpu}}}}}
->
workflow.yaml: execution.pools.gpu.config.slurm.partitions: unknown key
    expected: partition, account, qos, constraint, reservation, gres, gpu_model, cluster, nodes, extra
    hint: did you mean 'partition'?
## slurm-key-of-sbatch
execution: {pools: {gpu: {config: {slurm: {time: 1h}}}}}
->
workflow.yaml: execution.pools.gpu.config.slurm.time: unknown key
    expected: partition, account, qos, constraint, reservation, gres, gpu_model, cluster, nodes, extra
## slurm-partition-with-a-command
execution: {pools: {gpu: {config: {slurm: {partition: gpu; rm -rf ~}}}}}
->
workflow.yaml: execution.pools.gpu.config.slurm.partition: is not a valid value
    found: 'gpu; rm -rf ~'
    expected: a name, or several with commas in between
## slurm-partition-a-list
execution: {pools: {gpu: {config: {slurm: {partition: [a, b]}}}}}
->
workflow.yaml: execution.pools.gpu.config.slurm.partition: is a list
    found: ['a', 'b']
    expected: a name, or several with commas in between
## slurm-constraint-on-two-lines
execution: {pools: {gpu: {config: {slurm: {constraint: "a\nb"}}}}}
->
workflow.yaml: execution.pools.gpu.config.slurm.constraint: is not a valid value
    found: 'a\nb'
    expected: text on one line
## slurm-gres-without-a-number
execution: {pools: {gpu: {config: {slurm: {gres: gpu:a100:x}}}}}
->
workflow.yaml: execution.pools.gpu.config.slurm.gres: is not a valid value
    found: 'gpu:a100:x'
    expected: name, name:number or name:type:number
## slurm-nodes-zero
execution: {pools: {gpu: {config: {slurm: {nodes: 0}}}}}
->
workflow.yaml: execution.pools.gpu.config.slurm.nodes: is too small
    found: 0
    expected: a whole number, 1 or more
## slurm-extra-a-list-of-numbers
execution: {pools: {gpu: {config: {slurm: {extra: [1]}}}}}
->
workflow.yaml: execution.pools.gpu.config.slurm.extra[0]: is not a valid value
    found: 1
    expected: text
## slurm-extra-with-an-open-quote
execution: {pools: {gpu: {config: {slurm: {extra: "--comment='open"}}}}}
->
workflow.yaml: execution.pools.gpu.config.slurm.extra: is not a valid value
    found: "--comment='open"
    expected: words as in a shell: each quotation mark closed, no backslash last
## slurm-extra-with-a-backslash-at-the-end
execution: {pools: {gpu: {config: {slurm: {extra: "--comment=a\\"}}}}}
->
workflow.yaml: execution.pools.gpu.config.slurm.extra: is not a valid value
    found: '--comment=a\\'
    expected: words as in a shell: each quotation mark closed, no backslash last
## htcondor-key-misspelt
execution: {pools: {gpu: {config: {htcondor: {job_flavor: longlunch}}}}}
->
workflow.yaml: execution.pools.gpu.config.htcondor.job_flavor: unknown key
    expected: requirements, rank, accounting_group, accounting_group_user, job_flavour, max_runtime, concurrency_limits, universe, container_image, environment, getenv, priority, classads, submit
    hint: did you mean 'job_flavour'?
## htcondor-universe-misspelt
execution: {pools: {gpu: {config: {htcondor: {universe: docke}}}}}
->
workflow.yaml: execution.pools.gpu.config.htcondor.universe: is not a valid value
    found: 'docke'
    expected: one of HTCondor's universes
    hint: did you mean 'docker'?
## htcondor-runtime-in-words
execution: {pools: {gpu: {config: {htcondor: {max_runtime: 1 week}}}}}
->
workflow.yaml: execution.pools.gpu.config.htcondor.max_runtime: is not a valid value
    found: '1 week'
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## htcondor-runtime-zero
execution: {pools: {gpu: {config: {htcondor: {max_runtime: '00:00:00'}}}}}
->
workflow.yaml: execution.pools.gpu.config.htcondor.max_runtime: is not a valid value
    found: '00:00:00'
    expected: more than no time at all
## htcondor-limits-with-a-number
execution: {pools: {gpu: {config: {htcondor: {concurrency_limits: [a, 2]}}}}}
->
workflow.yaml: execution.pools.gpu.config.htcondor.concurrency_limits[1]: is not a valid value
    found: 2
    expected: text
## htcondor-attribute-with-a-space
execution: {pools: {gpu: {config: {htcondor: {classads: {my attr: 1}}}}}}
->
workflow.yaml: execution.pools.gpu.config.htcondor.classads: is not a valid value
    found: 'my attr'
    expected: the name of a ClassAd attribute
## htcondor-attribute-with-a-quote
execution: {pools: {gpu: {config: {htcondor: {classads: {a: 'x"y'}}}}}}
->
workflow.yaml: execution.pools.gpu.config.htcondor.classads.a: is not a valid value
    found: 'x"y'
    expected: a number, true, false or text on one line without double quotes
## htcondor-submit-on-two-lines
execution: {pools: {gpu: {config: {htcondor: {submit: {rank: "1\nqueue 5"}}}}}}
->
workflow.yaml: execution.pools.gpu.config.htcondor.submit.rank: is not a valid value
    found: '1\nqueue 5'
    expected: a number, true, false or text on one line without double quotes
## local-nice-too-nice
execution: {pools: {gpu: {config: {local: {nice: 20}}}}}
->
workflow.yaml: execution.pools.gpu.config.local.nice: is too large
    found: 20
    expected: 0 (normal) to 19 (last)
"""  # noqa: E501

CONFIG_OF_ALL = r"""
## config-walltime-in-words
execution: {config: {walltime: soon}}
->
workflow.yaml: execution.config.walltime: is not a valid value
    found: 'soon'
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## config-retries-as-text
execution: {config: {retries: '2'}}
->
workflow.yaml: execution.config.retries: is not a valid value
    found: '2'
    expected: a whole number, 0 to 100
    hint: a number between quotes is text: leave the quotes out
## config-memory-growth-in-words
execution: {config: {memory_growth: double}}
->
workflow.yaml: execution.config.memory_growth: is not a valid value
    found: 'double'
    expected: a number, 1 to 100: a job is tried again with so many times the memory
## config-slurm-is-text
execution: {config: {slurm: gpu}}
->
workflow.yaml: execution.config.slurm: is not a valid value
    found: 'gpu'
    expected: options of Slurm
## config-slurm-key-misspelt
execution: {config: {slurm: {partitionn: gpu}}}
->
workflow.yaml: execution.config.slurm.partitionn: unknown key
    expected: partition, account, qos, constraint, reservation, gres, gpu_model, cluster, nodes, extra
    hint: did you mean 'partition'?
## config-slurm-with-a-command
execution: {config: {slurm: {partition: a; b}}}
->
workflow.yaml: execution.config.slurm.partition: is not a valid value
    found: 'a; b'
    expected: a name, or several with commas in between
## config-htcondor-runtime
execution: {config: {htcondor: {max_runtime: soon}}}
->
workflow.yaml: execution.config.htcondor.max_runtime: is not a valid value
    found: 'soon'
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## config-queue-with-a-space
execution: {config: {queue: a b}}
->
workflow.yaml: execution.config.queue: is not a valid value
    found: 'a b'
    expected: a name without spaces, such as long
## config-workers-in-words
execution: {config: {workers: many}}
->
workflow.yaml: execution.config.workers: is not a valid value
    found: 'many'
    expected: a whole number, 1 or more
## config-workers-zero
execution: {config: {n_workers: 0}}
->
workflow.yaml: execution.config.n_workers: is not a valid value
    found: 0
    expected: a whole number, 1 or more
"""  # noqa: E501

STAGES = r"""
## stage-is-text
execution: {pools: {gpu: {}}}
stage: gpu
->
workflow.yaml: analysis.stages['A'].execution: is not a valid value
    found: 'gpu'
    expected: require or prefer, fallback, timeout, modifiers, resources, config
## stage-key-misspelt
execution: {pools: {gpu: {}}}
stage: {requires: gpu}
->
workflow.yaml: analysis.stages['A'].execution.requires: unknown key
    expected: require, prefer, fallback, timeout, modifiers, resources, config
    hint: did you mean 'require'?
## stage-key-of-config
execution: {pools: {gpu: {}}}
stage: {walltime: 1h}
->
workflow.yaml: analysis.stages['A'].execution.walltime: unknown key
    expected: require, prefer, fallback, timeout, modifiers, resources, config
    hint: did you mean 'timeout'?
## stage-key-that-is-an-on
execution: {pools: {gpu: {}}}
stage: {on: gpu}
->
workflow.yaml: analysis.stages['A'].execution[True]: this key is not text
    found: True
    expected: a name; put quotes around it if it looks like a number or a yes/no
## require-a-list
execution: {pools: {gpu: {}}}
stage: {require: [gpu]}
->
workflow.yaml: analysis.stages['A'].execution.require: is a list
    found: ['gpu']
    expected: the name of a pool or class
## require-empty
execution: {pools: {gpu: {}}}
stage: {require: ''}
->
workflow.yaml: analysis.stages['A'].execution.require: is not a valid value
    found: ''
    expected: the name of a pool or class
## require-a-no
execution: {pools: {gpu: {}}}
stage: {require: no}
->
workflow.yaml: analysis.stages['A'].execution.require: is not a valid value
    found: False
    expected: the name of a pool or class
## require-misspelt
execution: {pools: {gpu: {}}}
stage: {require: gpuu}
->
workflow.yaml: analysis.stages['A'].execution.require: no pool or resource class of this name
    found: 'gpuu'
    expected: gpu, default
    hint: did you mean 'gpu'?
## require-in-capitals
execution: {pools: {gpu: {}}}
stage: {require: GPU}
->
workflow.yaml: analysis.stages['A'].execution.require: no pool or resource class of this name
    found: 'GPU'
    expected: gpu, default
    hint: did you mean 'gpu'?
## require-where-there-is-nothing
execution: {}
stage: {require: gpu}
->
workflow.yaml: analysis.stages['A'].execution.require: no pool or resource class of this name
    found: 'gpu'
    expected: default
    hint: add execution.pools.gpu, or a pool profile 'gpu' to the site's pools.yaml
## require-on-two-lines
execution: {}
stage: {require: "a\nb"}
->
workflow.yaml: analysis.stages['A'].execution.require: no pool or resource class of this name
    found: 'a\nb'
    expected: default
    hint: add execution.pools['a\nb'], or a pool profile 'a\nb' to the site's pools.yaml
## require-a-class-without-a-pool
execution: {resources: {gpu: {gpus: 1}}, pools: {cpu: {}}}
stage: {require: gpu}
->
workflow.yaml: analysis.stages['A'].execution.require: no pool provides this resource class
    found: 'gpu'
    expected: one of the pools: cpu, default
    hint: add execution.pools.gpu: {resources: gpu}
## require-a-profile-without-a-pool
execution: {pool_profiles: {gpu: {workers: 3}}}
stage: {require: gpu}
->
workflow.yaml: analysis.stages['A'].execution.require: no pool or resource class of this name
    found: 'gpu'
    expected: default
    hint: add execution.pools.gpu: {use: gpu}
## require-an-input
execution: {resources: {table: {kind: file, path: t.csv}}}
stage: {require: table}
->
workflow.yaml: analysis.stages['A'].execution.require: no pool or resource class of this name
    found: 'table'
    expected: default
    hint: add execution.pools.table, or a pool profile 'table' to the site's pools.yaml
## require-and-prefer
execution: {pools: {gpu: {}, big: {}}}
stage: {require: gpu, prefer: big}
->
workflow.yaml: analysis.stages['A'].execution: both require and prefer
    found: require: gpu, prefer: big
    expected: require (only that pool) or prefer (that pool first)
## prefer-misspelt
execution: {pools: {big: {}}}
stage: {prefer: bigg}
->
workflow.yaml: analysis.stages['A'].execution.prefer: no pool or resource class of this name
    found: 'bigg'
    expected: big, default
    hint: did you mean 'big'?
## fallback-unknown
execution: {pools: {gpu: {}}}
stage: {prefer: gpu, fallback: nix}
->
workflow.yaml: analysis.stages['A'].execution.fallback: no pool or resource class of this name
    found: 'nix'
    expected: gpu, default
    hint: add execution.pools.nix, or a pool profile 'nix' to the site's pools.yaml
## timeout-zero
execution: {}
stage: {timeout: 0}
->
workflow.yaml: analysis.stages['A'].execution.timeout: is too small
    found: 0
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## timeout-zero-as-a-clock
execution: {}
stage: {timeout: '00:00:00'}
->
workflow.yaml: analysis.stages['A'].execution.timeout: is not a valid value
    found: '00:00:00'
    expected: more than no time at all
## timeout-empty
execution: {}
stage: {timeout: ''}
->
workflow.yaml: analysis.stages['A'].execution.timeout: is not a valid value
    found: ''
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## timeout-of-centuries
execution: {}
stage: {timeout: 1000000000000}
->
workflow.yaml: analysis.stages['A'].execution.timeout: is not a valid value
    found: 1000000000000
    expected: less than a hundred years
## timeout-in-words
execution: {}
stage: {timeout: soon}
->
workflow.yaml: analysis.stages['A'].execution.timeout: is not a valid value
    found: 'soon'
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## timeout-a-fraction
execution: {}
stage: {timeout: 1.5}
->
workflow.yaml: analysis.stages['A'].execution.timeout: is not a valid value
    found: 1.5
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## modifiers-is-text
execution: {}
stage: {modifiers: noop}
->
workflow.yaml: analysis.stages['A'].execution.modifiers: is not a valid value
    found: 'noop'
    expected: a list of modifiers
## stage-resources-a-class
execution: {resources: {big: {cpus: 2}}}
stage: {resources: big}
->
workflow.yaml: analysis.stages['A'].execution.resources: is not a valid value
    found: 'big'
    expected: what one worker has: cpus, memory, disk, gpus
## stage-resources-misspelt
execution: {}
stage: {resources: {cpu: 2}}
->
workflow.yaml: analysis.stages['A'].execution.resources.cpu: unknown key
    expected: cpus, memory, disk, gpus
    hint: did you mean 'cpus'?
## stage-memory-zero
execution: {}
stage: {resources: {memory: 0GB}}
->
workflow.yaml: analysis.stages['A'].execution.resources.memory: is not a valid value
    found: '0GB'
    expected: more than nothing
## stage-walltime-zero
execution: {}
stage: {config: {walltime: '0'}}
->
workflow.yaml: analysis.stages['A'].execution.config.walltime: is not a valid value
    found: '0'
    expected: more than no time at all
## stage-retries-in-words
execution: {}
stage: {config: {retries: none}}
->
workflow.yaml: analysis.stages['A'].execution.config.retries: is not a valid value
    found: 'none'
    expected: a whole number, 0 to 100
"""

TOO_MUCH = r"""
## more-cpus
execution: {pools: {big: {resources: {cpus: 2}}}}
stage: {require: big, resources: {cpus: 4}}
->
workflow.yaml: analysis.stages['A'].execution.resources.cpus: asks for more than a worker of pool 'big' has
    found: 4
    expected: at most 2 (workflow.yaml: execution.pools.big.resources.cpus)
    hint: ask for less, give pool 'big' larger workers, or require another
## more-memory
execution: {pools: {big: {resources: {memory: 4GB}}}}
stage: {require: big, resources: {memory: 4GiB}}
->
workflow.yaml: analysis.stages['A'].execution.resources.memory: asks for more than a worker of pool 'big' has
    found: 4 GiB
    expected: at most 4 GB (workflow.yaml: execution.pools.big.resources.memory)
    hint: ask for less, give pool 'big' larger workers, or require another
## more-memory-than-the-class
execution: {resources: {b: {memory: 2GB}}, pools: {big: {resources: b}}}
stage: {require: big, resources: {memory: 3GB}}
->
workflow.yaml: analysis.stages['A'].execution.resources.memory: asks for more than a worker of pool 'big' has
    found: 3 GB
    expected: at most 2 GB (workflow.yaml: execution.resources.b.memory)
    hint: ask for less, give pool 'big' larger workers, or require another
## more-disk
execution: {pools: {big: {resources: {disk: 2GB}}}}
stage: {require: big, resources: {disk: 2TB}}
->
workflow.yaml: analysis.stages['A'].execution.resources.disk: asks for more than a worker of pool 'big' has
    found: 2 TB
    expected: at most 2 GB (workflow.yaml: execution.pools.big.resources.disk)
    hint: ask for less, give pool 'big' larger workers, or require another
## more-gpus
execution: {pools: {big: {resources: {gpus: 1}}}}
stage: {require: big, resources: {gpus: 2}}
->
workflow.yaml: analysis.stages['A'].execution.resources.gpus: asks for more than a worker of pool 'big' has
    found: 2
    expected: at most 1 (workflow.yaml: execution.pools.big.resources.gpus)
    hint: ask for less, give pool 'big' larger workers, or require another
## gpus-where-none-are-named
execution: {pools: {big: {resources: {cpus: 1}}}}
stage: {require: big, resources: {gpus: 1}}
->
workflow.yaml: analysis.stages['A'].execution.resources.gpus: asks for more than a worker of pool 'big' has
    found: 1
    expected: at most 0
    hint: ask for less, give pool 'big' larger workers, or require another
## more-time-by-timeout
execution: {pools: {big: {config: {walltime: 1h}}}}
stage: {require: big, timeout: 2h}
->
workflow.yaml: analysis.stages['A'].execution.timeout: asks for more than a worker of pool 'big' has
    found: 02:00:00
    expected: at most 01:00:00 (workflow.yaml: execution.pools.big.config.walltime)
    hint: ask for less, give pool 'big' larger workers, or require another
## more-time-by-walltime
execution: {pools: {big: {config: {walltime: 1h}}}}
stage: {require: big, config: {walltime: 2h}}
->
workflow.yaml: analysis.stages['A'].execution.config.walltime: asks for more than a worker of pool 'big' has
    found: 02:00:00
    expected: at most 01:00:00 (workflow.yaml: execution.pools.big.config.walltime)
    hint: ask for less, give pool 'big' larger workers, or require another
## more-time-by-timeout-beside-a-config
execution: {pools: {big: {config: {walltime: 1h}}}}
stage: {require: big, timeout: 2h, config: {retries: 1}}
->
workflow.yaml: analysis.stages['A'].execution.timeout: asks for more than a worker of pool 'big' has
    found: 02:00:00
    expected: at most 01:00:00 (workflow.yaml: execution.pools.big.config.walltime)
    hint: ask for less, give pool 'big' larger workers, or require another
## more-time-than-execution-config
execution: {config: {walltime: 1h}}
stage: {timeout: 2h}
->
workflow.yaml: analysis.stages['A'].execution.timeout: asks for more than a worker of pool 'default' has
    found: 02:00:00
    expected: at most 01:00:00 (workflow.yaml: execution.config.walltime)
    hint: ask for less, give pool 'default' larger workers, or require another
## more-than-the-fallback
execution: {pools: {a: {resources: {memory: 8GB}}, b: {resources: {memory: 1GB}}}}
stage: {prefer: a, fallback: b, resources: {memory: 4GB}}
->
workflow.yaml: analysis.stages['A'].execution.resources.memory: asks for more than a worker of pool 'b' has
    found: 4 GB
    expected: at most 1 GB (workflow.yaml: execution.pools.b.resources.memory)
    hint: ask for less, give pool 'b' larger workers, or require another
## more-of-two-things
execution: {pools: {big: {resources: {cpus: 1, memory: 2GB}}}}
stage: {require: big, resources: {cpus: 4, memory: 4GB, disk: 1TB}}
->
workflow.yaml: analysis.stages['A'].execution.resources.cpus: asks for more than a worker of pool 'big' has
    found: 4
    expected: at most 1 (workflow.yaml: execution.pools.big.resources.cpus)
    hint: ask for less, give pool 'big' larger workers, or require another
workflow.yaml: analysis.stages['A'].execution.resources.memory: asks for more than a worker of pool 'big' has
    found: 4 GB
    expected: at most 2 GB (workflow.yaml: execution.pools.big.resources.memory)
    hint: ask for less, give pool 'big' larger workers, or require another
"""  # noqa: E501

DEFAULT_POOLS = r"""
## default-pool-unknown
execution: {default_pools: {gpu: gpuu}, pools: {gpu: {resources: {gpus: 1}}}}
->
workflow.yaml: execution.default_pools.gpu: no pool or resource class of this name
    found: 'gpuu'
    expected: gpu, default
    hint: did you mean 'gpu'?
## default-pool-without-a-gpu
execution: {default_pools: {gpu: gpu}, pools: {gpu: {}}}
->
workflow.yaml: execution.default_pools.gpu: this pool has no GPU
    found: 'gpu'
    expected: a pool with resources: {gpus: 1}
## default-pool-with-a-gpu
execution: {default_pools: {cpu: gpu}, pools: {gpu: {resources: {gpus: 1}}}}
->
workflow.yaml: execution.default_pools.cpu: this pool's workers have GPUs: work for cpus would take them
    found: 'gpu'
    expected: a pool without gpus
## default-pool-a-class-without-a-pool
execution: {default_pools: {gpu: gpu}, resources: {gpu: {gpus: 1}}, pools: {cpu: {}}}
->
workflow.yaml: execution.default_pools.gpu: no pool provides this resource class
    found: 'gpu'
    expected: one of the pools: cpu, default
    hint: add execution.pools.gpu: {resources: gpu}
## default-pool-of-another-kind
execution: {default_pools: {tpu: gpu}, pools: {gpu: {}}}
->
workflow.yaml: execution.default_pools.tpu: unknown key
    expected: cpu, gpu
    hint: did you mean 'gpu'?
## default-pools-is-text
execution: {default_pools: gpu}
->
workflow.yaml: execution.default_pools: is not a valid value
    found: 'gpu'
    expected: cpu and gpu, each with the name of a pool
## default-pool-empty
execution: {default_pools: {gpu: ''}}
->
workflow.yaml: execution.default_pools.gpu: is not a valid value
    found: ''
    expected: the name of a pool
"""  # noqa: E501

AT_ONCE = r"""
## two-pools-and-a-stage
execution: {pools: {a: {workers: 0}, b: {resources: {cpus: 0}}}}
stage: {require: []}
->
workflow.yaml: execution.pools.a.workers: is too small
    found: 0
    expected: a whole number, 1 or more
workflow.yaml: execution.pools.b.resources.cpus: is too small
    found: 0
    expected: a whole number, 1 or more
workflow.yaml: analysis.stages['A'].execution.require: is a list
    found: []
    expected: the name of a pool or class
## a-profile-and-a-stage
execution: {pools: {a: {use: nix}}}
stage: {require: b}
->
workflow.yaml: execution.pools.a.use: no pool profile of this name
    found: 'nix'
    expected: a profile in pools.yaml or in execution.pool_profiles
workflow.yaml: analysis.stages['A'].execution.require: no pool or resource class of this name
    found: 'b'
    expected: a, default
    hint: add execution.pools.b, or a pool profile 'b' to the site's pools.yaml
"""

ODD = r"""
## walltime-unquoted
execution: {pools: {gpu: {config: {walltime: 12:00:00}}}}
->
workflow.yaml: execution.pools.gpu.config.walltime: 43200 is taken as seconds, 12:00:00; YAML makes a number of an unquoted 12:00:00, so put quotes around times
## walltime-unquoted-without-seconds
execution: {pools: {gpu: {config: {walltime: 1:30}}}}
->
workflow.yaml: execution.pools.gpu.config.walltime: 90 is taken as seconds, 00:01:30; YAML makes a number of an unquoted 12:00:00, so put quotes around times
## walltime-a-number
execution: {pools: {gpu: {config: {walltime: 3600}}}}
->
workflow.yaml: execution.pools.gpu.config.walltime: 3600 is taken as seconds, 01:00:00; YAML makes a number of an unquoted 12:00:00, so put quotes around times
## walltime-of-a-pool-profile-unquoted
execution: {pools: {gpu: {use: w}}, pool_profiles: {w: {config: {walltime: 1:30:00}}}}
->
workflow.yaml: execution.pool_profiles.w.config.walltime: 5400 is taken as seconds, 01:30:00; YAML makes a number of an unquoted 12:00:00, so put quotes around times
## walltime-of-all-pools-unquoted
execution: {config: {walltime: 12:00:00}}
->
workflow.yaml: execution.config.walltime: 43200 is taken as seconds, 12:00:00; YAML makes a number of an unquoted 12:00:00, so put quotes around times
## walltime-of-a-stage-unquoted
stage: {config: {walltime: 12:00:00}}
->
workflow.yaml: analysis.stages['A'].execution.config.walltime: 43200 is taken as seconds, 12:00:00; YAML makes a number of an unquoted 12:00:00, so put quotes around times
## walltime-of-the-site-unquoted
pools.yaml: "default: {config: {walltime: 48:00:00}}"
->
SITE/pools.yaml: default.config.walltime: 172800 is taken as seconds, 2-00:00:00; YAML makes a number of an unquoted 12:00:00, so put quotes around times
## backend-of-fast-hep
execution: {backend: dask}
->
workflow.yaml: execution.backend: 'dask' is not used here: Snakemake schedules the jobs
## settings-of-dask
execution: {config: {nanny: true, cores: 2, walltime: 2h}}
->
workflow.yaml: execution.config: settings of Dask without meaning here: nanny, cores
## setting-of-dask-in-a-pool
execution: {pools: {gpu: {config: {nanny: true}}}}
->
workflow.yaml: execution.pools.gpu.config.nanny: a setting of Dask, without meaning here: Snakemake schedules the jobs
## setting-of-dask-in-a-stage
stage: {config: {nanny: true}}
->
workflow.yaml: analysis.stages['A'].execution.config.nanny: a setting of Dask, without meaning here: Snakemake schedules the jobs
"""  # noqa: E501

FINE = r"""
## nothing-is-said
execution: null
->
## walltime-unquoted-with-a-leading-zero
execution: {pools: {gpu: {config: {walltime: 04:00:00}}}}
->
## timeout-a-number-of-seconds
stage: {timeout: 43200}
->
## walltime-in-letters
execution: {pools: {gpu: {config: {walltime: 2d12h}}}}
->
## pool-without-content
execution: {pools: {gpu: }}
stage: {require: gpu}
->
## no-pools
execution: {pools: null, resources: null, config: null}
->
## workers-without-limit
execution: {pools: {gpu: {workers: null}}}
->
## cpus-as-text
execution: {pools: {gpu: {resources: {cpus: '8', gpus: '0'}}}}
->
## units-in-small-letters
execution: {pools: {gpu: {resources: {memory: 16 gb, disk: 1.5tib}}}}
->
## require-with-spaces-around
execution: {pools: {gpu: {}}}
stage: {require: ' gpu '}
->
## class-that-a-stage-asks-for
execution: {resources: {gpu: {gpus: 1}}}
stage: {require: gpu}
->
## class-that-two-pools-provide
execution: {resources: {big: {cpus: 2}}, pools: {a: {resources: big}, b: {resources: big}}}
stage: {require: big}
->
## profile-of-the-site-that-a-stage-asks-for
pools.yaml: "pool_profiles: {gpu: {resources: {gpus: 1}}}"
stage: {require: gpu}
->
## exactly-what-the-pool-has
execution: {pools: {big: {resources: {cpus: 2, memory: 4GiB}, config: {walltime: 1h}}}}
stage: {require: big, timeout: 3600s, resources: {cpus: 2, memory: 4194304kiB}}
->
## pools-that-differ-in-case
execution: {pools: {gpu: {}, GPU: {}}}
stage: {prefer: GPU, fallback: gpu}
->
## pools-of-any-name
execution: {pools: {日本: {}, '$(id)': {}, "it's {x}": {}, "a\nb": {}}}
stage: {prefer: 日本, fallback: '$(id)'}
->
## own-settings-of-the-config
execution: {config: {note: anything}}
->
## default-pool-of-a-profile-taken-back
hep.yaml: {default_pools: {gpu: elsewhere}}
execution: {default_pools: {gpu: null}}
->
"""

SITES = r"""
## pools-yaml-is-a-list
pools.yaml: "[1]"
->
SITE/pools.yaml: is a list
    found: [1]
    expected: default, pool_profiles, limits, machine, environment, staging, credentials, keep_logs, waiting
## pools-yaml-is-no-yaml
pools.yaml: "a: b: c"
->
SITE/pools.yaml: cannot be read: mapping values are not allowed here in "<unicode string>", line 1, column 5: a: b: c ^
## pools-yaml-with-a-python-object
pools.yaml: "default: !!python/name:os.system"
->
SITE/pools.yaml: cannot be read: could not determine a constructor for the tag 'tag:yaml.org,2002:python/name:os.system' in "<unicode string>", line 1, column 10: default: !!python/name:os.system ^
## pools-yaml-with-no-date
pools.yaml: "default: 2026-13-45"
->
SITE/pools.yaml: cannot be read: month must be in 1..12
## site-key-misspelt
pools.yaml: "pool_profile: {}"
->
SITE/pools.yaml: pool_profile: unknown key
    expected: default, pool_profiles, limits, machine, environment, staging, credentials, keep_logs, waiting
    hint: did you mean 'pool_profiles'?
## site-key-a-number
pools.yaml: "1: x"
->
SITE/pools.yaml: [1]: this key is not text
    found: 1
    expected: a name; put quotes around it if it looks like a number or a yes/no
## site-default-misspelt
pools.yaml: "default: {worker: 1}"
->
SITE/pools.yaml: default.worker: unknown key
    expected: workers, resources, config
    hint: did you mean 'workers'?
## site-default-of-an-unknown-class
pools.yaml: "default: {resources: big}"
execution: {pools: {a: {}, b: {}}}
->
SITE/pools.yaml: default.resources: no resource class of this name
    found: 'big'
    expected: a class in execution.resources, or cpus, memory, disk, gpus written here
## site-profile-using-a-profile
pools.yaml: "pool_profiles: {gpu: {use: other}}"
->
SITE/pools.yaml: pool_profiles.gpu.use: unknown key
    expected: workers, resources, config
## site-profile-misspelt-in-the-workflow
pools.yaml: "pool_profiles: {gpu: {}, large: {}}"
execution: {pools: {a: {use: gpuu}}}
->
workflow.yaml: execution.pools.a.use: no pool profile of this name
    found: 'gpuu'
    expected: gpu, large
    hint: did you mean 'gpu'?
## site-profile-misspelt-in-a-stage
pools.yaml: "pool_profiles: {gpu: {}}"
stage: {require: gpuu}
->
workflow.yaml: analysis.stages['A'].execution.require: no pool or resource class of this name
    found: 'gpuu'
    expected: default, gpu
    hint: did you mean 'gpu'?
## limit-in-words
pools.yaml: "limits: {walltime: soon}"
->
SITE/pools.yaml: limits.walltime: is not a valid value
    found: 'soon'
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## limit-zero
pools.yaml: "limits: {walltime: '00:00:00'}"
->
SITE/pools.yaml: limits.walltime: is not a valid value
    found: '00:00:00'
    expected: more than no time at all
## limit-of-centuries
pools.yaml: "limits: {walltime: 100000d}"
->
SITE/pools.yaml: limits.walltime: is not a valid value
    found: '100000d'
    expected: less than a hundred years
## limit-empty
pools.yaml: "limits: {walltime: ''}"
->
SITE/pools.yaml: limits.walltime: is not a valid value
    found: ''
    expected: a time such as '04:00:00', '2-00:00:00', '90m' or a whole number of seconds
## limit-of-memory
pools.yaml: "limits: {memory: 4GB}"
->
SITE/pools.yaml: limits.memory: unknown key
    expected: walltime
## machine-without-cpus
pools.yaml: "machine: {cpus: 0}"
->
SITE/pools.yaml: machine.cpus: is too small
    found: 0
    expected: a whole number, 1 or more
## machine-without-memory
pools.yaml: "machine: {memory: 0GB}"
->
SITE/pools.yaml: machine.memory: is not a valid value
    found: '0GB'
    expected: more than nothing
## waiting-in-words
pools.yaml: "waiting: soon"
->
SITE/pools.yaml: waiting: is not a valid value
    found: 'soon'
    expected: after which time a job that waits is worth a word: a time such as '00:01:00' or seconds
## waiting-zero
pools.yaml: "waiting: '0'"
->
SITE/pools.yaml: waiting: is not a valid value
    found: '0'
    expected: more than no time at all
## config-yaml-is-a-list
config.yaml: "[executor]"
->
SITE/config.yaml: is not a mapping
    expected: Snakemake's options
## executor-misspelt
config.yaml: "executor: slrum"
->
SITE/config.yaml: executor: no such executor here
    found: 'slrum'
    expected: local, slurm, htcondor
    hint: did you mean 'slurm'?
## executor-of-another-plugin
config.yaml: "executor: dask"
->
SITE/config.yaml: executor: no such executor here
    found: 'dask'
    expected: local, slurm, htcondor
## executor-a-number
config.yaml: "executor: 3"
->
SITE/config.yaml: executor: no such executor here
    found: 3
    expected: local, slurm, htcondor
## site-retries-in-words
config.yaml: "retries: many"
->
SITE/config.yaml: retries: is not a valid value
    found: 'many'
    expected: a whole number, 0 to 100
## site-retries-as-text
config.yaml: "retries: '3'"
->
SITE/config.yaml: retries: is not a valid value
    found: '3'
    expected: a whole number, 0 to 100
## site-retries-negative
config.yaml: "retries: -1"
->
SITE/config.yaml: retries: is not a valid value
    found: -1
    expected: a whole number, 0 to 100
## site-retries-without-end
config.yaml: "retries: 101"
->
SITE/config.yaml: retries: is not a valid value
    found: 101
    expected: a whole number, 0 to 100
## executor-and-pools-yaml
config.yaml: "executor: slrum"
pools.yaml: "limits: 4"
->
SITE/config.yaml: executor: no such executor here
    found: 'slrum'
    expected: local, slurm, htcondor
    hint: did you mean 'slurm'?
SITE/pools.yaml: limits: is not a valid value
    found: 4
    expected: limits of the site
## site-and-workflow
config.yaml: "executor: slrum"
execution: {pools: {a: {workers: 0}}}
->
workflow.yaml: execution.pools.a.workers: is too small
    found: 0
    expected: a whole number, 1 or more
SITE/config.yaml: executor: no such executor here
    found: 'slrum'
    expected: local, slurm, htcondor
    hint: did you mean 'slurm'?
## site-unknown
profile: nowhere
->
--profile: no such profile
    found: 'nowhere'
    expected: a folder with a config.yaml, or one of local, slurm, htcondor
## site-misspelt
profile: slrum
->
--profile: no such profile
    found: 'slrum'
    expected: a folder with a config.yaml, or one of local, slurm, htcondor
    hint: did you mean 'slurm'?
## site-without-a-config
profile: .
->
--profile: holds no config.yaml
    found: '.'
    expected: a folder with a config.yaml, or one of local, slurm, htcondor
## site-with-a-variable
profile: $HOME/{site}
->
--profile: no such profile
    found: '$HOME/{site}'
    expected: a folder with a config.yaml, or one of local, slurm, htcondor
"""  # noqa: E501

FAST_HEP_PROFILES = r"""
## section-is-a-list
hep.yaml: [pools]
->
hep.yaml: execution: is a list
    found: ['pools']
    expected: pools, resources and how to run
## section-with-bad-workers
hep.yaml: {pools: {gpu: {workers: many}}}
->
hep.yaml: execution.pools.gpu.workers: is not a valid value
    found: 'many'
    expected: a whole number, 1 or more
## section-with-an-unknown-default-pool
hep.yaml: {default_pools: {gpu: elsewhere}}
->
hep.yaml: execution.default_pools.gpu: no pool or resource class of this name
    found: 'elsewhere'
    expected: default
    hint: add execution.pools.elsewhere, or a pool profile 'elsewhere' to the site's pools.yaml
## section-with-an-unknown-pool-profile
hep.yaml: {pools: {gpu: {use: elsewhere}}}
execution: {pools: {gpu: {workers: 2}}}
->
hep.yaml: execution.pools.gpu.use: no pool profile of this name
    found: 'elsewhere'
    expected: a profile in pools.yaml or in execution.pool_profiles
"""

HERE = "machine: {cpus: 2, memory: 8GB, gpus: 0}"

TOO_LARGE = r"""
## cpus
execution: {pools: {big: {resources: {cpus: 4}}}}
stage: {require: big}
->
workflow.yaml: execution.pools.big.resources.cpus: what pool 'big' is asked for is larger than this machine
    found: cpus: 4
    expected: at most 2
    hint: --shrink-to-fit runs it with what there is; --profile chooses a site that has more
## memory
execution: {pools: {big: {resources: {memory: 8GiB}}}}
stage: {require: big}
->
workflow.yaml: execution.pools.big.resources.memory: what pool 'big' is asked for is larger than this machine
    found: memory: 8 GiB
    expected: at most 8 GB
    hint: --shrink-to-fit runs it with what there is; --profile chooses a site that has more
## gpus
execution: {pools: {gpu: {resources: {gpus: 1}}}}
stage: {prefer: gpu}
->
workflow.yaml: execution.pools.gpu.resources.gpus: what pool 'gpu' is asked for is larger than this machine
    found: gpus: 1
    expected: at most 0
    hint: --shrink-to-fit runs it with what there is; --profile chooses a site that has more
## fallback-too
execution: {pools: {a: {resources: {cpus: 4}}, b: {resources: {cpus: 3}}}}
stage: {prefer: a, fallback: b}
->
workflow.yaml: execution.pools.a.resources.cpus: what pool 'a' is asked for is larger than this machine
    found: cpus: 4
    expected: at most 2
    hint: --shrink-to-fit runs it with what there is; --profile chooses a site that has more
workflow.yaml: execution.pools.b.resources.cpus: what pool 'b' is asked for is larger than this machine
    found: cpus: 3
    expected: at most 2
    hint: --shrink-to-fit runs it with what there is; --profile chooses a site that has more
## pool-with-a-newline
execution: {pools: {"a\nb": {resources: {cpus: 4}}}}
stage: {require: "a\nb"}
->
workflow.yaml: execution.pools['a\nb'].resources.cpus: what pool 'a\nb' is asked for is larger than this machine
    found: cpus: 4
    expected: at most 2
    hint: --shrink-to-fit runs it with what there is; --profile chooses a site that has more
## class-without-a-pool
execution: {resources: {big: {cpus: 4}}}
stage: {require: big}
->
workflow.yaml: execution.resources.big.cpus: what pool 'big' is asked for is larger than this machine
    found: cpus: 4
    expected: at most 2
    hint: --shrink-to-fit runs it with what there is; --profile chooses a site that has more
## what-the-stage-itself-asks
stage: {resources: {cpus: 4}}
->
workflow.yaml: analysis.stages['A'].execution.resources.cpus: what pool 'default' is asked for is larger than this machine
    found: cpus: 4
    expected: at most 2
    hint: --shrink-to-fit runs it with what there is; --profile chooses a site that has more
"""  # noqa: E501

FALLEN_BACK = r"""
## fallback-fits
execution: {pools: {big: {resources: {cpus: 4}}}}
stage: {prefer: big, fallback: default}
->
pool 'big' is larger than this machine: pool 'default' instead
## a-retry-that-would-outgrow-the-machine
execution: {pools: {default: {config: {retries: 1}}}}
stage: {resources: {memory: 6GB}}
->
## everything-fits
execution: {pools: {big: {resources: {cpus: 2, memory: 8GB, gpus: 0}}}}
stage: {prefer: big, fallback: default}
->
"""

SHRUNK = r"""
## three-things
execution: {pools: {big: {resources: {cpus: 4, memory: 128GB, gpus: 1}}}}
stage: {require: big}
->
pool 'big': cpus 2 instead of 4
pool 'big': memory 8 GB instead of 128 GB
pool 'big': gpus 0 instead of 1
## a-little-too-much
execution: {pools: {big: {resources: {memory: 8GiB}}}}
stage: {require: big}
->
pool 'big': memory 8 GB instead of 8 GiB
## the-fallback-stays
execution: {pools: {big: {resources: {cpus: 4}}}}
stage: {prefer: big, fallback: default}
->
pool 'big': cpus 2 instead of 4
"""

TOO_LONG = r"""
## walltime-of-a-pool
execution: {pools: {long: {config: {walltime: 2h}}}}
stage: {require: long}
->
workflow.yaml: execution.pools.long.config.walltime: pool 'long' asks for more time than the site gives
    found: walltime: 02:00:00
    expected: at most 01:00:00 (SITE/pools.yaml: limits.walltime)
## walltime-of-all-pools
execution: {config: {walltime: 2h}}
stage: {}
->
workflow.yaml: execution.config.walltime: pool 'default' asks for more time than the site gives
    found: walltime: 02:00:00
    expected: at most 01:00:00 (SITE/pools.yaml: limits.walltime)
## one-second-too-long
execution: {pools: {long: {config: {walltime: '01:00:01'}}}}
stage: {require: long}
->
workflow.yaml: execution.pools.long.config.walltime: pool 'long' asks for more time than the site gives
    found: walltime: 01:00:01
    expected: at most 01:00:00 (SITE/pools.yaml: limits.walltime)
## timeout-of-a-stage
stage: {timeout: 2h, resources: {cpus: 1}}
->
workflow.yaml: analysis.stages['A'].execution.timeout: pool 'default' asks for more time than the site gives
    found: walltime: 02:00:00
    expected: at most 01:00:00 (SITE/pools.yaml: limits.walltime)
## timeout-below-the-walltime-of-its-stage
stage: {timeout: 2h, config: {walltime: 3h}}
->
workflow.yaml: analysis.stages['A'].execution.timeout: pool 'default' asks for more time than the site gives
    found: walltime: 02:00:00
    expected: at most 01:00:00 (SITE/pools.yaml: limits.walltime)
## walltime-below-the-timeout-of-its-stage
stage: {timeout: 3h, config: {walltime: 2h}}
->
workflow.yaml: analysis.stages['A'].execution.config.walltime: pool 'default' asks for more time than the site gives
    found: walltime: 02:00:00
    expected: at most 01:00:00 (SITE/pools.yaml: limits.walltime)
## just-in-time
execution: {pools: {long: {config: {walltime: 1h}}}}
stage: {require: long}
->
"""  # noqa: E501

#: What sinfo prints for its format %R|%l|%c|%m|%G.
SINFO = """\
cpu|1-00:00:00|16|64000|(null)
gpu|30:00|8+|32768+|gpu:a100:4(S:0-1)
gpu|30:00|4|16384|(null)
long|infinite|4|8000|(null)"""

ON_SLURM = r"""
## partition-misspelt
execution: {pools: {p: {config: {slurm: {partition: gpuu}}}}}
stage: {require: p}
->
workflow.yaml: execution.pools.p.config.slurm.partition: Slurm has no partition of this name
    found: 'gpuu'
    expected: cpu, gpu, long
    hint: did you mean 'gpu'?
## queue-misspelt
execution: {pools: {p: {config: {queue: gpuu}}}}
stage: {require: p}
->
workflow.yaml: execution.pools.p.config.queue: Slurm has no partition of this name
    found: 'gpuu'
    expected: cpu, gpu, long
    hint: did you mean 'gpu'?
## queue-of-all-pools-misspelt
execution: {config: {queue: gpuu}}
stage: {}
->
workflow.yaml: execution.config.queue: Slurm has no partition of this name
    found: 'gpuu'
    expected: cpu, gpu, long
    hint: did you mean 'gpu'?
## queue-of-a-stage-misspelt
execution: {pools: {p: {config: {slurm: {partition: cpu}}}}}
stage: {require: p, config: {queue: gpuu}}
->
workflow.yaml: analysis.stages['A'].execution.config.queue: Slurm has no partition of this name
    found: 'gpuu'
    expected: cpu, gpu, long
    hint: did you mean 'gpu'?
## partition-beside-a-queue-misspelt
execution: {pools: {p: {config: {queue: cpu, slurm: {partition: gpuu}}}}}
stage: {require: p}
->
workflow.yaml: execution.pools.p.config.slurm.partition: Slurm has no partition of this name
    found: 'gpuu'
    expected: cpu, gpu, long
    hint: did you mean 'gpu'?
## one-of-two-partitions-unknown
execution: {pools: {p: {config: {slurm: {partition: 'cpu,other'}}}}}
stage: {require: p}
->
workflow.yaml: execution.pools.p.config.slurm.partition: Slurm has no partition of this name
    found: 'other'
    expected: cpu, gpu, long
## more-cpus-than-a-node
execution: {pools: {p: {resources: {cpus: 32}, config: {slurm: {partition: cpu}}}}}
stage: {require: p}
->
workflow.yaml: execution.pools.p.resources.cpus: pool 'p' asks for more than partition cpu has
    found: cpus: 32
    expected: at most 16
    hint: such a job would wait for ever: another partition, or a smaller pool
## more-memory-than-a-node
execution: {pools: {p: {resources: {memory: 64GiB}, config: {slurm: {partition: gpu}}}}}
stage: {require: p}
->
workflow.yaml: execution.pools.p.resources.memory: pool 'p' asks for more than partition gpu has
    found: memory: 64 GiB
    expected: at most 32 GiB
    hint: such a job would wait for ever: another partition, or a smaller pool
## more-memory-than-a-node-of-odd-size
execution: {pools: {p: {resources: {memory: 64GiB}, config: {slurm: {partition: cpu}}}}}
stage: {require: p}
->
workflow.yaml: execution.pools.p.resources.memory: pool 'p' asks for more than partition cpu has
    found: memory: 64 GiB
    expected: at most 64000 MiB
    hint: such a job would wait for ever: another partition, or a smaller pool
## more-gpus-than-a-node
execution: {pools: {p: {resources: {gpus: 8}, config: {slurm: {partition: gpu}}}}}
stage: {require: p}
->
workflow.yaml: execution.pools.p.resources.gpus: pool 'p' asks for more than partition gpu has
    found: gpus: 8
    expected: at most 4
    hint: such a job would wait for ever: another partition, or a smaller pool
## longer-than-the-partition-lets-run
execution: {pools: {p: {config: {walltime: 1h, slurm: {partition: gpu}}}}}
stage: {require: p}
->
workflow.yaml: execution.pools.p.config.walltime: pool 'p' asks for more than partition gpu has
    found: walltime: 01:00:00
    expected: at most 00:30:00
    hint: such a job would wait for ever: another partition, or a smaller pool
## longer-than-any-of-two-partitions
execution: {pools: {p: {config: {walltime: 2d, slurm: {partition: 'cpu,gpu'}}}}}
stage: {require: p}
->
workflow.yaml: execution.pools.p.config.walltime: pool 'p' asks for more than partition cpu, gpu has
    found: walltime: 2-00:00:00
    expected: at most 1-00:00:00
    hint: such a job would wait for ever: another partition, or a smaller pool
## partition-without-a-limit
execution: {pools: {p: {config: {walltime: 100d, slurm: {partition: 'gpu,long'}}}}}
stage: {require: p}
->
## a-retry-that-would-outgrow-the-nodes
execution: {pools: {p: {config: {retries: 1, slurm: {partition: gpu}}}}}
stage: {require: p, resources: {memory: 20GiB}}
->
## a-retry-that-outgrows-the-nodes
execution: {pools: {p: {resources: {memory: 64GiB}, config: {retries: 1, queue: gpu}}}}
stage: {require: p, resources: {memory: 20GiB}}
->
workflow.yaml: execution.pools.p.resources.memory: pool 'p' asks for more than partition gpu has
    found: memory: 40 GiB
    expected: at most 32 GiB
    hint: such a job would wait for ever: another partition, or a smaller pool
## gpus-asked-for-by-gres
execution: {pools: {p: {resources: {gpus: 4}, config: {slurm: {partition: cpu, gres: gpu:4}}}}}
stage: {require: p}
->
"""

WRONG = [
    SECTION, POOLS, RESOURCES, PROFILES, CONFIG, CONFIG_OF_ALL, STAGES, TOO_MUCH, DEFAULT_POOLS,
    AT_ONCE, SITES, FAST_HEP_PROFILES,
]  # fmt: skip


@pytest.mark.parametrize(("text", "message"), examples(*WRONG))
def test_what_is_wrong(text: str, message: str, folder: Path) -> None:
    _, findings = read(yaml.safe_load(text), folder)
    assert shown(findings, folder) == message


@pytest.mark.parametrize(("text", "message"), examples(ODD, FINE))
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
    amounts = [attempt.request.memory for attempt in attempts(text, folder)]
    assert amounts == [None if one is None else math.ceil(one * 10**9) for one in memory]


def test_the_fallback_counts_the_attempts_before_it(folder: Path) -> None:
    text = """
    execution:
      pools:
        a: {resources: {memory: 3GB}, config: {retries: 2}}
        b: {resources: {memory: 16GB}, config: {memory_growth: 3}}
        c: {}
    stage: {prefer: a, fallback: %s, resources: {memory: 1GB}}
    """
    found = [
        [(attempt.pool, attempt.request.memory) for attempt in attempts(text % last, folder)]
        for last in ("b", "c")
    ]
    first = [("a", 10**9), ("a", 2 * 10**9)]
    assert found == [[*first, ("b", 9 * 10**9)], [*first, ("c", 10**9)]]


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
    assert attempt.options == {"local": {}, "slurm": slurm, "htcondor": htcondor}


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


@pytest.mark.parametrize(("text", "message"), examples(TOO_LARGE))
def test_a_pool_that_is_larger_than_the_machine(text: str, message: str, folder: Path) -> None:
    assert placed({**yaml.safe_load(text), "pools.yaml": HERE}, folder) == (message, "")


@pytest.mark.parametrize(("text", "note"), examples(FALLEN_BACK))
def test_a_fallback_that_fits_is_taken_at_once(text: str, note: str, folder: Path) -> None:
    assert placed({**yaml.safe_load(text), "pools.yaml": HERE}, folder) == ("", note)


@pytest.mark.parametrize(("text", "notes"), examples(SHRUNK))
def test_shrink_to_fit_lists_what_it_cuts(text: str, notes: str, folder: Path) -> None:
    said = {**yaml.safe_load(text), "pools.yaml": HERE}
    assert placed(said, folder, shrink=True) == ("", notes)


@pytest.mark.parametrize(("text", "message"), examples(TOO_LONG))
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


@pytest.mark.parametrize(("text", "message"), examples(ON_SLURM))
def test_what_slurm_can_never_run(text: str, message: str, sinfo: Path, folder: Path) -> None:
    (sinfo / "sinfo.txt").write_text(SINFO)
    said = {**yaml.safe_load(text), "config.yaml": "executor: slurm"}
    assert placed(said, folder) == (message, "")


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
