"""A run to its end, which may take several rounds of Snakemake.

Jobs run again where files were damaged or edited meanwhile; and what remains to be done is done
without the partitions that may be missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from fasthep_smk.plan.partitions import Place
from fasthep_smk.reuse import store
from fasthep_smk.storage import failures
from fasthep_smk.storage.observed import Checks, Surroundings, environment_of, written
from fasthep_smk.util.errors import JobsFailed, RunFailed

if TYPE_CHECKING:
    from fasthep_smk.translate.translation import Translation
    from fasthep_smk.translate.write import Written

#: How often a run starts because of damaged or edited files, besides once for each rule: what
#: makes a damaged file may find that it reads another one.
_ROUNDS = 3
#: After these kinds of failures the run goes on by itself.
_GOES_ON = frozenset({"damaged", "changed"})


def run_to_the_end(
    translation: Translation,
    start: Callable[[Written, Sequence[str]], int],
    *,
    translate_without: Callable[[Mapping[Place, str]], Translation],
) -> tuple[int, Translation]:
    """Run a translation; return how many jobs were done, and the translation that was finished.

    ``start`` runs Snakemake once, with further arguments for it, and returns how many jobs ran. If
    partitions may be missing in the end, ``translate_without`` makes a translation without them.

    What was edited during the run is looked at when it has ended: results are those of one version
    of all files.

    Raises:
        RunFailed: jobs failed, and the run does not go on without them; or files change all the
            time.
    """
    limit = translation.settings.accept_missing
    done, rounds_left, apart = 0, _ROUNDS + len(translation.rules), False
    more: list[str] = []
    while True:
        rounds_left -= 1
        try:
            alone = [f"{rule}=1" for rule in translation.placement.together] if apart else []
            groups = ["--group-components", *alone] if alone else []
            done += start(translation.written, [*more, *groups])
            changes = _changes(translation)
            if not changes:
                return done, translation
            several = f" (and {len(changes) - 1} more)" if len(changes) > 1 else ""
            text = f"changed during the run: {changes[0]}{several}"
            if rounds_left <= 0:
                raise RunFailed(
                    f"{text}\nfiles keep changing: run again when they no longer change"
                )
            print(f"{text}: the run repeats the jobs that depend on it", file=sys.stderr)
            without = translation.settings.without
        except JobsFailed as error:
            from fasthep_smk.run import accept_missing

            done += error.done
            build, without = translation.build, translation.settings.without
            kinds = {note.kind for note in failures.read_all(build)}
            if kinds & _GOES_ON:
                more = ["--keep-going"]  # to find at once all that is damaged
            if rounds_left > 0 and kinds and kinds <= _GOES_ON:
                who = "made" if kinds == {"damaged"} else "made or read"
                print(f"{error}\nthe run repeats the jobs that {who} these files", file=sys.stderr)
            elif limit is None or "credential" in kinds:
                raise  # with a renewed credential nothing would be missing
            elif rounds_left > 0 and kinds & _GOES_ON:
                print(
                    f"{error}\nsome jobs failed because files are damaged or have changed: "
                    "all failed jobs run again",
                    file=sys.stderr,
                )
            elif not apart and accept_missing.lost_with_others(error, translation):
                apart = True
                print(
                    f"{error}\nthe run repeats the partitions that shared a batch job with a "
                    "failed one, each in a batch job of its own",
                    file=sys.stderr,
                )
            else:
                without = accept_missing.to_leave_out(error, translation, limit)
                count = len(without)
                these = "1 partition" if count == 1 else f"{count} partitions"
                print(f"{error}\nthe run goes on without {these}", file=sys.stderr)
        translation = translate_without(without)
        if not translation.reuse.reasons:
            return done, translation


def _changes(translation: Translation) -> list[str]:
    """Return which files are not what they were when the run was planned."""
    build, root = translation.build, translation.root
    named = translation.named.knowing(written(build, root))  # with what jobs of this run have made
    changes = translation.inputs.changed()
    for graph in (item.graph for item in translation.variations):
        read: list[tuple[str, str | None]] = [(path, None) for path in graph.sources]
        read += [(path, node.impl) for node in graph.nodes.values() for path in node.sources]
        changes += [
            path
            for path, by in sorted(set(read), key=str)
            if named.identity_now(path) != graph.identity_of(path)
            and not named.is_made(os.path.normpath(path), by)
        ]
    surroundings = Surroundings(root, environment_of(build), named.ignored, named.roots[-1])
    checks = Checks(build, surroundings, named)
    for job in translation.rules[-1].jobs.values():
        record = store.read(build / job.folder)
        change = checks.change(record) if record is not None else None
        changes += [change] if change is not None else []
    return list(dict.fromkeys(changes))
