"""What was meant by an expression that Python cannot read: signs of C++, ROOT, and of YAML files.

Of the signs of C++, FAST-HEP takes ``&&`` and ``||``, as ``and`` and ``or``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping

from fasthep_smk.config.schema import key_of
from fasthep_smk.flow import upstream
from fasthep_smk.flow.places import mapping
from fasthep_smk.flow.unknown_functions import instead_of
from fasthep_smk.util.documents import YamlMapping
from fasthep_smk.util.errors import Finding
from fasthep_smk.util.yaml_values import as_yaml

__all__ = ["as_python", "functions_of", "syntax_finding", "syntax_findings"]

#: What stands in the expression -> what is wrong, and what to write.
_SIGNS: tuple[tuple[str, str, str], ...] = (
    (r"\w+::(\w+)", "an expression has no namespaces", ""),
    (r"(?:Sum|Length|Max|Min)\$", "an expression has no functions of ROOT's TTree::Draw", ""),
    (r"<>", "'<>' does not compare: '!=' does", "write !="),
    (r"=>", "'=>' does not compare: '>=' does", "write >="),
    (r"=<", "'=<' does not compare: '<=' does", "write <="),
    (r"===", "'===' does not compare: '==' does", "write =="),
    (r"!(?!=)", "'!' does not negate a column: '~' does", "write ~(…)"),
    (r"\bAND\b", "'AND' does not combine columns: '&' does", "write (a > 1) & (b < 2)"),
    (r"\bOR\b", "'OR' does not combine columns: '|' does", "write (a > 1) | (b < 2)"),
    (r"\bNOT\b", "'NOT' does not negate a column: '~' does", "write ~(…)"),
    (r"\?.*:", "'? :' does not choose: where does", "write where(condition, this, that)"),
    (r"\bthen\b|\bif\b", "'if' does not choose: where does", "write where(condition, this, that)"),
    (r"≥|⩾", "'≥' is no sign of an expression: '>=' is", "write >="),
    (r"≤|⩽", "'≤' is no sign of an expression: '<=' is", "write <="),
    (r"≠", "'≠' is no sign of an expression: '!=' is", "write !="),
    (r"[−–—]", "a dash is no minus", "write -"),
    (r"[×·⋅]", "the sign of the product is '*'", "write *"),
    (r"[“”‘’„]", "a typographic quote", "write \" or '"),
    (r"\d\s*(?:GeV|MeV|TeV|cm|mm|m|rad)\b", "an expression has no units", "leave the unit out"),
    (r"->", "a column has no members", "write the name of a column, such as Muon_pt"),
    (r"\$", "'$' stands for nothing here", "leave it out"),
    (r"(?<![\w.])0\d", "a number does not begin with 0", "leave the 0 out"),
    (r"(?<![\w.])\d+(?![eExXoObBjJ])[A-Za-z_]", "no name begins with a digit", "put * after it"),
    (r";\s*$", "an expression ends without ';'", "leave it out"),
    (r"\+\+|--", "nothing is counted up", ""),
    (r"(?<![=<>!])=(?!=)", "'=' does not compare: '==' does", "write =="),
)  # fmt: skip
_TEXT = re.compile(r"'[^']*'|\"[^\"]*\"")
_FUNCTION = re.compile(r"(?:\w+::(?:\w+::)*|)(\w+)\$?\(")


def functions_of(document: Mapping[str, object]) -> list[str]:
    """Return the functions that expressions may call, as far as no profile adds others."""
    own = mapping(mapping(document.get("registry")).get("functions"))
    usual = mapping(mapping(upstream.default_expr_registry_config()).get("functions"))
    return [*map(str, usual), *map(str, own)]


def syntax_finding(
    text: str, error: SyntaxError, functions: Iterable[str], *, key: str, workflow: str
) -> Finding:
    """Return what is wrong with a text that ``error`` keeps from being an expression.

    ``functions`` are those that it may call.
    """
    start = error.offset or 0
    where = f" at {text[start - 1 :]!r}" if 0 < start <= len(text) else ""
    problem, hint = _meant(text, functions) or (f"{error.msg}{where}", None)
    return Finding(
        file=workflow,
        key=key,
        problem=f"is not an expression: {problem}",
        value=text,
        expected="an expression such as (a > 1) & (b < 2)",
        hint=hint,
    )


def as_python(text: str) -> str:
    """Return an expression as FAST-HEP hands it to Python."""
    return text.replace("&&", " and ").replace("||", " or ").strip()


def syntax_findings(
    stage: YamlMapping, key: str, functions: Iterable[str], *, workflow: str
) -> Iterator[Finding]:
    """Yield the definitions and cuts of a stage that are no expressions.

    FAST-HEP's compiler stops at the first of them.
    """
    for place, text in _expressions(stage, f"{key}.params"):
        readable = as_python(text)
        if not readable:
            expected = "an expression such as MET > 20"
            problem, value = "is empty", as_yaml(text)
            yield Finding(file=workflow, key=place, problem=problem, value=value, expected=expected)
            continue
        try:
            ast.parse(readable, mode="eval")
        except SyntaxError as error:
            yield syntax_finding(readable, error, functions, key=place, workflow=workflow)
        except (ValueError, RecursionError, MemoryError):
            continue  # the compiler says it


def _expressions(stage: YamlMapping, key: str) -> Iterator[tuple[str, str]]:
    params = mapping(stage.get("params"))
    entries: list[tuple[str, object]] = []
    if stage.get("op") == "hep.define":
        listed = params.get("variables")
        for number, one in enumerate(listed if isinstance(listed, list) else ()):
            entries.append((f"{key}.variables[{number}].expr", mapping(one).get("expr")))
    if stage.get("op") == "hep.selection.cutflow":
        for name, group in mapping(params.get("selection")).items():
            for word in ("", "steps", "cuts"):
                place = key_of(f"{key}.selection", [str(name), *([word] if word else [])])
                listed = mapping(group).get(word) if word else group
                for number, one in enumerate(listed if isinstance(listed, list) else ()):
                    within = ".expr" if isinstance(one, dict) else ""
                    text = mapping(one).get("expr") if within else one
                    entries.append((f"{place}[{number}]{within}", text))
    for place, text in entries:
        # Braces stand for what FAST-HEP writes there.
        if isinstance(text, str) and "{" not in text:
            yield place, text


def _meant(text: str, functions: Iterable[str]) -> tuple[str, str | None] | None:
    bare = _TEXT.sub("", text)
    for pattern, problem, hint in _SIGNS:
        found = re.search(pattern, bare)
        if found is None:
            continue
        if not hint and ("::" in found[0] or "$" in found[0]):
            called = _FUNCTION.search(bare, found.start())
            hint = instead_of(called[1], (), functions) if called else ""
        return problem, hint or None
    return None
