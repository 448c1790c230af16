"""Reads a page as a strict browser would."""

from html.parser import HTMLParser

VOID = {"meta", "link", "img", "source", "br"}


class Reader(HTMLParser):
    """Every tag closed in order, every address noted."""

    def __init__(self, text: str):
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append(tag)
        names = ("src", "href", "xlink:href", "srcset", "action", "data", "poster")
        self.addresses += [value or "" for name, value in attrs if name in names]
        self.ids += [value or "" for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
