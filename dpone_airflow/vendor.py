"""Turns pure pod arguments into keyword arguments of the installed KubernetesPodOperator, with Kubernetes' own types.

The only wiring module that imports vendors, and only when a task is made. Contract: POD-15.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from dpone_airflow.pod_args import ProcessPods
from dpone_airflow.provider_floor import require_supported
from dpone_core.contracts.platform import PlatformSettings
from dpone_core.contracts.pod_parts import PLATFORM_INVALID, Projection, Resources, Volume
from dpone_core.contracts.run_spec import RunSpecStep
from dpone_core.contracts.wire import Contract
from dpone_core.errors import ETLConfigurationError


class PodOperatorArguments:
    """Builds the keyword arguments of the operators of one process; what its pods share is built once.

    Raises ETLConfigurationError when the platform names an argument that the installed operator does not have.
    """

    def __init__(self, pods: ProcessPods) -> None:
        require_supported()
        from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator
        from airflow.providers.cncf.kubernetes.secret import Secret

        settings = pods.platform
        unknown = sorted(set(settings.kubernetes_pod_operator) - parameters_of(KubernetesPodOperator))
        if unknown:
            raise ETLConfigurationError(
                f"platform kubernetes_pod_operator: the installed operator has no argument {', '.join(unknown)}",
                code=PLATFORM_INVALID,
                fix="correct the name, or install a provider that has it",
            )
        self._pods = pods
        self._secret = Secret
        self._shared = {
            **pods.shared,
            **select_supported(KubernetesPodOperator, pods.optional),
            **_pod_parts(settings),
            "retry_delay": timedelta(seconds=settings.retry_delay_seconds),
        }

    def of(self, step: RunSpecStep, task_ids: Mapping[str, str]) -> dict[str, Any]:
        """All keyword arguments of a step; what the installed operator does not know is left out."""
        made = self._pods.arguments(step, task_ids=task_ids)
        return {
            **self._shared,
            **made.operator,
            "secrets": [self._secret("env", one.name, one.secret, one.key) for one in made.secret_env],
            "execution_timeout": timedelta(seconds=made.execution_timeout_seconds),
            **({} if made.resources is None else {"container_resources": _resources(made.resources)}),
        }


def select_supported(callee: Any, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that the installed callee knows."""
    known = parameters_of(callee)
    return {name: value for name, value in arguments.items() if name in known}


@cache
def parameters_of(callee: Any) -> frozenset[str]:
    """Names of the parameters of a class."""
    return frozenset(inspect.signature(callee.__init__).parameters)


def _pod_parts(settings: PlatformSettings) -> dict[str, Any]:
    """Kubernetes objects of the settings that are set; pod template and Airflow connection decide all others."""
    from kubernetes.client import models as k8s

    parts: dict[str, Any] = {}
    if settings.image_pull_secrets:
        parts["image_pull_secrets"] = [k8s.V1LocalObjectReference(name=name) for name in settings.image_pull_secrets]
    if settings.resources is not None:
        parts["container_resources"] = _resources(settings.resources)
    if settings.tolerations:
        parts["tolerations"] = [k8s.V1Toleration(**_set_fields(one)) for one in settings.tolerations]
    if settings.affinity:
        parts["affinity"] = dict(settings.affinity)
    if settings.security_context is not None:
        parts["security_context"] = k8s.V1PodSecurityContext(**_security_fields(k8s, settings.security_context))
    if settings.container_security_context is not None:
        of_container = k8s.V1SecurityContext(**_security_fields(k8s, settings.container_security_context))
        parts["container_security_context"] = of_container
        parts["xcom_sidecar_container_security_context"] = of_container
    if settings.volumes:
        parts["volumes"] = [_volume(k8s, volume) for volume in settings.volumes]
        parts["volume_mounts"] = [
            k8s.V1VolumeMount(
                name=volume.name, mount_path=mount.path, sub_path=mount.sub_path, read_only=mount.read_only or None
            )
            for volume in settings.volumes
            for mount in volume.mounts
        ]
    return parts


def _resources(resources: Resources) -> Any:
    from kubernetes.client import models as k8s

    return k8s.V1ResourceRequirements(requests=resources.requests or None, limits=resources.limits or None)


def _security_fields(k8s: Any, section: Contract) -> dict[str, Any]:
    fields = _set_fields(section)
    if "seccomp_profile" in fields:
        fields["seccomp_profile"] = k8s.V1SeccompProfile(**fields["seccomp_profile"])
    if "capabilities" in fields:
        fields["capabilities"] = k8s.V1Capabilities(**fields["capabilities"])
    return fields


def _volume(k8s: Any, volume: Volume) -> Any:
    if volume.persistent_volume_claim is not None:
        claim = k8s.V1PersistentVolumeClaimVolumeSource(claim_name=volume.persistent_volume_claim)
        return k8s.V1Volume(name=volume.name, persistent_volume_claim=claim)
    if volume.config_map is not None:
        return k8s.V1Volume(name=volume.name, config_map=k8s.V1ConfigMapVolumeSource(name=volume.config_map))
    if volume.secret is not None:
        return k8s.V1Volume(name=volume.name, secret=k8s.V1SecretVolumeSource(secret_name=volume.secret))
    if volume.nfs is not None:
        return k8s.V1Volume(name=volume.name, nfs=k8s.V1NFSVolumeSource(**_set_fields(volume.nfs)))
    if volume.csi is not None:
        return k8s.V1Volume(name=volume.name, csi=k8s.V1CSIVolumeSource(**_set_fields(volume.csi)))
    if volume.projected:
        sources = [_projection(k8s, source) for source in volume.projected]
        return k8s.V1Volume(name=volume.name, projected=k8s.V1ProjectedVolumeSource(sources=sources))
    empty = _set_fields(volume.empty_dir) if volume.empty_dir is not None else {}
    return k8s.V1Volume(name=volume.name, empty_dir=k8s.V1EmptyDirVolumeSource(**empty))


def _projection(k8s: Any, source: Projection) -> Any:
    if source.secret is not None:
        return k8s.V1VolumeProjection(secret=k8s.V1SecretProjection(name=source.secret))
    if source.config_map is not None:
        return k8s.V1VolumeProjection(config_map=k8s.V1ConfigMapProjection(name=source.config_map))
    assert source.service_account_token is not None  # exactly one is given
    token = k8s.V1ServiceAccountTokenProjection(**_set_fields(source.service_account_token))
    return k8s.V1VolumeProjection(service_account_token=token)


def _set_fields(section: Contract) -> dict[str, Any]:
    return section.model_dump(mode="json", exclude_defaults=True)
