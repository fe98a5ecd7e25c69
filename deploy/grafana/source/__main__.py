"""Writes each dashboard to `deploy/grafana/dashboards`, from where Grafana takes it."""

import json
from pathlib import Path

from grafana_foundation_sdk.cog.encoder import JSONEncoder

from deploy.grafana.source import kafka_and_spark, overview, pipeline, subscriptions

DIRECTORY = Path(__file__).parents[1] / "dashboards"


def written() -> dict[str, str]:
    """What each file of the directory has to have."""
    dashboards = (
        overview.dashboard(),
        pipeline.dashboard(),
        subscriptions.dashboard(),
        kafka_and_spark.dashboard(),
    )
    return {
        f"{each.uid}.json": json.dumps(each, cls=JSONEncoder, indent=2, sort_keys=True) + "\n"
        for each in dashboards
    }


def main() -> None:
    """Write them, and remove those that there are no longer."""
    files = written()
    for name, text in files.items():
        (DIRECTORY / name).write_text(text, encoding="utf-8")
    for left in {each.name for each in DIRECTORY.glob("*.json")} - files.keys():
        (DIRECTORY / left).unlink()


if __name__ == "__main__":
    main()
