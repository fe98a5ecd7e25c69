"""`DataFrame.mapInArrow`, batch after batch, for a function that is mostly the same.

For each call PySpark pickles the function, parses the schema and looks up every column: some forty
calls to the JVM, 25 ms of a batch of 200. All of that depends on the function and the names of the
columns alone, so it is done when the function is another one.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.functions import pandas_udf
from pyspark.util import PythonEvalType

ArrowFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class ArrowMap:
    """Runs functions over frames that have the same columns."""

    def __init__(self, columns: Sequence[str], schema: str) -> None:
        self._columns = columns
        self._schema = schema
        self._made_of: tuple[ArrowFunction, dict[str, str]] | None = None
        self._column: Any = None
        """The function as the JVM has it, applied to the columns."""

    def over(self, rows: DataFrame, function: ArrowFunction) -> DataFrame:
        """What the function makes of rows. One that equals the last one must do the same."""
        environment = rows.sparkSession.sparkContext.environment
        made_of = (function, environment)
        if self._made_of != made_of:
            self._column = self._apply(function)
            self._made_of = (function, environment.copy())
        # As `DataFrame.mapInArrow` does it, for which there is no public way.
        mapped = rows._jdf.mapInArrow(self._column, False, None)  # noqa: SLF001
        return DataFrame(mapped, rows.sparkSession)

    def _apply(self, function: ArrowFunction) -> Any:  # noqa: ANN401 - a Java object
        made: Any = pandas_udf(
            function,  # type: ignore[call-overload]
            returnType=self._schema,
            functionType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
        )
        return made(*self._columns)._jc  # noqa: SLF001
