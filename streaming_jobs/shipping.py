"""Our own packages for the executors of a cluster: they need not be installed there.

What they import of others (lxml, pyarrow, pydantic) has to be.
"""

import zipfile
from importlib import resources
from pathlib import Path

from pyspark.sql import SparkSession

_PACKAGES = ("broker", "subscriptions", "streaming_jobs")


def is_local(master: str) -> bool:
    """Whether workers run on the driver's own machine, with what is installed there."""
    return master == "local" or master.startswith("local[")


def ship_packages(spark: SparkSession, directory: Path) -> None:
    """Have every executor import our packages from a zip file that Spark takes there."""
    archive = directory / "xmlbroker-packages.zip"
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as zipped:
        for package in _PACKAGES:
            root = Path(str(resources.files(package)))
            for file in sorted(root.rglob("*")):
                if file.is_file() and "__pycache__" not in file.parts:
                    zipped.write(file, Path(package) / file.relative_to(root))
    spark.sparkContext.addPyFile(str(archive))
