"""Where the kinds that make pods keep their templates, and how many pods they make."""

from typing import Any

import pytest

from quotas.domain.admission.pod_fields import PodInvalidError
from quotas.domain.admission.workload_templates import KINDS, TEMPLATES_MAX, templates_of
from tests.support.quotas.reviews import job

JSON = dict[str, Any]
POD: JSON = {"spec": {"containers": []}}


@pytest.mark.parametrize(
    ("group", "kind", "obj", "found"),
    [
        ("batch", "Job", {"spec": {"parallelism": 3, "template": POD}}, [("spec/template", 3)]),
        (
            "batch",
            "CronJob",
            {"spec": {"jobTemplate": {"spec": {"parallelism": 2, "template": POD}}}},
            [("spec/jobTemplate/spec/template", 2)],
        ),
        ("apps", "Deployment", {"spec": {"replicas": 0, "template": POD}}, [("spec/template", 0)]),
        ("apps", "StatefulSet", {"spec": {"template": POD}}, [("spec/template", 1)]),
        ("apps", "ReplicaSet", {"spec": {"template": POD}}, [("spec/template", 1)]),
        ("apps", "DaemonSet", {"spec": {"template": POD}}, [("spec/template", 1)]),
        (
            "",
            "ReplicationController",
            {"spec": {"replicas": 2, "template": POD}},
            [("spec/template", 2)],
        ),
        ("kubeflow.org", "Notebook", {"spec": {"template": POD}}, [("spec/template", 1)]),
        (
            "kubeflow.org",
            "PyTorchJob",
            {
                "spec": {
                    "pytorchReplicaSpecs": {
                        "Master": {"replicas": 1, "template": POD},
                        "Worker": {"replicas": 7, "template": POD},
                    }
                }
            },
            [
                ("spec/pytorchReplicaSpecs/Master/template", 1),
                ("spec/pytorchReplicaSpecs/Worker/template", 7),
            ],
        ),
        (
            "kubeflow.org",
            "MPIJob",
            {"spec": {"mpiReplicaSpecs": {"Worker": {"replicas": 4, "template": POD}}}},
            [("spec/mpiReplicaSpecs/Worker/template", 4)],
        ),
        (
            "ray.io",
            "RayCluster",
            {
                "spec": {
                    "headGroupSpec": {"template": POD},
                    "workerGroupSpecs": [{"template": POD}, {"replicas": 5, "template": POD}],
                }
            },
            [
                ("spec/headGroupSpec/template", 1),
                ("spec/workerGroupSpecs/0/template", 1),
                ("spec/workerGroupSpecs/1/template", 5),
            ],
        ),
        (
            "ray.io",
            "RayJob",
            {"spec": {"rayClusterSpec": {"headGroupSpec": {"template": POD}}}},
            [("spec/rayClusterSpec/headGroupSpec/template", 1)],
        ),
        (
            "jobset.x-k8s.io",
            "JobSet",
            {
                "spec": {
                    "replicatedJobs": [{"replicas": 2, "template": {"spec": {"template": POD}}}]
                }
            },
            [("spec/replicatedJobs/0/template/spec/template", 2)],
        ),
        ("example.com", "Deployment", {"spec": {"template": POD}}, []),
        ("batch", "Job", {}, []),
        ("batch", "Job", {"spec": None}, []),
        ("ray.io", "RayCluster", {"spec": {"workerGroupSpecs": "none"}}, []),
    ],
    ids=str,
)
def test_templates_are_found(
    group: str, kind: str, obj: JSON, found: list[tuple[str, int]]
) -> None:
    templates = templates_of(group, kind, obj)

    assert [("/".join(one.path), one.replicas) for one in templates] == found
    assert all(one.pod == POD for one in templates)


@pytest.mark.parametrize("odd", [-1, "3", None, True, 1.5])
def test_a_number_of_pods_that_is_none_counts_as_one(odd: object) -> None:
    (template,) = templates_of("batch", "Job", {"spec": {"parallelism": odd, "template": POD}})

    assert template.replicas == 1


def test_a_template_that_is_no_object_is_refused() -> None:
    with pytest.raises(PodInvalidError):
        templates_of("batch", "Job", {"spec": {"template": "pod"}})


def test_too_many_templates_are_refused() -> None:
    groups = [{"template": POD}] * (TEMPLATES_MAX + 1)

    with pytest.raises(PodInvalidError):
        templates_of("ray.io", "RayCluster", {"spec": {"workerGroupSpecs": groups}})


def test_every_kind_of_the_table_shows_its_replicas_beside_each_path() -> None:
    assert all(len(kind.paths) == len(kind.replicas) for kind in KINDS.values())
    assert {group for group, _ in KINDS} == {kind.group for kind in KINDS.values()}


def test_whatever_kube_system_makes_pods_of_is_stamped() -> None:
    """By kube-controller-manager: its controllers that create pods, or what creates pods."""
    making = {
        ("", "ReplicationController"),
        ("apps", "DaemonSet"),
        ("apps", "Deployment"),
        ("apps", "ReplicaSet"),
        ("apps", "StatefulSet"),
        ("batch", "CronJob"),
        ("batch", "Job"),
    }

    assert making - KINDS.keys() == set()


def test_a_job_of_the_tests_is_one() -> None:
    assert [one.replicas for one in templates_of("batch", "Job", job(parallelism=4))] == [4]
