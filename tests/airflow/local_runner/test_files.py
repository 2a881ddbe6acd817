"""Volumes are at their mount paths in either kind of isolation, and a private root leaves the host's `/` alone."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dpone_airflow.local.fixtures import Fixtures
from dpone_airflow.local.sandbox import Program, RewriteSandbox
from dpone_airflow.local.settings import Isolation
from dpone_airflow.local.volumes import Mount
from tests.airflow.local_runner.kube import NAMESPACE, Kube, shell, until

FIXTURES = Fixtures(secrets={"db": {"uri": "s3cret", "user": "ada"}}, config_maps={"mode": {"level": "info"}})


def mounted(script: str, path: str, **fields: Any) -> dict[str, Any]:
    return shell(script, volumeMounts=[{"name": "v", "mountPath": path, **fields}])


def test_an_empty_directory_is_shared_by_the_containers_of_a_pod(
    start: Callable[..., Kube], isolation: Isolation
) -> None:
    writer = mounted("echo x > /airflow/xcom/f", "/airflow/xcom") | {"name": "writer"}

    kube = start(isolation=isolation)
    kube.run(mounted("cat /else/f", "/else"), initContainers=[writer], volumes=[{"name": "v", "emptyDir": {}}])

    assert kube.log() == "x\n"


def test_an_empty_directory_belongs_to_one_pod(start: Callable[..., Kube], isolation: Isolation) -> None:
    kube = start(isolation=isolation)
    volume = {"volumes": [{"name": "v", "emptyDir": {}}]}
    kube.create(mounted("touch /airflow/xcom/f", "/airflow/xcom"), name="one", **volume)
    kube.wait_for("Succeeded", name="one")

    kube.run(mounted("ls /airflow/xcom", "/airflow/xcom"), **volume)

    assert kube.log() == ""


def test_a_host_path_is_the_hosts(start: Callable[..., Kube], isolation: Isolation, tmp_path: Path) -> None:
    kube = start(isolation=isolation)
    (tmp_path / "in").write_text("from the host")

    kube.run(
        mounted("cat /opt/dpone/x/in; echo y > /opt/dpone/x/out", "/opt/dpone/x"),
        volumes=[{"name": "v", "hostPath": {"path": str(tmp_path)}}],
    )

    assert kube.log() == "from the host\n"
    assert (tmp_path / "out").read_text() == "y\n"


def test_a_host_path_of_the_wrong_type_is_never_mounted(kube: Kube, tmp_path: Path) -> None:
    absent = {"path": str(tmp_path / "absent"), "type": "Directory"}
    kube.create(mounted("true", "/x"), volumes=[{"name": "v", "hostPath": absent}])

    until(lambda: "FailedMount" in [event.reason for event in kube.api.list_namespaced_event(NAMESPACE).items])

    assert (kube.phase(), kube.state().waiting.reason) == ("Pending", "ContainerCreating")


@pytest.mark.parametrize(
    ("volume", "name", "content"),
    [({"secret": {"secretName": "db"}}, "uri", "s3cret"), ({"configMap": {"name": "mode"}}, "level", "info")],
)
def test_secrets_and_config_maps_are_files(
    start: Callable[..., Kube], isolation: Isolation, volume: dict[str, Any], name: str, content: str
) -> None:
    kube = start(isolation=isolation, fixtures=FIXTURES)

    kube.run(mounted(f"cat /etc/dpone/{name}", "/etc/dpone"), volumes=[{"name": "v", **volume}])

    assert kube.log() == content + "\n"


def test_items_choose_and_rename_the_files_of_a_secret(start: Callable[..., Kube]) -> None:
    kube = start(fixtures=FIXTURES)
    secret = {"secretName": "db", "items": [{"key": "user", "path": "sub/name"}]}

    kube.run(mounted("cd /s; find . -type f | sort", "/s"), volumes=[{"name": "v", "secret": secret}])

    assert kube.log() == "./sub/name\n"


def test_a_missing_secret_keeps_the_container_from_starting(kube: Kube) -> None:
    kube.create(mounted("true", "/s"), volumes=[{"name": "v", "secret": {"secretName": "nope"}}])

    messages = until(
        lambda: [e.message for e in kube.api.list_namespaced_event(NAMESPACE).items if e.reason == "FailedMount"]
    )

    assert messages == ['MountVolume.SetUp failed for volume "v" : secret "nope" not found']


def test_a_claim_outlives_its_pods(start: Callable[..., Kube], isolation: Isolation) -> None:
    kube = start(isolation=isolation)
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "state"}}]
    kube.create(mounted("echo kept > /state/f", "/state"), name="one", volumes=volumes)
    kube.wait_for("Succeeded", name="one")

    kube.run(mounted("cat /state/f", "/state"), volumes=volumes)

    assert kube.log() == "kept\n"


def test_a_sub_path_is_a_part_of_its_volume(start: Callable[..., Kube], isolation: Isolation, tmp_path: Path) -> None:
    kube = start(isolation=isolation)

    kube.run(mounted("touch /p/f", "/p", subPath="a/b"), volumes=[{"name": "v", "hostPath": {"path": str(tmp_path)}}])

    assert (tmp_path / "a" / "b" / "f").exists()


def test_a_host_path_that_cannot_be_made_is_never_mounted(kube: Kube, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kube.create(mounted("true", "/x"), volumes=[{"name": "v", "hostPath": {"path": str(tmp_path / "file" / "below")}}])

    until(lambda: "FailedMount" in [event.reason for event in kube.api.list_namespaced_event(NAMESPACE).items])


@pytest.mark.parametrize("path", ["/", "relative"])
def test_a_mount_path_is_absolute_and_below_the_root(kube: Kube, path: str) -> None:
    kube.create(mounted("true", path), volumes=[{"name": "v", "emptyDir": {}}])

    until(lambda: "FailedMount" in [event.reason for event in kube.api.list_namespaced_event(NAMESPACE).items])


@pytest.mark.parametrize("path", ["../up", "/abs"])
def test_a_sub_path_cannot_leave_its_volume(kube: Kube, path: str) -> None:
    kube.create(mounted("true", "/p", subPath=path), volumes=[{"name": "v", "emptyDir": {}}])

    until(lambda: "FailedMount" in [event.reason for event in kube.api.list_namespaced_event(NAMESPACE).items])


def test_a_bundle_is_in_every_container(start: Callable[..., Kube], isolation: Isolation, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    bundle.mkdir()
    (bundle / "flights.yaml").write_text("a manifest")
    kube = start(isolation=isolation, bundles=(Mount(source=bundle, target="/opt/dpone/bundle"),))

    kube.run(shell("cat /opt/dpone/bundle/flights.yaml; pwd", workingDir="/opt/dpone/bundle"))

    assert kube.log().splitlines()[0].startswith("a manifest")
    assert kube.log().splitlines()[-1].endswith("bundle")


def test_a_mount_of_the_container_comes_before_a_bundle(
    start: Callable[..., Kube], mount: Isolation, tmp_path: Path
) -> None:
    (tmp_path / "baked").touch()
    kube = start(isolation=mount, bundles=(Mount(source=tmp_path, target="/opt/dpone/bundle"),))

    kube.run(mounted("ls /opt/dpone/bundle", "/opt/dpone/bundle"), volumes=[{"name": "v"}])

    assert kube.log() == ""


def test_a_bundle_that_is_not_there_refuses_to_start(start: Callable[..., Kube], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="bundle source"):
        start(bundles=(Mount(source=tmp_path / "absent", target="/x"),))


@pytest.mark.parametrize("volume", [{"secret": {"secretName": "db"}}, {"emptyDir": {}}])
def test_read_only_mounts_cannot_be_written(
    start: Callable[..., Kube], mount: Isolation, volume: dict[str, Any]
) -> None:
    kube = start(isolation=mount, fixtures=FIXTURES)

    kube.run(mounted("touch /ro/f", "/ro", readOnly="emptyDir" in volume), volumes=[{"name": "v", **volume}])

    assert "Read-only file system" in kube.log()


def test_a_private_root_writes_nothing_to_the_host(start: Callable[..., Kube], mount: Isolation) -> None:
    kube = start(isolation=mount)
    mounts = [{"name": "v", "mountPath": path} for path in ("/airflow/xcom", "/usr/dpone-new/a", "/etc/dpone-new")]

    kube.run(shell("touch /airflow/xcom/f && ls /usr/dpone-new/a && touch /etc/dpone-new/g; ls -d /usr/bin /etc/passwd",
                   volumeMounts=mounts, workingDir="/srv/dpone-new/w"), volumes=[{"name": "v"}])  # fmt: skip

    assert kube.log().splitlines() == ["f", "/etc/passwd", "/usr/bin"]
    for path in ("/usr/dpone-new", "/etc/dpone-new", "/srv/dpone-new"):
        assert not Path(path).exists()


def test_nested_mounts_do_not_depend_on_their_order(start: Callable[..., Kube], mount: Isolation) -> None:
    kube = start(isolation=mount)
    mounts = [{"name": "inner", "mountPath": "/data/in"}, {"name": "outer", "mountPath": "/data"}]

    kube.run(
        shell("touch /data/o /data/in/i; find /data -type f | sort", volumeMounts=mounts),
        volumes=[{"name": "inner"}, {"name": "outer"}],
    )

    assert kube.log().splitlines() == ["/data/in/i", "/data/o"]


def test_devices_work_in_a_private_root(start: Callable[..., Kube], mount: Isolation) -> None:
    kube = start(isolation=mount)

    kube.run(shell("echo gone > /dev/null; echo out > /dev/stdout; head -c 2 /dev/zero | wc -c; touch /dev/shm/x"))

    assert (kube.phase(), kube.log().split()) == ("Succeeded", ["out", "2"])


def test_a_broken_pipe_ends_a_program_as_it_does_in_a_shell(kube: Kube) -> None:
    kube.run(shell("(yes; echo $? >&2) | head -n 1"))

    assert "Broken pipe" not in kube.log()
    assert "141" in kube.log().split()


@pytest.mark.parametrize("policy", ["File", "FallbackToLogsOnError"])
def test_the_termination_message_is_what_the_container_wrote(
    start: Callable[..., Kube], isolation: Isolation, policy: str
) -> None:
    kube = start(isolation=isolation)

    kube.run(shell("echo log; printf E_QUALITY > /dev/termination-log; exit 2", terminationMessagePolicy=policy))

    assert kube.state().terminated.message == "E_QUALITY"


@pytest.mark.parametrize(
    ("policy", "exit_code", "message"),
    [("FallbackToLogsOnError", 2, "one\ntwo"), ("FallbackToLogsOnError", 0, None), ("File", 2, None)],
)
def test_the_log_is_the_termination_message_only_of_a_failure_and_on_request(
    kube: Kube, policy: str, exit_code: int, message: str | None
) -> None:
    kube.run(shell(f"echo one; echo two; exit {exit_code}", terminationMessagePolicy=policy))

    assert kube.state().terminated.message == message


def test_the_termination_message_has_the_kubelets_limits(kube: Kube) -> None:
    kube.run(shell("head -c 5000 /dev/zero | tr '\\0' x > /dev/termination-log; exit 1"))

    assert len(kube.state().terminated.message) == 4096


def test_rewriting_respects_the_borders_of_paths(tmp_path: Path) -> None:
    mounts = (Mount(source=Path("/host/d"), target="/data"), Mount(source=Path("/host/i"), target="/data/in/"))
    words = ("/data", "--to=/data/x", "file:///data/y", "/my/data", "/data2", "/data/in/z", "a:/data:b")

    launch = RewriteSandbox().enter(
        Program(argv=words, env={"P": "/data/q"}, mounts=mounts, working_directory="/", scratch=tmp_path / "scratch")
    )

    plan = (tmp_path / "scratch" / "plan.json").read_text()
    assert launch.env == {"P": "/host/d/q"}
    expected = '["/host/d", "--to=/host/d/x", "file:///host/d/y", "/my/data", "/data2", "/host/i/z", "a:/host/d:b"]'
    assert expected in plan


UNPRIVILEGED = """
import subprocess, sys, tempfile
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from dpone_airflow.local.sandbox import Program, detect_sandbox
from dpone_airflow.local.settings import Isolation
from dpone_airflow.local.volumes import Mount

