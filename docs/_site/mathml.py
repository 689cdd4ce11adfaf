"""Formulas as MathML, which browsers render by themselves: no script, no font, no network."""

from html import escape

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging


def _mathml(node, as_block=False):
    try:
        return tex2mathml(node.astext(), as_block=as_block)
    except MathError as error:
        logging.getLogger(__name__).warning("formula: %s", error, location=node)
        return f"<code>{escape(node.astext())}</code>"


def _inline(writer, node):
    writer.body.append(_mathml(node))
    raise nodes.SkipNode


def _block(writer, node):
    writer.body.append(f'<div class="math">{_mathml(node, as_block=True)}</div>\n')
    raise nodes.SkipNode


def setup(app):
    """Register the renderer under the name `mathml`."""
    app.add_html_math_renderer("mathml", (_inline, None), (_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
