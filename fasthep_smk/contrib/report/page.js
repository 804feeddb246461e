"use strict";
// The page while a run goes on: it reloads itself, and stays as its reader has left it.
(() => {
  const told = JSON.parse(document.getElementById("jobs").textContent);
  if (!told.again) return;
  const place = `fasthep-smk ${location.pathname}`, seconds = () => Date.now() / 1000;
  const closed = () => [...document.querySelectorAll("details")];
  const state = () => JSON.stringify({ open: closed().map((one) => one.open), only: document.getElementById("only")?.selectedIndex });
  try {
    const left = JSON.parse(sessionStorage.getItem(place) || "{}");
    closed().forEach((one, at) => { one.open = left.open?.[at] ?? one.open; });
    told.only = left.only;
  } catch { /* without a memory of its own */ }
  document.fasthep = told;
  const loaded = seconds();
  if (loaded - told.made > 3 * told.again + 60) {
    document.getElementById("renewed").textContent += " It has not been renewed for a long time: perhaps the run was killed.";
  }
  setInterval(() => {
    if (seconds() - loaded < told.again || getSelection().toString()) return;
    try { sessionStorage.setItem(place, state()); } catch { /* as above */ }
    location.reload();
  }, 1000);
})();
// The charts of the page, drawn by Observable Plot (vendor/) from the JSON that the page holds.
(() => {
  const told = document.fasthep ?? JSON.parse(document.getElementById("jobs").textContent);
  const timeline = document.getElementById("timeline");
  if (!timeline || !told.jobs.length) return;
  const colours = ["#4269d0", "#efb118", "#e8604c", "#3ca951", "#6cc5b0", "#c77dba", "#a463f2", "#97bbf5", "#9c6b4e", "#8c95a3"];
  const grey = "var(--wait)";
  const colour = (number) => colours[number % colours.length];
  const pools = Object.keys(told.running);
  const latest = Math.max(...told.jobs.map((job) => job[4]));
  const [unit, size] = latest > 7200 ? ["hours", 3600] : latest > 300 ? ["minutes", 60] : ["seconds", 1];
  const jobs = told.jobs.map(([rule, row, wait, start, end, retries, key, kind = 0]) => ({ rule, row, wait: wait / size, start: start / size, end: end / size, retries, key, kind }));
  const last = latest / size;
  const only = document.getElementById("only");
  told.rules.forEach((name, number) => only.add(new Option(name, number)));
  if (told.only > 0) only.selectedIndex = told.only;

  const failed = "failed attempt";
  const legend = (names, colourOf) => {
    const list = document.createElement("ul");
    list.className = "legend";
    for (const [name, shown] of names.map((name, number) => [name, colourOf(number)])) {
      const item = document.createElement("li"), box = document.createElement("i");
      box.style.background = shown;
      if (name === failed) box.className = "framed";
      item.append(box, name);
      list.append(item);
    }
    return list;
  };
  const most = (curves) => Math.max(1, ...Object.values(curves).flat());
  const put = (place, ...parts) => document.getElementById(place).replaceChildren(...parts);
  const shown = (value) => `${value.toFixed(2)} ${unit}`;
  const span = { domain: [0, last], label: unit, grid: true, nice: false };

  function draw() {
    const width = Math.max(280, timeline.clientWidth);
    const narrow = width < 600;
    const chosen = only.value === "" ? jobs : jobs.filter((job) => job.rule === Number(only.value));
    const tall = Math.max(3, Math.min(narrow ? 30 : 18, 900 / told.rows.length));
    // Where there is no room beside them, labels stand above the bars.
    const top = narrow && tall > 20 ? 0.45 : 0, end = (job) => job.row + 0.9, upper = (job) => job.row + top;
    // One label for the rows of a pool on a host: at the first of them.
    const labels = told.rows.map((name, row) => [name, row]).filter(([name, row]) => told.rows[row - 1] !== name)
      // As many as there is room for.
      .filter(([, row], at, all) => !at || (row - all[at - 1][1]) * tall >= 12);
    const left = narrow ? 8 : 130;
    const others = ["waiting", ...(jobs.some((job) => job.kind === 1) ? [failed] : [])];
    put("timeline", legend([...told.rules, ...others], (number) => number < told.rules.length ? colour(number) : number === told.rules.length ? grey : "none"), Plot.plot({
      width, height: told.rows.length * tall + 60, marginLeft: left, marginTop: narrow ? 24 : 10,
      x: span, y: { axis: null, domain: [-0.6, told.rows.length], reverse: true },
      marks: [
        Plot.rect(chosen.filter((job) => job.wait < job.start), { x1: "wait", x2: "start", y1: (job) => job.row + 0.3 + 0.7 * top, y2: (job) => job.row + 0.7 + 0.15 * top, fill: grey }),
        Plot.rect(chosen.filter((job) => job.kind), { x1: "start", x2: "end", y1: upper, y2: end, fill: (job) => colour(job.rule), fillOpacity: 0.5 }),
        Plot.rect(chosen.filter((job) => !job.kind), {
          x1: "start", x2: (job) => Math.max(job.end, job.start + last / 2000), y1: upper, y2: end, fill: (job) => colour(job.rule),
        }),
        Plot.rect(chosen.filter((job) => job.kind === 1), { x1: "start", x2: "end", y1: upper, y2: end, fill: "none", stroke: "var(--bad)", strokeWidth: 2 }),
        Plot.dot(chosen.filter((job) => job.retries), { x: "start", y: (job) => job.row + 0.45, symbol: "diamond", r: 4, fill: "currentColor" }),
        Plot.text(labels, narrow
          ? { x: 0, y: ([, row]) => row + (top ? 0.2 : -0.35), text: "0", textAnchor: "start", fontSize: 10 }
          : { x: 0, dx: -6, y: ([, row]) => row + 0.45, text: "0", textAnchor: "end", fontSize: 11 }),
        Plot.tip(chosen, Plot.pointer({
          x: (job) => (job.start + job.end) / 2, y: (job) => job.row + 0.45, maxRadius: 60, fill: "var(--card)",
          title: (job) => `${told.rules[job.rule]} ${job.key}\nwaited ${shown(job.start - job.wait)}, ran ${shown(job.end - job.start)}${["", ", then it failed", " so far"][job.kind]}${job.retries ? `\nfailed attempts before: ${job.retries}` : ""}`,
        })),
      ],
    }));

    const waiting = told.times.map((time, at) => ({ time: time / size, many: told.waiting[at] }));
    // A chart for each pool: their limits differ. A limit that is far away is told, not drawn.
    const ofEach = pools.map((pool) => {
      const steps = told.times.map((time, at) => ({ time: time / size, many: told.running[pool][at] }));
      const most = Math.max(1, ...told.running[pool]), limit = told.limits[pool], near = limit && limit <= 3 * most;
      const title = document.createElement("h4");
      title.textContent = `${pool || "no pool"}${limit ? `: limit ${limit}` : ""}`;
      return [title, Plot.plot({
        width, height: pools.length > 1 ? 110 : 170, marginLeft: 48, x: span,
        y: { label: "jobs that ran", grid: true, domain: [0, near ? Math.max(limit, most) : most], ticks: Math.min(pools.length > 1 ? 3 : 5, most), tickFormat: "d" },
        marks: [
          Plot.areaY(steps, { x: "time", y: "many", fill: "#a463f2", curve: "step-after", fillOpacity: 0.85 }),
          Plot.ruleY(near ? [limit] : [], { stroke: "currentColor", strokeDasharray: "5 3" }),
          Plot.ruleY([0]),
        ],
      })];
    });
    const reasons = [...new Set(told.queue.map(([, pool, why]) => `${pool}: ${why}`))];
    const asked = [...new Set(told.queue.map(([time]) => time))];
    const queued = told.queue.map(([time, pool, why, many]) => ({ time: time / size, why: `${pool}: ${why}`, many }));
    const step = asked.length > 1 ? Math.min(...asked.slice(1).map((time, at) => time - asked[at])) / size : last / 50;
    put("concurrency", ...ofEach.flat(), Plot.plot({
      width, height: 130, marginLeft: 48, x: span, y: { label: "jobs that waited", grid: true, ticks: Math.min(5, most([told.waiting])), tickFormat: "d" },
      marks: [
        Plot.areaY(waiting, { x: "time", y1: 0, y2: "many", curve: "step-after", fill: grey }),
        Plot.ruleY([0]),
      ],
    }), ...(queued.length ? [legend(reasons, colour), Plot.plot({
      width, height: 130, marginLeft: 48, x: span, y: { label: "jobs in the queue", grid: true, ticks: Math.min(5, Math.max(...queued.map((one) => one.many))), tickFormat: "d" },
      marks: [
        Plot.rectY(queued, { x1: "time", x2: (one) => one.time + step, y: "many", fill: (one) => colour(reasons.indexOf(one.why)) }),
        Plot.ruleY([0]),
      ],
    })] : []));

    const memory = told.memory.map(([rule, least, most, asked]) => ({ name: told.rules[rule], rule, least: least / 1e9, most: most / 1e9, asked: asked / 1e9 }));
    // From megabytes to hundreds of gigabytes: each step of the scale is a factor.
    const amounts = memory.flatMap((one) => [one.least, one.most, one.asked]).filter((amount) => amount > 0);
    const [low, high] = amounts.length ? [Math.min(...amounts) / 1.5, Math.max(...amounts) * 1.3] : [0.1, 1];
    const hasAsked = memory.some((one) => one.asked);
    // Where there is little room, only factors of ten have a label.
    const seldom = narrow && hasAsked && high / low > 20;
    const inBytes = (amount) => seldom && Math.abs(Math.log10(amount) - Math.round(Math.log10(amount))) > 0.01 ? "" : toldInBytes(amount);
    const toldInBytes = (amount) => amount >= 1 ? `${+amount.toPrecision(3)} GB` : `${+(1000 * amount).toPrecision(3)} MB`;
    if (memory.length) put("memory", Plot.plot({
      width, height: memory.length * (narrow ? 44 : 30) + 60, marginLeft: narrow ? 8 : Math.min(240, width / 3),
      x: hasAsked ? { type: "log", label: null, grid: true, domain: [low, high], ticks: narrow ? 4 : 8, tickFormat: inBytes } : { label: null, grid: true, domain: [0, high], ticks: narrow ? 4 : 8, tickFormat: inBytes },
      y: { domain: memory.map((one) => one.rule), axis: null, padding: narrow ? 0.55 : 0.35 },
      marks: [
        Plot.barX(memory, { x1: (one) => Math.max(low, one.least * 0.985), x2: (one) => Math.max(low, one.most * 1.015), y: "rule", fill: (one) => colour(one.rule), title: (one) => `${one.name}: ${toldInBytes(one.least)} to ${toldInBytes(one.most)}` }),
        Plot.tickX(memory.filter((one) => one.asked), { x: "asked", y: "rule", stroke: "currentColor", strokeWidth: 2, title: (one) => `asked for ${toldInBytes(one.asked)}` }),
        Plot.text(memory, narrow
          ? { x: hasAsked ? low : 0, y: "rule", text: "name", textAnchor: "start", dy: -18 }
          : { x: hasAsked ? low : 0, y: "rule", text: "name", textAnchor: "end", dx: -6, fontSize: 11 }),
        Plot.ruleX([hasAsked ? low : 0]),
      ],
    }));
  }

  let planned;
  draw();
  only.addEventListener("change", draw);
  addEventListener("resize", () => { clearTimeout(planned); planned = setTimeout(draw, 150); });
})();
