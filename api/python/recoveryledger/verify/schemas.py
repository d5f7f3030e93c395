"""The part of JSON Schema 2020-12 that the schemas of entries use."""

from __future__ import annotations

import functools
import json
import pathlib
import re
from typing import Any

from .strict import Json, canonical


def _sorts(value: Json) -> tuple[bool, bool, bool, bool]:
    """Whether a value is an object, a list, a text, a number."""
    number = isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, dict), isinstance(value, list), isinstance(value, str), number


class Schemas:
    """The part of JSON Schema 2020-12 that the schemas use. A length is counted in
    bytes of UTF-8, as the protocol counts."""

    ANNOTATIONS = {"$schema", "title", "description", "examples", "$defs", "contentEncoding", "then", "else"}
    TYPES = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool, "null": type(None)}

    def __init__(self, folder: Any) -> None:
        self.files = {path.name: json.loads(path.read_text()) for path in folder.glob("*.json")}

    @classmethod
    @functools.cache
    def of_package(cls) -> Schemas:
        """The schemas of entries."""
        return cls(pathlib.Path(__file__).parent / "schema")

    def accepts(self, name: str, value: Json) -> bool:
        return self._valid(name + ".json", self.files[name + ".json"], value)

    def _valid(self, file: str, schema: Json, value: Json) -> bool:
        if isinstance(schema, bool):
            return schema
        return all(self._keyword(file, schema, keyword, value) for keyword in schema if keyword not in self.ANNOTATIONS)

    def _keyword(self, file: str, schema: dict[str, Json], keyword: str, value: Json) -> bool:
        arg = schema[keyword]

        def valid(sub: Json, v: Json) -> bool:
            return self._valid(file, sub, v)

        is_object, is_list, is_text, is_number = _sorts(value)
        if keyword == "$ref":
            target, _, pointer = arg.partition("#")
            target = target or file
            node = self.files[target]
            for token in pointer.split("/")[1:]:
                node = node[token]
            return self._valid(target, node, value)
        if keyword == "type":
            return isinstance(value, self.TYPES[arg]) and not (arg == "integer" and not is_number)
        if keyword == "const":
            return value == arg and type(value) is type(arg)
        if keyword == "enum":
            return any(value == option and type(value) is type(option) for option in arg)
        if keyword == "allOf":
            return all(valid(sub, value) for sub in arg)
        if keyword == "anyOf":
            return any(valid(sub, value) for sub in arg)
        if keyword == "if":
            return valid(schema.get("then" if valid(arg, value) else "else", True), value)
        if keyword == "required":
            return not is_object or all(name in value for name in arg)
        if keyword == "dependentRequired":
            return not is_object or all(other in value for name in arg if name in value for other in arg[name])
        if keyword == "properties":
            return not is_object or all(valid(arg[name], value[name]) for name in arg if name in value)
        if keyword == "additionalProperties":
            known = schema.get("properties", {})
            return not is_object or all(valid(arg, value[name]) for name in value if name not in known)
        if keyword == "propertyNames":
            return not is_object or all(valid(arg, name) for name in value)
        if keyword == "maxProperties":
            return not is_object or len(value) <= arg
        if keyword == "items":
            return not is_list or all(valid(arg, element) for element in value)
        if keyword == "minItems":
            return not is_list or len(value) >= arg
        if keyword == "maxItems":
            return not is_list or len(value) <= arg
        if keyword == "uniqueItems":
            return not is_list or len({canonical(element) for element in value}) == len(value)
        if keyword == "minimum":
            return not is_number or value >= arg
        if keyword == "maximum":
            return not is_number or value <= arg
        if keyword == "minLength":
            return not is_text or len(value.encode()) >= arg
        if keyword == "maxLength":
            return not is_text or len(value.encode()) <= arg
        if keyword == "pattern":
            return not is_text or re.search(re.sub(r"\$$", r"\\Z", arg), value, re.ASCII) is not None
        raise SystemExit(f"keyword {keyword} of {file} is not implemented here")
