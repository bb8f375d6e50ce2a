"""The checker finds each defect it is there for: run by ``make docs-check``, apart from the package's tests."""

from __future__ import annotations

from pathlib import Path

import check_site
import pytest

GOOD = """<!doctype html><html><head><meta name="viewport" content="width=device-width,initial-scale=1">
<link rel="icon" href="data:,"><style>body {{ background: #fff; margin: 0 }}
@media (prefers-color-scheme: dark) {{ body {{ background: #111; color: #eee }} }} {style}</style></head>
<body><h1 id="here">Page</h1><p>A sum of $5 and $10, and <code>$x$</code>.</p>{body}</body></html>"""

DRAWN = '<span class="math"><mjx-container><svg width="20" height="10"></svg></mjx-container></span>'
DARKLESS = "@media (prefers-color-scheme: dark) { body { background: #fff } }"

#: body, style, what the checker should say
DEFECTS = {
    "overflow": ('<div style="width:1500px">wide</div>', "", "overflow"),
    "folded": ('<details><pre style="width:1500px">wide</pre></details>', "", "overflow"),
    "clipped": ('<pre style="width:1400px">wide</pre>', "body { overflow-x: hidden }", "overflow"),
    "hidden": ('<div style="overflow:hidden"><pre style="width:1500px">wide</pre></div>', "", "overflow"),
    "console": ("<script>console.error('bad')</script>", "", "console: bad"),
    "exception": ("<script>missing()</script>", "", "console: ReferenceError"),
    "request": ('<script src="missing.js"></script>', "", "failed request (404)"),
    "host": ('<img src="http://127.0.0.2:9/x.png" width="5">', "", "request to another host"),
    "link": ('<a href="nowhere.html">x</a>', "", "broken link: nowhere.html"),
    "anchor": ('<a href="good.html#nowhere">x</a>', "", "broken anchor: good.html#nowhere"),
    "image": ('<img src="good.html">', "", "broken image: good.html"),
    "inline math": ("<p>So \\(x^2\\) it is.</p>", "", "math not drawn: So"),
    "dollar math": ("<p>So $x^2$ it is.</p>", "", "math not drawn: So"),
    "one letter": ("<p>Write $Y$ for it.</p>", "", "math not drawn: Write"),
    "no container": ('<span class="math">x</span>', "", "math not drawn"),
    "math error": ("<mjx-container><merror>Missing close brace</merror></mjx-container>", "", "math error"),
    "scheme": ("<p>always light</p>", DARKLESS, "not dark"),
}


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> check_site.Report:
    site = tmp_path_factory.mktemp("site")
    scroll = '<div style="overflow-x:auto"><pre style="width:1500px">wide</pre></div>'
    link = '<a href="good.html#here">x</a><a href="#here">y</a><a href="https://example.org">z</a>'
    (site / "good.html").write_text(GOOD.format(body=scroll + link + DRAWN, style=""))
    for name, (body, style, _) in DEFECTS.items():
        (site / f"{name}.html").write_text(GOOD.format(body=body, style=style))
    return check_site.check(site)


def test_good_page_passes(report: check_site.Report) -> None:
    assert [found for (page, _), found in report.defects.items() if page == "good.html" and found] == []


@pytest.mark.parametrize("name", DEFECTS)
def test_defect_is_found(report: check_site.Report, name: str) -> None:
    said = [defect for (page, _), found in report.defects.items() if page == f"{name}.html" for defect in found]
    assert any(DEFECTS[name][2] in defect for defect in said), said


def test_every_page_is_opened_in_every_view(report: check_site.Report) -> None:
    pages = {page for page, _ in report.defects}
    assert len(pages) == len(DEFECTS) + 1
    assert len(report.defects) == len(pages) * (1 + len(check_site.VIEWS))


def test_a_defect_fails_the_site_and_is_in_the_table(report: check_site.Report, tmp_path: Path) -> None:
    assert report.failed
    assert "overflow.html (390 dark): overflow: the page is 1500 px wide" in report.table()


def test_pages_are_pictured(tmp_path: Path) -> None:
    (tmp_path / "good.html").write_text(GOOD.format(body=DRAWN, style=""))
    assert not check_site.check(tmp_path, tmp_path / "pictures").failed
    assert len(list((tmp_path / "pictures").glob("*.png"))) == len(check_site.VIEWS)
