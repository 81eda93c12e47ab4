"""The look of a method in every figure."""

from dataclasses import dataclass

from tasks.report.panels import Series


@dataclass(frozen=True)
class Shape:
    """A marker in matplotlib's words, in plotly's, as an SVG path in a 16 x 16 box."""

    marker: str
    symbol: str
    outline: str


@dataclass(frozen=True)
class Style:
    """Colour of a series with its marker."""

    colour: str
    shape: Shape


# After Okabe and Ito, told apart with every common colour blindness; the light ones are darkened
# until they stand out 3 : 1 from white as from the dark page. Shapes repeat the distinction for
# print in grey.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#C2649A", "#B8860B", "#2F96D3", "#7F5AA8")
_SHAPES = (
    Shape("o", "circle", "M8 2a6 6 0 1 0 .01 0z"),
    Shape("s", "square", "M3 3h10v10H3z"),
    Shape("^", "triangle-up", "M8 2l6.5 11h-13z"),
    Shape("D", "diamond", "M8 1.5L14.5 8 8 14.5 1.5 8z"),
    Shape("v", "triangle-down", "M8 14L1.5 3h13z"),
    Shape("P", "cross", "M6 2h4v4h4v4h-4v4H6v-4H2V6h4z"),
    Shape(
        "X",
        "x",
        "M4.5 2L8 5.5 11.5 2 14 4.5 10.5 8 14 11.5 11.5 14 8 10.5 4.5 14 2 11.5 5.5 8 2 4.5z",
    ),
    Shape("p", "pentagon", "M8 2l6 4.5-2.3 7H4.3L2 6.5z"),
)
_DUMMY_COLOUR = "#767676"
_DUMMY_SHAPES = (
    Shape("*", "star", "M8 1l2 4.8 5 .4-3.9 3.3 1.2 5L8 11.8 3.7 14.5l1.2-5L1 6.2l5-.4z"),
    Shape("h", "hexagon", "M8 1.5l5.6 3.3v6.4L8 14.5l-5.6-3.3V4.8z"),
)
FLOOR_COLOUR = "#767676"
FRONT_COLOUR = "#8A8A8A"
CHOSEN_COLOUR = "#E5383B"
LIMIT_COLOUR = "#C2403A"


def style_of(series: Series) -> Style:
    """Return the look of a series: the same colour, the same shape on every panel."""
    if series.dummy:
        return Style(_DUMMY_COLOUR, _DUMMY_SHAPES[series.slot % len(_DUMMY_SHAPES)])
    # Seven colours against eight shapes: 56 series before a pair repeats.
    colour = _COLOURS[series.slot % len(_COLOURS)]
    return Style(colour, _SHAPES[series.slot % len(_SHAPES)])
