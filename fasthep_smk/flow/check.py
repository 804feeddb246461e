"""Findings about what a workflow names: can it be loaded, and which parameters does it take.

FAST-HEP loads an operation when its turn comes, in a job, and hands it all parameters of its stage:
one that ``**rest`` swallows is never told. The specs and the signatures say what there is.
"""

from __future__ import annotations

import dis
import importlib.util
import inspect
import re
from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import TYPE_CHECKING

from fasthep_smk.flow import local_modules, op_identity, upstream
from fasthep_smk.flow.places import mapping, node_place, scalars
from fasthep_smk.flow.reads import CATEGORY, is_diagnostic, is_published, modifiers_of, user_hooks
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, is_slip, nearest
from fasthep_smk.util.yaml_values import as_yaml, key_of

if TYPE_CHECKING:
    from fasthep_smk.flow.shapes import Plan, PlanNode, Registry

#: How the names of FAST-HEP's own operations begin; the schema knows the parameters of renderers.
_OF_FASTHEP = ("hep.", "root_tree")
_RENDERERS = "hep.render."
#: Parameters that FAST-HEP's compiler or engine gives, or reads themselves.
_GIVEN = frozenset(("datasets", "spec", "when", "branches_by_dataset", "metadata_only"))
_FROM_FASTHEP = _GIVEN | {
    *("branches", "defaults", "fields", "node_id", "out", "stream_id", "stream_type"),
}
#: What FAST-HEP hands an operation besides its parameters; what a writer gets of ``outputs``.
_HANDED, _OF_OUTPUTS = frozenset(("stream", "target", "ctx")), ("use", "tree", "keep")


def registry_findings(document: YamlMapping, *, workflow: str) -> list[Finding]:
    """Return modules of the workflow's own registry that cannot be imported."""
    # FAST-HEP's compiler, which comes later, does not say which one failed.
    findings: dict[str, Finding] = {}
    for section, entries in mapping(document.get("registry")).items():
        for name, entry in mapping(entries).items():
            parts = entry if isinstance(entry, dict) else {"": entry}
            for part, reference in parts.items():
                if part in ("", "spec", "impl") and ":" in str(reference):
                    path = filter(None, (str(section), str(name), part))
                    for finding in _unloadable(reference, key_of("registry", path), workflow):
                        # One module that cannot be imported is one finding.
                        module = str(reference).partition(":")[0]
                        findings.setdefault(f"{module} {finding.problem}", finding)
    return list(findings.values())


def _unloadable(reference: object, key: str, workflow: str) -> Iterator[Finding]:
    """Yield why ``module:object`` cannot be loaded, if it cannot."""
    module, colon, name = str(reference).partition(":")
    problem, hint = "is not of the form module:object", None
    if colon:
        try:
            if not op_identity.is_published(module):
                upstream.load_object(reference)
            elif not importlib.util.find_spec(module):  # to load all renderers takes half a second
                raise ModuleNotFoundError(f"No module named {module!r}", name=module)
            return
        except (Exception, SystemExit) as error:
            # Importing a user's module runs the user's code: anything is possible.
            from fasthep_smk.flow.stage_error import own_line

            at = own_line(error)
            problem = f"cannot be imported: {type(error).__name__}: {error}"
            problem += f" ({at})" if at else ""
            if module.endswith(".py"):
                hint = f"write {module.removesuffix('.py').replace('/', '.')}:{name}, without .py"
            elif isinstance(error, ModuleNotFoundError):
                problem = f"the module {error.name!r} cannot be imported: {error}"
                hint = local_modules.why_not_found(module)
    value, expected = as_yaml(reference), "module:object that can be imported"
    yield Finding(
        file=workflow, key=key, value=value, problem=problem, expected=expected, hint=hint
    )


