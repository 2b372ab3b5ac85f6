"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const by = (id) => document.getElementById(id);
  const made = (tag, text, kind) => {
    const node = document.createElement(tag);
    if (text !== undefined) node.textContent = text;
    if (kind) node.className = kind;
    return node;
  };
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  // A line of a nest: how a loop runs stands out, what explains it stands back.
  const lineOf = (text, number) => {
    const line = made("div");
    line.append(made("u", number));
    const at = text.lastIndexOf(" # ");
    const said = at < 0 ? text : text.slice(0, at);
    const kind = /^(\s*)(parallel|vector|unroll|tensor)\b/.exec(said);
    if (kind) line.append(kind[1], made("b", kind[2]), said.slice(kind[0].length));
    else line.append(said);
    if (at >= 0) line.append(made("i", text.slice(at)));
    return line;
  };

  // The nest and its hot loop -----------------------------------------------------------------------------------------------------
  const nest = by("nest");
  const nestLines = data.nest.map(([text], place) => nest.appendChild(lineOf(text, place + 1)));
  const asm = by("asm");
  if (asm) {
    const stripes = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#b8a800", "#888888"];
    let rows = [], lines = [];
    const light = (line) => {
      rows.forEach((row) => row.classList.toggle("lit", Boolean(line) && row.dataset.line === String(line)));
      nestLines.forEach((row, place) => row.classList.toggle("lit", Boolean(line) && place + 1 === Number(line)));
    };
    const showLoop = (chosen) => {
      const loop = data.loops[chosen];
      lines = [...new Set(loop.code.map(([, line]) => line).filter((line) => line))].sort((one, other) => one - other);
      const stripe = (line) => stripes[lines.indexOf(line) % stripes.length];
      rows = loop.code.map(([text, line]) => {
        const row = made("div");
        row.append(made("u", line || ""), text);
        row.dataset.line = line || "";
        if (line) row.firstChild.style.borderLeftColor = stripe(line);
        row.addEventListener("mouseenter", () => light(line || 0));
        return row;
      });
      asm.replaceChildren(...rows);
      asm.scrollTop = 0;
      nestLines.forEach((row, place) => { row.firstChild.style.borderLeftColor = lines.includes(place + 1) ? stripe(place + 1) : ""; });
      const row = nestLines[(lines[lines.length - 1] || 1) - 1];
      nest.scrollTop = Math.max(0, row.offsetTop - nest.offsetTop - 200);
      by("loop-told").textContent = loop.about;
      choices.forEach((choice, place) => choice.setAttribute("aria-pressed", place === chosen));
    };
    const choices = data.loops.map((loop, place) => {
      const choice = made("button", `${place + 1}: ${loop.label}`);
      choice.type = "button";
      choice.addEventListener("click", () => showLoop(place));
      return by("loops").appendChild(choice);
    });
    nestLines.forEach((row, place) => row.addEventListener("mouseenter", () => light(lines.includes(place + 1) ? place + 1 : 0)));
    [nest, asm].forEach((part) => part.addEventListener("mouseleave", () => light(0)));
    if (data.loops.length) showLoop(0);
  }

  // What each directive did -------------------------------------------------------------------------------------------------------
  const { lines: texts, first, calls } = data.steps;
  const nests = [first];
  calls.forEach(([, , edits]) => {
    const before = nests[nests.length - 1];
    if (edits === null || before === null) { nests.push(null); return; }
    const after = before.slice();
    edits.slice().reverse().forEach(([at, gone, come]) => after.splice(at, gone, ...come));
    nests.push(after);
  });
  let step = 0;
  const list = by("step-list");
  const items = calls.map(([call], place) => {
    const item = made("li", call.replace(/^s\./, ""));
    item.addEventListener("click", () => showStep(place));
    return list.appendChild(item);
  });
  const fill = (id, lines, marked, kind) => {
    const box = by(id);
    box.replaceChildren();
    if (lines === null) { box.append(made("p", "The page follows the nest no further: the schedule is too long.", "soft")); return; }
    let top = null;
    lines.forEach((text, place) => {
      const row = box.appendChild(lineOf(texts[text], place + 1));
      if (marked.has(place)) { row.classList.add(kind); top = top || row; }
    });
    box.scrollTop = top ? Math.max(0, top.offsetTop - box.offsetTop - 90) : 0;
  };
  const showStep = (place) => {
    if (!calls.length) {
      by("step-told").textContent = "The schedule has no step: the loops are those of the definition.";
      fill("before", first, new Set(), ""); fill("after", first, new Set(), "");
      return;
    }
    step = Math.min(Math.max(place, 0), calls.length - 1);
    const [call, meaning, edits] = calls[step];
    const less = new Set(), more = new Set();
    let shift = 0;
    (edits || []).forEach(([at, gone, come]) => {
      for (let n = 0; n < gone; n += 1) less.add(at + n);
      for (let n = 0; n < come.length; n += 1) more.add(at + shift + n);
      shift += come.length - gone;
    });
    by("step-told").replaceChildren(`Step ${step + 1} of ${calls.length}: `, made("code", call), made("span", `  ${meaning}`, "soft"));
    fill("before", nests[step], less, "less"); fill("after", nests[step + 1], more, "more");
    items.forEach((item, n) => (n === step ? item.setAttribute("aria-current", "step") : item.removeAttribute("aria-current")));
    list.scrollTop = Math.max(0, items[step].offsetTop - list.offsetTop - 120);
    by("step-slider").value = step;
    by("step-back").disabled = step === 0; by("step-next").disabled = step === calls.length - 1;
  };
  by("step-slider").max = Math.max(0, calls.length - 1);
  by("step-slider").addEventListener("input", (event) => showStep(Number(event.target.value)));
  by("step-back").addEventListener("click", () => showStep(step - 1));
  by("step-next").addEventListener("click", () => showStep(step + 1));
  showStep(0);

  // What is computed, read and kept when ------------------------------------------------------------------------------------------
  const film = data.film;
  if (!film) return;
  const decoded = (code, cells) => {
    const flags = new Uint8Array(cells);
    if (typeof code === "string") {
      for (let n = 0; n < cells; n += 1) flags[n] = (parseInt(code[n >> 2], 16) >> (3 - (n & 3))) & 1;
    } else {
      let at = 0;
      code.forEach((length, n) => { if (n & 1) flags.fill(1, at, at + length); at += length; });
    }
    return flags;
  };
  const many = film.pictures.length;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const cividis = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];
  const agesFrom = (begin) => Array.from({ length: many }, (_, n) => {  // on a dark page the darkest colours would be lost
    const at = begin + (n / Math.max(1, many - 1)) * (cividis.length - 1 - begin), low = Math.min(Math.floor(at), cividis.length - 2);
    const part = (hex, k) => parseInt(hex.slice(1 + 2 * k, 3 + 2 * k), 16);
    const mix = [0, 1, 2].map((k) => Math.round(part(cividis[low], k) + (at - low) * (part(cividis[low + 1], k) - part(cividis[low], k))));
    return `rgb(${mix.join(",")})`;
  });
  // For each panel and picture: what happens, and since when each cell is what it is.
  const panels = film.panels.map((panel, place) => {
    const cells = panel.rows * panel.columns;
    let kept = new Uint8Array(cells), since = new Int16Array(cells).fill(-1), used = new Uint8Array(cells);
    const pictures = film.pictures.map((picture, n) => {
      const [computed, read, toggled] = picture.cells[place].map((code) => decoded(code, cells));
      kept = kept.slice(); since = since.slice(); used = used.slice();
      for (let cell = 0; cell < cells; cell += 1) {
        if (computed[cell]) since[cell] = n;
        kept[cell] ^= toggled[cell];
        used[cell] |= read[cell];
      }
      return { computed, read, kept, since, used };
    });
    const box = made("div", undefined, `panel ${panel.role}`);
    const canvas = made("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", `${panel.role} ${panel.name}`);
    const about = made("span");
    const wide = panel.rows === 1 ? 560 : 264;
    const size = Math.max(2, Math.min(panel.rows === 1 ? 22 : 16, Math.floor(wide / panel.columns), panel.rows === 1 ? 99 : Math.floor(264 / panel.rows) || 2));
    const tall = panel.rows === 1 ? 22 : size;
    canvas.style.width = `${panel.columns * size}px`; canvas.style.height = `${panel.rows * tall}px`;
    box.append(made("b", panel.name), made("span", `${panel.role}, ${panel.shape}`), canvas, about);
    if (panel.notes) box.append(made("span", panel.notes));
    by("panels").append(box);
    canvas.addEventListener("mousemove", (event) => {
      const frame = canvas.getBoundingClientRect();
      const column = Math.min(panel.columns - 1, Math.max(0, Math.floor(((event.clientX - frame.left) / frame.width) * panel.columns)));
      const row = Math.min(panel.rows - 1, Math.max(0, Math.floor(((event.clientY - frame.top) / frame.height) * panel.rows)));
      const span = (at, each, most) => (each === 1 ? `${at}` : `${at * each} to ${Math.min((at + 1) * each, most) - 1}`);
      const cell = row * panel.columns + column, state = pictures[now];
      const what = panel.role === "input" ? (state.read[cell] ? "read now" : state.used[cell] ? "read before" : "not read yet")
        : [state.computed[cell] ? "computed now" : "", state.read[cell] ? "read now" : "",
          state.kept[cell] ? `kept since picture ${state.since[cell] + 1}` : state.since[cell] >= 0 ? "no longer kept" : "not computed yet"]
          .filter((part) => part).join(", ");
      about.textContent = `${panel.rows > 1 ? `row ${span(row, panel.height, Infinity)}, ` : ""}column ${span(column, panel.width, panel.across)}: ${what}`;
    });
    canvas.addEventListener("mouseleave", () => { about.textContent = ""; });
    return { panel, pictures, canvas, size, tall };
  });
  let now = 0;
  const draw = () => {
    const paint = { now: colour("--now"), read: colour("--read"), gone: colour("--gone"), empty: colour("--empty"), given: colour("--given"), used: colour("--used") };
    const ratio = window.devicePixelRatio || 1, ages = agesFrom(dark.matches ? 1.6 : 0);
    panels.forEach(({ panel, pictures, canvas, size, tall }) => {
      canvas.width = panel.columns * size * ratio; canvas.height = panel.rows * tall * ratio;
      const pen = canvas.getContext("2d"), state = pictures[now], gap = size >= 5 ? 1 : 0;
      pen.scale(ratio, ratio);
      for (let cell = 0; cell < panel.rows * panel.columns; cell += 1) {
        const x = (cell % panel.columns) * size, y = Math.floor(cell / panel.columns) * tall;
        const computed = state.computed[cell], read = state.read[cell];
        const still = panel.role === "input" ? (state.used[cell] ? paint.used : paint.given)
          : state.kept[cell] ? ages[Math.max(0, state.since[cell])] : state.since[cell] >= 0 ? paint.gone : paint.empty;
        pen.fillStyle = computed ? paint.now : read ? paint.read : still;
        pen.fillRect(x, y, size - gap, tall - gap);
        if (computed && read) {
          pen.fillStyle = paint.read;
          pen.beginPath(); pen.moveTo(x + size - gap, y); pen.lineTo(x + size - gap, y + tall - gap); pen.lineTo(x, y + tall - gap); pen.fill();
        }
      }
    });
  };
  const bytes = (value) => value >= 1048576 ? `${(value / 1048576).toPrecision(3)} MiB` : value >= 1024 ? `${(value / 1024).toPrecision(3)} KiB` : `${value} B`;
  const live = by("live");
  const liveLines = data.nest.map(([text, stage], place) => {
    const row = live.appendChild(lineOf(text.replace(/ +# /, "  # "), place + 1));
    row.dataset.stage = stage;
    return row;
  });
  const most = Math.max(1, ...film.pictures.map((picture) => picture.bytes));
  let cursor = null;
  if (film.bytes) {
    const held = film.pictures.map((picture, n) => `L${((n + 0.5) / many) * 1000} ${52 - (picture.bytes / most) * 48}`).join("");
    const space = "http://www.w3.org/2000/svg";
    const chart = document.createElementNS(space, "svg");
    chart.setAttribute("viewBox", "0 0 1000 56"); chart.setAttribute("preserveAspectRatio", "none"); chart.setAttribute("role", "img");
    chart.setAttribute("aria-label", `intermediates kept over time, at most ${bytes(most)}`);
    const area = document.createElementNS(space, "path");
    area.setAttribute("class", "area"); area.setAttribute("d", `M0 52${held}L1000 52Z`);
    cursor = document.createElementNS(space, "line");
    cursor.setAttribute("y1", "0"); cursor.setAttribute("y2", "56"); cursor.setAttribute("vector-effect", "non-scaling-stroke");
    chart.append(area, cursor);
    by("memory").append(made("span", `bytes of intermediates that are kept, at most ${bytes(most)} at once`), chart);
  }
  const show = (place) => {
    now = Math.min(Math.max(place, 0), many - 1);
    const picture = film.pictures[now];
    const shares = Object.entries(picture.stages).sort((one, other) => other[1] - one[1]);
    const share = (value) => (value >= 0.995 ? "100%" : value < 0.01 ? "under 1%" : `${Math.round(100 * value)}%`);
    by("told").textContent = `Picture ${now + 1} of ${many}: ${shares.slice(0, 6).map(([stage, value]) => `${stage} ${share(value)}`).join(", ")}`
      + `${shares.length > 6 ? ` and ${shares.length - 6} more` : ""}${film.bytes ? `; ${bytes(picture.bytes)} of intermediates kept` : ""}.`;
    liveLines.forEach((row) => {
      const value = row.dataset.stage ? picture.stages[row.dataset.stage] : 0;
      row.style.setProperty("--share", value ? `${Math.max(4, 100 * value)}%` : "0%");
    });
    if (cursor) { const x = ((now + 0.5) / many) * 1000; cursor.setAttribute("x1", x); cursor.setAttribute("x2", x); }
    by("slider").value = now;
    draw();
  };
  let timer = null;
  const pause = () => { if (timer) clearInterval(timer); timer = null; by("play").textContent = "\u25B6\uFE0E play"; by("play").setAttribute("aria-label", "play"); };
  const play = () => {
    if (timer) { pause(); return; }
    if (now === many - 1) show(0);
    by("play").textContent = "\u23F8\uFE0E pause"; by("play").setAttribute("aria-label", "pause");
    timer = setInterval(() => { if (now === many - 1) pause(); else show(now + 1); }, Number(by("speed").value));
  };
  const go = (place) => { pause(); show(place); };
  by("slider").max = many - 1;
  by("slider").addEventListener("input", (event) => go(Number(event.target.value)));
  by("first").addEventListener("click", () => go(0));
  by("back").addEventListener("click", () => go(now - 1));
  by("next").addEventListener("click", () => go(now + 1));
  by("last").addEventListener("click", () => go(many - 1));
  by("play").addEventListener("click", play);
  by("speed").addEventListener("change", () => { if (timer) { pause(); play(); } });
  document.addEventListener("keydown", (event) => {
    const inside = (ids) => ids.some((id) => by(id) && by(id).contains(event.target));
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|BUTTON|SUMMARY)$/.test(event.target.tagName)) return;
    if (inside(["steps"])) {
      if (event.key === "ArrowLeft") showStep(step - 1); else if (event.key === "ArrowRight") showStep(step + 1); else return;
    } else if (inside(["nest", "asm"])) return;
    else if (event.key === "ArrowLeft") go(now - 1);
    else if (event.key === "ArrowRight") go(now + 1);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(many - 1);
    else if (event.key === " ") play();
    else return;
    event.preventDefault();
  });
  dark.addEventListener("change", draw);
  show(Math.floor(many / 3));
})();
