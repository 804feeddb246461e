"""What jobs were observed to read besides what their signatures know, and whether it still holds.

An observation is a file or folder, a module, an installed package or an environment variable, with
what identified it then. Observations of a job are one file, ``smk/observed/<digest>.json``, which
jobs that read the same share; a record lists the digests of its own job and of all jobs before it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import socket
import sys
from collections.abc import Collection, Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Literal

from msgspec import Struct, ValidationError, convert
from msgspec.structs import astuple

from fasthep_smk.flow.distributions import NOT_INSTALLED, package_identity
from fasthep_smk.flow.named_files import Made, NamedFiles, file_identity
from fasthep_smk.storage import layout
from fasthep_smk.storage.record import Record, corrupt, read_head
from fasthep_smk.util import files
from fasthep_smk.util.shapes import ready

#: ``near`` is a file once more, by the way to it from the folder of a module or of the workflow:
#: where that is moved or copied, code that looks beside it finds another file. ``written`` is a
#: file that a job has written: as long as it is that file, it is no input. ``ignored`` is a pattern
#: of ``ignore_reads`` that has kept files from being noted.
Kind = Literal["file", "near", "module", "package", "variable", "written", "ignored"]

#: Variables that describe a session, a batch system or credentials: no result may depend on them.
_OF_SESSION = re.compile(
    r"HOME|USER|LOGNAME|SHELL|PWD|OLDPWD|SHLVL|_|TERM\w*|COLUMNS|LINES|COLORTERM|NO_COLOR"
    r"|FORCE_COLOR|CLICOLOR\w*|DISPLAY|WAYLAND_DISPLAY|SSH_\w+|XDG_\w+|LANG|LANGUAGE|LC_\w+|PATH"
    r"|TMPDIR|TEMP|TMP|TEMPDIR|HOST|HOSTNAME|MAIL|EDITOR|VISUAL|PAGER|PS\d|TMUX\w*|STY|TZ"
    r"|WINDOWID|DBUS_\w+|FASTHEP_SMK_\w+|SNAKEMAKE_\w+|SLURM\w*|\w*CONDOR\w*|\w+_NUM_THREADS"
    r"|PYTHON\w*|VIRTUAL_ENV\w*|CONDA\w*|MPLBACKEND|MPLCONFIGDIR|CUDA_VISIBLE_DEVICES|X509_\w+"
    r"|LS_COLORS|LESS(OPEN|CLOSE)?|HIST(SIZE|FILE|FILESIZE|CONTROL)|MANPATH|MOTD_SHOWN|VTE_VERSION"
    r"|PROMPT_COMMAND|BASH_FUNC_.*|which_declare|VSCODE_\w+|GIT_ASKPASS|BROWSER|GNOME_\w+|GTK_\w+"
    r"|QT_\w+|GJS_\w+|KONSOLE_\w+|ITERM_\w+|DESKTOP_SESSION|SESSION_MANAGER|INVOCATION_ID"
    r"|JOURNAL_STREAM|SYSTEMD_\w+|MANAGERPID|WINDOWPATH|XAUTHORITY|XMODIFIERS|COLORFGBG"
    r"|BEARER_TOKEN\w*|KRB5\w+|JE_ARROW_MALLOC_CONF|VECLIB_MAXIMUM_THREADS"
)


#: What stands for all variables of the environment, where own code goes through them.
ALL = "*"


class Observation(Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """Something that was read, or written, by the operation ``by`` or a module of the user's.

    ``name`` is a path (relative to the folder of the run, below ``~``, ``module:path`` beside a
    module, or absolute), or the name of a module, package or variable; ``identity`` is ``None`` if
    there was none. ``path`` is where the source of a module was, also of that in ``module:path``;
    of a file with an absolute path the machine, and of a package the environment that it was seen
    in.
    """

    kind: Kind
    name: str
    by: str
    identity: str | None
    path: str = ""


class Surroundings:
    """Where names of observations are looked up: folder of the run, home, variables.

    ``variables`` are digests of the environment that the run was started with, of which those
    that are ``ignored`` (``$NAME``) are as if they were not set. ``beside`` is the workflow's
    folder, if that is not the folder of the run.
    """

    def __init__(
        self,
        launch: Path,
        variables: Mapping[str, str],
        ignored: Collection[str] = (),
        beside: Path | None = None,
    ) -> None:
        self._launch = str(launch)
        self._beside = beside or launch
        self._ignored = ignored
        real = os.path.realpath(launch)
        self._starts = tuple(f"{path.rstrip('/')}/" for path in dict.fromkeys([self._launch, real]))
        self._home = f"{os.path.expanduser('~').rstrip('/')}/"  # noqa: PTH111
        self._variables = {
            name: value for name, value in variables.items() if f"${name}" not in ignored
        }
        self._identity = cache(self._look)
        self._file_identity = cache(file_identity)  # a file may have several names
        self._folders = cache(self._look_for)

    def name_of(self, path: str) -> str:
        """Return the name of a file that does not depend on where the project lies."""
        for start in self._starts:
            if f"{path}/".startswith(start):
                name = path[len(start) :] or "."
                return f"./{name}" if name.startswith("~/") else name
        if path.startswith(self._home):
            return f"~/{path[len(self._home) :]}"
        return path

    def path_of(self, name: str) -> str:
        """Return the absolute path of a file."""
        module, _, rest = name.partition(":")
        if module.isidentifier() and module != name and (folders := self._folders(module)):
            return os.path.join(folders[0], rest)  # noqa: PTH118
        if name.startswith("~/"):
            return self._home + name[2:]
        return os.path.join(self._launch, name)  # noqa: PTH118

    def way_to(self, path: str, module: str) -> str | None:
        """Return ``module:way`` of a file; ``None`` if it lies elsewhere than the module.

        No ``module`` is the workflow.
        """
        folders = self._folders(module)
        for start in folders:
            if f"{path}/".startswith(f"{start}/"):
                return f"{module}:{path[len(start) + 1 :] or '.'}"
        names = [self.name_of(place) for place in (path, *folders[1:])]
        if not folders or any(name.startswith(("/", "~/")) for name in names):
            return None
        return f"{module}:{os.path.relpath(*names)}"

    def near(self, name: str, place: str) -> str:
        """Return the absolute path of ``module:way``; ``place`` is where the module was."""
        module, _, way = name.partition(":")
        folder = next(iter(self._folders(module)), os.path.dirname(self.path_of(place)))  # noqa: PTH120
        return os.path.join(folder, way)  # noqa: PTH118

    def _look_for(self, module: str) -> tuple[str, ...]:
        """Return the folder that a module, or the workflow, is in, as found and without links."""
        from fasthep_smk.flow.op_identity import module_file

        file = module_file(module) if module else self._beside / "workflow"
        return (str(file.parent), os.path.realpath(file.parent)) if file is not None else ()

    def identity(self, observation: Observation) -> str | None:
        """Return what identifies now what was observed."""
        return self._identity(observation.kind, observation.name, observation.path)

    def _look(self, kind: Kind, name: str, path: str) -> str | None:
        if kind == "variable":
            every = files.digest_of(sorted(self._variables.items()))[:16] if name == ALL else None
            return every or self._variables.get(name)
        if kind == "package":
            identity = package_identity(name)
            return None if identity == NOT_INSTALLED else identity
        if kind == "module":
            from fasthep_smk.flow.op_identity import module_file

            file = module_file(name)
            return self._file_identity(str(file) if file is not None else self.path_of(path))
        if kind == "ignored":
            return kind if name in self._ignored else None
        place = self.near(name, path) if kind == "near" else self.path_of(name)
        return self._file_identity(place)


class Checks:
    """Tells of records whether what their jobs have read is as it was.

    ``named`` knows which files the workflow says to ignore.
    """

    def __init__(self, build: Path, surroundings: Surroundings, named: NamedFiles) -> None:
        self._build = build
        self._surroundings = surroundings
        self._named = named
        self._change_of = cache(self._look)

    def change(self, record: Record) -> str | None:
        """Return what has changed, in words; ``None`` if nothing has.

        That includes files that the job has written outside the build folder.
        """
        for node, made in record.get("outside", {}).items():
            for path, stamp in made.items():
                if (now := files.stamp(path)) != stamp:
                    return f"{path}, written by {node}, {'has changed' if now else 'is gone'}"
        changes = (self._change_of(digest) for digest in record.get("observed") or ())
        return next((text for text in changes if text is not None), None)

    def _look(self, digest: str) -> str | None:
        observations = load(self._build, digest)
        if observations is None:
            return "the list of files that it read is missing"
        for observation in observations:
            if observation.kind == "written" or self._is_ignored(observation):
                continue
            now = self._surroundings.identity(observation)
            if now != observation.identity and not self._is_elsewhere(observation, digest):
                return _in_words(observation, now)
        return None

    def _is_elsewhere(self, observation: Observation, digest: str) -> bool:
        """Whether this is of another machine or environment, and not edited here since.

        A node may have another ``/etc/hosts``, a container other packages: that is no edit.
        """
        if observation.kind == "package":
            return observation.path not in ("", sys.prefix)
        if observation.kind == "near" and observation.path.startswith(("/", "~/")):
            return not os.path.exists(self._surroundings.path_of(observation.path))  # noqa: PTH110
        if observation.kind != "file" or observation.path in ("", machine()):
            return False
        try:
            seen = (self._build / layout.observed(digest)).stat().st_mtime
            return Path(observation.name).stat().st_mtime <= seen
        except OSError:
            return True

    def _is_ignored(self, observation: Observation) -> bool:
        if observation.kind == "variable":
            return f"${observation.name}" in self._named.ignored
        if observation.kind == "file":
            path = self._surroundings.path_of(observation.name)
        elif observation.kind == "near":
            path = self._surroundings.near(observation.name, observation.path)
        else:
            return False
        path = os.path.normpath(path)
        return self._named.is_ignored(path) or self._named.is_made(path, observation.by)


def _in_words(observation: Observation, now: str | None) -> str:
    variable = "the environment" if observation.name == ALL else f"the variable {observation.name}"
    module, _, way = observation.name.partition(":")
    names = {
        "variable": variable,
        "package": f"the package {observation.name}",
        "near": f"{way} from the folder of {module or 'the workflow'}",
    }
    if observation.kind == "ignored":
        return f"{observation.by} has read files like {observation.name}, no longer in ignore_reads"
    verb = "imported" if observation.kind in ("module", "package") else "read"
    subject = f"{names.get(observation.kind, observation.name)}, {verb} by {observation.by},"
    if now is None:
        return f"{subject} is gone"
    if observation.identity is None:
        return f"{subject} was not there before"
    if observation.kind == "package":
        return f"{subject} has changed: {observation.identity} → {now}"
    return f"{subject} has changed"


def save(build: Path, observations: Iterable[Observation]) -> str:
    """Write the observations of a job, unless another one has; return their digest."""
    content = [list(astuple(observation)) for observation in observations]
    digest = digest_of(content)
    path = build / layout.observed(digest)
    if path.exists():
        os.utime(path)  # when this was seen last
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        with files.atomic_path(path) as temporary:
            temporary.write_text(files.seal({"observations": sorted(content, key=str)}), "utf-8")
    return digest


def digest_of(observations: Iterable[object]) -> str:
    """Return what observations are named by; each is a list of its fields."""
    return files.digest_of(sorted(observations, key=str))


def is_of(path: Path) -> bool:
    """Whether a file of observations is what its name says.

    Raises:
        Altered: it is not what was written.
    """
    return digest_of(files.unseal(path.read_bytes()).get("observations", ())) == path.stem


def load(build: Path, digest: str) -> list[Observation] | None:
    """Return observations by their digest, ``None`` if they cannot be read."""
    try:
        content = files.unseal(files.read_plain(build / layout.observed(digest)))
        return [_understood(item) for item in content["observations"]]
    except (OSError, KeyError, TypeError, ValueError, ValidationError):
        return None


def _understood(item: object) -> Observation:
    """Return what a worker has sent as an observation.

    Raises:
        ValidationError, ValueError: it is none.
    """
    observed = convert(item, ready(Observation))
    if "\0" in observed.name + observed.path:
        raise ValueError("not the name of a file")
    os.fsencode(observed.name + observed.path)
    return observed


def written(build: Path, launch: Path) -> Made:
    """Return the files that jobs have written, by path: what identified them, and who wrote them.

    ``launch`` is the folder that relative names start in.
    """
    place = Surroundings(launch, {})
    by_path: dict[str, dict[str | None, set[str]]] = {}
    for path in sorted((build / layout.OBSERVED).glob("*.json")):
        for observation in load(build, path.stem) or ():
            if observation.kind == "written" and observation.identity is not None:
                writers = by_path.setdefault(os.path.normpath(place.path_of(observation.name)), {})
                writers.setdefault(observation.identity, set()).add(observation.by)
    return by_path


def inherited(build: Path, folders: Iterable[str]) -> list[str]:
    """Return the digests in the records of finished jobs, by their folders.

    Raises:
        Damaged: a record cannot be read: what its job has read would not be known.
    """
    heads = {folder: read_head(build / folder) for folder in folders}
    if unread := [folder for folder, head in heads.items() if head is None]:
        raise corrupt(build / unread[0] / layout.RECORD, "cannot be read")
    return list(
        dict.fromkeys(digest for head in heads.values() if head for digest in head.observed)
    )


@cache
def start_environment() -> Mapping[str, str]:
    """Return the environment of this process as it was when this was asked first."""
    return dict(os.environ)


def keep_environment(build: Path) -> dict[str, str]:
    """Write digests of the variables of a run, for its jobs; return them."""
    path = build / layout.ENVIRONMENT
    salt, variables = _variables(build)
    files.write_text(path, json.dumps({"salt": salt, "variables": variables}, indent=1) + "\n")
    path.chmod(0o600)
    return variables


def variables_of_run(build: Path) -> dict[str, str]:
    """Return the digests that ``keep_environment`` would write; change nothing."""
    return _variables(build)[1]


def _variables(build: Path) -> tuple[str, dict[str, str]]:
    """Return a random number of the build folder, and digests of variables keyed by that.

    Values cannot be told from them, nor compared between build folders.
    """
    salt = secrets.token_hex(16)
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
        path = build / layout.ENVIRONMENT
        salt = str(json.loads(path.read_text(encoding="utf-8"))["salt"])
    key = bytes.fromhex(salt)
    return salt, {
        name: hashlib.blake2b(os.fsencode(value), key=key, digest_size=8).hexdigest()
        for name, value in sorted(start_environment().items())
        if not of_session(name)
    }


def environment_of(build: Path) -> dict[str, str]:
    """Return the digests of the variables that a run was started with."""
    try:
        content = json.loads((build / layout.ENVIRONMENT).read_text(encoding="utf-8"))
        return dict(content["variables"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


@cache
def machine() -> str:
    """Return what tells this machine and environment from others."""
    return f"{socket.gethostname()}:{sys.prefix}"


def of_session(name: str) -> bool:
    """Whether a variable describes a session, a batch system or credentials."""
    return _OF_SESSION.fullmatch(name) is not None
