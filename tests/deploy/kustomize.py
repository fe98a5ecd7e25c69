"""What `kustomize build` makes of an overlay, as far as ours use it.

No package of PyPI has kustomize. This resolver knows the fields that our files have and refuses any
other, so that nothing is passed over. Two things differ: names of generated ConfigMaps have no
hash at their end, and what a patch adds to a list comes last, not first.
"""

from copy import deepcopy
from pathlib import Path
from typing import Any

from tests.deploy.project import read_yaml

Resource = dict[str, Any]

_FIELDS = {
    *("apiVersion", "kind", "namespace", "resources"),
    *("configMapGenerator", "patches", "images"),
}
_KEYS = {"containers": "name", "env": "name", "volumes": "name"} | {
    "ports": "containerPort",
    "volumeMounts": "mountPath",
}
"""By what Kubernetes tells the elements of a list apart; lists of others are replaced."""

_REPLACED = {"volumeClaimTemplates", "accessModes"}
_WITHOUT_NAMESPACE = {"Namespace"}


def build(directory: Path) -> list[Resource]:
    """All resources of a kustomization."""
    (kustomization,) = read_yaml(directory / "kustomization.yaml")
    assert kustomization["kind"] == "Kustomization"
    unknown = kustomization.keys() - _FIELDS
    assert not unknown, f"this resolver does not know {unknown}"
    resources: list[Resource] = []
    for name in kustomization["resources"]:
        path = directory / name
        resources += build(path) if path.is_dir() else read_yaml(path)
    for generator in kustomization.get("configMapGenerator", []):
        _generate(generator, directory, resources)
    for patch in kustomization.get("patches", []):
        assert patch.keys() == {"path"}
        for changes in read_yaml(directory / patch["path"]):
            target = find(resources, changes["kind"], changes["metadata"]["name"])
            target.update(_merge(target, changes))
    for resource in resources:
        if "namespace" in kustomization and resource["kind"] not in _WITHOUT_NAMESPACE:
            resource["metadata"]["namespace"] = kustomization["namespace"]
        for image in kustomization.get("images", []):
            _rename(resource, image)
    return resources


def find(resources: list[Resource], kind: str, name: str) -> Resource:
    """The one resource of a kind with a name."""
    (found,) = (
        each for each in resources if each["kind"] == kind and each["metadata"]["name"] == name
    )
    return found


def of_kind(resources: list[Resource], kind: str) -> list[Resource]:
    """All resources of a kind."""
    return [each for each in resources if each["kind"] == kind]


def _generate(generator: Resource, directory: Path, resources: list[Resource]) -> None:
    assert generator.keys() <= {"name", "behavior", "envs", "files"}, generator
    data: dict[str, str] = {}
    for name in generator.get("envs", []):
        for line in (directory / name).read_text(encoding="utf-8").splitlines():
            if line.strip() and not line.startswith("#"):
                variable, equals, value = line.partition("=")
                assert equals, f"{name}: {line}"
                data[variable] = value
    for name in generator.get("files", []):
        data[name] = (directory / name).read_text(encoding="utf-8")
    if generator.get("behavior", "create") == "merge":
        find(resources, "ConfigMap", generator["name"])["data"] |= data
        return
    metadata = {"name": generator["name"]}
    resources.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})


def _merge(old: Any, new: Any, name: str = "") -> Any:  # noqa: ANN401 - any YAML
    """A strategic merge patch."""
    if isinstance(old, dict) and isinstance(new, dict):
        merged = deepcopy(old)
        for key, value in new.items():
            merged[key] = _merge(old[key], value, key) if key in old else deepcopy(value)
        return merged
    if isinstance(old, list) and isinstance(new, list) and name not in _REPLACED:
        key = _KEYS[name]
        places = {element[key]: place for place, element in enumerate(old)}
        elements = deepcopy(old)
        for element in new:
            if element[key] in places:
                place = places[element[key]]
                elements[place] = _merge(elements[place], element)
            else:
                elements.append(deepcopy(element))
        return elements
    return deepcopy(new)


def _rename(node: Any, image: Resource) -> None:  # noqa: ANN401 - any YAML
    if isinstance(node, list):
        for each in node:
            _rename(each, image)
    elif isinstance(node, dict):
        for key, value in node.items():
            if key == "image" and isinstance(value, str) and value.split(":")[0] == image["name"]:
                node[key] = f"{image['newName']}:{image['newTag']}"
            else:
                _rename(value, image)
