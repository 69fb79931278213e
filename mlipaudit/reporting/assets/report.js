// SPDX-License-Identifier: Apache-2.0
// What a report does besides being read: pages, charts, structures, sorting, downloads. It asks no other host for anything.
"use strict";
(() => {
  const root = document.documentElement;
  const pages = new Map([...document.querySelectorAll(".page")].map((page) => [page.dataset.page, page]));
  let isDark = matchMedia("(prefers-color-scheme: dark)").matches;
  root.classList.add("js");

  // As JSON, or as that deflated and in base64.
  async function dataOf(figure) {
    const script = figure.querySelector("script");
    if (script.type === "application/json") return JSON.parse(script.textContent);
    const bytes = Uint8Array.from(atob(script.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Response(stream).json();
  }

  function style(name) {
    return getComputedStyle(root).getPropertyValue(name).trim();
  }

  function theme() {
    const [ink, soft, line] = ["--ink", "--soft", "--line"].map(style);
    const font = getComputedStyle(document.body).fontFamily;
    return {
      background: null, font, padding: 4, view: { stroke: null },
      title: { color: ink, font, fontSize: 14, fontWeight: 600, anchor: "start", subtitleColor: soft },
      axis: { labelColor: soft, titleColor: ink, domainColor: line, tickColor: line, gridColor: line, gridOpacity: 0.6,
        labelFont: font, titleFont: font, labelFontSize: 12, titleFontSize: 12, titleFontWeight: 500 },
      legend: { labelColor: ink, titleColor: soft, labelFont: font, titleFont: font, labelFontSize: 12 },
      header: { labelColor: ink, titleColor: soft, labelFont: font, titleFont: font },
      text: { color: ink, font }, rule: { color: soft },
    };
  }

  async function drawChart(figure) {
    const spec = await dataOf(figure);
    const canvas = figure.querySelector(".canvas");
    const options = { actions: false, renderer: "svg", config: theme(), mode: "vega-lite" };
    const { view } = await vegaEmbed(canvas, spec, options);
    figure.view = view;
    figure.dataset.drawn = "yes";
  }

  async function drawMolecule(figure) {
    const molecule = await dataOf(figure);
    const box = figure.querySelector(".view");
    box.replaceChildren();
    const viewer = $3Dmol.createViewer(box, { backgroundAlpha: 0 });
    viewer.addModel(molecule.xyz, "xyz");
    const isLarge = molecule.size > 1500;
    viewer.setStyle({}, isLarge ? { line: {} } : { stick: { radius: 0.13 }, sphere: { scale: 0.24 } });
    for (const [start, end] of molecule.edges) viewer.addLine({ start, end, color: "gray" });
    viewer.zoomTo();
    viewer.render();
    figure.dataset.drawn = "yes";
  }

  function draw(page, again = false) {
    for (const figure of page.querySelectorAll(".chart")) {
      const isHidden = figure.closest("details:not([open])");
      if (!isHidden && (again || !figure.dataset.drawn)) drawChart(figure);
    }
    for (const figure of page.querySelectorAll(".molecule")) if (!figure.dataset.drawn) drawMolecule(figure);
  }

  function show() {
    const asked = decodeURIComponent(location.hash.slice(1));
    const page = pages.get(asked) ?? pages.get("overview") ?? pages.values().next().value;
    for (const other of pages.values()) other.classList.toggle("shown", other === page);
    for (const link of document.querySelectorAll("nav a")) {
      if (link.getAttribute("href") === `#${encodeURI(page.dataset.page)}`) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.querySelector("nav").classList.remove("open");
    document.querySelector("#menu").setAttribute("aria-expanded", "false");
    document.title = `${page.dataset.title} · ${document.querySelector("header .title").textContent}`;
    scrollTo(0, 0);
    draw(page);
  }

  function setTheme(dark) {
    isDark = dark;
    root.dataset.theme = dark ? "dark" : "light";
    document.querySelector("#theme").textContent = dark ? "Light" : "Dark";
    for (const page of pages.values()) {
      if (page.classList.contains("shown")) draw(page, true);
      else for (const figure of page.querySelectorAll(".chart")) delete figure.dataset.drawn;
    }
  }

  // Numbers by value, those that are none last; the rest as text.
  function sort(header) {
    const table = header.closest("table"), column = [...header.parentNode.children].indexOf(header);
    const down = header.getAttribute("aria-sort") !== "descending";
    for (const other of header.parentNode.children) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", down ? "descending" : "ascending");
    const isNumeric = header.classList.contains("numeric"), sign = down ? -1 : 1;
    const key = (row) => {
      const cell = row.children[column], text = cell.dataset.value ?? cell.textContent.trim();
      return isNumeric ? parseFloat(text.replace("<", "")) : text.toLowerCase();
    };
    const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
    rows.sort(([a], [b]) => {
      if (isNumeric && (isNaN(a) || isNaN(b))) return isNaN(a) - isNaN(b);
      return sign * (isNumeric ? a - b : a.localeCompare(b, undefined, { numeric: true }));
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }

  function save(name, content) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(content);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  }

  function asCsv(table) {
    const quoted = (text) => (/[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const cells = (row) => [...row.cells].map((cell) => quoted(cell.dataset.value ?? cell.textContent.trim()));
    return [...table.rows].map((row) => cells(row).join(",")).join("\n") + "\n";
  }

  async function saveChart(figure, kind) {
    if (!figure.view) await drawChart(figure);
    if (kind === "svg") return save(`${figure.dataset.name}.svg`, new Blob([await figure.view.toSVG()], { type: "image/svg+xml" }));
    const canvas = await figure.view.toCanvas(2);
    canvas.toBlob((blob) => save(`${figure.dataset.name}.png`, blob));
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    const figure = button.closest("figure");
    if (button.closest("th")) sort(button.closest("th"));
    else if (button.id === "theme") setTheme(!isDark);
    else if (button.id === "menu") {
      button.setAttribute("aria-expanded", document.querySelector("nav").classList.toggle("open"));
    } else if (button.dataset.save === "csv") {
      save(`${figure.dataset.name}.csv`, new Blob([asCsv(figure.querySelector("table"))], { type: "text/csv" }));
    } else if (button.dataset.save) saveChart(figure, button.dataset.save);
  });
  document.addEventListener("toggle", (event) => event.target.open && draw(event.target.closest(".page")), true);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", (event) => setTheme(event.matches));
  addEventListener("hashchange", show);
  addEventListener("beforeprint", () => pages.forEach((page) => draw(page)));
  document.querySelector("#theme").textContent = isDark ? "Light" : "Dark";
  show();
})();
