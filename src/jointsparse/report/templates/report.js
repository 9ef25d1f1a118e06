"use strict";
(function () {
  const data = JSON.parse(document.getElementById("data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const PAGE = 50;
  const LONG_NAME = 64, INLINE_NAME = 40, TOO_LITTLE = 4; // as in page.py
  const KEPT = "fgznvk";
  const count = data.codes.length;
  const repeated = new Set(data.repeated);
  const byId = (id) => document.getElementById(id);
  const grouped = (n) => String(n).replace(/\B(?=(\d{3})+$)/g, "\u202f");
  const percent = (thousandths) => (thousandths / 10).toFixed(1) + "\u202f%";
  const isKept = (place) => KEPT.includes(data.codes[place]);
  const nameOf = (place) => data.names ? data.names[place] : "feature " + data.columns[place];
  const short = (text) => {
    const letters = Array.from(text);
    if (letters.length <= INLINE_NAME) return text;
    return letters.slice(0, 20).join("") + "…" + letters.slice(-19).join("");
  };

  // All text goes through textContent: names are data, never markup.
  function element(tag, className, text) {
    const made = document.createElement(tag);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }
  function bar(width) {
    const svg = document.createElementNS(SVG, "svg");
    const attributes = { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" };
    for (const [key, value] of Object.entries(attributes)) svg.setAttribute(key, value);
    const rect = document.createElementNS(SVG, "rect");
    rect.setAttribute("class", "own");
    rect.setAttribute("width", width);
    rect.setAttribute("height", 10);
    svg.append(rect);
    return svg;
  }

  // ---- the table: what matches, page by page ----
  const keptPlaces = [];
  for (let place = 0; place < count; place++) if (isKept(place)) keptPlaces.push(place);
  const r2 = new Map(keptPlaces.map((place, i) => [place, data.r2[i]]));
  const before = new Map(keptPlaces.map((place, i) => [place, i ? data.r2[i - 1] : 0]));
  const hasShares = data.shares.some((share) => share >= 0);

  function reasonOf(place) {
    let text = data.reasons[data.codes[place]];
    if (r2.has(place)) text = text.replace("{gain}", percent(r2.get(place) - before.get(place)));
    text = text.replace("{n_kept}", grouped(keptPlaces.length));
    const parts = [];
    let reached = TOO_LITTLE;
    for (let k = 0; k < 3; k++) {
      const other = data.standIns[k][place], share = data.standInR2[k][place];
      if (other < 0 || share <= reached) break;
      parts.push(short(nameOf(other)) + " " + share + "\u202f%");
      reached = share;
    }
    return parts.length ? text + "; stand-ins: " + parts.join(", + ") : text;
  }
  function named(place) {
    const name = nameOf(place);
    if (Array.from(name).length <= LONG_NAME) return element("span", "name", name);
    const details = element("details", "long");
    details.append(element("summary", "name", short(name)), element("span", "name small", name));
    return details;
  }
  function rowOf(place) {
    const row = element("tr", isKept(place) ? "kept" : "dropped");
    const feature = element("th");
    feature.scope = "row";
    const mark = element("span", "mark");
    if (isKept(place)) {
      const tick = element("span", "", "✓");
      tick.setAttribute("aria-label", "kept");
      mark.append(tick);
    }
    feature.append(mark, named(place));
    if (repeated.has(place)) feature.append(element("span", "quiet small", " (column " + data.columns[place] + ")"));
    feature.append(element("div", "why", reasonOf(place)));
    const shared = element("td", "score"), part = data.shares[place];
    if (part >= 0) shared.append(bar(part), element("span", "score-text", part + "\u202f%"));
    const score = String(Number(data.scores[place].toPrecision(3)));
    const share = isKept(place) ? r2.get(place) : data.explained[place];
    row.append(
      element("td", "number rank", grouped(place + 1)), feature, ...(hasShares ? [shared] : []),
      element("td", "number method", score),
      element("td", "number share", share >= 0 ? percent(share) : "")
    );
    return row;
  }

  const body = byId("rows"), query = byId("query"), which = byId("which"), order = byId("order"), more = byId("more");
  let matches = [], shown = 0, lowered = null;
  function showMore() {
    const part = document.createDocumentFragment();
    const next = matches.slice(shown, shown + PAGE);
    next.forEach((place) => part.append(rowOf(place)));
    body.append(part);
    shown += next.length;
    more.hidden = shown >= matches.length;
    byId("found-count").textContent = matches.length === data.total
      ? "All " + grouped(data.total) + " features, " + grouped(shown) + " shown."
      : grouped(matches.length) + (matches.length === 1 ? " feature, " : " features, ") + grouped(shown) + " shown.";
  }
  function find() {
    const wanted = query.value.trim().toLowerCase();
    if (wanted && !lowered) {
      lowered = new Array(count);
      for (let place = 0; place < count; place++) lowered[place] = nameOf(place).toLowerCase();
    }
    matches = [];
    for (let place = 0; place < count; place++) {
      if (which.value !== "all" && isKept(place) !== (which.value === "kept")) continue;
      if (!wanted || lowered[place].includes(wanted)) matches.push(place);
    }
    if (order.value !== "rank") {
      const values = data[order.value];
      matches.sort((a, b) => values[b] - values[a] || a - b);
    }
    body.replaceChildren();
    shown = 0;
    showMore();
  }
  byId("find").hidden = false;
  query.addEventListener("input", find);
  which.addEventListener("change", find);
  order.addEventListener("change", find);
  more.addEventListener("click", () => {
    const first = shown;
    if (!matches.length) find(); else showMore();
    const row = body.rows[first];
    if (row) { row.tabIndex = -1; row.focus({ preventScroll: true }); }
  });
  if (body.rows.length < count) {
    // The rows that came with the page are the first ones: go on after them.
    matches = Array.from({ length: count }, (_, place) => place);
    const inOrder = Array.from(body.rows).every((row, i) => row.classList.contains("kept") === isKept(i));
    if (inOrder && body.rows.length >= keptPlaces.length) shown = body.rows.length; else matches = [];
    more.hidden = false;
  }

  // ---- the curve: one feature after the other ----
  function moveCursor(id, x) {
    const cursor = byId(id);
    cursor.setAttribute("x1", x);
    cursor.setAttribute("x2", x);
    cursor.setAttribute("visibility", "visible");
  }
  if (data.curve) {
    const slider = byId("curve-slider"), curve = data.curve;
    const show = () => {
      const k = Number(slider.value), place = keptPlaces[k - 1], last = curve.kept.length;
      const others = [["principal components", curve.pca], ["random features", curve.random]]
        .filter(([, values]) => values && values.length >= k)
        .map(([name, values]) => k + " " + (k === 1 ? name.slice(0, -1) : name) + " " + percent(values[k - 1]));
      const readout = byId("curve-readout");
      const text = k + (k === 1 ? " feature accounts for " : " features account for ") + percent(curve.kept[k - 1]) +
        (others.length ? "; " + others.join(", ") : "") + ".";
      const gain = curve.kept[k - 1] - (k > 1 ? curve.kept[k - 2] : 0);
      readout.replaceChildren(
        element("p", "", text),
        element("p", "small quiet", place === undefined ? "" : "Number " + k + " is “" + short(nameOf(place)) + "”: " + percent(gain) + " more.")
      );
      slider.setAttribute("aria-valuetext", text);
      moveCursor("curve-cursor", last > 1 ? curve.x[0] + (curve.x[1] - curve.x[0]) * (k - 1) / (last - 1) : curve.x[0]);
    };
    byId("curve-control").hidden = false;
    slider.addEventListener("input", show);
    show();
  }

  // ---- the path: what enters and leaves ----
  if (data.path) {
    const slider = byId("path-slider"), points = data.path.points, maps = data.path.maps;
    const listed = (id, verb, change) => {
      const line = byId(id);
      line.replaceChildren();
      line.hidden = !change[0];
      if (!change[0]) return;
      line.append(element("strong", "", grouped(change[0]) + (change[0] === 1 ? " feature " : " features ") + (verb === "enters" ? (change[0] === 1 ? "enters: " : "enter: ") : (change[0] === 1 ? "leaves: " : "leave: "))));
      const rest = change[0] - change[1].length;
      line.append(change[1].map((place) => short(nameOf(place))).join(", ") + (rest > 0 ? " … and " + grouped(rest) + " more" : ""));
    };
    const draw = (text, shape) => {
      const canvas = byId("path-map");
      canvas.hidden = false;
      canvas.height = shape[0];
      canvas.width = shape[1];
      const context = canvas.getContext("2d"), image = context.createImageData(shape[1], shape[0]);
      for (let i = 0; i < text.length; i++) {
        const level = (text.charCodeAt(i) - 97) / 25;
        image.data.set([255 - 255 * level, 255 - 195 * level, 255 - 145 * level, 255], 4 * i);
      }
      context.putImageData(image, 0, 0);
    };
    const show = () => {
      const point = points[Number(slider.value)];
      const text = "Penalty " + point.alpha + " of the one that empties the model (" + point.penalty + " in the units of the data): " +
        grouped(point.count) + " of " + grouped(data.total) + " features are in the model" +
        (point.gap ? ", proved to within " + point.gap : "") + ".";
      byId("path-count").textContent = text;
      slider.setAttribute("aria-valuetext", point.alpha + ", " + point.count + " features");
      listed("path-entered", "enters", point.entered);
      listed("path-left", "leaves", point.left);
      const bars = byId("path-bars");
      bars.replaceChildren();
      point.top.forEach(([place, width]) => {
        const name = element("span", isKept(place) ? "kept" : "dropped", short(nameOf(place)));
        const cell = element("div", isKept(place) ? "kept" : "dropped");
        cell.append(bar(width));
        bars.append(name, cell);
      });
      moveCursor("path-cursor", point.x);
      if (maps) draw(maps[Number(slider.value)], data.path.shape);
    };
    byId("path-control").hidden = false;
    byId("path-readout").hidden = false;
    slider.addEventListener("input", show);
    show();
  }
})();
