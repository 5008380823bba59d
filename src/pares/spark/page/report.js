"use strict";
const D = JSON.parse(document.getElementById("data").textContent);
const S = D.summary, T0 = S.from_ms, T1 = Math.max(S.to_ms, T0 + 1);
const SVG = "http://www.w3.org/2000/svg";

// Elements are made, never parsed: what stands in the data is text.
function el(tag, attrs = {}, ...kids) {
  const node = document.createElement(tag);
  for (const [k, v] of Object.entries(attrs)) k.startsWith("on") ? node.addEventListener(k.slice(2), v) : node.setAttribute(k, v);
  node.append(...kids.filter(k => k !== null));
  return node;
}
function sv(tag, attrs = {}, text = null) {
  const node = document.createElementNS(SVG, tag);
  for (const [k, v] of Object.entries(attrs)) node.setAttribute(k, v);
  if (text !== null) node.textContent = text;
  return node;
}
const at = id => document.getElementById(id);
const num = n => Number(n).toLocaleString("en-US");
const plural = (n, one, many = one + "s") => `${num(n)} ${n === 1 ? one : many}`;
function ms(v) {
  if (v === null || v === undefined) return "";
  const a = Math.abs(v);
  if (a < 1000) return `${num(Math.round(v))} ms`;
  if (a < 60000) return `${(v / 1000).toFixed(a < 10000 ? 2 : 1)} s`;
  const s = Math.round(v / 1000), h = Math.floor(s / 3600), m = Math.floor(s % 3600 / 60), p = n => String(n).padStart(2, "0");
  return h ? `${h} h ${p(m)} min` : `${m} min ${p(s % 60)} s`;
}
const round = v => ms(v).replace(/\.0+ s/, " s").replace(" 00 s", "").replace(" 00 min", "");
const clock = t => new Date(t).toISOString().slice(11, 23);
const short = id => id === null ? "nobody" : (names.get(id) || String(id).replace(/~[^~]*$/, ""));
// As `core/shown.py` does it: whole in the files, short here.
const token = n => Number.isInteger(n) && n >= 1e6 ? `...${String(n % 1e6).padStart(6, "0")}` : String(n);
const natural = new Intl.Collator("en", {numeric: true}).compare;

// One colour a name: a member that was started again keeps it.
const names = new Map(D.members.map(m => [m.id, m.name]));
const order = [...new Set(D.members.map(m => m.name))].sort(natural);
// Red is left to what went wrong.
const FEW = [[211, 0], [32, 4], [165, -4], [275, 4], [95, -2], [325, 4], [190, 0], [48, 0], [240, 8], [140, 6], [295, -6], [15, 6]];
const colours = new Map(order.map((n, i) => {
  const [hue, tier] = order.length <= FEW.length ? FEW[i] : [20 + (i * 137.508 + 191) % 325, [0, 11, -9][i % 3]];
  return [n, `hsl(${hue.toFixed(0)} var(--vivid) calc(var(--light) + ${tier}%))`];
}));
const colour = id => colours.get(short(id)) || "hsl(0 0% 55%)";

// The tooltip ---------------------------------------------------------------------------------------------------------
const tip = at("tip");
function show(event, lines) {
  tip.replaceChildren(...lines.filter(Boolean).map((l, i) => el("div", {}, i ? el("i", {}, l) : el("b", {}, l))));
  tip.hidden = false;
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = `${Math.max(6, Math.min(event.clientX + 14, innerWidth - w - 8))}px`;
  tip.style.top = `${event.clientY + h + 24 > innerHeight ? Math.max(6, event.clientY - h - 12) : event.clientY + 16}px`;
}
function hover(node, lines) {
  node.addEventListener("mousemove", e => show(e, lines()));
  node.addEventListener("mouseleave", () => { tip.hidden = true; });
  return node;
}

