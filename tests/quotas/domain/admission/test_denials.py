"""The sentences a person reads when a pod is refused."""

import pytest

from metering.domain.catalogue.units import GPUSize
from quotas.domain.admission import denials
from quotas.domain.admission.values import AdmissionVerdict, Blocker, VerdictCode

PLACE = denials.PodNamespace(
    cluster="hopper",
    namespace="team-llm",
    organization="acme",
    project="llm",
    public_url="https://gpu.example.test",
)
ASK = "ask for quota at https://gpu.example.test/api/v1/quota-requests/"


def blocker(scope: str = "project", holder: str = "llm", **more: object) -> Blocker:
    fields = {"limit_units": 8, "used_units": 6, "reserved_units": 1, "asked_units": 4, **more}
    return Blocker(scope, holder, GPUSize.LARGE, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("verdict", "sentence"),
    [
        (
            AdmissionVerdict(VerdictCode.LIMIT_REACHED, blocker()),
            f"Project llm of acme requests 4 Large, limit 8, used 6, reserved 1: {ASK}.",
        ),
        (
            AdmissionVerdict(
                VerdictCode.LIMIT_REACHED, blocker("organization", "acme", model_group="H100")
            ),
            f"Organization acme requests 4 Large (H100), limit 8, used 6, reserved 1: {ASK}.",
        ),
        (
            AdmissionVerdict(
                VerdictCode.LIMIT_REACHED,
                blocker("user", "alice", cluster="hopper", is_burst=True),
            ),
            (
                "User alice in project llm of acme requests 4 Large (cluster hopper, burst), "
                f"limit 8, used 6, reserved 1: {ASK}."
            ),
        ),
        (
            AdmissionVerdict(VerdictCode.NOTHING_GRANTED, blocker(limit_units=0)),
            f"Project llm of acme is granted no Large, asked 4 Large: {ASK}.",
        ),
        (
            AdmissionVerdict(VerdictCode.ALLOWANCE_USED, blocker()),
            f"Project llm of acme has used its Large unit-hours of this month: {ASK}.",
        ),
        (AdmissionVerdict(VerdictCode.LIMIT_REACHED), f"Refused (limit_reached): {ASK}."),
        (
            AdmissionVerdict(VerdictCode.SUSPENDED, reason="budget exhausted"),
            (
                "Project llm of acme may start nothing new (budget exhausted): what runs stays; "
                "ask an administrator of the organization."
            ),
        ),
        (
            AdmissionVerdict(VerdictCode.SUSPENDED),
            (
                "Project llm of acme may start nothing new: what runs stays; "
                "ask an administrator of the organization."
            ),
        ),
        (
            AdmissionVerdict(VerdictCode.CLOSED),
            (
                "Project llm is closed: nothing starts in it any more, nor in any other project "
                "if all of acme is; ask a platform administrator."
            ),
        ),
        (
            AdmissionVerdict(VerdictCode.REPLAYED_OTHERWISE),
            (
                "This uid was admitted before as another pod, or as one that is over: delete the "
                "pod and create it anew."
            ),
        ),
        (
            AdmissionVerdict(VerdictCode.DEMAND_TOO_LARGE),
            "More than 1000000 devices are counted of no pod: ask for what it needs.",
        ),
        (
            AdmissionVerdict(VerdictCode.NAMESPACE_UNBOUND),
            (
                "Namespace team-llm of cluster hopper belongs to no project: "
                "have a platform administrator bind it."
            ),
        ),
    ],
    ids=[
        *("project", "model", "user", "nothing", "allowance", "bare", "why", "suspended"),
        *("closed", "replayed", "too_large", "unbound"),
    ],
)
def test_a_refusal_names_whose_limit_the_numbers_and_the_remedy(
    verdict: AdmissionVerdict, sentence: str
) -> None:
    assert PLACE.refusal(verdict) == sentence


def test_a_warning_shows_how_near_it_is() -> None:
    reported = PLACE.nearly_full(blocker())

    assert reported == (
        "Project llm of acme nears its Large quota: limit 8, used 6, reserved 1, "
        "and 4 for this pod."
    )


def test_an_unknown_device_is_refused_with_what_there_is() -> None:
    many = [f"nvidia.com/mig-{n}g.10gb" for n in range(1, 10)]

    assert denials.unknown_device("nvidia.com/gpumem", ["b", "a"]) == (
        "nvidia.com/gpumem is a device without a size: have a platform administrator add a rule "
        "to the size catalogue, or ask for one of: a, b."
    )
    assert denials.unknown_device("x", many).count("nvidia.com") == denials.ALTERNATIVES_MAX
    assert denials.unknown_device("x", []).endswith("or ask for what the cluster offers.")


def test_other_refusals_say_what_to_do() -> None:
    assert "request nvidia.com/gpu" in denials.hidden_gpus(["container main sets X"])
    assert "(container main sets X)" in denials.hidden_beside(["container main sets X"])
    assert "alice may not create pods of bob" in denials.forged_owner("bob", "alice")
    assert "no user or controller may set bob" in denials.forged_owner("bob", "")
    assert "lets the pod in" in denials.undecided(is_allowed=True)
    assert "try again" in denials.undecided(is_allowed=False)
    assert "The label team/user of a pod" in denials.label_changed("team/user")
    assert denials.never_fits("Job", GPUSize.LARGE, asked=9, ceiling=8) == (
        "One pod of this Job asks for 9 Large, and the limits in force would allow 8 if nothing "
        "else ran: it could never start. Ask for less, or for a larger quota."
    )
