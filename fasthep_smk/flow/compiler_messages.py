"""What FAST-HEP says when it refuses a workflow, and which value of the workflow that is about."""

from __future__ import annotations

import contextlib
import re
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from fasthep_smk.flow import upstream
from fasthep_smk.flow.local_modules import why_not_found
from fasthep_smk.flow.places import mapping, named, quoted, stages_by_id, stages_of, written
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding, chain_of, nearest
from fasthep_smk.util.yaml_values import as_yaml

#: A key that a message names.
_KEY = re.compile(
    r"(?<![\w.'\"])((?:analysis|data|sources|joins|execution|systematics|styles|registry)"
    r"(?:(?:\.\w+|\[[^\[\]]*\])+|(?= must be )))"
)
#: A node of the plan, and a stage, that a message names.
_NODE = re.compile(r"(?i)\b(?:node '(?:\w+\.)?|stage ')([^'@]+?)(?:\.\d+)?(?:@[^']*)?'")
_CIRCLE = "Lowered graph contains a cycle"


def compiler_finding(workflow: Path, error: BaseException) -> Finding:
    """Return what is wrong with a workflow that the compiler has refused, in its words."""
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    message = (
        f"there is no {message!r}"
        if isinstance(error, KeyError) and " " not in message
        else message
    )
    message = re.sub(r"PosixPath\('([^']*)'\)", r"\1", " ".join(message.split()))
    message = message.replace(f"{workflow.resolve().parent}/", "") or type(error).__name__
    document: YamlMapping = {}
    with contextlib.suppress(Exception):  # it cannot be read: that is what is said
        document = dict(upstream.load_workflow_with_includes(str(workflow)).doc)
    if message == _CIRCLE:
        waiting = _waiting(document)
        return Finding(
            file=str(workflow),
            key=f"analysis.stages[{waiting[0]!r}]" if waiting else "analysis.stages",
            problem="stages depend on each other in a cycle",
            value=", ".join(waiting) or None,
            expected="stages that depend only on earlier stages (in 'from' and 'needs')",
        )
    node, text = raised_at(error)
    named_node = _NODE.search(message)
    stage = node or (named_node[1] if named_node else None)
    place = _KEY.search(message)
    key, content = stages_by_id(document).get((stage or "").partition("@")[0], (None, {}))
    at = named(place[1], document) if place else None
    at = at or (written(document, stage, text) if stage and text else None)
    at = at or (quoted(document, stage, message) if stage else None)
    at = (at or quoted(document, None, message) or key or "").removesuffix(".id")
    return Finding(
        file=str(workflow),
        key=at or None,
        problem=f"FAST-HEP refuses {content.get('op') or 'this'}: {message}",
        value=as_yaml(text) if text and text not in message else None,
        hint=_meant(message, mapping(content.get("params")))
        if not isinstance(error, ModuleNotFoundError)
        else why_not_found(str(error.name)),
    )


def _meant(message: str, params: YamlMapping) -> str | None:
    """Return which name was meant, if a required parameter or one of those listed is near."""
    if required := re.search(r"parameter '([^']+)' is required", message):
        close = nearest(required[1], map(str, params))
        return f"is {close!r} meant to be {required[1]!r}?" if close else None
    if listed := re.search(r"'([^']+)'\. Available: \[(.*)\]", message):
        close = nearest(listed[1], re.findall(r"'([^']+)'", listed[2]))
        return f"did you mean {close!r}?" if close else None
    return None


def raised_at(error: BaseException) -> tuple[str | None, str]:
    """Return the stage that FAST-HEP had in hand when it raised, and the text that it read then.

    A node that belongs to no stage is told by its id; without a text it is empty.
    """
    stage, text = None, ""
    for cause in chain_of(error):
        read = cause.text or "" if isinstance(cause, SyntaxError) else ""
        for frame in _frames(cause):
            node = frame.f_locals.get("node")
            if node is not None and hasattr(node, "impl"):
                stage = stage or str(
                    mapping(getattr(node, "meta", None)).get("stage_id") or node.id
                )
            elif mapping(frame.f_locals.get("stage")).get("id"):
                stage = stage or str(frame.f_locals["stage"]["id"])
            for name in ("expr", "expression"):
                held = frame.f_locals.get(name)
                read = (
                    held if isinstance(held, str) and not isinstance(cause, SyntaxError) else read
                )
        text = text or read
    return stage, text.strip()


def _frames(error: BaseException) -> Iterator[FrameType]:
    """Yield the frames of FAST-HEP's that an error went through, the innermost last."""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if re.search(r"[/\\](hepflow|fasthep_(?!smk))", frame.f_code.co_filename):
            yield frame


def _waiting(document: YamlMapping) -> list[str]:
    """Return the stages that take something from each other, and those that wait for these."""
    left = {str(stage.get("id")): _taken(stage) for _, stage in stages_of(document)}
    while free := [name for name, taken in left.items() if not taken & left.keys()]:
        for name in free:
            del left[name]
    return list(left)


def _taken(stage: YamlMapping) -> set[str]:
    """Return what a stage names in ``from`` and ``needs``."""
    listed: list[object] = []
    for value in (stage.get("from", stage.get("in")), stage.get("needs")):
        listed += value if isinstance(value, list) else [value]
    names = (mapping(entry).get("node") if isinstance(entry, dict) else entry for entry in listed)
    return {str(name).removeprefix("stage.").partition("@")[0] for name in names if name}