// Head and promises -----------------------------------------------------------------------------------------------------
function head() {
  const broken = D.promises.filter(p => p.verdict === "broken").length;
  const unsure = D.promises.filter(p => p.verdict === "unsure").length;
  const word = broken ? [`${plural(broken, "promise")} broken`, "broken"]
    : unsure ? [`No promise broken; ${unsure} can't be told for certain`, "unsure"] : ["No promise was broken", "kept"];
  const takes = Object.values(S.takeovers).reduce((n, t) => n + t.count, 0), w = S.writes;
  const facts = [
    [ms(T1 - T0), "observed"], [num(S.members), "members"], [num(S.roles), "roles"], [num(S.terms), "terms"],
    [num(takes), takes === 1 ? "takeover" : "takeovers"], [num(S.overlaps.certain + S.overlaps.unsure + S.overlaps.expected), "overlaps"],
    ...(w ? [[num(w.count), "writes"], [num(w.stale), "stale writes"], [num(w.duplicates), "duplicates"], [num(w.missing), "missing"]] : []),
  ];
  at("head").append(
    el("h1", {}, D.title),
    el("p", {class: "sub"}, `group ${D.group} on ${D.ledger}, from ${D.when}` + (S.exclusive ? "" : `, non-exclusive (overlap ${ms(S.overlap_ms)})`)),
    el("span", {class: `verdict ${word[1]}`}, word[0]),
    el("div", {class: "facts"}, ...facts.map(([v, l]) => el("div", {class: "fact"}, el("b", {}, v), el("span", {}, l)))),
    ...(D.cut_off ? [el("p", {class: "note"}, D.cut_off)] : []));
}
function promises() {
  at("promises").append(el("h2", {}, "What was promised"), el("ul", {class: "promises"}, ...D.promises.map(p =>
    el("li", {}, el("span", {class: `tag ${p.verdict.replace(" ", "-")}`}, p.verdict), el("div", {}, p.promise, el("p", {}, p.evidence))))));
  const a = S.allowances;
  if (a) at("promises").append(el("p", {class: "note"}, `Allowed: ${ms(a.append_ms)} for an append and its read-back, ${ms(a.error_ms)} for clocks that differ, `
    + `${ms(a.resolution_ms)} for rounding${S.exclusive ? "" : `, ${ms(a.slack_ms)} for timers`}.`));
}

