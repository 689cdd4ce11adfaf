"""Tables in reStructuredText."""


def table(rows):
    """Two columns, the first one narrow."""
    cells = "\n".join(f"   * - {left}\n     - {right}" for left, right in rows)
    return f".. list-table::\n   :widths: 25 75\n\n{cells}"
