"""Which texts FAST-HEP's analysis of a plan takes for expressions.

Its operations say so in several ways, by rules in their specs and by parsers of their own. All come
to one function, that tells the names in an expression.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from fasthep_smk.flow import upstream
from fasthep_smk.flow.patches import PARSED_EXPRESSIONS


@contextlib.contextmanager
def parsed_expressions() -> Iterator[list[str]]:
    """Note the expressions that FAST-HEP parses in the block."""
    module = upstream.expression_parser()
    parse = module.symbols_in_expr
    noted: list[str] = []

    def symbols_in_expr(expr: str) -> set[str]:
        noted.append(str(expr))
        return set(parse(expr))

    with PARSED_EXPRESSIONS.made(module, symbols_in_expr=symbols_in_expr):
        yield noted