// Takeovers: one row a cause, one dot a takeover, on a scale that shows milliseconds and seconds --------------------------
function takeovers() {
  const box = at("takeovers"), causes = Object.keys(S.takeovers);
  if (!causes.length) return;
  const groups = new Map(causes.map(c => [c, []]));
  for (const t of D.takeovers) groups.get(t[0])?.push(t);
  box.append(el("h2", {}, "How long takeovers took"),
    el("p", {class: "note"}, "From the end of one leader's belief, or from what was done to it, to the belief of the next. The bar is the median. Hollow dots are upper bounds: nobody saw when it stopped."));
  const most = Math.max(10, ...D.takeovers.map(t => t[1])), many = causes.reduce((n, c) => n + S.takeovers[c].count, 0);
  if (D.takeovers.length < many) box.append(el("p", {class: "note"}, `${num(D.takeovers.length)} of ${num(many)} are drawn: of each cause the shortest, the longest, and evenly between them.`));
  const field = el("div");
  box.append(field);
  // Drawn for the width that there is, one unit a pixel: a picture that is scaled down can't be read. Where it is narrow, a cause
  // and its numbers stand above its dots, and not beside them.
  function draw() {
    const W = Math.max(280, field.clientWidth || 1130), narrow = W < 700;
    const left = narrow ? 8 : 118, right = narrow ? 8 : 262, row = narrow ? 58 : 40, H = causes.length * row + 30;
    const x = v => left + (W - left - right) * Math.log1p(v) / Math.log1p(most * 1.08);
    const svg = sv("svg", {viewBox: `0 0 ${W} ${H}`, width: W, height: H, role: "img", "aria-label": "takeover times by cause"});
    let last = -99;
    for (const tick of [0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 60000, 300000, 3600000].filter(t => t <= most * 1.08)) {
      if (x(tick) - last < 46) continue;
      last = x(tick);
      const anchor = narrow && tick === 0 ? "start" : narrow && last > W - 30 ? "end" : "middle";
      svg.append(sv("line", {x1: last, x2: last, y1: 4, y2: H - 24, class: "axis"}), sv("text", {x: last, y: H - 8, "text-anchor": anchor}, tick === 0 ? "0" : round(tick)));
    }
    causes.forEach((cause, i) => {
      const top = i * row, y = top + (narrow ? 38 : 22), all = groups.get(cause), n = S.takeovers[cause];
      const numbers = [`${num(n.count)} ×`, `p50 ${ms(n.p50_ms)}`, `max ${ms(n.max_ms)}`];
      if (narrow) svg.append(sv("rect", {x: 0, y: top + 2, width: W, height: 19, class: "under"}), sv("text", {x: 0, y: top + 16, class: "name"}, cause),
        sv("text", {x: W, y: top + 16, class: "strong", "text-anchor": "end"}, numbers.join(" · ")));
      else svg.append(sv("text", {x: 0, y: y + 4, class: "name"}, cause), sv("text", {x: W - right + 52, y: y + 4, class: "strong", "text-anchor": "end"}, numbers[0]),
        sv("text", {x: W - right + 66, y: y + 4, class: "strong"}, numbers[1]), sv("text", {x: W - right + 162, y: y + 4, class: "strong"}, numbers[2]));
      const step = Math.max(1, Math.ceil(all.length / 3000));
      all.forEach((t, k) => {
        if (k % step) return;
        const spread = all.length < 4 ? 0 : ((k * 0.618034) % 1 - .5) * 20;
        const dot = sv("circle", {cx: x(t[1]), cy: y + spread, r: all.length > 300 ? 2.6 : 4, class: "dotp", ...(t[6] ? {fill: colour(t[4])} : {fill: "none", stroke: colour(t[4]), "stroke-width": 1.4})});
        svg.append(hover(dot, () => [`${t[2]}: ${short(t[3])} → ${short(t[4])}`, `${t[6] ? "" : "at most "}${ms(t[1])}, by ${t[0]}`, `${clock(t[5])}, ${ms(t[5] - T0)} after the start`]));
      });
      svg.append(sv("line", {x1: x(n.p50_ms), x2: x(n.p50_ms), y1: y - 13, y2: y + 13, class: "med"}));
    });
    field.replaceChildren(svg);
  }
  draw();
  window.addEventListener("resize", () => requestAnimationFrame(draw));
}

// The timeline: a lane a seat; only the lanes in view are drawn ------------------------------------------------------------
const lanes = [];
const view = {from: T0, to: T1, text: "", member: null, sort: "name", rows: []};
const NARROW = innerWidth < 640, ROW = 22, LEFT = NARROW ? 104 : 150, PAD = 14, LETTERS = NARROW ? 13 : 19;

function gather() {
  const found = new Map();
  const many = new Set(D.terms.filter(t => t[1] > 0).map(t => t[0]));
  const lane = (role, seat) => {
    const key = JSON.stringify([role, seat]);
    if (!found.has(key)) found.set(key, {role, seat, label: many.has(role) ? `${role} #${seat}` : role, terms: [], overs: []});
    return found.get(key);
  };
  for (const t of D.terms) lane(t[0], t[1]).terms.push(t);
  for (const role of D.empty) lane(role, 0);
  for (const o of D.overlaps) lane(o[0], o[1]).overs.push(o);
  lanes.push(...found.values());
}

function choose() {
  const text = view.text.toLowerCase();
  view.rows = lanes.filter(l => !text || l.label.toLowerCase().includes(text) || l.terms.some(t => short(t[2]).toLowerCase().includes(text)));
  view.rows.sort(view.sort === "name" ? (a, b) => natural(a.label, b.label) : (a, b) => b.terms.length - a.terms.length || natural(a.label, b.label));
}

