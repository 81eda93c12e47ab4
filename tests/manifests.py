"""The manifests of deploy/ as one would apply them, by the few words of kustomize that they use."""

import copy
from pathlib import Path

import jsonpatch
import yaml

DEPLOY = Path(__file__).parent.parent / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
# Another word of kustomize would be left out silently by what follows.
KNOWN = {"apiVersion", "kind", "namespace", "resources", "patches", "images"}


def documents(path):
    """The resources of one file."""
    return [found for found in yaml.safe_load_all(path.read_text()) if found]


def rendered(folder):
    """The resources of a folder with a kustomization."""
    told = yaml.safe_load((folder / "kustomization.yaml").read_text())
    assert set(told) <= KNOWN, "the tests' renderer does not know this word of kustomize"
    found = []
    for name in told["resources"]:
        place = (folder / name).resolve()
        found += rendered(place) if place.is_dir() else documents(place)
    for patch in told.get("patches", []):
        found = _patched(found, patch)
    for resource in found:
        if "namespace" in told and resource["kind"] != "Namespace":
            resource["metadata"]["namespace"] = told["namespace"]
        for image in told.get("images", []):
            _rename(resource, image)
    return found


def _patched(resources, patch):
    """Apply one patch to the one resource that it names."""
    target, changes = patch["target"], yaml.safe_load(patch["patch"])
    hit = [
        (r["kind"], r["metadata"]["name"]) == (target["kind"], target["name"]) for r in resources
    ]
    assert sum(hit) == 1, f"{target} names {sum(hit)} resources"
    return [
        jsonpatch.apply_patch(copy.deepcopy(r), changes) if yes else r
        for r, yes in zip(resources, hit, strict=True)
    ]


def _rename(node, image):
    """Give containers the image that a kustomization names."""
    if isinstance(node, dict):
        if node.get("image") == image["name"]:
            node["image"] = f"{image['newName']}:{image['newTag']}"
        for value in node.values():
            _rename(value, image)
    elif isinstance(node, list):
        for value in node:
            _rename(value, image)


def pods(resource):
    """The pod specs inside a resource, whatever its kind."""
    spec = resource.get("spec", {})
    if resource["kind"] == "DaskCluster":
        return [spec["worker"]["spec"], spec["scheduler"]["spec"]]
    return [spec["template"]["spec"]] if "template" in spec else []
