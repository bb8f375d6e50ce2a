"""Open every page of the built site in a real browser and say what is wrong: ``make docs-check``.

The site is served on localhost, and each page is opened in headless Chromium as on a desk and as on a phone, light and dark. A page
fails when

- it is wider than the screen, or something reaches beyond the screen without a box to scroll it in;
- the console shows an error, a request fails, or a request goes to another host;
- mathematics is not drawn: text that is still TeX, an error of MathJax, a formula without MathJax's container;
- an image is broken, the colour scheme is not the one asked for, or a link, an anchor or an image leads nowhere.

The search page is also asked for a word, and must find it. ``--pictures folder`` saves every page as PNG.
"""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from browser import Chromium, Tab

WIDTHS = {"desk": 1280, "phone": 390}
SCHEMES = ("light", "dark")
VIEWS = [(width, scheme) for width in WIDTHS.values() for scheme in SCHEMES]
SEARCH = "search.html?q=treatment"

_PROBE = """(width => {
  const found = [];
  for (const folded of document.querySelectorAll("details")) folded.open = true;
  const label = e => {
    const text = (e.textContent || "").trim().replace(/\\s+/g, " ").slice(0, 40);
    return `<${e.tagName.toLowerCase()} class="${e.getAttribute("class") || ""}"> ${text}`;
  };
  const page = document.documentElement;
  if (Math.max(page.scrollWidth, document.body.scrollWidth) > width + 1)
    found.push(`overflow: the page is ${page.scrollWidth} px wide on a screen of ${width}`);
  const held = e => {  // can a reader scroll to it, or is it meant for screen readers alone?
    if (e.closest("mjx-assistive-mml")) return true;
    for (let up = e.parentElement; up && up !== document.body; up = up.parentElement) {
      const style = getComputedStyle(up);
      if (["auto", "scroll"].includes(style.overflowX) || style.position === "fixed") return true;
    }
    return false;
  };
  const wide = [...document.body.querySelectorAll("*")].filter(e => {
    const box = e.getBoundingClientRect();
    return box.width > 0 && box.height > 0 && box.left < width && box.right > width + 1 && !held(e)
      && getComputedStyle(e).position !== "fixed";
  });
  for (const e of wide.slice(0, 3)) found.push(`overflow: ${label(e)}`);

  for (const e of document.querySelectorAll(".math")) {
    const drawn = e.querySelector("mjx-container");
    if (!drawn) found.push(`math not drawn: ${label(e)}`);
    else if (drawn.getClientRects().length && drawn.getBoundingClientRect().width < 1)
      found.push(`math has no width: ${label(e)}`);
  }
  for (const e of document.querySelectorAll("mjx-merror, [data-mjx-error], merror, [data-mml-node='merror']"))
    found.push(`math error: ${e.getAttribute("data-mjx-error") || label(e)}`);
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const code = "code, pre, script, style, textarea, mjx-container, .math, noscript";
  const raw = /\\\\[()\\[\\]]|\\\\begin\\{|\\$\\$|(^|[^\\w\\\\$])\\$(?=[^\\s\\d$])[^$]*[\\\\^_{}=(][^$]*\\$|(^|\\s)\\$[A-Za-z]\\$/;
  for (let node = walker.nextNode(); node; node = walker.nextNode())
    if (raw.test(node.data) && !node.parentElement.closest(code))
      found.push(`math not drawn: ${node.data.trim().replace(/\\s+/g, " ").slice(0, 60)}`);

  for (const image of document.images)
    if (!image.complete || image.naturalWidth === 0) found.push(`broken image: ${image.getAttribute("src")}`);

  const [r, g, b] = getComputedStyle(document.body).backgroundColor.match(/[\\d.]+/g).map(Number);
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  if ((0.3 * r + 0.6 * g + 0.1 * b < 128) !== dark) found.push(`not ${dark ? "dark" : "light"} though asked for`);
  return found;
})"""


