"""Where each fix is found: `cd tests && python -m zoo.seen`."""

from __future__ import annotations

from typing import Literal

from trainperf.fixes import by_id
from zoo import SCRIPTS
from zoo.oracle import kept_answer


def recordings(kind: Literal["findings", "possible"]) -> dict[str, list[str]]:
    """Of each fix the recordings whose answer has it among its findings of this kind."""
    names: dict[str, list[str]] = {id_: [] for id_ in by_id()}
    for name in SCRIPTS:
        answer = kept_answer(name)
        for id_ in dict.fromkeys(found["id"] for found in answer[kind]):
            names[id_].append(name)
    return names


def main() -> None:
    found, tried = recordings("findings"), recordings("possible")
    seen = [id_ for id_, names in found.items() if names]
    only_tried = [id_ for id_, names in tried.items() if names and id_ not in seen]
    none = [id_ for id_ in found if id_ not in seen and id_ not in only_tried]
    for id_ in seen:
        print(f"{id_}: {', '.join(found[id_])}")
    print(f"\nonly as what could be tried ({len(only_tried)}):")
    for id_ in only_tried:
        print(f"{id_}: {', '.join(tried[id_])}")
    print(f"\nin none ({len(none)}): {', '.join(none)}")
    print(f"\n{len(found)} fixes, {len(seen)} of them found")


if __name__ == "__main__":
    main()
