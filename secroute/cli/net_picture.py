"""The picture of a running network: figures of every router and link, as text or for Graphviz."""

from __future__ import annotations

from typing import Any

from secroute.bench.net_lab import Network


def gather(net: Network, before: dict[str, Any] | None = None, seconds: float = 0.0) -> dict[str, Any]:
    """What all routers say; with ``before``, rates as well."""
    answers = {name: net.ask(name) for name in net.names}
    routers: dict[str, Any] = {}
    for name, answer in answers.items():
        if answer is None:
            routers[name] = {"up": False, "links": {}}
            continue
        overlay, status = answer
        routers[name] = {
            "up": True,
            "id": overlay.router.hex(),
            "stamp": overlay.stamp.hex(),
            "sees": sum(each.reachable for each in overlay.routers) + 1,
            "sessions": status.sessions,
            "filters": status.filters,
            "held": overlay.held_messages,
            "reinjected": overlay.reinjected_messages,
            "links": {each.name: _link(each) for each in overlay.links},
        }
        for other, link in routers[name]["links"].items():
            old = (before or {}).get("routers", {}).get(name, {}).get("links", {}).get(other)
            sent = link["messages_out"] - old["messages_out"] if old else 0
            link["per_s"] = round(max(0, sent) / seconds, 1) if seconds else 0.0
    stamps = {each["stamp"] for each in routers.values() if each["up"]}
    whole = all(each["up"] for each in routers.values()) and len(stamps) == 1
    return {"topology": net.topology, "scheme": net.scheme, "whole": whole, "routers": routers}


def _link(link: Any) -> dict[str, Any]:
    return {
        "up": link.up,
        "filters": link.filters,
        "messages_out": link.messages_out,
        "messages_in": link.messages_in,
        "queued": link.queued,
    }


def ascii_picture(net: Network, seen: dict[str, Any]) -> str:
    """One line per router and, below it, one per link: filters behind it, rate, what waits."""
    state = "whole" if seen["whole"] else "NOT whole"
    lines = [f"{seen['topology']}  {seen['scheme']}  {state}"]
    for name, router in seen["routers"].items():
        if not router["up"]:
            lines.append(f"x {name}  does not answer")
            continue
        lines.append(
            f"o {name}  {router['id'][:8]}  {net.target(name)}  sees {router['sees']} routers, "
            f"{router['sessions']} sessions, {router['filters']} filters, {router['held']} batches held"
        )
        links = list(router["links"].items())
        for index, (other, link) in enumerate(links):
            corner = "`" if index == len(links) - 1 else "|"
            line = "--" if link["up"] else "  x"
            lines.append(
                f"  {corner}{line} {other}  {link['filters']} filters behind it, {link['per_s']:g} messages/s out, "
                f"{link['messages_out']} sent, {link['messages_in']} received, {link['queued']} waiting"
            )
    return "\n".join(lines)


def dot_picture(seen: dict[str, Any]) -> str:
    """For ``dot -Tsvg``: one edge per link with both directions' figures."""
    lines = ["graph network {", "  node [shape=circle];"]
    for name, router in seen["routers"].items():
        style = "" if router["up"] else " [style=dashed]"
        lines.append(f'  "{name}"{style};')
        for other, link in router["links"].items():
            back = seen["routers"].get(other, {}).get("links", {}).get(name, {})
            if name < other or not back:
                shown = f"{link['filters']} | {link['per_s']:g}/s"
                label = f"{shown}\\n{back['filters']} | {back['per_s']:g}/s" if back else shown
                dashed = "" if link["up"] else ", style=dashed"
                lines.append(f'  "{name}" -- "{other}" [label="{label}"{dashed}];')
    return "\n".join([*lines, "}"]) + "\n"
