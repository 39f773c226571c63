"""A page's body for a strict parser, and words that break careless markup."""

import xml.etree.ElementTree as ElementTree

NASTY = "<b>\"a\" & 'b'</b>"


def as_xml(text):
    """Everything between <body> and </body>, read by a strict parser."""
    return ElementTree.fromstring(text[text.index("<body>") : text.index("</body>") + 7])
