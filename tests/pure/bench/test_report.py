"""The page of benchmarks is the benches' own."""

from bench import report
from bench.report import Section, Target


def _section(name: str, measured: float) -> Section:
    target = Target(what="CPU", measured=measured, at_most=1.25, stretch=1.0, unit="x")
    return Section(name=name, title=f"About {name}", how="How.", targets=[target])


def test_a_bench_replaces_its_own_section_and_keeps_the_others() -> None:
    page = report.replaced("", _section("holds", 1.5))
    page = report.replaced(page, _section("gateway", 1.5))
    page = report.replaced(page, _section("holds", 1.1))
    assert page.index("About gateway") < page.index("About holds")
    assert page.count("1.5x") == 1
    assert page.count("1.1x") == 1
    assert report.replaced(page, _section("holds", 1.1)) == page


def test_a_target_says_whether_it_was_held() -> None:
    rows = [_section("holds", measured).targets[0].row() for measured in (1.3, 1.2, 0.9)]
    assert [row[3] for row in rows] == ["**missed**", "held", "held, stretch too"]
    assert rows[0][:3] == ("CPU", "1.3x", "≤ 1.25x, stretch 1x")


def test_a_target_may_be_the_least_that_is_wanted() -> None:
    rows = [
        Target(what="speed", measured=measured, at_least=0.85, unit="x").row()
        for measured in (0.8, 0.85)
    ]
    assert [row[1:] for row in rows] == [
        ("0.8x", "≥ 0.85x", "**missed**"),
        ("0.85x", "≥ 0.85x", "held"),
    ]


def test_the_figures_in_the_readme_are_those_of_the_page() -> None:
    page = {_cells(line) for line in report.PAGE.read_text().splitlines()}
    readme = (report.ROOT / "README.md").read_text()
    table = readme.partition("## What it costs")[2].partition("\n## ")[0].splitlines()
    rows = [_cells(line) for line in table if line.startswith("|")]
    assert len(rows) > 2
    assert [row for row in rows[2:] if row not in page] == []


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.split("|"))
