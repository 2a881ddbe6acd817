"""Platform settings are closed, literal and merge deep; a volume keeps exactly what lies below it (DAG-21, DAG-22)."""

from __future__ import annotations

from typing import Any

import pytest

from dpone_core.contracts.platform import PlatformSettings
from dpone_core.errors import ETLConfigurationError

CLAIM = {"name": "a", "persistent_volume_claim": "claim", "mounts": [{"path": "/data"}]}


def test_an_override_in_code_merges_mappings_and_replaces_lists_and_values() -> None:
    base = PlatformSettings.of(
        {"namespace": "a", "labels": {"x": "1", "y": "1"}, "tolerations": [{"operator": "Exists"}], "pool": "p"}
    )
    merged = base.merge_overrides(PlatformSettings.of({"namespace": "b", "labels": {"y": "2"}, "tolerations": []}))
    assert (merged.namespace, merged.labels, merged.tolerations, merged.pool) == ("b", {"x": "1", "y": "2"}, (), "p")


def test_an_override_can_set_a_default_again() -> None:
    base = PlatformSettings.of({"deferrable": True, "startup_timeout_seconds": 60})
    merged = base.merge_overrides(PlatformSettings.of({"deferrable": False}))
    assert (merged.deferrable, merged.startup_timeout_seconds) == (False, 60)


def test_no_override_changes_nothing() -> None:
    base = PlatformSettings.of({"namespace": "a"})
    assert base.merge_overrides(PlatformSettings.of(None)) is base


@pytest.mark.parametrize(
    ("path", "kept"),
    [("/data", True), ("/data/x", True), ("/data/", True), ("/database", False), ("/", False), ("/data/../x", False)],
)
def test_a_volume_keeps_what_lies_below_its_mount(path: str, kept: bool) -> None:
    assert PlatformSettings.of({"volumes": [CLAIM]}).is_durable_path(path) is kept


def test_a_pod_sees_the_bundle_and_every_volume() -> None:
    settings = PlatformSettings.of({"volumes": [{"name": "c", "config_map": "c", "mounts": [{"path": "/conf"}]}]})
    assert (
        settings.is_readable_path("/opt/dpone/bundle/shop.db")
        and settings.is_readable_path("/conf/a")
        and not settings.is_readable_path("/tmp/a")
    )
    assert not settings.is_durable_path("/conf/a")


@pytest.mark.parametrize(
    "given",
    [
        {"env": {"DB_PASSWORD": "x"}},
        {"env": {"URL": "https://user:pw@host"}},
        {"annotations": {"example.com/token": "abcdef"}},
        {"kubernetes_pod_operator": {"trigger_kwargs": {"password": "x"}}},
    ],
)
def test_a_literal_that_looks_like_a_secret_is_refused_in_code_too_and_not_shown(given: dict[str, Any]) -> None:
    with pytest.raises(ETLConfigurationError) as caught:
        PlatformSettings.of(given)
    assert caught.value.code == "DPONE_PLATFORM_INVALID" and "looks like a secret" in caught.value.message
    assert "pw@" not in str(caught.value) and "abcdef" not in str(caught.value)


def test_a_reference_to_a_secret_is_no_secret() -> None:
    further = {"env_from": [{"secretRef": {"name": "dpone-settings"}}], "init_containers": [{"name": "a"}]}
    assert PlatformSettings.of({"kubernetes_pod_operator": further}).kubernetes_pod_operator == further


def test_an_argument_that_the_operator_does_not_have_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ETLConfigurationError) as caught:
        PlatformSettings.of({"kubernetes_pod_operator": {"init_container": []}})
    assert "KubernetesPodOperator has no argument 'init_container', did you mean 'init_containers'?" in str(
        caught.value
    )


def test_containers_beside_the_step_are_named_and_a_native_sidecar_is_none_of_them() -> None:
    template = {"spec": {"containers": [{"name": "base"}, {"name": "proxy"}], "initContainers": [{"name": "sidecar"}]}}
    settings = PlatformSettings.of({"kubernetes_pod_operator": {"pod_template_dict": template}})
    assert settings.second_containers == ("proxy",) and PlatformSettings.of(None).second_containers == ()


@pytest.mark.parametrize(
    "volume", [{}, {"nfs": {"server": "s", "path": "/x"}, "empty_dir": {}}, {"projected": [{}]}, {"csi": {}}]
)
def test_a_volume_is_of_exactly_one_complete_kind(volume: dict[str, Any]) -> None:
    with pytest.raises(ETLConfigurationError):
        PlatformSettings.of({"volumes": [{"name": "v", "mounts": [{"path": "/v"}], **volume}]})


def test_a_file_server_s_directory_keeps_what_is_written_there() -> None:
    share = {"name": "v", "mounts": [{"path": "/v"}], "nfs": {"server": "s", "path": "/x"}}
    assert PlatformSettings.of({"volumes": [share]}).is_durable_path("/v/a")
    read_only = {**share, "nfs": {"server": "s", "path": "/x", "read_only": True}}
    assert not PlatformSettings.of({"volumes": [read_only]}).is_durable_path("/v/a")
