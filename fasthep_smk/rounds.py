"""A run to its end, which may take several rounds of Snakemake.

Jobs run again where files were damaged, or where they shared a batch job with one that failed; and
what remains to be done is done without the partitions that may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from fasthep_smk import failures, missing
from fasthep_smk.errors import JobsFailed

if TYPE_CHECKING:
    from fasthep_smk.engine import Outcome
    from fasthep_smk.translate.write import Written
    from fasthep_smk.translation import Translation

__all__ = ["run_to_the_end"]

#: How often a run starts because of damaged files, besides once for each rule: what makes a
#: damaged file may find that it reads another one.
_ROUNDS = 3


def run_to_the_end(
    translation: Translation,
    start: Callable[[Written, Sequence[str]], Outcome],
    *,
    limit: missing.Limit | None,
    translate_without: Callable[[Mapping[missing.Place, str]], Translation],
    output: TextIO,
) -> tuple[int, Translation]:
    """Run a translation; return how many jobs were done, and the translation that was finished.

    ``start`` runs Snakemake once, with further arguments for it. Up to ``limit`` partitions may be
    missing in the end: ``translate_without`` makes a translation without them.

    Raises:
        RunFailed: jobs failed, and the run does not go on without them.
    """
    done, rounds_left, apart = 0, _ROUNDS + len(translation.rules), False
    more: list[str] = []
    while True:
        rounds_left -= 1
        alone = [f"{rule}=1" for rule in translation.placement.together] if apart else []
        groups = ["--group-components", *alone] if alone else []
        try:
            outcome = start(translation.written, [*more, *groups])
            return done + outcome.total, translation
        except JobsFailed as error:
            done += error.done
            build, without = translation.written.build, translation.without
            if failures.some_damaged(build):
                more = ["--keep-going"]  # to find at once all that is damaged
            if rounds_left > 0 and failures.only_damaged(build):
                print(f"{error}\nthe jobs that made these files run again", file=output)
            elif limit is None or failures.some_refused(build):
                raise  # with a renewed credential nothing would be missing
            elif rounds_left > 0 and failures.some_damaged(build):
                print(f"{error}\nsome of them because of damaged files: all again", file=output)
            elif not apart and missing.lost_with_others(error, translation):
                apart = True
                print(f"{error}\nwhat shared a batch job with one of them runs alone", file=output)
            else:
                without = missing.to_leave_out(error, translation, limit)
                count = len(without)
                these = "1 partition" if count == 1 else f"{count} partitions"
                print(f"{error}\ngoing on without {these}", file=output)
        translation = translate_without(without)
