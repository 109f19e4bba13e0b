"""Generate the parts of pages: ``make reference``."""

from __future__ import annotations

from docs.made import fill, pages

for page in pages():
    before = page.read_text(encoding="utf-8")
    page.write_text(fill(before), encoding="utf-8")
