"""One picture per attack. Altair comes with the extra `plot`; only code that draws imports this file."""

from math import sqrt
from typing import Any

import altair as alt

from sfumato.lab.attacks.averaging import Averaging
from sfumato.lab.attacks.biased import Biased
from sfumato.lab.attacks.encrypted import Encrypted
from sfumato.lab.attacks.floating import Floating
from sfumato.lab.attacks.linkage import Linkage
from sfumato.lab.attacks.local_noise import LocalNoise
from sfumato.lab.attacks.reconstruction import Reconstruction
from sfumato.lab.attacks.tracker import Differencing

PlotRow = dict[str, Any]
_WIDTH_PX, _HEIGHT_PX = 520, 300


def reconstruction(result: Reconstruction) -> alt.TopLevelMixin:
    """Rows recovered over the noise, with the theorem's line, n/400, √n/10, √n, and the bounds of sfumato beside it."""
    n = result.rows
    curve = [_point("least squares", point.bound, float(point.recovered)) for point in result.curve]
    curve += [
        _point("promised by the theorem", point.bound, max(0.0, 1 - 4 * point.bound / n)) for point in result.curve
    ]
    places = ((n / 400, 0.12, "n/400"), (sqrt(n) / 10, 0.06, "√n/10"), (sqrt(n), 0.06, "√n"))
    lines = [{"at": x, "height": height, "name": name} for x, height, name in places]
    noise = alt.X("noise:Q", scale=alt.Scale(type="log"), title="noise at most")
    over_noise = alt.layer(
        _chart(curve)
        .mark_line(point=True)
        .encode(
            x=noise,
            y=_share_axis("recovered"),
            color=alt.Color("attack:N", title=None, legend=alt.Legend(orient="bottom")),
        ),
        _chart(lines).mark_rule(strokeDash=[4, 4]).encode(x="at:Q"),
        _chart(lines).mark_text(align="left", dx=3).encode(x="at:Q", y="height:Q", text="name:N"),
    )
    guarded = [
        {"loss": str(attack.loss), "recovered": float(attack.recovered), "bound": attack.expected}
        for attack in result.guarded
    ]
    return alt.hconcat(
        over_noise.properties(
            width=_WIDTH_PX, height=_HEIGHT_PX, title=f"{n:,} rows, {result.questions:,} noisy counts"
        ),
        _bars_and_bounds(guarded, "loss", "recovered").properties(
            height=_HEIGHT_PX, title="the same attack on sfumato"
        ),
    )


def differencing(result: Differencing) -> alt.TopLevelMixin:
    """Rows recovered by system, with a tick where a guarantee sets a bound."""
    rows = [{"system": line.system, "recovered": float(line.recovered), "bound": line.bound} for line in result.lines]
    return _bars_and_bounds(rows, "system", "recovered").properties(height=_HEIGHT_PX, title="differencing")


def averaging(result: Averaging) -> alt.TopLevelMixin:
    """Targets recovered over the number of repeats, one line per system."""
    rows = [
        {"repeats": repeats, "recovered": float(share), "system": line.label}
        for line in result.lines
        for repeats, share in zip(result.repeats, line.recovered, strict=True)
    ]
    chart: alt.Chart = _chart(rows).mark_line(point=True)
    chart = chart.encode(
        x=alt.X("repeats:Q", scale=alt.Scale(type="log", base=2), title="pairs of counts"),
        y=_share_axis("recovered"),
        color=alt.Color("system:N", title=None, legend=alt.Legend(labelLimit=400)),
    )
    return _with_title(chart, "averaging")


def local_noise(result: LocalNoise) -> alt.TopLevelMixin:
    """Targets recovered behind each kind of noise, with a tick where a guarantee sets a bound."""
    rows: list[PlotRow] = [
        {"noise": "local sensitivity", "recovered": float(result.local), "bound": None},
        {"noise": "smooth sensitivity", "recovered": float(result.smooth), "bound": result.bound},
    ]
    return _bars_and_bounds(rows, "noise", "recovered").properties(
        height=_HEIGHT_PX, title="noise at local sensitivity"
    )


