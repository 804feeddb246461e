"""What FAST-HEP writes into a build folder, as far as it tells before a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from fasthep_smk.flow import upstream

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Plan, PlanNode

#: Products that FAST-HEP writes at the end of a run: kind, folder, suffix.
_PRODUCTS = {"histogram": ("histograms", ".pkl"), "cutflow": ("cutflows", ".json")}
_ARTIFACTS = "artifacts"


def files_written(plan: Plan, node: PlanNode) -> tuple[str, ...]:
    """Return the files that a node writes, relative to the build folder.

    ``{dataset}``, ``{part}`` and ``{partition_id}`` stand for those of each. Files elsewhere, and
    what a name in braces of another kind stands in, are left out.
    """
    root = upstream.BuildPaths.from_plan(plan, outdir="").artifacts_root()
    paths = [
        Path(_ARTIFACTS, _PRODUCTS[kind][0], f"{upstream.product_id(node)}{_PRODUCTS[kind][1]}")
        for kind in node.outputs.values()
        if kind in _PRODUCTS
    ]
    # A renderer with several outputs names them itself, and writes them elsewhere.
    claims = [] if "outputs" in node.params else upstream.node_output_claims(node)
    paths += [Path(claim.key[1]) for claim in claims if claim.key[0] == "relative"]
    inside = [
        path for path in paths if path.parts[0] == _ARTIFACTS and path.name != "manifest.json"
    ]
    return tuple(str(root / path.relative_to(_ARTIFACTS)) for path in inside)


def prepare_build(plan: Plan, build: Path) -> None:
    """Make the folders that FAST-HEP expects in a build folder."""
    paths = upstream.BuildPaths.from_plan(plan, outdir=build)
    upstream.ensure_build_layout(
        paths.root,
        variation=paths.variation,
        backend_directories=upstream.backend_build_directories(
            plan.registry, plan.execution, provenance=plan.provenance
        ),
    )
