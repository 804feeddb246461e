"use strict";
const told = JSON.parse(document.getElementById("jobs").textContent);
const only = document.getElementById("only");
only?.append(...told.rules.map((name, number) => new Option(name, number)));
// While a run goes on, the page reloads itself, and stays as its reader has left it.
if (told.again) {
  const place = `fasthep-smk ${location.pathname}`, seconds = () => Date.now() / 1000, loaded = seconds();
  const closed = [...document.querySelectorAll("details")];
  try {
    const left = JSON.parse(sessionStorage.getItem(place) || "{}");
    closed.forEach((one, at) => { one.open = left.open?.[at] ?? one.open; });
    if (left.only > 0) only.selectedIndex = left.only;
  } catch { /* the browser keeps nothing */ }
  if (loaded - told.made > 3 * told.again + 60) {
    document.getElementById("renewed").textContent += " It has not been renewed for a long time: perhaps the run was killed.";
  }
  setInterval(() => {
    if (seconds() - loaded < told.again || getSelection().toString()) return;
    const state = { open: closed.map((one) => one.open), only: only?.selectedIndex };
    try { sessionStorage.setItem(place, JSON.stringify(state)); } catch { /* as above */ }
    location.reload();
  }, 1000);
}

// The charts, drawn by Observable Plot (vendor/).
function draw() {
  const grey = "var(--wait)", failed = "failed attempt";
  const colour = (number) => d3.schemeObservable10[number % 10];
  const latest = d3.max(told.jobs, (job) => job[4]);
  const [unit, size] = latest > 7200 ? ["hours", 3600] : latest > 300 ? ["minutes", 60] : ["seconds", 1];
  const jobs = told.jobs
    .map(([rule, row, wait, start, end, retries, key, kind = 0]) => ({ rule, row, wait: wait / size, start: start / size, end: end / size, retries, key, kind }))
    .filter((job) => only.value === "" || job.rule === Number(only.value));
  const last = latest / size, span = { domain: [0, last], label: unit, grid: true, nice: false };
  const width = Math.max(280, document.getElementById("timeline").clientWidth);
  const put = (place, ...parts) => document.getElementById(place).replaceChildren(...parts);
  const legend = (items) => {
    const list = document.createElement("ul");
    list.className = "legend";
    for (const [name, shown] of items) {
      const item = document.createElement("li"), box = document.createElement("i");
      box.style.background = shown;
      if (name === failed) box.className = "framed";
      item.append(box, name);
      list.append(item);
    }
    return list;
  };

  const tall = Math.max(3, Math.min(18, 900 / told.rows.length)), shown = (value) => `${value.toFixed(2)} ${unit}`;
  // One label for the rows of a pool on a host, at the first of them: as many as there is room for.
  const labels = told.rows.map((name, row) => [name, row]).filter(([name, row]) => told.rows[row - 1] !== name)
    .filter(([, row], at, all) => !at || (row - all[at - 1][1]) * tall >= 12);
  const bar = { y1: "row", y2: (job) => job.row + 0.9, x1: "start", x2: (job) => Math.max(job.end, job.start + last / 2000), fill: (job) => colour(job.rule) };
  put("timeline", legend([...told.rules.map((name, number) => [name, colour(number)]), ["waiting", grey], ...(told.jobs.some((job) => job[7] === 1) ? [[failed, "none"]] : [])]), Plot.plot({
    width, height: told.rows.length * tall + 60, marginLeft: 130, x: span,
    y: { axis: null, domain: [-0.6, told.rows.length], reverse: true },
    marks: [
      Plot.rect(jobs.filter((job) => job.wait < job.start), { x1: "wait", x2: "start", y1: (job) => job.row + 0.3, y2: (job) => job.row + 0.7, fill: grey }),
      Plot.rect(jobs.filter((job) => job.kind), { ...bar, fillOpacity: 0.5 }),
      Plot.rect(jobs.filter((job) => !job.kind), bar),
      Plot.rect(jobs.filter((job) => job.kind === 1), { ...bar, fill: "none", stroke: "var(--bad)", strokeWidth: 2 }),
      Plot.dot(jobs.filter((job) => job.retries), { x: "start", y: (job) => job.row + 0.45, symbol: "diamond", r: 4, fill: "currentColor" }),
      Plot.text(labels, { x: 0, dx: -6, y: ([, row]) => row + 0.45, text: "0", textAnchor: "end", fontSize: 11 }),
      Plot.tip(jobs, Plot.pointer({
        x: (job) => (job.start + job.end) / 2, y: (job) => job.row + 0.45, maxRadius: 60, fill: "var(--card)",
        title: (job) => `${told.rules[job.rule]} ${job.key}\nwaited ${shown(job.start - job.wait)}, ran ${shown(job.end - job.start)}${["", ", then it failed", " so far"][job.kind]}${job.retries ? `\nfailed attempts before: ${job.retries}` : ""}`,
      })),
    ],
  }));

  // A chart for each pool: their limits differ. A limit that is far away is told, not drawn.
  const area = (curve, label, fill, limit) => {
    const steps = curve.map(([time, many]) => ({ time: time / size, many }));
    const most = d3.max(steps, (step) => step.many) || 1, near = limit <= 3 * most ? [limit] : [];
    return Plot.plot({
      width, height: 120, marginLeft: 48, x: span,
      y: { label, grid: true, domain: [0, Math.max(most, ...near)], ticks: Math.min(4, most), tickFormat: "d" },
      marks: [
        Plot.areaY(steps, { x: "time", y: "many", curve: "step-after", fill }),
        Plot.ruleY(near, { stroke: "currentColor", strokeDasharray: "5 3" }),
        Plot.ruleY([0]),
      ],
    });
  };
  const pools = Object.entries(told.running).flatMap(([pool, curve]) => {
    const title = document.createElement("h4"), limit = told.limits[pool];
    title.textContent = `${pool || "no pool"}${limit ? `: limit ${limit}` : ""}`;
    return [title, area(curve, "jobs that ran", "#a463f2", limit)];
  });
  const queued = told.queue.map(([time, pool, why, many]) => ({ time: time / size, why: `${pool}: ${why}`, many }));
  const reasons = [...new Set(queued.map((one) => one.why))], asked = [...new Set(queued.map((one) => one.time))];
  const step = d3.min(d3.pairs(asked), ([one, next]) => next - one) ?? last / 50;
  put("concurrency", ...pools, area(told.waiting, "jobs that waited", grey), ...(queued.length ? [legend(reasons.map((why, number) => [why, colour(number)])), Plot.plot({
    width, height: 130, marginLeft: 48, x: span, y: { label: "jobs in the queue", grid: true, ticks: Math.min(5, d3.max(queued, (one) => one.many)) },
    marks: [
      Plot.rectY(queued, { x1: "time", x2: (one) => one.time + step, y: "many", fill: (one) => colour(reasons.indexOf(one.why)) }),
      Plot.ruleY([0]),
    ],
  })] : []));

  const memory = told.memory.map(([rule, least, most, asked]) => ({ rule, least, most, asked }));
  // From megabytes to hundreds of gigabytes: each step of the scale is a factor.
  const amounts = memory.flatMap((one) => [one.least, one.most, one.asked]).filter((amount) => amount > 0);
  const low = (d3.min(amounts) ?? 1e8) / 1.5, inBytes = (amount) => amount >= 1e9 ? `${+(amount / 1e9).toPrecision(3)} GB` : `${+(amount / 1e6).toPrecision(3)} MB`;
  if (memory.length) put("memory", Plot.plot({
    width, height: memory.length * 30 + 60, marginLeft: Math.min(240, width / 3),
    x: { type: "log", domain: [low, (d3.max(amounts) ?? 1e9) * 1.3], label: null, grid: true, ticks: 8, tickFormat: inBytes },
    y: { domain: memory.map((one) => one.rule), axis: null, padding: 0.35 },
    marks: [
      Plot.barX(memory, { x1: (one) => Math.max(low, one.least * 0.985), x2: (one) => Math.max(low, one.most * 1.015), y: "rule", fill: (one) => colour(one.rule), title: (one) => `${told.rules[one.rule]}: ${inBytes(one.least)} to ${inBytes(one.most)}` }),
      Plot.tickX(memory.filter((one) => one.asked), { x: "asked", y: "rule", stroke: "currentColor", strokeWidth: 2, title: (one) => `asked for ${inBytes(one.asked)}` }),
      Plot.text(memory, { x: low, y: "rule", text: (one) => told.rules[one.rule], textAnchor: "end", dx: -6, fontSize: 11 }),
      Plot.ruleX([low]),
    ],
  }));
}

if (only) {
  let planned;
  draw();
  only.addEventListener("change", draw);
  addEventListener("resize", () => { clearTimeout(planned); planned = setTimeout(draw, 150); });
}
