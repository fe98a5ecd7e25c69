"""`DataFrame.mapInArrow`, batch after batch, for a function that is mostly the same.

For each call PySpark pickles the function, parses the schema and looks up every column: some fifty
calls to the JVM, 25 ms of a batch of 200. The schema and the columns are the same for all batches,
so they are taken there once. The function is another one when what is broadcast of subscriptions
has changed: then it is pickled and taken there again, which is a third of those calls.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql import DataFrame
from pyspark.sql.classic.column import _to_java_column, _to_seq
from pyspark.sql.types import DataType, StructType
from pyspark.sql.udf import UserDefinedFunction
from pyspark.util import PythonEvalType

ArrowFunction = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


class ArrowMap:
    """Runs functions over frames that have the same columns."""

    def __init__(self, columns: Sequence[str], schema: str) -> None:
        self._columns = columns
        self._schema = schema
        self._types: DataType | None = None
        self._in_java: Any = None
        """The columns as the JVM has them."""
        self._made_of: tuple[ArrowFunction, dict[str, str]] | None = None
        self._applied: Any = None
        """The function as the JVM has it, applied to the columns."""

    def over(self, rows: DataFrame, function: ArrowFunction) -> DataFrame:
        """What the function makes of rows. One that equals the last one must do the same."""
        context = rows.sparkSession.sparkContext
        made_of = (function, context.environment)
        if self._made_of != made_of:
            self._applied = self._apply(function, context)
            self._made_of = (function, context.environment.copy())
        # As `DataFrame.mapInArrow` does it, for which there is no public way.
        mapped = rows._jdf.mapInArrow(self._applied, False, None)  # noqa: SLF001
        return DataFrame(mapped, rows.sparkSession)

    def _apply(self, function: ArrowFunction, context: SparkContext) -> Any:  # noqa: ANN401 - a Java object
        if self._types is None:
            self._types = StructType.fromDDL(self._schema)
            self._in_java = _to_seq(context, self._columns, _to_java_column)
        # As `pandas_udf` does it, which would parse the types again.
        made = UserDefinedFunction(
            function,
            returnType=self._types,
            evalType=PythonEvalType.SQL_MAP_ARROW_ITER_UDF,
        )
        return made._judf.apply(self._in_java)  # noqa: SLF001
