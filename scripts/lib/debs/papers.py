"""What has to come with linked crates: their licences, and a bill of materials (CycloneDX)."""

import json
import uuid

from .crates import Crate

_HEAD = """The programs of LR2 Gateway are linked with these crates of crates.io, with Rust's standard library (MIT or Apache-2.0,
the Rust project developers), and, where they use DPDK, with functions of its headers (BSD-3-Clause, DPDK contributors; the
text is in /usr/share/doc/librte-eal23/copyright). Below the list, each licence text stands once, with the crates that it came with.
"""
_RULE = "=" * 100


def licences(crates: list[Crate]) -> str:
    """A list of all crates, and every text of a licence once, with the crates that have it."""
    users: dict[str, list[str]] = {}
    rows = []
    for crate in crates:
        label = f"{crate.name} {crate.version}"
        texts = crate.texts()
        rows.append(f"{label}: {crate.licence}" + ("" if texts else f" (its archive has no text; authors: {', '.join(crate.authors) or 'not named'})"))
        for text in texts:
            users.setdefault(text, []).append(label)
    parts = [_HEAD, "\n".join(rows) + "\n"]
    parts += [f"{_RULE}\n{', '.join(names)}\n{_RULE}\n\n{text}\n" for text, names in users.items()]
    return "\n".join(parts)


def bill_of_materials(crates: list[Crate], version: str) -> str:
    """CycloneDX 1.5, the same for the same crates."""
    components = [
        {
            "type": "library",
            "bom-ref": _purl(crate),
            "name": crate.name,
            "version": crate.version,
            "purl": _purl(crate),
            "licenses": [{"expression": crate.licence}],
            "hashes": [{"alg": "SHA-256", "content": crate.checksum}],
        }
        for crate in crates
    ]
    identity = uuid.uuid5(uuid.NAMESPACE_URL, version + "".join(crate.checksum for crate in crates))
    bill = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "lr2-gateway", "version": version}},
        "components": components,
    }
    return json.dumps(bill, indent=1) + "\n"


def _purl(crate: Crate) -> str:
    return f"pkg:cargo/{crate.name}@{crate.version}"