function timeline() {
  gather();
  const box = at("timeline");
  const axis = sv("svg", {height: 38}), field = sv("svg"), scroll = el("div", {class: "lanes"}, field);
  const zoomOut = el("button", {onclick: () => { view.from = T0; view.to = T1; draw(); }}, "Whole time");
  const count = el("span", {class: "note"});
  const legend = el("div", {class: "legend"});
  const search = el("input", {type: "search", placeholder: "Find a role or member", "aria-label": "Find a role or member", oninput: e => { view.text = e.target.value; choose(); draw(); }});
  const sort = el("button", {onclick: () => { view.sort = view.sort === "name" ? "busy" : "name"; choose(); draw(); }});
  box.append(el("h2", {}, "Who led what, and when"),
    el("p", {class: "note"}, "One lane a role, one colour a member. Drag along the time to look closer; click a member to see only it. Triangles and dashed lines are what was done to members."),
    el("div", {class: "tools"}, search, sort, zoomOut, count), legend, el("div", {class: "frame", style: "margin-top:10px"}, axis, scroll));
  if (D.left_out) box.append(el("p", {class: "note"}, `The first are drawn; ${num(D.left_out)} later terms are not.`));
  for (const name of order) {
    const item = el("span", {tabindex: 0, role: "button"}, el("span", {class: "dot", style: `background:${colours.get(name)}`}), name);
    const pick = () => { view.member = view.member === name ? null : name; for (const o of legend.children) o.classList.toggle("on", o === item && view.member !== null); draw(); };
    item.addEventListener("click", pick);
    item.addEventListener("keydown", e => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); pick(); } });
    legend.append(item);
  }
  const severe = f => f === "crash" || f === "freeze" || f === "cut";
  const width = () => Math.max(280, axis.clientWidth || 1130);
  const X = w => { const k = (w - LEFT - PAD) / (view.to - view.from); return t => LEFT + (t - view.from) * k; };

  function ticks(span) {
    for (const s of [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5]) if (span / s <= (NARROW ? 4 : 11)) return s;
    return span / 8;
  }
  function rule(w, x) {
    axis.replaceChildren();
    axis.setAttribute("viewBox", `0 0 ${w} 38`);
    const step = ticks(view.to - view.from);
    const grid = [];
    for (let t = Math.ceil((view.from - T0) / step) * step; T0 + t <= view.to; t += step) {
      grid.push(x(T0 + t));
      axis.append(sv("text", {x: x(T0 + t), y: 15, "text-anchor": "middle"}, t === 0 ? "start" : round(t)));
    }
    D.faults.forEach(f => {
      if (f[0] < view.from || f[0] > view.to) return;
      const fx = x(f[0]), flag = sv("path", {d: `M${fx - 5} 22h10l-5 10z`, class: severe(f[2]) ? "flag" : "flag mild"});
      axis.append(hover(flag, () => [`${f[2]}: ${short(f[1])}`, `${clock(f[0])}, ${ms(f[0] - T0)} after the start`]));
    });
    return grid;
  }
  function laneOf(lane, y, w, x) {
    const name = sv("text", {x: 10, y: y + 15, class: "name"}, lane.label.length > LETTERS ? lane.label.slice(0, LETTERS - 1) + "…" : lane.label);
    field.append(hover(name, () => [lane.label, `${plural(lane.terms.length, "term")}`]), sv("rect", {x: LEFT, y: y + 3, width: w - LEFT - PAD, height: ROW - 6, rx: 3, class: "lane"}));
    for (const t of lane.terms) {
      if (t[5] < view.from || t[4] > view.to) continue;
      const a = Math.max(x(t[4]), LEFT), b = Math.min(x(t[5]), w - PAD), dim = view.member !== null && view.member !== short(t[2]);
      const bar = sv("rect", {x: a, y: y + 3, width: Math.max(b - a, 1.2), height: ROW - 6, rx: b - a > 6 ? 2.5 : 0, fill: colour(t[2]), class: dim ? "term dim" : "term"});
      field.append(hover(bar, () => [`${lane.label}: ${short(t[2])}`, `from ${clock(t[4])} to ${t[8] ? "the end of the log, and on" : clock(t[5])} (${ms(t[5] - t[4])})`, `token ${token(t[3])}`,
        t[8] ? "" : `ended by ${t[7]}${t[6] && t[6] !== t[7] ? `: ${t[6]}` : ""}`, t[9] ? "" : "it did not live to say when it stopped: at the latest then"]));
    }
    for (const o of lane.overs) {
      if (o[3] < view.from || o[2] > view.to) continue;
      const mark = sv("rect", {x: Math.max(x(o[2]), LEFT) - 1, y: y + 1.5, width: Math.max(x(o[3]) - x(o[2]), 3) + 2, height: ROW - 3, rx: 3, class: o[4] || !o[5] ? "over ok" : "over"});
      field.append(hover(mark, () => [`two led ${lane.label} for ${ms(o[3] - o[2])}`, `from ${clock(o[2])}`, o[4] ? "as the non-exclusive mode allows" : o[5] ? "certain" : "can't be excluded"]));
    }
    for (const f of D.faults) {
      if (f[0] < view.from || f[0] > view.to) continue;
      const hit = lane.terms.find(t => (t[2] === f[1] || short(t[2]) === f[1]) && t[4] <= f[0] && f[0] <= t[5]);
      if (!hit) continue;
      const fx = x(f[0]), glyph = sv("path", {d: `M${fx - 4} ${y + 2}h8l-4 7z`, class: severe(f[2]) ? "flag" : "flag mild", stroke: "var(--card)", "stroke-width": .8});
      field.append(hover(glyph, () => [`${f[2]}: ${short(f[1])}`, `while it led ${lane.label}`, `${clock(f[0])}, ${ms(f[0] - T0)} after the start`]));
    }
  }
  function draw() {
    const w = width(), x = X(w), grid = rule(w, x), H = view.rows.length * ROW + 6;
    field.setAttribute("height", H);
    field.setAttribute("viewBox", `0 0 ${w} ${H}`);
    field.replaceChildren();
    const first = Math.max(0, Math.floor(scroll.scrollTop / ROW) - 4), last = Math.min(view.rows.length, first + Math.ceil((scroll.clientHeight || 620) / ROW) + 10);
    const top = first * ROW, bottom = last * ROW + 4;
    for (let i = first; i < last; i++) laneOf(view.rows[i], i * ROW + 2, w, x);
    for (const gx of grid) field.prepend(sv("line", {x1: gx, x2: gx, y1: top, y2: bottom, class: "axis"}));
    for (const f of D.faults) if (severe(f[2]) && f[0] >= view.from && f[0] <= view.to) field.append(sv("line", {x1: x(f[0]), x2: x(f[0]), y1: top, y2: bottom, class: "fault", "pointer-events": "none"}));
    sort.textContent = view.sort === "name" ? "Busiest first" : "By name";
    zoomOut.disabled = view.from === T0 && view.to === T1;
    count.textContent = view.rows.length === lanes.length ? plural(lanes.length, "lane") : `${view.rows.length} of ${plural(lanes.length, "lane")}`;
  }
  // Drag to zoom, double click for all.
  let start = null, band = null;
  const frame = axis.parentElement;
  const time = e => { const r = axis.getBoundingClientRect(), w = width(); return Math.min(view.to, Math.max(view.from, view.from + ((e.clientX - r.left) * w / r.width - LEFT) / (w - LEFT - PAD) * (view.to - view.from))); };
  frame.addEventListener("pointerdown", e => { if (e.button === 0 && e.clientX - frame.getBoundingClientRect().left > LEFT && e.offsetX < frame.clientWidth) { start = [time(e), e.clientX]; } });
  window.addEventListener("pointermove", e => {
    if (!start || Math.abs(e.clientX - start[1]) < 5) return;
    if (!band) { band = el("div", {style: "position:absolute;top:0;bottom:0;background:color-mix(in srgb, var(--ink) 14%, transparent);pointer-events:none"}); frame.append(band); }
    const r = frame.getBoundingClientRect();
    band.style.left = `${Math.min(e.clientX, start[1]) - r.left}px`;
    band.style.width = `${Math.abs(e.clientX - start[1])}px`;
    e.preventDefault();
  });
  window.addEventListener("pointerup", e => {
    if (band && start) { const ends = [start[0], time(e)].sort((a, b) => a - b); if (ends[1] - ends[0] >= 2) { [view.from, view.to] = ends; draw(); } }
    band?.remove(); band = start = null;
  });
  frame.addEventListener("dblclick", () => { view.from = T0; view.to = T1; draw(); });
  scroll.addEventListener("scroll", () => requestAnimationFrame(draw));
  window.addEventListener("resize", () => requestAnimationFrame(draw));
  choose();
  draw();
}

