"""Flame graphs as pages."""

from __future__ import annotations

from fasthep_smk.contrib.measure.flame_graph import Frame, page


def test_frames_are_told_with_their_share_and_stand_in_their_callers() -> None:
    root = Frame("all", 4.0)
    root.add("<lambda>", 2.0).add("deep", 1.0)
    root.add("<lambda>", 1.0)
    root.add("rare", 0.001)
    text = page(root, title="Time of A & B", unit="s", notes="4 s.")
    assert "<title>Time of A &amp; B</title>" in text
    assert 'title="&lt;lambda&gt;: 3 s, 75.0 %"' in text
    assert text.index(">all<") < text.index("&lt;lambda&gt;</div>") < text.index(">deep<")
    assert "rare" not in text


def test_nothing_that_took_nothing() -> None:
    assert "0 s, 0.0 %" in page(Frame("all", 0.0), title="", unit="s", notes="")
