"""Modules that run when they are used, in the order in which they would have."""

from __future__ import annotations

import importlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fasthep_smk.flow.patches.late import import_late

Ran = Callable[[], list[str]]

NOTE = "import builtins; builtins.ran.append(__name__)\n"
FILES = {
    "lazypack/__init__.py": NOTE + "from lazypack.inside import deep\nvalue = 1\n",
    "lazypack/inside.py": NOTE + "def deep(): return 'deep'\nclass Place: x = 2\n",
    "lazypack/other.py": NOTE,
    "caller.py": "import lazypack as pack\nfrom lazypack.inside import Place, deep\n",
    "another.py": "from lazypack.inside import Place\nclass Mine(Place): pass\n",
}


@pytest.fixture
def ran(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ran]:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    noted: list[str] = []
    monkeypatch.setattr("builtins.ran", noted, raising=False)
    yield lambda: noted
    for name in [
        name for name in sys.modules if name.startswith(("lazypack", "caller", "another"))
    ]:
        del sys.modules[name]


def test_what_nobody_uses_does_not_run(ran: Ran) -> None:
    import_late(["lazypack"], ["lazypack.inside"], ["caller"])
    user = importlib.import_module("caller")
    again = importlib.import_module("caller")
    assert ran() == []
    assert user.pack.__name__ == "lazypack"
    assert again.pack is user.pack is sys.modules["lazypack"]
    assert user.deep.__name__ == "deep"


def test_a_use_makes_it_run_once(ran: Ran) -> None:
    import_late(["lazypack"], ["lazypack.inside"], ["caller"])
    user = importlib.import_module("caller")
    assert user.pack.value == 1
    assert ran() == ["lazypack", "lazypack.inside"]  # the first imports the second
    assert user.deep() == "deep"
    assert user.Place().x == 2
    assert ran() == ["lazypack", "lazypack.inside"]
    assert not hasattr(user.pack, "no_such_name")


def test_a_function_makes_its_package_run_first(ran: Ran) -> None:
    import_late(["lazypack"], ["lazypack.inside"], ["caller"])
    assert importlib.import_module("caller").deep() == "deep"
    assert ran() == ["lazypack", "lazypack.inside"]


def test_the_import_of_another_submodule_is_a_use(ran: Ran) -> None:
    import_late(["lazypack"])
    importlib.import_module("lazypack.other")
    assert ran() == ["lazypack", "lazypack.inside", "lazypack.other"]


def test_others_get_what_they_ask_for(ran: Ran) -> None:
    import_late(["lazypack"], ["lazypack.inside"], ["caller"])
    assert importlib.import_module("another").Mine.x == 2
    assert ran() == ["lazypack", "lazypack.inside"]


def test_one_that_is_broken_says_so_at_each_use(ran: Ran, tmp_path: Path) -> None:
    (tmp_path / "lazypack/__init__.py").write_text("raise ImportError('it is broken')\n")
    import_late(["lazypack"])
    user = importlib.import_module("lazypack")
    for _ in range(2):
        with pytest.raises(ImportError, match="it is broken"):
            user.value  # noqa: B018
    assert ran() == []


@pytest.mark.usefixtures("ran")
def test_what_is_there_or_not_installed_is_left_alone() -> None:
    before = importlib.import_module("lazypack")
    import_late(["lazypack", "no_such_package", "no_such_package.inside"])
    assert sys.modules["lazypack"] is before
    assert "no_such_package" not in sys.modules
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("no_such_package")


def test_plots_can_still_be_drawn_where_a_workflow_was_compiled() -> None:
    """FAST-HEP's renderers, imported as a compile does, then used."""
    script = """\
import sys
from fasthep_smk.flow import compile
compile.import_late(compile._FOR_PLOTS, compile._FOR_COMPARISONS, compile._COMPARISONS)
import fasthep_render.hist.comparison as comparison, fasthep_render.hist.data_mc as data_mc
assert "matplotlib.figure" not in sys.modules and "mplhep.plot" not in sys.modules
import matplotlib.pyplot as plt, mplhep
plt.switch_backend("agg")
figure = plt.figure()
assert type(comparison.GridSpec(2, 1, figure=figure)).__module__ == "matplotlib.gridspec"
mplhep.histplot([1, 2], bins=[0, 1, 2], ax=figure.add_subplot())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