// Tables ---------------------------------------------------------------------------------------------------------------
function table(columns, rows) {
  return el("div", {class: rows.length > 16 ? "scroll tall" : "scroll"}, el("table", {}, el("thead", {}, el("tr", {}, ...columns.map(c => el("th", c.n ? {class: "n"} : {}, c.name)))),
    el("tbody", {}, ...rows.map(r => el("tr", {}, ...r.map((v, i) => el("td", columns[i].n ? {class: "n"} : {}, v instanceof Node ? v : v === null || v === undefined ? "" : String(v))))))));
}
const col = (name, n = false) => ({name, n});
function members() {
  if (!D.members.length) return;
  const bar = (share, id) => { const s = sv("svg", {width: 130, height: 12, viewBox: "0 0 130 12", style: "width:130px"}); s.append(sv("rect", {x: 0, y: 1, width: 130, height: 10, rx: 3, class: "lane"}), sv("rect", {x: 0, y: 1, width: Math.max(share > 0 ? 2 : 0, 130 * share / top), height: 10, rx: 3, fill: colour(id)})); return s; };
  const top = Math.max(1e-9, ...D.members.map(m => m.share));
  const rel = t => t === null ? "" : ms(Math.max(0, t - T0));
  at("members").append(el("h2", {}, "Who carried how much"), table(
    [col("member"), col("host"), col("came", true), col("left", true), col("terms", true), col("led for", true), col("most at once", true), col("share"), col("", true)],
    D.members.map(m => [el("span", {title: m.id}, el("span", {class: "dot", style: `background:${colour(m.id)}`}), m.name), m.host, rel(m.from), m.to === null ? "" : rel(m.to), num(m.terms), ms(m.led), num(m.most), bar(m.share, m.id), `${(100 * m.share).toFixed(1)} %`])));
  if (D.members_left_out) at("members").append(el("p", {class: "note"}, `The first members are listed; ${num(D.members_left_out)} more are not.`));
}
function numbers() {
  const box = at("numbers"), causes = rows => table([col("cause"), col("count", true), col("p50", true), col("longest", true), col("sum", true)],
    Object.entries(rows).map(([c, n]) => [c, num(n.count), ms(n.p50_ms), ms(n.max_ms), ms(n.sum_ms)]));
  box.append(el("h2", {}, "The numbers"));
  if (Object.keys(S.takeovers).length) box.append(el("h3", {}, "Takeovers, by what they came"), causes(S.takeovers));
  if (Object.keys(S.gaps).length) box.append(el("h3", {}, "Gaps, when nobody led, by what they came"), causes(S.gaps));
  if (S.overlaps.double_ms) box.append(el("p", {class: "note"}, `Time in which two or more led one role: ${ms(S.overlaps.double_ms)}.`));
  if (S.writes) box.append(el("h3", {}, "Writes at the sink"), table(Object.keys(S.writes).map(k => col(k, true)), [Object.values(S.writes).map(num)]));
  for (const t of D.tables) {
    if (!t.count) continue;
    const isTime = t.columns.map(c => c.endsWith("_ms") || c === "at_ms");
    const isToken = t.columns.map(c => c === "seen" || c === "token" || c.startsWith("token_"));
    const isNumber = t.columns.map((c, i) => !isTime[i] && t.rows.some(r => typeof r[i] === "number"));
    box.append(el("h3", {}, `${t.title} (${num(t.count)})`), table(t.columns.map((c, i) => col(c.replace(/_ms$/, ""), isNumber[i])),
      t.rows.map(r => r.map((v, i) => v === null ? "" : isTime[i] ? clock(v) : isToken[i] ? el("span", {title: v}, token(v)) : typeof v === "string" && v.length > 60 ? v.slice(0, 60) + "…" : v))));
    if (t.rows.length < t.count) box.append(el("p", {class: "note"}, `The first ${t.rows.length} of ${num(t.count)}; all are in the audit's files.`));
  }
}