class _Links(HTMLParser):
    """The anchors of a page, and what it points to."""

    def __init__(self) -> None:
        super().__init__()
        self.anchors: set[str] = {"", "top"}
        self.targets: list[str] = []

    def handle_starttag(self, tag: str, attrs: Sequence[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value is not None}
        self.anchors |= {values[name] for name in ("id", "name") if name in values}
        for name in ("href", "src"):
            if name in values and tag != "base":
                self.targets.append(values[name])


@dataclass
class Report:
    """What was found.

    Attributes
    ----------
    defects : dict
        (page, column) to what is wrong there; a column is ``"1280 light"`` or ``"links"``.
    """

    defects: dict[tuple[str, str], list[str]] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether anything is wrong."""
        return any(self.defects.values())

    def table(self) -> str:
        """A row a page, a column a view: ``ok`` or the number of defects; then the defects."""
        pages = list(dict.fromkeys(page for page, _ in self.defects))
        columns = list(dict.fromkeys(column for _, column in self.defects))
        stub = max(map(len, pages)) + 2
        cells = {key: "ok" if not found else str(len(found)) for key, found in self.defects.items()}
        lines = ["page".ljust(stub) + "".join(column.rjust(13) for column in columns)]
        lines += [
            page.ljust(stub) + "".join(cells.get((page, column), "-").rjust(13) for column in columns) for page in pages
        ]
        for (page, column), found in self.defects.items():
            lines += [f"{page} ({column}): {defect}" for defect in dict.fromkeys(found)]
        return "\n".join(lines)


def check(site: Path, pictures: Path | None = None) -> Report:
    """Check every page of a site."""
    report = Report()
    pages = [path.relative_to(site).as_posix() for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    if not pages:
        sys.exit(f"There are no pages in {site}; run `make docs` first.")
    for page, broken in broken_links(site, pages).items():
        report.defects[page, "links"] = broken
    with _served(site) as address, Chromium() as browser:
        tab = browser.tab()
        for page in pages:
            for width, scheme in VIEWS:
                tab.look(width, scheme)
                tab.open(f"{address}/{page}")
                if pictures is not None:
                    tab.picture(pictures / f"{page.removesuffix('.html').replace('/', '-')}-{width}-{scheme}.png")
                report.defects[page, f"{width} {scheme}"] = [*tab.complaints, *tab.evaluate(f"{_PROBE}({width})")]
        if "search.html" in pages:
            report.defects[SEARCH, "links"] = _search(tab, f"{address}/{SEARCH}")
    return report


def broken_links(site: Path, pages: Sequence[str]) -> dict[str, list[str]]:
    """For each page, the links, anchors and images that lead nowhere inside the site."""
    read = {page: _Links() for page in pages}
    for page, links in read.items():
        links.feed((site / page).read_text(encoding="utf-8"))
    return {
        page: [text for target in links.targets for text in _wrong(target, page, site, read)]
        for page, links in read.items()
    }


def _wrong(target: str, page: str, site: Path, read: Mapping[str, _Links]) -> Iterator[str]:
    if urlsplit(target).scheme or target.startswith("//"):
        return  # elsewhere: not asked for
    place, anchor = urldefrag(urljoin(f"/{page}", target))
    path = unquote(urlsplit(place).path).lstrip("/")
    path = path + "index.html" if path in ("",) or path.endswith("/") else path
    if not (site / path).is_file():
        yield f"broken link: {target}"
    elif anchor and path in read and unquote(anchor) not in read[path].anchors:
        yield f"broken anchor: {target}"


def _search(tab: Tab, url: str) -> list[str]:
    """Whether the search page finds a word, within a few seconds."""
    tab.open(url)
    wait = """new Promise(done => {
      let left = 100;
      const look = () => {
        const found = document.querySelectorAll("#search-results li").length;
        found || --left < 0 ? done(found) : setTimeout(look, 100);
      };
      look();
    })"""
    return [*tab.complaints, *([] if tab.evaluate(wait) else ["search finds nothing"])]


class _Quiet(SimpleHTTPRequestHandler):
    """Serves files without a word."""

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def _served(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


def main() -> None:
    """Check a site and print the table."""
    parser = argparse.ArgumentParser(description="Open every page of the site in Chromium and say what is wrong.")
    parser.add_argument("site", type=Path, help="where the built site is, such as build/docs")
    parser.add_argument("--pictures", type=Path, help="also save every page as PNG in this folder")
    asked = parser.parse_args()
    report = check(asked.site, asked.pictures)
    print(report.table())
    sys.exit(1 if report.failed else 0)


if __name__ == "__main__":
    main()
