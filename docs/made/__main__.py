"""Generate the parts of pages: ``make reference``."""

from __future__ import annotations

from docs.made import filled, pages

for page in pages():
    before = page.read_text(encoding="utf-8")
    page.write_text(filled(before), encoding="utf-8")
