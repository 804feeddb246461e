"""Servers that a workflow names: those that do not answer are told together, and soon."""

from __future__ import annotations

import http.server
import os
import re
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from fasthep_smk.util.remote import silent_servers
from tests.clusters.conftest import not_had
from tests.integration.conftest import WORKFLOW, Run
from tests.support.programs import program

pytestmark = pytest.mark.integration

#: Seconds within which a command has to say which servers do not answer.
SOON = 30
Server = Callable[..., tuple[int, "subprocess.Popen[bytes]"]]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture
def xrootd(small_files: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Starts real servers of the small files, as nobody."""
    path = program("xrootd", "xrootd-server")
    started: list[subprocess.Popen[bytes]] = []

    def start(more: str = "") -> tuple[int, subprocess.Popen[bytes]]:
        folder, port = tmp_path_factory.mktemp("xrootd"), free_port()
        for one in (folder, small_files, *small_files.iterdir(), *small_files.parents[:-2]):
            one.chmod(one.stat().st_mode | 0o555)
        folder.chmod(0o777)
        (folder / "config").write_text(
            f"all.export /\noss.localroot {small_files}\nxrd.port {port}\n"
            f"all.adminpath {folder}\nall.pidpath {folder}\n{more}"
        )
        user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        words = [path, "-c", str(folder / "config"), "-l", str(folder / "log"), "-n", folder.name]
        user = user if os.geteuid() == 0 else []
        started.append(subprocess.Popen([*user, *words], cwd=folder))
        end = time.monotonic() + 20
        while not answers(port):
            if time.monotonic() > end:
                logs = [log.read_text() for log in folder.rglob("log")]
                not_had("xrootd", "\n".join(logs)[-2000:])
            time.sleep(0.1)
        return port, started[-1]

    yield start
    for one in started:
        one.kill()
        one.wait()


def answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


@pytest.fixture
def silent() -> Iterator[int]:
    """The port of a server that takes connections, and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield int(listening.getsockname()[1])


@pytest.fixture
def full() -> Iterator[int]:
    """The port of a server that has no room for more connections: packets to it are dropped."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listening, ExitStack() as held:
        for _ in range(4):
            client = held.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(listening.getsockname())
        yield int(listening.getsockname()[1])


@pytest.fixture
def slow() -> Iterator[Callable[[int], int]]:
    """Starts servers that are another one, five seconds later."""
    listening: list[socket.socket] = []

    def copy(one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)

    def serve(client: socket.socket, port: int) -> None:
        time.sleep(5)
        server = socket.create_connection(("127.0.0.1", port))
        threading.Thread(target=copy, args=(server, client), daemon=True).start()
        copy(client, server)

    def start(port: int) -> int:
        listening.append(socket.create_server(("127.0.0.1", 0)))

        def take(one: socket.socket) -> None:
            while True:
                client, _ = one.accept()
                threading.Thread(target=serve, args=(client, port), daemon=True).start()

        threading.Thread(target=take, args=listening[-1:], daemon=True).start()
        return int(listening[-1].getsockname()[1])

    yield start
    for one in listening:
        one.close()


def write(folder: Path, files: dict[str, list[str]], **more: Any) -> None:
    document = yaml.safe_load(WORKFLOW)
    document["data"]["datasets"] = [
        {"name": name, "files": listed, **more} for name, listed in files.items()
    ]
    (folder / "workflow.yaml").write_text(yaml.safe_dump(document))


@pytest.mark.parametrize("more", [{}, {"nevents": 80}], ids=["opened to compile", "read by jobs"])
def test_all_that_do_not_answer_are_named_together(
    tmp_path: Path, smk: Run, xrootd: Server, silent: int, full: int, more: dict[str, Any]
) -> None:
    live, _ = xrootd()
    dead = free_port()
    root = "root://127.0.0.1"
    files = {
        "a": [f"{root}:{dead}//dy_{number}.root" for number in range(3)],
        "b": [f"{root}:{dead}//other.root", f"{root}:{silent}//dy_0.root"],
        "c": ["root://no-such-host.invalid//dy_0.root", f"http://127.0.0.1:{dead}/c.root"],
        "d": [f"http://127.0.0.1:{silent}/d.root", "root://10.255.255.1//dy_0.root"],
        "e": [f"{root}:{full}//dy_0.root"],
        "live": [f"{root}:{live}//dy_0.root"],
    }
    write(tmp_path, files, **more)
    assert smk("--version", cwd=tmp_path).returncode == 0  # the tests' own process has started
    began = time.monotonic()
    done = smk("workflow.yaml", "-j", "2", cwd=tmp_path)
    took = time.monotonic() - began
    assert done.returncode == 1
    told = dict(re.findall(r"(\S+) does not answer: it has (.*)", done.stderr))
    assert told == {
        f"127.0.0.1:{dead}": "5 files of 3 datasets",
        f"127.0.0.1:{silent}": "2 files of 2 datasets",
        "no-such-host.invalid:1094": "1 file of 1 dataset",
        "10.255.255.1:1094": "1 file of 1 dataset",
        f"127.0.0.1:{full}": "1 file of 1 dataset",
    }
    assert "Connection refused" in done.stderr
    assert "Traceback" not in done.stderr
    assert took < SOON


def test_a_server_that_is_slow_or_wants_a_credential_is_not_dead(
    xrootd: Server,
    slow: Callable[[int], int],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    keys = tmp_path / "keys"
    tmp_path.chmod(0o755)
    subprocess.run(
        [program("xrdsssadmin", "xrootd-server"), "-k", "k", "-u", "u", "-g", "g", "add", keys],
        input=b"y\n", check=True, capture_output=True,
    )  # fmt: skip
    os.chown(keys, 65534, 65534)
    live, _ = xrootd()
    closed, _ = xrootd(f"xrootd.seclib libXrdSec.so\nsec.protocol sss -s {keys}\n")
    here = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    threading.Thread(target=here.serve_forever, daemon=True).start()
    ports = [live, closed, slow(live)]
    names = [f"root://me@127.0.0.1:{port}//dy_0.root" for port in ports]
    for port in (here.server_port, slow(here.server_port)):
        names += [f"http://127.0.0.1:{port}/x", f"https://127.0.0.1:{port}/x"]
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_port()}")  # no reader uses it
    try:
        assert silent_servers([f"http://127.0.0.1:{here.server_port}/ü.root"]) == {}
        assert silent_servers(names) == {}
    finally:
        here.shutdown()


def test_a_run_that_needs_no_file_of_a_dead_server_goes_on(
    tmp_path: Path, smk: Run, xrootd: Server
) -> None:
    port, server = xrootd()
    files = {"dy": [f"root://127.0.0.1:{port}//dy_0.root"], "data": ["data_0.root"]}
    write(tmp_path, files, nevents=60)
    (tmp_path / "data_0.root").symlink_to(_small(server) / "data_0.root")
    done = smk("workflow.yaml", "-j", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    server.kill()
    server.wait()
    done = smk("workflow.yaml", "-j", "2", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "everything was up to date" in done.stdout
    assert "does not answer" not in done.stderr


def _small(server: subprocess.Popen[bytes]) -> Path:
    """Return the folder that a server has."""
    words = list(map(str, server.args))  # type: ignore[arg-type]
    return Path(re.findall("localroot (.*)", Path(words[words.index("-c") + 1]).read_text())[0])


@pytest.mark.parametrize("seconds", [1, 9])
def test_who_has_told_xrootd_how_long_to_wait_is_obeyed(
    silent: int, monkeypatch: pytest.MonkeyPatch, seconds: int
) -> None:
    monkeypatch.setenv("XRD_REQUESTTIMEOUT", str(seconds))
    began = time.monotonic()
    assert silent_servers([f"root://127.0.0.1:{silent}//a.root"]) == {
        f"127.0.0.1:{silent}": "no answer in time"
    }
    assert seconds <= time.monotonic() - began < seconds + 5


@pytest.mark.parametrize("seconds", ["0", "9" * 20])
def test_a_time_that_makes_no_sense_is_no_error(
    monkeypatch: pytest.MonkeyPatch, seconds: str
) -> None:
    monkeypatch.setenv("XRD_CONNECTIONWINDOW", seconds)
    name = f"127.0.0.1:{free_port()}"
    assert silent_servers([f"root://{name}//a.root"]) == {name: "Connection refused"}
