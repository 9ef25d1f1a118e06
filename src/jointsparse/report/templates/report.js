"use strict";
(async function () {
  const holder = document.getElementById("data");
  let text = holder.textContent;
  if (holder.type === "text/plain") { // packed, as large data are
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    text = await new Response(stream).text();
  }
  const data = JSON.parse(text);
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
  function bar(width, kind) {
    const svg = document.createElementNS(SVG, "svg");
    const attributes = { class: "bar", viewBox: "0 0 100 10", preserveAspectRatio: "none", "aria-hidden": "true" };
    for (const [key, value] of Object.entries(attributes)) svg.setAttribute(key, value);
    const rect = document.createElementNS(SVG, "rect");
    rect.setAttribute("class", kind || "own");
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
  let marked = keptPlaces.length; // how many of the kept features the slider leaves in
  const numberOf = new Map(keptPlaces.map((place, i) => [place, i]));
  const isMarked = (place) => numberOf.has(place) && numberOf.get(place) < marked;
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
    const row = element("tr");
    row.dataset.place = place;
    const feature = element("th");
    feature.scope = "row";
    feature.append(element("span", "mark"), named(place));
    if (repeated.has(place)) feature.append(element("span", "quiet small", " (column " + data.columns[place] + ")"));
    feature.append(element("div", "why", reasonOf(place)));
    const shared = element("td", "score"), part = data.shares[place];
    if (part >= 0) shared.append(bar(part), element("span", "score-text", part + "\u202f%"));
    const score = String(Number(data.scores[place].toPrecision(3)));
    const share = isKept(place) ? -1 : data.explained[place];
    row.append(
      element("td", "number rank", grouped(place + 1)), feature, ...(hasShares ? [shared] : []),
      element("td", "number share", share >= 0 ? Math.round(share / 10) + "\u202f%" : ""),
      element("td", "number method", score)
    );
    markRow(row);
    return row;
  }
  function markRow(row) {
    const place = Number(row.dataset.place), inside = isMarked(place);
    row.className = inside ? "kept" : "dropped";
    const mark = row.querySelector(".mark");
    mark.replaceChildren();
    if (inside) {
      const tick = element("span", "", "✓");
      tick.setAttribute("aria-label", "kept");
      mark.append(tick);
    }
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
    const slider = byId("curve-slider"), curve = data.curve, sizes = data.sizes;
    const axis = sizes ? sizes : { x: curve.x, sizes: [1, Math.max(curve.kept.length, 2)] };
    const most = axis.sizes[axis.sizes.length - 1];
    const cursorAt = (k) => axis.x[0] + (axis.x[1] - axis.x[0]) * (k - 1) / (most - 1 || 1);
    const inNewSamples = (k) => {
      const at = sizes ? sizes.sizes.indexOf(k) : -1;
      return at < 0 ? "" : (k === 1 ? "1 feature predicts " : k + " features predict ") + Math.round(sizes.r2[at] / 10) +
        " ± " + Math.round(sizes.error[at] / 10) + "\u202f% of the others in new samples.";
    };
    const show = () => {
      const k = Number(slider.value), place = keptPlaces[k - 1];
      const others = [["principal components", curve.pca], ["random features", curve.random]]
        .filter(([, values]) => values && values.length >= k)
        .map(([name, values]) => k + " " + (k === 1 ? name.slice(0, -1) : name) + " " + percent(values[k - 1]));
      const text = (k === 1 ? "1 feature accounts for " : k + " features account for ") + percent(curve.kept[k - 1]) +
        " in this table" + (others.length ? "; " + others.join(", ") : "") + ".";
      const gain = curve.kept[k - 1] - (k > 1 ? curve.kept[k - 2] : 0);
      byId("curve-readout").replaceChildren(
        element("p", "", text),
        element("p", "", inNewSamples(k)),
        element("p", "small quiet", place === undefined ? "" : "Number " + k + " is “" + short(nameOf(place)) + "”: " + percent(gain) + " more in this table.")
      );
      slider.setAttribute("aria-valuetext", text);
      moveCursor("curve-cursor", cursorAt(Math.min(k, most)));
      if (k === keptPlaces.length) byId("curve-cursor").setAttribute("visibility", "hidden");
      if (k === marked) return;
      marked = k;
      Array.from(body.rows).forEach(markRow);
      for (const list of ["chips", "cards"]) {
        const items = byId(list) ? Array.from(byId(list).children) : [];
        items.forEach((item, i) => item.classList.toggle("out", i >= marked));
      }
    };
    byId("curve-control").hidden = false;
    slider.addEventListener("input", show);
    show();
  }

  // ---- take it along: names, and every feature as CSV ----
  // As in the files of the library: what a spreadsheet would run gets an apostrophe in front.
  const cell = (value) => {
    let text = value === undefined || value === null ? "" : String(value);
    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text)) text = "'" + text;
    return /[",\n\r]/.test(text) ? '"' + text.replace(/"/g, '""') + '"' : text;
  };
  const share = (part, unit) => part >= 0 ? part / unit : "";
  function asCsv() {
    const lines = [["rank", "feature", "kept", "shared", "accounted_for_by_the_kept", "stand_in", "stand_in_r2", "score"]];
    for (let place = 0; place < count; place++) {
      const other = data.standIns[0][place], kept = isMarked(place);
      lines.push([
        place + 1, nameOf(place), kept ? "yes" : "no", share(data.shares[place], 100),
        isKept(place) ? "" : share(data.explained[place], 1000), other < 0 ? "" : nameOf(other),
        other < 0 ? "" : share(data.standInR2[0][place], 100), data.scores[place],
      ]);
    }
    return lines.map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
  }
  const taken = (text) => { byId("taken").textContent = text; };
  async function copyNames() {
    const names = keptPlaces.slice(0, marked).map(nameOf).join("\n");
    let done = false;
    try {
      await navigator.clipboard.writeText(names);
      done = true;
    } catch (error) { // refused, or an old browser: the old way
      const area = element("textarea", "skip");
      area.value = names;
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
    }
    taken(done ? "Copied " + grouped(marked) + (marked === 1 ? " name." : " names, one on each line.") : "The browser does not allow copying.");
  }
  if (byId("take")) {
    byId("take").hidden = false;
    byId("copy").addEventListener("click", copyNames);
    byId("download").addEventListener("click", () => {
      // The mark at the start tells spreadsheets that this is UTF-8.
      const address = URL.createObjectURL(new Blob(["\ufeff", asCsv()], { type: "text/csv" }));
      const link = element("a");
      link.href = address;
      link.download = "features.csv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
      taken("Saved features.csv.");
    });
  }

  // ---- all that a kept feature stands in for, on request ----
  const UNRELATED = "cpu", MANY = 200; // as in sections.py
  function membersOf(kept) {
    const found = [];
    for (let place = 0; place < count; place++) {
      const part = data.standInR2[0][place];
      if (data.standIns[0][place] === kept && part > TOO_LITTLE && !isKept(place) && !UNRELATED.includes(data.codes[place])) found.push(place);
    }
    const parts = data.standInR2[0];
    return found.sort((a, b) => parts[b] - parts[a] || a - b);
  }
  document.querySelectorAll("#cards .rest").forEach((line) => {
    const card = line.closest("li"), rows = card.querySelector("tbody");
    const button = element("button", "small", "Show " + line.textContent.trim());
    button.type = "button";
    line.replaceChildren(button);
    button.addEventListener("click", () => {
      const all = membersOf(Number(card.dataset.place));
      all.slice(rows.rows.length, rows.rows.length + MANY).forEach((place) => {
        const row = element("tr"), name = element("th", "name", short(nameOf(place))), track = element("td", "track");
        name.scope = "row";
        track.append(bar(data.standInR2[0][place], "other"));
        row.append(name, track, element("td", "number", data.standInR2[0][place] + "\u202f%"));
        rows.append(row);
      });
      const left = all.length - rows.rows.length;
      if (left > 0) button.textContent = "Show " + grouped(left) + " more"; else line.remove();
    });
  });

  // ---- the samples: pointed at in one picture, found in all ----
  if (data.look) {
    const look = data.look, maps = Array.from(document.querySelectorAll("#maps svg")), heat = byId("heat");
    const placeOf = new Array(look.order.length);
    look.order.forEach((sample, place) => { placeOf[sample] = place; });
    const cursor = element("div", "heat-cursor on-screen");
    cursor.hidden = true;
    heat.parentNode.insertBefore(element("div", "heat-frame"), heat);
    heat.previousSibling.append(heat, cursor);
    let current = -1;
    const point = (sample, feature) => {
      if (sample === undefined || sample < 0 || sample >= look.names.length) return;
      maps.forEach((map) => {
        const dots = map.querySelectorAll("circle");
        if (current >= 0) dots[current].classList.remove("lit");
        dots[sample].classList.add("lit");
      });
      current = sample;
      byId("sample").textContent = "Sample " + look.names[sample] + (look.labels ? " · " + look.labels[sample] : "") + (feature ? " · " + feature : "");
      const cell = heat.querySelector("td"), frame = heat.parentNode.getBoundingClientRect(), box = cell.querySelector("img").getBoundingClientRect();
      const body = heat.tBodies[0].getBoundingClientRect();
      cursor.hidden = false;
      cursor.style.left = box.left - frame.left + box.width * (placeOf[sample] + 0.5) / look.names.length + "px";
      cursor.style.top = body.top - frame.top + "px";
      cursor.style.height = body.height + "px";
    };
    byId("sample").hidden = false;
    maps.forEach((map) => {
      const nearest = (event) => {
        const box = map.getBoundingClientRect(), u = (event.clientX - box.left) * 320 / box.width, v = (event.clientY - box.top) * 240 / box.height;
        let best = -1, least = 400; // at most 20 units away
        map.querySelectorAll("circle").forEach((dot, i) => {
          const far = (dot.cx.baseVal.value - u) ** 2 + (dot.cy.baseVal.value - v) ** 2;
          if (far < least) { least = far; best = i; }
        });
        point(best);
      };
      map.addEventListener("pointermove", nearest);
      map.addEventListener("pointerdown", nearest);
      map.addEventListener("keydown", (event) => {
        const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
        if (!step) return;
        event.preventDefault();
        const last = look.order.length - 1, from = current < 0 ? (step > 0 ? -1 : last + 1) : placeOf[current];
        point(look.order[Math.min(Math.max(from + step, 0), last)]);
      });
    });
    const inHeat = (event) => {
      const picture = event.target.closest("td") && event.target.closest("td").querySelector("img");
      if (!picture) return;
      const box = picture.getBoundingClientRect();
      const place = Math.floor((event.clientX - box.left) / box.width * look.order.length);
      point(look.order[place], picture.closest("tr").querySelector("th").textContent);
    };
    heat.addEventListener("pointermove", inHeat);
    heat.addEventListener("pointerdown", inHeat);
  }

  // ---- what is folded is printed, and opened by a link to it ----
  window.addEventListener("beforeprint", () => {
    for (const id of ["folded", "meaning", "curve-table"]) if (byId(id)) byId(id).open = true;
  });
  const unfold = () => { if (["#experts", "#path", "#solver", "#made"].includes(location.hash)) byId("folded").open = true; };
  window.addEventListener("hashchange", unfold);
  unfold();

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
  document.documentElement.dataset.ready = "yes"; // for tests, and for whoever prints the page
})();