def linkage(result: Linkage) -> alt.TopLevelMixin:
    """People re-identified and diagnoses told, by what was published."""
    rows = [
        {"published": link.published, "share": float(share), "what": label}
        for link in result.links
        for label, share in (("re-identified", link.unique), ("diagnosis certain", link.told))
    ]
    chart: alt.Chart = _chart(rows).mark_bar()
    chart = chart.encode(
        x=alt.X("share:Q", axis=alt.Axis(format="%"), title="people"),
        y=alt.Y("published:N", sort=None, title=None, axis=alt.Axis(labelLimit=400)),
        yOffset="what:N",
        color=alt.Color("what:N", title=None),
    )
    return _with_title(chart, "linkage")


def floating(result: Floating) -> alt.TopLevelMixin:
    """Answers that told the secret for certain, by attack."""
    verdicts = (
        ("doubles, reachable", result.reachable),
        ("doubles, low bits", result.precision),
        ("integers (sfumato)", result.integers),
    )
    rows = [{"attack": attack, "told": verdict.share} for attack, verdict in verdicts]
    chart: alt.Chart = _chart(rows).mark_bar()
    chart = chart.encode(
        x=alt.X("told:Q", axis=alt.Axis(format="%"), title="answers that tell 0 from 1 for certain"),
        y=alt.Y("attack:N", sort=None, title=None, axis=alt.Axis(labelLimit=400)),
    )
    return _with_title(chart, "floating point")


def biased(result: Biased) -> alt.TopLevelMixin:
    """The loss that was promised and the loss on biased coins, by noise."""
    rows: list[PlotRow] = []
    for bent in result.bent:
        rows += [
            {"noise": bent.noise, "loss": loss, "what": label}
            for label, loss in (("promised", bent.promised), ("true", bent.exact), ("seen", bent.seen))
        ]
    rows += [{"noise": label, "loss": loss, "what": "true"} for label, loss in result.together]
    chart: alt.Chart = _chart(rows).mark_bar()
    chart = chart.encode(
        x=alt.X("loss:Q", title="privacy loss ε"),
        y=alt.Y("noise:N", sort=None, title=None, axis=alt.Axis(labelLimit=400)),
        yOffset=alt.YOffset("what:N", sort=None),
        color=alt.Color("what:N", sort=None, title=None),
    )
    titled: alt.Chart = chart.properties(width=_WIDTH_PX, title="biased coins")
    return titled


def encrypted(result: Encrypted) -> alt.TopLevelMixin:
    """Rows recovered from each column, beside what the public mode alone guesses."""
    rows: list[PlotRow] = []
    for scheme, columns in (("", result.columns), ("sealed: ", result.sealed)):
        for column in columns:
            name = f"{scheme}{column.name}, {column.scheme}"
            rows += [
                {"column": name, "recovered": column.recovered, "what": "attack"},
                {"column": name, "recovered": column.guessed, "what": "public mode"},
            ]
    chart: alt.Chart = _chart(rows).mark_bar()
    chart = chart.encode(
        x=alt.X("recovered:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"), title="rows recovered"),
        y=alt.Y("column:N", sort=None, title=None, axis=alt.Axis(labelLimit=400)),
        yOffset=alt.YOffset("what:N", sort=None),
        color=alt.Color("what:N", sort=None, title=None),
    )
    titled: alt.Chart = chart.properties(width=_WIDTH_PX, title="encrypted columns")
    return titled


def _chart(rows: list[PlotRow]) -> alt.Chart:
    return alt.Chart({"values": rows})


def _point(attack: str, noise: int, recovered: float) -> PlotRow:
    return {"attack": attack, "noise": noise, "recovered": recovered}


def _share_axis(field: str) -> alt.Y:
    return alt.Y(f"{field}:Q", scale=alt.Scale(domain=[0, 1]), axis=alt.Axis(format="%"), title="rows recovered")


def _with_title(chart: alt.Chart, title: str) -> alt.Chart:
    titled: alt.Chart = chart.properties(width=_WIDTH_PX, height=_HEIGHT_PX, title=title)
    return titled


def _bars_and_bounds(rows: list[PlotRow], category: str, field: str) -> alt.LayerChart:
    place = alt.X(f"{category}:N", sort=None, title=None, axis=alt.Axis(labelAngle=-40, labelLimit=240))
    bars = _chart(rows).mark_bar().encode(x=place, y=_share_axis(field))
    bounded = [row for row in rows if row["bound"] is not None]
    ticks = _chart(bounded).mark_tick(color="firebrick", thickness=3).encode(x=place, y=_share_axis("bound"))
    layered: alt.LayerChart = alt.LayerChart(layer=[bars, ticks]).properties(width=alt.Step(44))
    return layered
