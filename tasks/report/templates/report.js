(() => {
  const root = document.documentElement;
  root.classList.add("js");
  const figures = JSON.parse(document.getElementById("panels").textContent);
  const plots = [...document.querySelectorAll(".plot")];
  const colour = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  // Text, grid and hover box follow the page, light or dark; the palette serves both.
  const theme = () => {
    const axis = { gridcolor: colour("--grid"), linecolor: colour("--line"), zerolinecolor: colour("--line") };
    const look = { "font.color": colour("--ink"), "hoverlabel.bgcolor": colour("--card"),
      "hoverlabel.bordercolor": colour("--line"), "hoverlabel.font.color": colour("--ink") };
    for (const name of ["xaxis", "yaxis"])
      for (const [key, value] of Object.entries(axis)) look[`${name}.${key}`] = value;
    return look;
  };
  // A finger that drags means to scroll the page, a mouse means to zoom.
  const dragmode = matchMedia("(pointer: fine)").matches ? "zoom" : false;
  const family = getComputedStyle(document.body).fontFamily;
  const config = { responsive: true, displaylogo: false, displayModeBar: false };

  const drawn = plots.map(async (plot) => {
    const { data, layout } = figures[plot.id];
    await Plotly.newPlot(plot, data, { ...layout, dragmode, font: { family, size: 12 } }, config);
    await Plotly.relayout(plot, theme());
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    for (const plot of plots) Plotly.relayout(plot, theme());
  });
  Promise.all(drawn).then(() => { root.dataset.drawn = "yes"; });

  // A method's button hides it on every panel of its column.
  for (const button of document.querySelectorAll(".legend button"))
    button.addEventListener("click", () => {
      const visible = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(visible));
      for (const plot of button.closest(".front").querySelectorAll(".plot")) {
        const hit = plot.data.flatMap((trace, i) => (trace.legendgroup === button.dataset.series ? [i] : []));
        if (hit.length) Plotly.restyle(plot, { visible }, hit);
      }
    });

  // A table that is wider than the page says so, until its end is in sight.
  for (const box of document.querySelectorAll(".scroll")) {
    const hint = document.createElement("p");
    hint.className = "more";
    hint.textContent = "This table is wider than the page: scroll it sideways for the other columns.";
    box.before(hint);
    const look = () => {
      const hidden = box.scrollWidth - box.clientWidth;
      hint.hidden = hidden <= 1;
      box.classList.toggle("wider", hidden > 1);
      box.classList.toggle("end", box.scrollLeft >= hidden - 1);
    };
    box.addEventListener("scroll", look, { passive: true });
    new ResizeObserver(look).observe(box);
    look();
  }

  // A slider picks the range that its value lies in; the ranges themselves need no script.
  for (const field of document.querySelectorAll(".move fieldset")) {
    const slider = field.querySelector("input[type=range]");
    const ranges = [...field.querySelectorAll("input[type=radio]")];
    const said = field.querySelector("output");
    const tell = (value) => { slider.value = value; said.textContent = Number(value).toPrecision(3); };
    slider.addEventListener("input", () => {
      const at = ranges.filter((range) => Number(range.dataset.low) <= Number(slider.value)).at(-1) ?? ranges[0];
      at.checked = true;
      tell(slider.value);
    });
    for (const range of ranges) range.addEventListener("change", () => tell(range.dataset.low));
    tell(field.querySelector("input:checked").dataset.low);
  }

  const order = (a, b) => {
    const [x, y] = [a, b].map((cell) => cell.dataset.value ?? cell.textContent);
    const [p, q] = [x, y].map(Number);
    if (Number.isNaN(p) || Number.isNaN(q)) return x.localeCompare(y);
    return p - q;
  };
  for (const button of document.querySelectorAll("th button"))
    button.addEventListener("click", () => {
      const head = button.closest("th");
      const up = head.getAttribute("aria-sort") !== "ascending";
      for (const other of head.parentElement.children) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const body = head.closest("table").tBodies[0];
      const rows = [...body.rows].sort((a, b) => order(a.cells[head.cellIndex], b.cells[head.cellIndex]));
      body.append(...(up ? rows : rows.reverse()));
    });
})();
