"use strict";
// The charts of the page, drawn by Observable Plot (vendor/) from the JSON that the page holds.
(() => {
  const told = JSON.parse(document.getElementById("jobs").textContent);
  const timeline = document.getElementById("timeline");
  if (!timeline || !told.jobs.length) return;
  const colours = ["#4269d0", "#efb118", "#e8604c", "#3ca951", "#6cc5b0", "#c77dba", "#a463f2", "#97bbf5", "#9c6b4e", "#8c95a3"];
  const grey = "var(--wait)";
  const colour = (number) => colours[number % colours.length];
  const ofPool = (number) => colour(number + 6);
  const pools = Object.keys(told.running);
  const jobs = told.jobs.map(([rule, row, wait, start, end, retries, key]) => ({ rule, row, wait, start, end, retries, key }));
  const last = Math.max(...jobs.map((job) => job.end));
  const only = document.getElementById("only");
  told.rules.forEach((name, number) => only.add(new Option(name, number)));

  const legend = (names, colourOf) => {
    const list = document.createElement("ul");
    list.className = "legend";
    for (const [name, shown] of names.map((name, number) => [name, colourOf(number)]).concat([["waiting", grey]])) {
      const item = document.createElement("li"), box = document.createElement("i");
      box.style.background = shown;
      item.append(box, name);
      list.append(item);
    }
    return list;
  };
  const put = (place, ...parts) => document.getElementById(place).replaceChildren(...parts);
  const seconds = (value) => `${value.toFixed(2)} s`;
  const span = { domain: [0, last], label: "seconds", grid: true, nice: false };

  function draw() {
    const width = Math.max(280, timeline.clientWidth);
    const narrow = width < 600;
    const chosen = only.value === "" ? jobs : jobs.filter((job) => job.rule === Number(only.value));
    const tall = Math.max(3, Math.min(18, 900 / told.rows.length));
    // One label for the rows of a pool on a host: at the first of them.
    const labels = told.rows.map((name, row) => [name, row]).filter(([name, row]) => told.rows[row - 1] !== name);
    const left = narrow ? 8 : 130;
    put("timeline", legend(told.rules, colour), Plot.plot({
      width, height: told.rows.length * tall + 60, marginLeft: left, marginTop: narrow ? 24 : 10,
      x: span, y: { axis: null, domain: [-0.6, told.rows.length], reverse: true },
      marks: [
        Plot.rect(chosen.filter((job) => job.wait < job.start), { x1: "wait", x2: "start", y1: (job) => job.row + 0.3, y2: (job) => job.row + 0.7, fill: grey }),
        Plot.rect(chosen, {
          x1: "start", x2: (job) => Math.max(job.end, job.start + last / 2000), y1: "row", y2: (job) => job.row + 0.9, fill: (job) => colour(job.rule),
        }),
        Plot.dot(chosen.filter((job) => job.retries), { x: "start", y: (job) => job.row + 0.45, symbol: "diamond", r: 4, fill: "currentColor" }),
        Plot.text(labels, narrow
          ? { x: 0, y: ([, row]) => row - 0.35, text: "0", textAnchor: "start", fontSize: 10 }
          : { x: 0, dx: -6, y: ([, row]) => row + 0.45, text: "0", textAnchor: "end", fontSize: 11 }),
        Plot.tip(chosen, Plot.pointer({
          x: (job) => (job.start + job.end) / 2, y: (job) => job.row + 0.45, maxRadius: 60, fill: "var(--card)",
          title: (job) => `${told.rules[job.rule]} ${job.key}\nwaited ${seconds(job.start - job.wait)}, ran ${seconds(job.end - job.start)}${job.retries ? `\n${job.retries} failed before` : ""}`,
        })),
      ],
    }));

    const steps = told.times.flatMap((time, at) => pools.map((pool) => ({ time, pool, many: told.running[pool][at] })));
    const waiting = told.times.map((time, at) => ({ time, many: told.waiting[at] }));
    put("concurrency", legend(pools, ofPool), Plot.plot({
      width, height: 220, marginLeft: 44, x: span, y: { label: "jobs", grid: true, nice: true },
      marks: [
        Plot.line(waiting, { x: "time", y: "many", curve: "step-after", stroke: grey, strokeWidth: 2 }),
        Plot.areaY(steps, { x: "time", y: "many", fill: (step) => ofPool(pools.indexOf(step.pool)), z: "pool", curve: "step-after", fillOpacity: 0.85 }),
        Plot.ruleY([0]),
      ],
    }));

    const memory = told.memory.map(([rule, least, most, asked]) => ({ name: told.rules[rule], rule, least: least / 1e9, most: most / 1e9, asked: asked / 1e9 }));
    put("memory", Plot.plot({
      width, height: memory.length * (narrow ? 44 : 30) + 60, marginLeft: narrow ? 8 : Math.min(240, width / 3),
      x: { label: "GB", grid: true, domain: [0, Math.max(...memory.map((one) => Math.max(one.most, one.asked))) * 1.05] },
      y: { domain: memory.map((one) => one.rule), axis: null, padding: narrow ? 0.55 : 0.35 },
      marks: [
        Plot.barX(memory, { x1: "least", x2: (one) => Math.max(one.most, one.least + 0.002), y: "rule", fill: (one) => colour(one.rule), title: (one) => `${one.name}: ${one.least.toFixed(3)} to ${one.most.toFixed(3)} GB` }),
        Plot.tickX(memory.filter((one) => one.asked), { x: "asked", y: "rule", stroke: "currentColor", strokeWidth: 2, title: (one) => `asked: ${one.asked} GB` }),
        Plot.text(memory, narrow
          ? { x: 0, y: "rule", text: "name", textAnchor: "start", dy: -18 }
          : { x: 0, y: "rule", text: "name", textAnchor: "end", dx: -6, fontSize: 11 }),
        Plot.ruleX([0]),
      ],
    }));
  }

  let planned;
  draw();
  only.addEventListener("change", draw);
  addEventListener("resize", () => { clearTimeout(planned); planned = setTimeout(draw, 150); });
})();
