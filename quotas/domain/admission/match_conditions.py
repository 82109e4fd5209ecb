"""Match conditions: CEL by which an API server asks only about what has to do with GPUs.

While the webhook is away, an API server refuses what it would have to ask about (failurePolicy
Fail). What matches none of these conditions is then still created, changed and scaled.

An expression must have an answer for every object: an error refuses it under Fail. What is
requested openly comes first: an API server stops at the first part that holds, and gives up on an
expression that costs too much, as a pod with 200,000 variables makes it.
Source: https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/
"""

from collections.abc import Mapping
from typing import Final

from metering.domain.catalogue.names import CLASS_PREFIX, OTHER_DEVICES
from quotas.domain.admission.demands import NETWORK_WORDS
from quotas.domain.admission.hidden_gpus import CONTAINER_LISTS, RUNTIME_PREFIX, VISIBLE_DEVICES
from quotas.domain.admission.pods import OWNER_ANNOTATION
from quotas.domain.admission.workload_templates import BY_NAME, EACH, KINDS

GPU_PREFIX: Final = "nvidia.com/"
Path = tuple[str, ...]


def _ordered(path: Path) -> Path:
    """Return a path as far as entries have an order; those of an object come in any order."""
    named = (at for at, step in enumerate(path) if step == EACH and path[at - 1] in BY_NAME)
    return path[: next(named, len(path))]


_TEMPLATES: Final = {name: kind.paths for (_, name), kind in KINDS.items()}
_COMPARED: Final = {
    name: tuple(_ordered(path) for path in paths) for name, paths in _TEMPLATES.items()
}


def gpu_expression(offered: tuple[str, ...] = (), *, pod: str = "object") -> str:
    """Return CEL that holds for pods that have to do with GPUs, openly or not.

    Args:
        offered: GPU resource names beside NVIDIA's.
        pod: CEL of the pod, or of a pod template; it has a spec.
    """
    spec, annotations = f"{pod}.spec", f"{pod}.metadata.annotations"
    parts = [_some_container(spec, name, _asks(offered)) for name in CONTAINER_LISTS]
    parts.append(_some_name(spec, "overhead", offered))
    parts.append(_present(spec, "resourceClaims"))
    parts.append(
        f"({_present(spec, 'runtimeClassName')}"
        f" && {spec}.runtimeClassName.startsWith({_quoted(RUNTIME_PREFIX)}))"
    )
    parts.append(
        f"({_present(pod, 'metadata')} && {_present(f'{pod}.metadata', 'annotations')}"
        f" && {annotations}.exists(k,"
        f" k == {_quoted(OWNER_ANNOTATION)} || k.startsWith('cdi.k8s.io/')))"
    )
    # Whatever may lie in or above the folder of devices: more is asked about than is refused.
    parts.append(
        f"({_present(spec, 'volumes')} && {spec}.volumes.exists(v, {_present('v', 'hostPath')}"
        " && (v.hostPath.path.contains('dev') || v.hostPath.path.matches('^[/.]*$'))))"
    )
    shows = f"{_present('c', 'env')} && c.env.exists(e, e.name == {_quoted(VISIBLE_DEVICES)})"
    parts += [_some_container(spec, name, shows) for name in CONTAINER_LISTS]
    return " || ".join(parts)


def template_expression(offered: tuple[str, ...] = ()) -> str:
    """Return CEL that holds for objects with a new or changed pod template that concerns GPUs.

    Nothing is decided on an object whose templates stay as they are, so that it can be scaled and
    labelled while the webhook is away.

    Args:
        offered: GPU resource names beside NVIDIA's.
    """
    now, before = _chosen("object", _COMPARED), _chosen("oldObject", _COMPARED)
    concerns = f"{_present('t', 'spec')} && ({gpu_expression(offered, pod='t')})"
    some = f"{_chosen('object', _TEMPLATES)}.exists(t, {concerns})"
    return f"{some} && (request.operation != 'UPDATE' || {now} != {before})"


def claim_expression() -> str:
    """Return CEL that holds for resource claims of another device than a network card.

    The device class is in `exactly` or `firstAvailable`; before resource.k8s.io/v1beta2 it is in
    the request itself. A request with `adminAccess` only observes.
    """
    one_of = " || ".join(
        (
            _counts("r"),
            f"({_present('r', 'exactly')} && {_counts('r.exactly')})",
            f"({_present('r', 'firstAvailable')} && r.firstAvailable.exists(s, {_counts('s')}))",
        )
    )
    requests = f"{_all_present('object', ('spec', 'devices', 'requests'))}"
    return f"{requests} && object.spec.devices.requests.exists(r, {one_of})"


def _counts(request: str) -> str:
    words = "|".join(NETWORK_WORDS)
    network = _quoted(f"(^|[.-])({words})([.-]|$)")
    return (
        f"({_present(request, 'deviceClassName')}"
        f" && !({_present(request, 'adminAccess')} && {request}.adminAccess == true)"
        f" && !{request}.deviceClassName.matches({network}))"
    )


def _chosen(root: str, paths: Mapping[str, tuple[Path, ...]]) -> str:
    """Return CEL of the list of what is at the paths of an object's kind; most have one alone."""
    common = ("spec", "template")
    chosen = _at(root, common)
    for name, several in paths.items():
        if several != (common,):
            listed = " + ".join(_at(root, path) for path in several)
            chosen = f"{root}.kind == {_quoted(name)} ? ({listed}) : {chosen}"
    return f"({chosen})"


def _at(root: str, path: Path) -> str:
    """Return CEL of the list of what is at a path, which has at most one EACH."""
    if EACH not in path:
        return f"({_all_present(root, path)} ? [{_joined(root, path)}] : [])"
    at = path.index(EACH)
    listed = _joined(root, path[:at])
    entry = f"{listed}[x]" if path[at - 1] in BY_NAME else "x"
    below = path[at + 1 :]
    each = f"{listed}.map(x, {_all_present(entry, below)}, {_joined(entry, below)})"
    return f"({_all_present(root, path[:at])} ? {each} : [])"


def _joined(root: str, path: Path) -> str:
    return ".".join((root, *path))


def _all_present(root: str, path: Path) -> str:
    return " && ".join(
        _present(_joined(root, path[:depth]), name) for depth, name in enumerate(path)
    )


def _present(of: str, name: str) -> str:
    """Return CEL that holds for a field that is there; custom objects may say null."""
    return f"(has({of}.{name}) && {of}.{name} != null)"


def _some_container(spec: str, name: str, what: str) -> str:
    return f"({_present(spec, name)} && {spec}.{name}.exists(c, {what}))"


def _asks(offered: tuple[str, ...]) -> str:
    parts = (_some_name("c.resources", part, offered) for part in ("limits", "requests"))
    return f"{_present('c', 'resources')} && ({' || '.join(parts)})"


def _some_name(of: str, name: str, offered: tuple[str, ...]) -> str:
    """Return CEL that holds for a field with amounts of devices."""
    prefixes = (
        GPU_PREFIX,
        CLASS_PREFIX,
        *(one for one in OTHER_DEVICES if not one.startswith(GPU_PREFIX)),
    )
    others = [one for one in sorted(offered) if not one.startswith(prefixes)]
    is_device = " || ".join(
        (
            *(f"k.startsWith({_quoted(one)})" for one in prefixes),
            *(f"k == {_quoted(one)}" for one in others),
        )
    )
    return f"({_present(of, name)} && {of}.{name}.exists(k, {is_device}))"


def _quoted(text: str) -> str:
    """Return a CEL string."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
