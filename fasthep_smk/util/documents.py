"""What a YAML or JSON text holds, before anything is known of it but that it is a mapping.

These names stand at borders: where people's files, FAST-HEP's documents and texts of other programs
come in. What has been read goes on as a class, a ``TypedDict`` or, if it is only handed on, an
``object``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

#: A mapping of people's or of FAST-HEP's: schemas and FAST-HEP's compiler say what it holds.
YamlMapping: TypeAlias = Mapping[str, Any]
#: An object of JSON, just read: who reads it looks at each value, or knows who has written it.
JsonObject: TypeAlias = dict[str, Any]
