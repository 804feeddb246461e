"""The page as a server shows it: to who knows its address, and nothing else of the folder."""

from __future__ import annotations

import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fasthep_smk.report.watch import Server
from fasthep_smk.storage import layout
from tests.support import tables

SECRET = "Bearer abcdefghijklmnopqrstuvwxyz123456"


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Server]:
    build = tmp_path / "build"
    (build / layout.TASKS).mkdir(parents=True)
    (build / layout.table("r")).write_text(tables.table().to_text())
    (build / "artifacts/plots").mkdir(parents=True)
    (build / "artifacts/plots/a b.svg").write_text("<svg/>")
    (build / "artifacts/page.html").write_text("<script>alert(1)</script>")
    (build / layout.LOGS / "r").mkdir(parents=True)
    (build / layout.LOGS / "r/k.log").write_text(f"{SECRET}\nanother line\n")
    (tmp_path / "outside").write_text("outside")
    (build / "artifacts/link").symlink_to(tmp_path / "outside")
    with Server(build) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(
    served: Server, name: str, *, method: str = "GET", path: str | None = None, **headers: str
) -> tuple[int, str, dict[str, str]]:
    """What is answered for a file of the folder, or for a whole ``path``."""
    connection = http.client.HTTPConnection("127.0.0.1", served.server_port, timeout=10)
    top = "/" + served.url.split("/", 3)[3]
    connection.request(method, top + name if path is None else path, headers=headers)
    answer = connection.getresponse()
    return answer.status, answer.read().decode(), dict(answer.headers)


def test_the_page_is_there_for_who_knows_its_address(served: Server) -> None:
    assert served.server_address[0] == "127.0.0.1"
    status, text, headers = ask(served, "")
    assert status == 200
    assert "<title>" in text and text.endswith("</html>\n")
    assert headers["Content-Type"] == "text/html; charset=utf-8"
    assert headers["Cache-Control"] == "no-store"
    assert ask(served, "", method="HEAD")[:2] == (200, "")


@pytest.mark.parametrize("path", ["/", "/x/", "/report.html", "//artifacts/plots/a%20b.svg"])
def test_who_does_not_know_it_gets_nothing(served: Server, path: str) -> None:
    assert ask(served, "", path=path)[:2] == (
        403, "not for you: use the address that was printed\n",
    )  # fmt: skip


def test_a_page_of_another_host_gets_nothing(served: Server) -> None:
    """Its name may point to this machine."""
    for host in (
        "evil.example",
        f"evil.example:{served.server_port}",
        "127.0.0.1.evil.example",
        "",
    ):
        assert ask(served, "", Host=host)[0] == 403, host
    for host in ("localhost", "localhost:1234", f"127.0.0.1:{served.server_port}"):
        assert ask(served, "", Host=host)[0] == 200, host


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_nothing_can_be_changed(served: Server, method: str) -> None:
    assert ask(served, "", method=method)[0] == 501


def test_results_are_there_and_run_nothing(served: Server) -> None:
    status, text, headers = ask(served, "artifacts/plots/a%20b.svg")
    assert (status, text, headers["Content-Type"]) == (200, "<svg/>", "image/svg+xml")
    assert "sandbox" in headers["Content-Security-Policy"]
    assert ask(served, "artifacts/page.html")[2]["Content-Type"] == "application/octet-stream"


@pytest.mark.parametrize(
    "name",
    [
        "smk/tasks/r.json", "artifacts/../smk/tasks/r.json", "artifacts/link", "../outside",
        "%2e%2e/outside", "artifacts", "artifacts/%00", "/etc/passwd", "artifacts/none",
    ],
)  # fmt: skip
def test_nothing_else_is_there(served: Server, name: str) -> None:
    assert ask(served, name)[:2] == (404, "there is no such result or log\n")


def test_logs_hold_no_secret(served: Server) -> None:
    status, text, headers = ask(served, f"{layout.LOGS}/r/k.log")
    assert (status, headers["Content-Type"]) == (200, "text/plain; charset=utf-8")
    assert "another line" in text
    assert "abcdefghijklmnop" not in text


def test_tables_that_cannot_be_read_are_told(served: Server, tmp_path: Path) -> None:
    (tmp_path / "build" / layout.table("r")).write_text("nonsense")
    status, text, _ = ask(served, "")
    assert status == 503
    assert "this task table cannot be read" in text


def test_what_is_no_address_is_refused_in_silence(
    served: Server, capfd: pytest.CaptureFixture[str]
) -> None:
    with socket.create_connection(("127.0.0.1", served.server_port), timeout=10) as connection:
        connection.sendall(b"GET http://[/ HTTP/1.1\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.0 400 ")
    assert capfd.readouterr() == ("", "")
