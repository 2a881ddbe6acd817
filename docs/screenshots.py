"""Retakes docs/images against a running `make airflow`: `python docs/screenshots.py [--url http://127.0.0.1:8080]`.

Starts a run of `flights` and of `carriers_lake` where there is none yet. Needs chromium. Where `make airflow` was given
a PostgreSQL server, the newest run of `flights_ranges` is taken too: kill one of its pods while it runs.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from pathlib import Path
from urllib.parse import quote

from browser import Browser, browser

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
LIMIT_BYTES = 300_000
RUN_TIMEOUT_SECONDS = 300.0
WIDTH = 1280
ABOVE_THE_TRACEBACK = 522
HEIGHT_OF_PARTITIONS = 1380

sys.path.insert(0, str(ROOT / "examples" / "flights"))
from rest import AirflowClient  # noqa: E402  the example is a folder of scripts


async def main(url: str) -> None:
    client = AirflowClient(url)
    runs = {dag_id: ended_run(client, dag_id) for dag_id in ("flights", "carriers_lake")}
    pages = {dag_id: f"{url}/dags/{dag_id}/runs/{quote(run_id, safe='')}" for dag_id, run_id in runs.items()}
    load = f"{pages['flights']}/tasks/dpone_flights.dpone_run_flights"
    lake = f"{pages['carriers_lake']}/tasks/dpone_carriers_lake"
    report = client.links("flights", runs["flights"], "dpone_flights.dpone_run_flights")["dpone evidence"]
    failed = client.links("carriers_lake", runs["carriers_lake"], "dpone_carriers_lake.outcome_gate")["dpone evidence"]
    assert report and failed, "the loads left no evidence link"
    async with browser() as page:
        await page.show(pages["flights"], width=WIDTH, height=700)
        await page.wait_for("verify bundle")
        await page.click(labelled("Expand all task groups"))
        await saved(page, "airflow-grid", 660)
        await taken(page, f"{load}/details", "dpone evidence", "airflow-load-details", 700)
        await taken(page, f"{load}/rendered_templates", "run_spec_ref", "airflow-rendered-templates", 700)
        await taken(page, f"{load}/xcom", "return_value", "airflow-xcom", 920, click="Expand all extra JSON")
        gate, failing = f"{lake}.outcome_gate", f"{lake}.dpone_run_carriers_lake"
        await taken(page, gate, "what to do", "airflow-gate-failed", ABOVE_THE_TRACEBACK)
        await taken(page, failing, "Task failed", "airflow-load-failed", 650, click="Press Ctrl+↑ to scroll to top")
        await taken(page, report, "Quality gates", "report-success", 1000)
        await taken(page, failed, "What to do", "report-failure", 1000)
        if "flights_ranges" in client.dag_ids():
            await partitions_taken(page, client, url)
        await page.show(pages["flights"], width=WIDTH, height=600)
        await page.click(labelled("Show Graph (Press g)"))
        await page.wait_until("document.querySelectorAll('.react-flow__node').length >= 4")
        await saved(page, "airflow-graph", 600)


async def partitions_taken(page: Browser, client: AirflowClient, url: str) -> None:
    """The tasks of a mapped step beside the grid of its run."""
    run_id = quote(ended_run(client, "flights_ranges"), safe="")
    task = f"{url}/dags/flights_ranges/runs/{run_id}/tasks/dpone_flights_ranges.transfer_partition/mapped"
    await page.show(task, width=WIDTH, height=HEIGHT_OF_PARTITIONS)
    await page.wait_for("partition 5")
    await page.click(labelled("Expand all task groups"))
    await page.wait_for("list partitions")
    await saved(page, "airflow-partitions", HEIGHT_OF_PARTITIONS)


def labelled(label: str) -> str:
    return f"e.ariaLabel === {label!r}"


async def taken(page: Browser, url: str, text: str, name: str, height: int, *, click: str | None = None) -> None:
    """One picture of a page that shows `text`, after a click on the button of that label if there is one."""
    await page.show(url, width=WIDTH, height=1000)
    await page.wait_for(text)
    if click is not None:
        await page.click(labelled(click))
    await saved(page, name, height)


async def saved(page: Browser, name: str, height: int) -> None:
    file = IMAGES / f"{name}.png"
    await page.picture(file, width=WIDTH, height=height)
    size = file.stat().st_size
    print(f"{file.relative_to(ROOT)} {size:,} bytes")
    if size > LIMIT_BYTES:
        raise SystemExit(f"{name} is larger than {LIMIT_BYTES:,} bytes")


def ended_run(client: AirflowClient, dag_id: str) -> str:
    """The newest run that ended, or one that is started for it."""
    run_id = client.newest_run(dag_id)
    if run_id is None:
        run_id = client.trigger(dag_id)
        client.wait(dag_id, run_id, RUN_TIMEOUT_SECONDS)
    return run_id


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="as make airflow prints it")
    asyncio.run(main(parser.parse_args().url))
