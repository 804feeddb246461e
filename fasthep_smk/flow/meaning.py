"""All findings about compiled plans that would silently do something else than was meant.

What FAST-HEP's compiler accepts may still have no effect where it stands, match no dataset, or end
every job with the same error. Each of these is told once, before anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fasthep_smk.flow.expression_rules import expression_findings
from fasthep_smk.flow.histograms import histogram_findings
from fasthep_smk.flow.ignored_keys import ignored_params_findings
from fasthep_smk.flow.op_values import value_findings
from fasthep_smk.flow.places import stages_of
from fasthep_smk.flow.plots import plot_findings
from fasthep_smk.flow.reads import is_published
from fasthep_smk.flow.upstream import ExecutionPlan
from fasthep_smk.flow.variations import branch_findings, unchanged_findings
from fasthep_smk.util.errors import Finding

__all__ = ["meaning_findings"]


def meaning_findings(
    plans: Sequence[ExecutionPlan],
    document: Mapping[str, object],
    *,
    workflow: str,
    told: Sequence[Finding] = (),
) -> list[Finding]:
    """Return what the plans of a workflow would do otherwise than it says.

    The plans differ by their systematic variations: what is wrong with the stages is told of the
    first. ``told`` is what has been found in the document already.
    """
    found: list[Finding] = []
    for plan in plans[:1]:
        for key, stage in stages_of(document):
            if is_published(plan.registry, "transforms", str(stage.get("op"))):
                found += ignored_params_findings(stage, key, workflow=workflow)
                found += value_findings(stage, key, workflow=workflow)
        found += expression_findings(plans, document, workflow=workflow)
        found += histogram_findings(plan, workflow=workflow)
        found += branch_findings(plan, document, workflow=workflow)
        keys = [one.key for one in told if one.key]
        found += plot_findings(plan, document, workflow=workflow, told=keys)
    found += unchanged_findings(plans, document, workflow=workflow)
    return found