def plan_findings(plan: Plan, *, workflow: str) -> list[Finding]:
    """Return ops, sinks, sources, observers, modifiers, hooks and reports that cannot be loaded."""
    findings: list[Finding] = []
    registered = {role: plan.registry.get(section) or {} for role, section in CATEGORY.items()}
    names = [node.impl for node in plan.nodes if node.impl not in registered[node.role]]
    for node in plan.nodes:
        where = node_place(node).removesuffix(".params")
        last = "op" if node.role == "transform" else "kind"
        last = "style.op" if node.id.startswith("render.") else last
        findings += _component(plan, CATEGORY[node.role], node.impl, f"{where}.{last}", workflow)
        findings += _modifier_findings(plan, node, f"{where}.execution.modifiers", workflow)
    if unregistered := unregistered_finding(plan.registry, names, workflow=workflow):
        findings = [
            unregistered,
            *(finding for finding in findings if "is registered" not in finding.problem),
        ]
    for report in plan.reports:
        key = f"reports[{report.get('id')!r}]"
        findings += _component(plan, "sinks", str(report.get("op")), f"{key}.op", workflow)
        if (source := report.get("source")) != "provenance":
            problem = f"{source!r} is not a source of reports: write 'provenance'"
            findings.append(Finding(file=workflow, key=f"{key}.source", problem=problem))
    return list({str(finding): finding for finding in findings}.values())


def unregistered_finding(
    registry: Registry, names: Iterable[str], *, workflow: str
) -> Finding | None:
    """Return that no profile registers FAST-HEP's own operations, if some of ``names`` are."""
    used = [name for name in dict.fromkeys(names) if name.startswith(_OF_FASTHEP)]
    if not used or "hep.define" in (registry.get("transforms") or {}):
        return None
    return Finding(
        file=workflow,
        key="use.profiles",
        problem="no profile registers the operations of FAST-HEP",
        value=", ".join(used),
        expected="profiles: [hep]",
        hint="write 'use: {profiles: [hep]}' at the top of the workflow",
    )


def _component(plan: Plan, category: str, name: str, key: str, workflow: str) -> list[Finding]:
    """Return that nothing of a name is registered, or that it cannot be loaded."""
    registered = plan.registry.get(category) or {}
    entry = registered.get(name)
    if isinstance(entry, dict):
        parts = ("impl",) if category == "execution_modifiers" else ("spec", "impl")
        keys = {part: key_of("registry", (category, name, part)) for part in parts}
        return [
            finding
            for part in parts
            for finding in _unloadable(entry.get(part), keys[part], workflow)
        ]
    word = "op" if category == "transforms" else category.removeprefix("execution_")[:-1]
    hint = (
        "use a profile that registers it, as in 'use: {profiles: [hep]}', or register it in the "
        "workflow's section 'registry'; 'fasthep-smk ops' lists all operations of FAST-HEP"
    )
    if name.startswith("smk."):
        hint = "write use: {profiles: [hep, 'fasthep_smk:registry']} at the top of the workflow"
    close = nearest(name, registered)
    expected = f"a registered name, such as {close!r}" if close else "a registered name"
    problem, value = f"no {word} of this name is registered", as_yaml(name)
    return [
        Finding(file=workflow, key=key, value=value, problem=problem, expected=expected, hint=hint)
    ]


def _modifier_findings(plan: Plan, node: PlanNode, place: str, workflow: str) -> Iterator[Finding]:
    """Yield modifiers that there are not, or that end each job with what they are given."""
    execution = mapping(mapping(node.meta).get("execution"))
    for number, modifier in enumerate(execution.get("modifiers") or ()):
        name, params = str(mapping(modifier).get("name", modifier)), mapping(modifier).get("params")
        unknown = _component(plan, "execution_modifiers", name, place, workflow)
        yield from unknown
        entry = mapping((plan.registry.get("execution_modifiers") or {}).get(name))
        impl = None if unknown else upstream.load_object(str(entry.get("impl")))
        if isinstance(impl, type) and (
            refused := _refused(plan, node, name, impl, mapping(params))
        ):
            takes = inspect.signature(impl).parameters
            words = set(re.findall(r"\w+", refused))
            about = next((f".{word}" for word in (*mapping(params), *takes) if word in words), "")
            key, expected = f"{place}[{number}].params{about}", ", ".join(takes) or "no parameters"
            yield Finding(file=workflow, key=key, problem=refused, expected=expected)


def _refused(plan: Plan, node: PlanNode, name: str, impl: type, params: YamlMapping) -> str | None:
    """Return why a modifier ends each job."""
    of_fasthep = is_published(plan.registry, "execution_modifiers", name)
    try:
        inspect.signature(impl).bind(**params)
        if of_fasthep or is_diagnostic(plan.registry, name):  # a user's may want what jobs have
            impl(**params)
    except (TypeError, ValueError) as error:
        return str(error) if str(error).startswith(name) else f"{name}: {error}"
    if of_fasthep and name == "gpu.preload" and not params.get("fields"):
        return (
            "gpu.preload needs fields, the columns to move to the GPU, such as [Muon_Px, Muon_Py]"
        )
    if of_fasthep and name == "cuda.jit" and not _own_code_around(plan, node):
        return "cuda.jit reads its functions from ctx['cuda_jit_functions'], which no hook sets"
    return None


