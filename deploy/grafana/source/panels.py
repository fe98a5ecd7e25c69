"""The few kinds of panels that all dashboards are made of, so that equal things look equal."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from grafana_foundation_sdk.builders import bargauge, common, heatmap, prometheus, stat, timeseries
from grafana_foundation_sdk.builders import dashboard as builders
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models.heatmap import HeatmapColorMode
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from deploy.grafana.source.expressions import RANGE

Panel = timeseries.Panel | stat.Panel | bargauge.Panel | heatmap.Panel

WIDTH = 24
_SOURCE = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
_TAG = "xmlbroker"


class Query(NamedTuple):
    """An expression, and what its series are called."""

    expression: str
    legend: str


class Limits(NamedTuple):
    """From where on a number is worth a look, and from where on it is bad."""

    look: float
    bad: float


def number(
    title: str, unit: str, description: str, expression: str, limits: Limits | None = None
) -> stat.Panel:
    """The value of now, large, with its course behind it if it has one: what is said of all the
    time that is shown has none.
    """
    target = _target(Query(expression, title), 0)
    panel = (
        stat.Panel()
        .title(title)
        .unit(unit)
        .description(description)
        .datasource(_SOURCE)
        .height(4)
        .span(4)
        .graph_mode(options.BigValueGraphMode.AREA)
        .color_mode(options.BigValueColorMode.VALUE)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .thresholds(_thresholds(limits))
        .with_target(target.instant() if RANGE in expression else target)
    )
    if unit == "short":
        panel.decimals(0)  # Prometheus extrapolates counts, to parts of one
    return panel.min(0)


def yes_or_no(title: str, description: str, expression: str) -> stat.Panel:
    """Whether something is so: 1 is yes, and green."""
    answers = {
        "0": models.ValueMappingResult(text="no", color="red", index=0),
        "1": models.ValueMappingResult(text="yes", color="green", index=1),
    }
    panel = number(title, "bool_yes_no", description, expression)
    return panel.mappings([models.ValueMap(options=answers)])


def lines(
    title: str,
    unit: str,
    description: str,
    *queries: Query,
    stacked: bool = False,
    span: int = WIDTH // 2,
) -> timeseries.Panel:
    """How something goes; stacked if the parts are parts of one whole."""
    panel = (
        timeseries.Panel()
        .title(title)
        .unit(unit)
        .description(description)
        .datasource(_SOURCE)
        .height(8)
        .span(span)
        .min(0)
        .line_width(1)
        .fill_opacity(60 if stacked else 8)
        .show_points(options.VisibilityMode.NEVER)
        .tooltip(
            common.VizTooltipOptions()
            .mode(options.TooltipDisplayMode.MULTI)
            .sort(options.SortOrder.DESCENDING)
        )
        .legend(
            common.VizLegendOptions()
            .show_legend(True)
            .display_mode(options.LegendDisplayMode.TABLE)
            .placement(options.LegendPlacement.BOTTOM)
            .calcs(["mean", "max", "lastNotNull"])
        )
    )
    if stacked:
        panel.stacking(common.StackingConfig().mode(options.StackingMode.NORMAL).group("A"))
    for place, query in enumerate(queries):
        panel.with_target(_target(query, place))
    return panel


def bars(
    title: str, unit: str, description: str, query: Query, *, span: int = WIDTH // 2
) -> bargauge.Panel:
    """A few values of now, to be compared."""
    return (
        bargauge.Panel()
        .title(title)
        .unit(unit)
        .description(description)
        .datasource(_SOURCE)
        .height(8)
        .span(span)
        .min(0)
        .decimals(0)
        .orientation(options.VizOrientation.HORIZONTAL)
        .display_mode(options.BarGaugeDisplayMode.BASIC)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .color_scheme(builders.FieldColor().mode(models.FieldColorModeId.PALETTE_CLASSIC))
        .with_target(_target(query, 0).instant())
    )


def spread(
    title: str, unit: str, description: str, expression: str, *, span: int = WIDTH // 2
) -> heatmap.Panel:
    """How many there were of each size: the buckets of a histogram."""
    query = _target(Query(expression, "{{le}}"), 0).format(PromQueryFormat.HEATMAP)
    return (
        heatmap.Panel()
        .title(title)
        .unit(unit)
        .description(description)
        .datasource(_SOURCE)
        .height(8)
        .span(span)
        .calculate(False)
        .color(heatmap.HeatmapColorOptions().mode(HeatmapColorMode.SCHEME).scheme("Blues"))
        .y_axis(heatmap.YAxisConfig().unit(unit))
        .with_target(query)
    )


def dashboard(
    uid: str, title: str, description: str, rows: Iterable[tuple[str, Sequence[Panel]]]
) -> models.Dashboard:
    """A dashboard of rows, each with a title; its panels are placed and numbered here."""
    board = (
        builders.Dashboard(title)
        .uid(uid)
        .description(description)
        .tags([_TAG])
        .readonly()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .time("now-30m", "now")
        .refresh("10s")
        .link(
            builders.DashboardLink("xmlbroker")
            .type(models.DashboardLinkType.DASHBOARDS)
            .tags([_TAG])
            .include_vars(True)
            .keep_time(True)
        )
        .with_variable(builders.DatasourceVariable("datasource").label("source").type("prometheus"))
        .with_variable(
            _variable("job", "label_values(xmlbroker_ready, job)").description("one broker")
        )
        .with_variable(
            _variable("topic", 'label_values(xmlbroker_messages_total{job="$job"}, topic)')
            .description("input topics, where something is told by topic")
            .multi(True)
            .include_all(True)
            .all_value(".*")
            .current(models.VariableOption(selected=True, text="All", value="$__all"))
        )
    )
    identity = 0
    for row, panels in rows:
        identity += 1
        board.with_row(builders.Row(row).id(identity))
        for panel in panels:
            identity += 1
            board.with_panel(panel.id(identity))
    return board.build()


def _variable(name: str, query: str) -> builders.QueryVariable:
    return (
        builders.QueryVariable(name)
        .label(name)
        .datasource(_SOURCE)
        .query(query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(models.VariableSort.ALPHABETICAL_ASC)
    )


def _target(query: Query, place: int) -> prometheus.Dataquery:
    return (
        prometheus.Dataquery()
        .datasource(_SOURCE)
        .expr(query.expression)
        .legend_format(query.legend)
        .ref_id("ABCDEFGH"[place])
    )


def _thresholds(limits: Limits | None) -> builders.ThresholdsConfig:
    steps = [models.Threshold(None, "green" if limits else "text")]
    if limits:
        steps.append(models.Threshold(limits.look, "orange"))
        steps.append(models.Threshold(limits.bad, "red"))
    return builders.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)
