"""YAML as we read it: what stands twice is refused, not taken by its last value."""

from typing import Any

import yaml


def read_yaml(text: str) -> Any:
    """Return what a text holds; of a key that stands twice beside itself only one could count."""
    return yaml.load(text, _Loader)


class _Loader(yaml.SafeLoader):
    """A safe loader that names keys which stand twice."""

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """Return a mapping as it is written: what an anchor brings is merged into it later."""
        node: yaml.MappingNode = super().compose_mapping_node(anchor)
        seen = set[tuple[str, str]]()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                continue  # such as a list, which the schema refuses
            if (key.tag, key.value) in seen:
                raise yaml.constructor.ConstructorError(
                    None,
                    None,
                    f"the key {key.value} stands twice beside itself, leave one out",
                    key.start_mark,
                )
            seen.add((key.tag, key.value))
        return node
