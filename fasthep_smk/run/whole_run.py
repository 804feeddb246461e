"""A whole run: the build folder is locked, and what it needs starts while FAST-HEP compiles."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.config.run_settings import RunSettings
from fasthep_smk.config.site import default_profile
from fasthep_smk.run.hangup import outliving_the_terminal
from fasthep_smk.run.lock import hold
from fasthep_smk.run.prestart import is_likely_idle, prestart
from fasthep_smk.storage.outdir import build_folder
from fasthep_smk.util.ownership import problem_above
from fasthep_smk.util.scratch import scratch

if TYPE_CHECKING:
    from fasthep_smk.run.display import Screen
    from fasthep_smk.run.pipeline import Concluded
    from fasthep_smk.run.prestart import Prestarted
    from fasthep_smk.translate.translation import Placed, Translation


def run_whole(
    settings: RunSettings,
    *,
    cancel: bool = False,
    agree: Callable[[Placed], None] = lambda _: None,
    screen: Callable[[Translation], Screen] | None = None,
    ended: Callable[[Concluded], None] = lambda _: None,
) -> Concluded:
    """Take all steps of a run in the current folder.

    Batch jobs of an earlier run go on, or with ``cancel`` are ended. ``agree`` may refuse what was
    translated before anything is written; ``screen`` makes what shows the run, if not the terminal.
    ``ended`` is called when it has ended, while the build folder is still locked.

    Raises:
        SmkError: the workflow is wrong, or jobs failed.
    """
    build = build_folder(settings.outdir)
    with (
        hold(build, settings.outdir) as held,
        outliving_the_terminal(build),
        scratch() as folder,
        contextlib.ExitStack() as until_the_end,
    ):
        is_idle = is_likely_idle(settings.workflow, build)

        def begin(system: str) -> Prestarted | None:
            started = None if is_idle else prestart(build, held, system)
            if started is not None:
                until_the_end.callback(started.end)
            return started

        here = (settings.profile or default_profile(str(settings.workflow))[0]) in (None, "local")
        prestarted = begin("local") if here else None
        # Imported now: what is prestarted does not wait for the compiler's import.
        from fasthep_smk import sites
        from fasthep_smk.run import pipeline, report_page
        from fasthep_smk.translate.translation import Start

        if problem := problem_above(build, workflow=settings.workflow):
            instead = f"replace {settings.outdir} with their own folder while this run goes on"
            pipeline.warn([f"{problem}: they can {instead}"])
        start = Start(settings=settings, root=Path.cwd(), build=build, aside=folder / "aside")
        loaded = pipeline.load(start)
        if not here:
            prestarted = begin(loaded.execution.site.system)
        placed = pipeline.placed(loaded)
        sites.require_plugin(placed.placement.site.system)
        agree(placed)
        translation = pipeline.accepted_beside_jobs(placed, cancel=cancel)
        page = until_the_end.enter_context(contextlib.closing(report_page.Page(build)))
        session = pipeline.RunSession(translation, page, held, prestarted, screen)
        concluded = pipeline.conclude(pipeline.run(session))
        ended(concluded)
        return concluded
