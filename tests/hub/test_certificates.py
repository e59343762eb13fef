"""Ranks and hubs that identify each other by certificates."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import threading
import time
from array import array

import pytest

from syncline import SynclineError
from syncline.hub import Hub, Service, status
from syncline.hub.certificates import make
from syncline.runtime import Certificates, Communicator, Security, TimeLimits, renewal
from tests.hub.test_cli import run, served
from tests.options import of_rank
from tests.runtime.jobs import free_port


@pytest.fixture(scope="module")
def certs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("job") / "certs"
    make(folder)
    return folder


def why(call, *arguments, exit_status=2, **named):
    with pytest.raises(SynclineError) as caught:
        call(*arguments, **named)
    assert caught.value.exit_status == exit_status, caught.value
    text = str(caught.value)
    assert "PRIVATE" not in text
    return text


def both(act, *ranks):
    """Runs ``act`` for all ranks at the same time, and returns their results or errors."""
    found = {}

    def one(rank):
        try:
            found[rank] = act(rank)
        except SynclineError as error:
            found[rank] = error

    threads = [threading.Thread(target=one, args=(rank,), daemon=True) for rank in ranks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    return [found[rank] for rank in ranks]


def test_ranks_exchange_with_a_hub_over_tls(certs):
    with Service(port=0, security=Security(tls=certs)) as service:
        address = service.addresses[0]

        def rank(number):
            vector = array("f", [1.0 + number]) * 500_000
            with Hub.join(
                address,
                {"w": vector},
                rank=number,
                world=2,
                security=Security(tls=str(certs)),
                limits=TimeLimits(wait_s=10),
            ) as hub:
                hub.push_pull("w", vector).wait()
            return set(vector)

        assert both(rank, 0, 1) == [{1.5}, {1.5}]
        assert status(address, security=Security(tls=certs))["cores"] > 0
        text = why(status, address, wait_s=2, exit_status=6)
        assert "speaks TLS: use certificates everywhere, or nowhere" in text


def test_collectives_run_over_tls(certs):
    port = free_port()

    def rank(number):
        buffer = array("f", [1.0 + number]) * 1_000_000
        options = of_rank(tls=certs, shared_memory=False, wait_s=10)
        with Communicator.join(number, 2, f"127.0.0.1:{port}", **options) as ranks:
            ranks.all_reduce(buffer).wait()
            return set(buffer), ranks.transports

    assert both(rank, 0, 1) == [({3.0}, {1: "TLS"}), ({3.0}, {0: "TLS"})]


def test_certificates_of_another_ca_are_refused(certs, tmp_path):
    make(tmp_path / "theirs")
    with Service(port=0, security=Security(tls=certs)) as service:
        text = why(
            Hub.join,
            service.addresses[0],
            {"w": ("f32", 8)},
            rank=0,
            world=1,
            exit_status=6,
            security=Security(tls=tmp_path / "theirs"),
        )
    assert "shows a certificate issued by a different CA" in text


def test_beyond_this_machine_certificates_replace_a_key(certs):
    text = why(Service, ["10.254.253.252"], port=0)
    assert "give all certificates of one CA (`tls`, --tls) or the same key (`key_file`, --key-file)" in text
    # With certificates, the only error left is that this machine does not have the address.
    assert "cannot listen" in why(Service, ["10.254.253.252"], port=0, exit_status=6, security=Security(tls=certs))


def test_unusable_files_are_refused(certs, tmp_path):
    make(tmp_path / "a")
    assert "not a folder" in why(Service, port=0, security=Security(tls=tmp_path / "none"))
    mixed = Certificates(certs / "ca.pem", tmp_path / "a" / "hub.pem", tmp_path / "a" / "hub.key")
    assert "a/hub.pem: was issued by another CA" in why(Service, port=0, security=Security(tls=mixed))
    mixed = Certificates(certs / "ca.pem", certs / "hub.pem", tmp_path / "a" / "hub.key")
    assert "a/hub.key: is not the key of the certificate" in why(Service, port=0, security=Security(tls=mixed))
    (tmp_path / "a" / "hub.key").chmod(0o640)
    assert "others may read the key" in why(Service, port=0, security=Security(tls=tmp_path / "a"))
    (tmp_path / "a" / "hub.pem").unlink()
    assert "hub.pem: No such file" in why(Service, port=0, security=Security(tls=tmp_path / "a"))
    key = tmp_path / "key"
    key.write_bytes(bytes(32))
    key.chmod(0o600)
    assert "certificates and a key are both given" in why(Service, port=0, security=Security(tls=certs, key_file=key))


def test_each_rank_may_have_its_own_certificate(tmp_path):
    made = make(tmp_path / "certs", job="mine", ranks=2)
    assert made.ranks["rank 1"] == ["ca.pem", "rank-1.pem", "rank-1.key"]
    assert not (tmp_path / "certs" / "rank.pem").exists()
    port = free_port()

    def rank(number):
        options = of_rank(tls=tmp_path / "certs", job="mine", wait_s=10)
        with Communicator.join(number, 2, f"127.0.0.1:{port}", **options) as ranks:
            ranks.barrier().wait()
            return True

    assert both(rank, 0, 1) == [True, True]
    with Service(port=0, security=Security(tls=tmp_path / "certs")) as service:
        keys = {"w": ("f32", 8)}
        text = why(
            Hub.join,
            service.addresses[0],
            keys,
            rank=0,
            world=1,
            job="other",
            exit_status=6,
            security=Security(tls=tmp_path / "certs"),
        )
    assert "the certificate is for job `mine`, and this is job `other`" in text


def test_the_command_makes_certificates_and_replaces_none(tmp_path):
    folder = tmp_path / "certs"
    assert "certificates valid until 2" in run("certs", str(folder)).stdout
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert sorted(before) == ["ca.pem", "hub.key", "hub.pem", "rank.key", "rank.pem"]
    assert {stat.S_IMODE((folder / name).stat().st_mode) for name in ("hub.key", "rank.key")} == {0o600}
    refused = run("certs", str(folder), status=2).stderr
    assert "the folder has certificates already" in refused and "--force" in refused
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    made = json.loads(run("certs", str(folder), "--force", "--ranks", "2", "--days", "1", "--json").stdout)
    assert made["certificates"]["ranks"]["rank 0"] == ["ca.pem", "rank-0.pem", "rank-0.key"]
    assert not (folder / "rank.key").exists()
    assert "cannot be in a certificate" in run("certs", str(tmp_path / "b"), "--job", "My Job", status=2).stderr
    (tmp_path / "file").touch()
    assert "cannot be written" in run("certs", str(tmp_path / "file" / "b"), status=2).stderr


def test_commands_reach_a_hub_with_certificates(certs):
    with served("--cores", "1", "--tls", str(certs)) as (_, address):
        assert "1 core," in run("status", address, "--tls", str(certs)).stdout
        assert (
            "2 ranks exchange"
            in run("bench", address, "--world", "2", "--size", "1MB", "--steps", "2", "--tls", str(certs)).stdout
        )
        found = json.loads(run("doctor", address, "--tls", str(certs), "--json").stdout)["findings"]
        rows = {row["what"]: row for row in found}
        assert rows["certificate hub"]["state"] == "ok" and rows["certificate hub"]["detail"].startswith(
            "for hub; ends"
        )
        assert rows[f"hub {address}"]["state"] == "ok"
        assert "speaks TLS" in run("status", address, status=6).stderr


def test_doctor_warns_of_certificates_that_expire_soon(tmp_path):
    make(tmp_path / "certs", days=1)
    found = json.loads(run("doctor", "--tls", str(tmp_path / "certs"), "--json", "--port", str(free_port())).stdout)
    rows = {row["what"]: row for row in found["findings"]}
    assert rows["certificate rank"]["state"] == "poor"
    assert rows["certificate rank"]["detail"].endswith("UTC, within 3 days")


def test_the_lines_of_the_guides_work(tmp_path):
    """Runs the lines of both guides: ``syncline hub certs certs``, and then ``tls="certs"`` in the same folder."""
    subprocess.run([sys.executable, "-m", "syncline", "hub", "certs", "certs"], cwd=tmp_path, check=True, timeout=60)
    program = (
        "from syncline.runtime import Communicator, Security\n"
        "with Communicator.join(security=Security(tls='certs')) as r: r.barrier().wait()\n"
    )
    port = free_port()
    environment = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": f"127.0.0.1:{port}"}
    ranks = [
        subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, env={**environment, "RANK": str(rank)})
        for rank in range(2)
    ]
    assert [rank.wait(timeout=60) for rank in ranks] == [0, 0]


def test_certificates_are_renewed_while_a_job_runs(tmp_path):
    folder = tmp_path / "certs"
    make(folder)
    keys = {"w": ("f32", 1000)}
    old = tmp_path / "old"
    shutil.copytree(folder, old)
    with served("--cores", "1", "--tls", str(folder)) as (process, address):

        def join(tls, name):
            limits = TimeLimits(wait_s=10.0)
            return Hub.join(address, keys, rank=0, world=1, job=name, security=Security(tls=tls), limits=limits)

        with join(folder, "before") as hub:
            hub.push_pull("w", array("f", [1.0]) * 1000).wait()
            make(folder, force=True)
            process.send_signal(signal.SIGHUP)
            until = time.monotonic() + 30
            while True:
                try:
                    status(address, security=Security(tls=folder), wait_s=0.2)
                    break
                except SynclineError:
                    assert time.monotonic() < until
            # The connections that began with the old certificates go on; new ones need the new CA.
            assert hub.push_pull("w", array("f", [1.0]) * 1000).wait()
            with join(folder, "after") as other:
                assert other.push_pull("w", array("f", [1.0]) * 1000).wait()
            text = why(status, address, exit_status=6, security=Security(tls=old), wait_s=1.0)
            assert "issued by a different CA" in text


def test_new_certificates_that_cannot_be_used_are_not_taken_over(tmp_path):
    make(tmp_path, force=True)
    files = Certificates.of(tmp_path, ("rank",))
    watched = renewal.Watched(files.files, files.read)
    used = watched.certificates
    ends = used.ends
    (tmp_path / "rank.pem").write_text("garbage")
    with pytest.warns(RuntimeWarning, match=r"the old ones stay until they expire: .*rank\.pem") as warned:
        for _ in range(10):
            watched.look()
    assert (used.ends, len(warned)) == (ends, 1)
    make(tmp_path, days=90, force=True)
    watched.look()
    assert used.ends > ends
    # Certificates for another job are not for this one; what joins from now on gets them.
    make(tmp_path, job="other", days=200, force=True)
    with pytest.warns(RuntimeWarning, match="not for the same hub or rank, and job"):
        for _ in range(10):
            watched.look()
    assert "job other" in Security(tls=tmp_path).secret(("rank",)).names and "job other" not in used.names


def test_ranks_can_join_while_files_are_replaced_one_after_the_other(tmp_path, monkeypatch):
    folder, new = tmp_path / "certs", tmp_path / "new"
    make(folder)
    make(new, days=90)
    used = Security(tls=folder).secret(("rank",))
    ends = used.ends
    # The certificate is new, and its key and its CA are still the old ones.
    shutil.copy(new / "rank.pem", folder / "rank.pem")
    assert Security(tls=folder).secret(("rank",)) is used
    assert used.ends == ends
    # Files that stay like that are an error.
    monkeypatch.setattr(renewal, "SETTLED_S", 0.0)
    assert "was issued by another CA" in why(Security(tls=folder).secret, ("rank",))
    monkeypatch.undo()
    for name in ("ca.pem", "rank.key"):
        shutil.copy(new / name, folder / name)
    assert Security(tls=folder).secret(("rank",)) is used
    assert used.ends > ends


def test_files_that_were_put_back_can_fail_and_be_reported_again(tmp_path):
    make(tmp_path, force=True)
    files = Certificates.of(tmp_path, ("rank",))
    watched = renewal.Watched(files.files, files.read)
    for _ in range(2):
        (tmp_path / "rank.pem").rename(tmp_path / "away.pem")
        with pytest.warns(RuntimeWarning, match=r"the old ones stay until they expire: .*rank\.pem"):
            for _ in range(10):
                watched.look()
        (tmp_path / "away.pem").rename(tmp_path / "rank.pem")
        watched.look()


def test_certificates_are_renewed_although_warnings_are_errors(tmp_path):
    folder = tmp_path / "certs"
    make(folder)
    program = f"""
import time
from pathlib import Path
from syncline.hub.certificates import make
from syncline.runtime import Security, renewal
renewal.POLL_S, renewal.SETTLED_S = 0.02, 0.04
used = Security(tls={str(folder)!r}).secret(("rank",))
ends = used.ends
Path({str(folder / "rank.pem")!r}).write_text("garbage")
time.sleep(0.5)
make({str(folder)!r}, days=90, force=True)
until = time.monotonic() + 20
while used.ends == ends and time.monotonic() < until:
    time.sleep(0.02)
print("renewed" if used.ends > ends else "not renewed")
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "renewed\n", done
    assert done.stderr.count("the old ones stay until they expire") == 1, done.stderr


def test_a_forked_child_can_use_certificates_while_its_parent_looks_at_them(tmp_path):
    make(tmp_path, force=True)
    Security(tls=tmp_path).secret(("rank",))
    with renewal._lock:
        child = os.fork()
        if child == 0:
            try:
                signal.alarm(20)
                Security(tls=tmp_path).secret(("rank",))
                os._exit(0)
            finally:
                os._exit(1)
    assert os.waitpid(child, 0)[1] == 0