with tempfile.TemporaryDirectory() as directory:
    source = Path(directory) / "source"
    source.mkdir()
    (source / "seen").touch()
    mounts = (Mount(source=source, target="/airflow/x"), Mount(source=source, target="/etc/dpone-new", read_only=True))
    command = ("sh", "-c", "ls /airflow/x /etc/dpone-new; touch /airflow/x/more; touch /etc/dpone-new/never")
    sandbox = detect_sandbox(Isolation.AUTO)
    print(sandbox.isolation)
    launch = sandbox.enter(Program(argv=command, env={}, mounts=mounts, working_directory="/srv/dpone-new",
                                   scratch=Path(directory) / "scratch"))
    print(subprocess.run(launch.argv, capture_output=True, text=True).stderr)
    print(sorted(path.name for path in source.iterdir()))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="needs root to become somebody else")
def test_an_unprivileged_user_gets_a_private_root_too() -> None:
    nobody = {"user": 65534, "group": 65534, "extra_groups": (), "cwd": "/", "capture_output": True, "text": True}
    checkout = str(Path(__file__).parents[3])

    try:
        done = subprocess.run(
            ["/usr/bin/python3", "-B", "-c", UNPRIVILEGED, checkout], env={"PATH": "/usr/bin"}, **nobody
        )
    except OSError as error:
        pytest.skip(f"no interpreter that everybody may run: {error}")
    if "mount" not in done.stdout.split("\n")[0]:
        pytest.skip(f"no user namespaces here: {done.stdout}{done.stderr}")

    assert "Read-only file system" in done.stdout
    assert "['more', 'seen']" in done.stdout
