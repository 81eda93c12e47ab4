(() => {
  const root = document.documentElement;
  root.classList.add("js");

  // One tooltip serves all figures. Screen readers read the label of a point instead.
  const tip = document.createElement("div");
  tip.className = "tooltip";
  tip.hidden = true;
  tip.setAttribute("aria-hidden", "true");
  document.body.append(tip);
  let current = null;
  const show = (point) => {
    if (point === current) return;
    current?.classList.remove("shown");
    current = point;
    tip.hidden = !point;
    if (!point) return;
    point.classList.add("shown");
    tip.textContent = point.dataset.text;
    tip.style.left = tip.style.top = "0";
    const mark = point.querySelector(".mark").getBoundingClientRect();
    const box = tip.getBoundingClientRect();
    const left = mark.left + mark.width / 2 - box.width / 2;
    tip.style.left = `${Math.max(4, Math.min(left, root.clientWidth - box.width - 4))}px`;
    const above = mark.top - box.height - 8;
    tip.style.top = `${above >= 4 ? above : mark.bottom + 8}px`;
  };
  const reach = 24;
  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
  for (const plot of document.querySelectorAll(".plot")) {
    const points = [...plot.querySelectorAll(".point")];
    for (const point of points) {
      // The browser's own tooltip would cover ours.
      const title = point.querySelector("title");
      point.dataset.text = title.textContent;
      point.setAttribute("aria-label", title.textContent.replaceAll("\n", ", "));
      title.remove();
    }
    const visible = () => points.filter((point) => point.getBoundingClientRect().width > 0);
    const nearest = (event) => {
      let [found, least] = [null, reach];
      for (const point of visible()) {
        const box = point.querySelector(".mark").getBoundingClientRect();
        const distance = Math.hypot(
          event.clientX - box.left - box.width / 2, event.clientY - box.top - box.height / 2);
        if (distance < least) [found, least] = [point, distance];
      }
      return found;
    };
    const makeStop = (point) => {
      for (const other of points) other.setAttribute("tabindex", other === point ? "0" : "-1");
    };
    plot.addEventListener("pointermove", (event) => show(nearest(event)));
    plot.addEventListener("pointerdown", (event) => show(nearest(event)));
    plot.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") show(points.find((point) => point === document.activeElement) ?? null);
    });
    plot.addEventListener("focusin", (event) => { makeStop(event.target); show(event.target); });
    plot.addEventListener("focusout", () => show(null));
    plot.addEventListener("keydown", (event) => {
      if (event.key === "Escape") show(null);
      const all = visible();
      const at = all.indexOf(document.activeElement);
      const next = event.key === "Home" ? all[0] : event.key === "End" ? all.at(-1)
        : event.key in steps ? all[(at + steps[event.key] + all.length) % all.length] : null;
      if (!next) return;
      event.preventDefault();
      next.focus();
    });
    // A hidden method must not hold the tab stop of the panel.
    plot.closest(".front")?.addEventListener("change", () => {
      const all = visible();
      if (all.length && !all.some((point) => point.getAttribute("tabindex") === "0")) makeStop(all[0]);
    });
  }
  addEventListener("scroll", () => show(null), { passive: true });
  document.addEventListener("pointerdown", (event) => { if (!event.target.closest(".plot")) show(null); });

  // A table that is wider than the page has a note until its last column is visible.
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

  // The slider selects the range that contains its value. The ranges work without a script.
  for (const field of document.querySelectorAll(".move fieldset")) {
    const slider = field.querySelector("input[type=range]");
    const ranges = [...field.querySelectorAll("input[type=radio]")];
    const output = field.querySelector("output");
    const set = (value) => { slider.value = value; output.textContent = Number(value).toPrecision(3); };
    slider.addEventListener("input", () => {
      const at = ranges.filter((range) => Number(range.dataset.low) <= Number(slider.value)).at(-1) ?? ranges[0];
      at.checked = true;
      set(slider.value);
    });
    for (const range of ranges) range.addEventListener("change", () => set(range.dataset.low));
    set(field.querySelector("input:checked").dataset.low);
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