def parameter_findings(plan: Plan, document: YamlMapping, *, workflow: str) -> list[Finding]:
    """Return parameters of ``document`` that operations do not take, and those that they lack."""
    findings = list[Finding]()
    keys = {str(name) for _, name, is_key in scalars("", document) if is_key}
    for node in plan.nodes:
        # The patch of an inline variation may speak of what only the operation's users know.
        if "@" in node.id or node.impl.startswith(_RENDERERS):
            continue
        for key, problem, accepted in _misfits(plan, node, keys):
            name, listed = key.rpartition(".")[2], ", ".join(sorted(accepted)) or None
            close = None if name in accepted else nearest(name, accepted, cutoff=0.7)
            hint = f"did you mean {close!r}?" if close else None
            finding = Finding(file=workflow, key=key, problem=problem, expected=listed, hint=hint)
            findings.append(finding)
    return findings


def _misfits(plan: Plan, node: PlanNode, keys: set[str]) -> Iterator[tuple[str, str, set[str]]]:
    """Yield what an operation is called with and does not take, or lacks: key, problem, names."""
    op, category, place = node.impl, CATEGORY[node.role], node_place(node)
    entry = mapping((plan.registry.get(category) or {}).get(op))
    spec, function = (upstream.load_object(str(entry[part])) for part in ("spec", "impl"))
    if not isinstance(spec, dict) or not inspect.isfunction(function):
        return
    signature = inspect.signature(function, follow_wrapped=False)
    rests = [arg.name for arg in signature.parameters.values() if arg.kind is arg.VAR_KEYWORD]
    named, listed = {*signature.parameters} - {*rests}, mapping(spec.get("params"))
    read = re.findall(r"params\.(\w+)", repr((spec.get("requires"), spec.get("provides"))))
    accepted = ({*listed, *named, *read} if rests else named) - _HANDED
    odd = [name for name in node.params if name in keys - accepted - _FROM_FASTHEP]
    if rests and not is_published(plan.registry, category, op) and _reads(function, rests[0]):
        free = accepted - {*node.params}  # it may look for names that only it knows
        odd = [name for name in odd if any(is_slip(name, other) for other in free)]
    elif rests:
        free = {"comment", "description", *(_OF_OUTPUTS if node.role == "sink" else ())}
        odd = [name for name in odd if name not in free and not name.startswith("x-")]
    for name in odd:
        only = "; its spec lists one, but its function does not take it" if name in listed else ""
        yield f"{place}.{name}", f"{op} has no parameter of this name{only}", accepted - _GIVEN
    lacking = {name for name in listed if mapping(listed[name]).get("required")} - {*node.params}
    for name in sorted(lacking - _GIVEN) if node.role != "sink" else ():
        yield f"{place}.{name}", f"is missing: {op} needs it", set()
    if (
        odd
        or lacking - _GIVEN
        or node.role not in ("transform", "observer")
        or _own_code_around(plan, node)
    ):
        return
    inputs = {ref.input_name for ref in node.inputs if ref.input_name != "dependency"}
    target = {"target"} if node.role == "observer" else set()
    try:
        signature.bind(**dict.fromkeys({*node.params, *inputs, *target, "ctx"}))
    except TypeError as error:
        name = str(error).split("'")[1]
        is_input = name in {*inputs, "stream"}
        key = f"{place.removesuffix('.params')}.from" if is_input else f"{place}.{name}"
        yield key, f"{op}: {error}", named - _HANDED


def _own_code_around(plan: Plan, node: PlanNode) -> bool:
    """Whether a modifier or a hook of a user's own may give an operation more."""
    modifiers = modifiers_of(node, plan.registry)
    of_fasthep = (is_published(plan.registry, "execution_modifiers", name) for name in modifiers)
    return user_hooks(plan, plan.registry) or not all(of_fasthep)


def _reads(function: FunctionType, rest: str) -> bool:
    """Whether a function looks at a variable; ``locals()`` and its like look at all."""
    names = {rest, "locals", "vars", "eval", "exec"}
    code = dis.get_instructions(function)
    return any(step.argval in names and step.opname.startswith("LOAD") for step in code)
