"""Which texts FAST-HEP parses as expressions is noted; it learns the same names from them."""

from __future__ import annotations

from fasthep_smk.flow import upstream
from fasthep_smk.flow.patches.parsed_expressions import parsed_expressions


def test_the_names_are_the_same() -> None:
    parse = upstream.expression_parser().symbols_in_expr
    texts = ["pt > 20", "sqrt(px ** 2 + py ** 2)", "where(a, b, 1)"]
    with parsed_expressions() as noted:
        found = [upstream.expression_parser().symbols_in_expr(text) for text in texts]
    assert found == [parse(text) for text in texts]
    assert noted == texts
    assert upstream.expression_parser().symbols_in_expr is parse