// The worst moments: what to look at first, with the records around each ----------------------------------------------------
function moments() {
  if (!D.moments.length) return;
  const names = ["offset", "time", "kind", "member", "role", "seat", "token", "other", "counted"];
  at("moments").append(el("h2", {}, "The worst moments"), ...D.moments.map(m => {
    const where = m.role === null ? "" : `, role ${m.role}` + (m.seat ? `, seat ${m.seat}` : "");
    const box = el("details", {class: "moment"}, el("summary", {}, el("b", {}, m.what + (m.verdict ? `, ${m.verdict}` : "")), `${where}: ${m.why}`));
    const cell = (v, i) => v === null ? "" : i === 1 ? clock(v) : i === 6 ? token(v) : i === 8 ? (v ? "" : "no") : v;
    // Those that the moment names stand out from those around them.
    const rows = m.records.map(r => r.map((v, i) => m.offsets.includes(r[0]) ? el("b", {}, String(cell(v, i))) : cell(v, i)));
    if (rows.length) box.append(table(names.map((n, i) => col(n, i === 0)), rows));
    return box;
  }));
}
// How much of each hour each role was led -------------------------------------------------------------------------------------
function heat() {
  const H = D.heat, roles = Object.entries(H.cells);
  if (!roles.length) return;
  const hours = H.step_ms / 3600000, when = i => new Date(H.from_ms + i * H.step_ms).toISOString().slice(0, 16).replace("T", " ");
  const shade = v => v === null ? "transparent" : v === 1000 ? "var(--good-bg)" : `color-mix(in srgb, var(--bad) ${Math.min(100, 12 + (1000 - v) / 4)}%, var(--good-bg))`;
  at("heat").append(el("h2", {}, "How much of each hour each role was led"),
    el("p", {class: "note"}, `From ${when(0)} UTC on; a cell is ${hours === 1 ? "an hour" : `${hours} hours`}. The redder, the longer nobody led; pauses count as led.`
      + (H.left_out ? ` The ${roles.length} roles that were led least.` : "")),
    el("div", {class: "scroll"}, el("table", {class: "heat"}, el("tbody", {}, ...roles.map(([role, cells]) => el("tr", {}, el("td", {class: "role", title: role}, role),
      ...cells.map((v, i) => hover(el("td", {style: `background:${shade(v)}`}), () => [role, when(i), v === null ? "not there" : `led for ${(v / 10).toFixed(1)} %`]))))))));
}
function lineage() {
  at("lineage").append(el("h2", {}, "What this page was made of"), table([col("what"), col("")], D.lineage.map(([k, v]) => [k, el("span", {style: "white-space:normal;overflow-wrap:anywhere"}, v)])));
}

for (const part of [head, promises, moments, heat, takeovers, timeline, members, numbers, lineage]) part();
