"""What becomes of the paths in binaries of conda packages."""

from __future__ import annotations

import os

import pytest
from conda_pack.prefixes import replace_prefix

from fasthep_smk.contrib.pack import conda

PLACEHOLDER = "/" + "placehold_" * 25


@pytest.mark.parametrize(
    "text", ["{0}", "{0}/lib", "-L{0}/lib -I{0}/include", "{0}/a\0\0\0{0}/b", "other"]
)
def test_a_binary_is_as_it_was_in_its_package(text: str) -> None:
    noise = os.urandom(50).replace(b"\0", b"1")
    packaged = noise + b"\0" + text.format(PLACEHOLDER).encode() + b"\0" + noise + b"\0"
    installed = replace_prefix(packaged, "binary", PLACEHOLDER, "/home/me/envs/hep")
    assert conda._widened(installed, "/home/me/envs/hep", PLACEHOLDER) == packaged


def test_what_the_installer_has_not_written_stays() -> None:
    data = b"\0/home/me/envs/hep/lib\0and more\0"
    assert conda._widened(data, "/home/me/envs/hep", PLACEHOLDER) == data
