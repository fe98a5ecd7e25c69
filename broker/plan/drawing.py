"""Plans as a graph in the DOT language, which Graphviz draws: shared operators are one node."""

from collections.abc import Iterable

from broker.plan.operators import Operator, Plan, inputs
from broker.plan.text import head


def plan_graph(plans: Iterable[Plan]) -> str:
    """The plans of several queries as one graph, from the path streams up to the queries."""
    names: dict[Operator, str] = {}
    lines = ["digraph plan {", "  rankdir=BT;", '  node [shape=box, fontname="sans-serif"];']
    uses: dict[Operator, int] = {}

    def draw(operator: Operator) -> str:
        uses[operator] = uses.get(operator, 0) + 1
        if operator in names:
            return names[operator]
        below = [draw(each) for each in inputs(operator)]
        name = names[operator] = f"r{len(names) + 1}"
        lines.extend(f"  {each} -> {name};" for each in below)
        return name

    for number, plan in enumerate(plans, start=1):
        root = draw(plan.root)
        lines.append(f'  q{number} [label="query {number}", shape=ellipse];')
        lines.append(f"  {root} -> q{number};")
    for operator, name in names.items():
        style = ", style=bold" if uses[operator] > 1 else ""
        lines.append(f"  {name} [label={_quoted(head(operator))}{style}];")
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
