// Charts of live memory and peaks by checkpoint or time.

const lastPart = (metric) => metric.slice(metric.lastIndexOf('.') + 1);
const familyOf = (metric) => metric.slice(0, max(0, metric.lastIndexOf('.'))) || metric;
// These belong to the interval before a checkpoint, others to the moment.
const isOfInterval = (metric) => /^(peak|peak_above_start|allocated|count|in_use_peak|reserved_peak)$/.test(lastPart(metric));
const timelinesOf = (test, family) => (test.timelines ?? []).filter((one) => one.family === family);

// The metrics of each family, and those that its chart shows first.
function families(test) {
  const metrics = Object.keys(test.series ?? {}).filter((metric) => metric !== 'time');
  const names = new Set([...metrics.map(familyOf), ...(test.timelines ?? []).map((one) => one.family)]);
  return [...names].map((family) => {
    const own = metrics.filter((metric) => familyOf(metric) === family);
    const named = (...parts) => parts.map((part) => `${family}.${part}`).find((metric) => own.includes(metric));
    const usual = [named('live', 'rss', 'process', 'used', 'in_use'), named('peak', 'in_use_peak')].filter(Boolean);
    return { family, metrics: own, usual: usual.length ? usual : own.slice(0, 1) };
  });
}

function drawCharts(test, host) {
  test.charts = families(test)
    .filter(({ family }) => test.labels?.length > 1 || test.series?.time || timelinesOf(test, family).length)
    .map((family) => chart(test, family, host));
  host.hidden = !test.charts.length;
}

const LEFT = 68;
const RIGHT = 14;
const TOP = 20;
const BOTTOM = 40;
const CHART_HEIGHT = 250;
const KEYS = '← → move, drag or + − zoom, Shift pans, Enter links, Esc resets';

function chart(test, { family, metrics, usual }, host) {
  const labels = test.labels ?? [];
  const timelines = timelinesOf(test, family);
  let shown = usual;
  // Between `start` and `done` alone, only time says how memory went.
  let byTime = !metrics.length || labels.length < 2 || (labels.length === 2 && timelines.length > 0);
  const hasBoth = metrics.length > 0 && labels.length > 1 && (test.series.time || timelines.length > 0);
  let view = null;  // the part of x that is visible; null for all
  let at = null;    // the checkpoint under the cursor
  let drag = null;  // where a drag began
  let plot = null;  // the scales of the last painting

  const overlay = (name) => element('div', { class: name, hidden: true });
  const [cursor, brush, tooltip] = ['cursor', 'brush', 'tooltip'].map(overlay);
  tooltip.setAttribute('role', 'status');
  const what = element('span', { class: 'what' });
  const reset = element('button', { type: 'button', class: 'reset', onclick: () => zoom(null) }, 'Reset zoom');
  const bar = element('div', { class: 'bar' });
  const plotted = element('div', { class: 'plot' }, cursor, brush, tooltip);
  host.append(element('figure', { class: 'chart' },
    element('figcaption', {}, element('b', {}, clean(family)), legend(), what), bar, plotted, element('p', { class: 'hint' }, KEYS)));
  const select = element('select', { 'aria-label': 'Metric', onchange: () => show(select.value) },
    element('option', { value: '' }, usual.map(lastPart).join(' and ')),
    ...metrics.map((metric) => element('option', { value: metric }, clean(lastPart(metric)))));
  if (metrics.length > usual.length) bar.append(select);
  if (hasBoth) {
    bar.append(choice('Horizontal axis', [['checkpoint', 'by checkpoint'], ['time', 'by time']], byTime ? 'time' : 'checkpoint', (value) => {
      byTime = value === 'time';
      point(null);
      zoom(null);
    }));
  }
  bar.append(reset);
  const { canvas, now, later } = drawing(plotted, {
    'aria-label': `Chart of ${clean(family)} in ${clean(test.title)}. The table of checkpoints below has its figures.`,
    onkeydown: keys({
      ArrowLeft: ({ shiftKey }) => (shiftKey ? pan(-0.1) : step(at ?? labels.length, -1)),
      ArrowRight: ({ shiftKey }) => (shiftKey ? pan(0.1) : step(at ?? nearest(LEFT) - 1, 1)),
      Home: () => step(-1, 1),
      End: () => step(labels.length, -1),
      '+': () => scaleBy(0.5, centre()),
      '-': () => scaleBy(2, centre()),
      Escape: () => { zoom(null); point(null); },
      Enter: () => at !== null && link(test, changedMetric(test, at, family) ?? shown[0], at),
    }),
    onpointerdown, onpointermove, onpointerup, ondblclick: () => zoom(null),
    onpointercancel: () => { drag = null; brush.hidden = true; },
    onpointerleave: () => document.activeElement === canvas || point(null), onblur: () => point(null),
  }, () => CHART_HEIGHT, paint);
  canvas.addEventListener('wheel', (event) => {
    if (!event.ctrlKey || !plot) return;
    event.preventDefault();
    scaleBy(event.deltaY > 0 ? 1.25 : 0.8, plot.value(inset(event, canvas)[0]));
  }, { passive: false });
  zoom(null);
  return { metrics, reveal };

  function show(metric) {
    const isUsual = !metric || usual.includes(metric);
    shown = isUsual ? usual : [metric];
    select.value = isUsual ? '' : metric;
    zoom(view);
  }

  // What is drawn: a band per timeline, or a line or an area per metric and ref.
  function layers() {
    if (isBand()) return timelines.map(bandOf);
    return shown.flatMap((metric) => report.refs.map((_, ref) => (
      { ref, isArea: isOfInterval(metric), high: trackOf(test, metric, ref, byTime) }))).filter(({ high }) => high?.length);
  }

  function whole() {
    if (!byTime) return [-0.5, labels.length - 0.5];
    return [0, max(1, ...layers().map(({ high }) => high.xs[high.length - 1]))];
  }

  function visible() {
    return view ?? whole();
  }

  function zoom(next) {
    const [least, most] = whole();
    const smallest = byTime ? (most - least) / 1e4 : 2;
    view = null;
    if (next && next[1] - next[0] < most - least) {
      const width = max(next[1] - next[0], smallest);
      const from = min(max(least, next[0]), most - width);
      view = [from, from + width];
    }
    reset.hidden = !view;
    const isBand = layers()[0]?.low;
    what.textContent = isBand ? 'lowest to highest' : shown.map((metric) => (
      isOfInterval(metric) ? `${lastPart(metric)} since the checkpoint before (area)` : `${lastPart(metric)} (line)`)).join(', ');
    later();
  }

  function scaleBy(factor, centre) {
    zoom(visible().map((end) => centre + (end - centre) * factor));
  }

  function pan(share) {
    if (view) zoom(view.map((end) => end + share * (view[1] - view[0])));
  }

  function paint(pen, width, height) {
    const drawn = layers();
    const [from, to] = visible();
    const [low, high] = verticalRange(drawn, from, to);
    const [right, bottom] = [width - RIGHT, height - BOTTOM];
    plot = {
      from, to, low, high, right, bottom,
      x: (value) => LEFT + (value - from) / (to - from) * (right - LEFT),
      y: (value) => bottom - (value - low) / (high - low) * (bottom - TOP),
      value: (x) => from + (x - LEFT) / (right - LEFT) * (to - from),
    };
    paintAxes(pen, plot, report.units[shown[0]] ?? 'bytes');
    if (byTime) paintTimes(pen, plot);
    else paintLabels(pen, plot, labels);
    pen.save();
    pen.beginPath();
    pen.rect(LEFT, 0, right - LEFT, bottom + 1);
    pen.clip();
    // The dashed baseline comes last: it must show on an equal, solid line.
    for (const layer of [...drawn].reverse()) paintLayer(pen, plot, layer, byTime);
    for (const { x, verdict } of marks()) paintMark(pen, x, bottom, verdict);
    pen.restore();
    placeCursor();
  }

  function positionOf(index) {
    return byTime ? times()[index] : index;
  }

  function isBand() {
    return byTime && timelines.length > 0 && shown === usual;
  }

  // A band is of a run with call stacks, which takes longer than the others and has its own clock.
  function times() {
    return isBand() ? markTimes(test, timelines) : timesOf(test);
  }

  // The changed checkpoints in view, one per pixel.
  function marks() {
    const found = new Map();
    for (const [index, metric, verdict] of test.changed ?? []) {
      const x = plot.x(positionOf(index));
      if (familyOf(metric) === family && x >= LEFT && x <= plot.right) found.set(round(x), { x, index, metric, verdict });
    }
    return [...found.values()];
  }

  function placeCursor() {
    const x = at === null ? NaN : plot.x(positionOf(at));
    cursor.hidden = tooltip.hidden = !(x >= LEFT - 1 && x <= plot.right + 1);
    cursor.style.left = `${x}px`;
    const isRight = x > (LEFT + plot.right) / 2;
    tooltip.style.left = isRight ? 'auto' : `${x + 12}px`;
    tooltip.style.right = isRight ? `${plotted.clientWidth - x + 12}px` : 'auto';
  }

  function point(index) {
    at = index;
    if (index !== null) tooltip.replaceChildren(...explanation(test, labels[index], index, byTime && !isBand() ? [...shown, 'time'] : shown));
    if (plot) placeCursor();
  }

  function nearest(x) {
    const value = plot.value(x);
    if (!byTime) return max(0, min(labels.length - 1, round(value)));
    let best = null;
    let least = Infinity;
    times().forEach((time, index) => {
      if (abs(time - value) < least) [best, least] = [index, abs(time - value)];
    });
    return best;
  }

  function markAt([x, y]) {
    return y <= TOP + 4 ? marks().find((mark) => abs(mark.x - x) <= 8) : undefined;
  }

  function onpointerdown(event) {
    if (event.button !== 0 || !plot) return;
    canvas.setPointerCapture(event.pointerId);
    drag = { start: inset(event, canvas), pans: event.shiftKey ? view : null };
  }

  function onpointermove(event) {
    const [x, y] = inset(event, canvas);
    if (!plot) return;
    if (!drag) {
      canvas.classList.toggle('pointing', Boolean(markAt([x, y])));
      point(x >= LEFT - 4 && x <= plot.right + 4 ? nearest(x) : null);
    } else if (drag.pans) {
      const by = (drag.start[0] - x) / (plot.right - LEFT) * (drag.pans[1] - drag.pans[0]);
      zoom(drag.pans.map((end) => end + by));
    } else {
      const [left, right] = draggedTo(x);
      brush.hidden = right - left <= 3;
      brush.style.left = `${left}px`;
      brush.style.width = `${right - left}px`;
    }
  }

  function draggedTo(x) {
    return [drag.start[0], x].map((end) => max(LEFT, min(plot.right, end))).sort((a, b) => a - b);
  }

  function onpointerup(event) {
    if (!drag) return;
    const [left, right] = draggedTo(inset(event, canvas)[0]);
    const { start, pans } = drag;
    drag = null;
    brush.hidden = true;
    const mark = markAt(start);
    if (pans) return;
    if (right - left > 3) zoom([left, right].map(plot.value));
    else if (mark) link(test, mark.metric, mark.index);
  }

  // Moves to the next checkpoint that has a place on the axis; the view follows.
  function step(from, by) {
    let next = from + by;
    while (next >= 0 && next < labels.length && Number.isNaN(positionOf(next))) next += by;
    if (next < 0 || next >= labels.length) return;
    const x = positionOf(next);
    if (view && (x < view[0] || x > view[1])) pan((x - (view[0] + view[1]) / 2) / (view[1] - view[0]));
    point(next);
  }

  function centre() {
    return at === null ? sum(visible()) / 2 : positionOf(at);
  }

  function reveal(metric, index) {
    if (!shown.includes(metric)) show(metric);
    if (index === null) return;
    const x = positionOf(index);
    if (view && !(x >= view[0] && x <= view[1])) zoom(null);
    now();
    point(index);
  }
}

function legend() {
  return element('span', { class: 'legend' }, ...report.refs.map((name, ref) => element('span', { class: `ref ${refClass(ref)}` },
    svg('svg', { width: 26, height: 8, 'aria-hidden': 'true' }, svg('path', { d: 'M0 4H26', 'stroke-dasharray': dashes(ref).join(' ') || null })),
    element('bdi', {}, clean(name, 60)))));
}

// The label, and a table of each ref's figures with the difference to the baseline.
function explanation(test, label, index, metrics) {
  const { refs, baseline, units } = report;
  const others = refs.map((_, ref) => ref).filter((ref) => ref !== baseline);
  const head = element('tr', {}, element('th'),
    ...refs.map((name, ref) => element('th', { class: `n ref ${refClass(ref)}` }, element('bdi', {}, clean(name, 30)))),
    ...others.map(() => element('th', { class: 'n' }, 'difference')));
  const rows = metrics.map((metric) => {
    const figures = refs.map((_, ref) => valuesOf(test, metric, ref)?.[index] ?? NaN);
    return element('tr', {}, element('th', {}, clean(lastPart(metric))),
      ...figures.map((value) => element('td', { class: 'n' }, figure(value, units[metric]))),
      ...others.map((ref) => {
        if (isApart(test, metric, ref)) return element('td', { class: 'n' }, 'not compared');
        // Peaks and totals since the last checkpoint that both have, or in the runs that both have.
        const compared = test.compared?.[metric]?.[ref]?.[index];
        const delta = compared ?? figures[ref] - figures[baseline];
        return element('td', { class: `n ${direction(delta)}` }, difference(delta, units[metric]) + (delta === compared ? ' (compared)' : ''));
      }));
  });
  return [element('p', {}, element('bdi', {}, clean(label, 120))), element('table', {}, head, ...rows)];
}

// Whether a ref's figures may not be compared with the baseline's: other sources, or a run that failed.
function isApart(test, metric, ref) {
  return Boolean(test.apart?.some(([of, own]) => of === metric && own === ref));
}

// The time of each checkpoint in the run of the last timeline that has it.
function markTimes(test, timelines) {
  return once(test, `marks of ${timelines[0].family}`, () => {
    const known = new Map(timelines.flatMap(({ marks }) => marks.map(([time, label]) => [label, time])));
    return Float64Array.from(test.labels ?? [], (label) => known.get(label) ?? NaN);
  });
}

// The time of each checkpoint, of the last ref that has it.
function timesOf(test) {
  return once(test, 'times', () => {
    const known = report.refs.map((_, ref) => valuesOf(test, 'time', ref)).filter(Boolean).reverse();
    return Float64Array.from(test.labels ?? [], (_, index) => known.find((times) => !Number.isNaN(times[index]))?.[index] ?? NaN);
  });
}

// From zero, unless all lines lie close together far above it.
function verticalRange(drawn, from, to) {
  let [low, high] = [Infinity, -Infinity];
  for (const layer of drawn) {
    for (const points of [layer.high, layer.low ?? layer.high]) {
      const [least, most] = extent(points, ...pointsIn(points, from, to));
      low = min(low, least);
      high = max(high, most);
    }
  }
  if (high === -Infinity) return [0, 1];
  const isFar = low > 0.7 * high && high > low;
  const base = isFar ? low - 0.2 * (high - low) : min(0, low);
  return [base, high + 0.08 * (high - base) || 1];
}

function stroke(pen, corners) {
  pen.beginPath();
  for (const [x, y] of corners) pen.lineTo(x, y);
  pen.stroke();
}

function paintAxes(pen, plot, unit) {
  pen.textBaseline = 'middle';
  pen.textAlign = 'right';
  pen.fillStyle = colour('quiet');
  const values = ticks(plot.low, plot.high, unit, 5);
  // Three digits may not tell ticks apart: those above the first are then differences to it.
  const isClose = new Set(values.map((value) => tickText(value, unit))).size < values.length;
  for (const value of values) {
    const y = round(plot.y(value)) + 0.5;
    pen.strokeStyle = colour(value === 0 ? 'axis' : 'line');
    stroke(pen, [[LEFT, y], [plot.right, y]]);
    pen.fillText(isClose && value > values[0] ? `+${tickText(value - values[0], unit)}` : tickText(value, unit), LEFT - 8, y);
  }
  pen.textAlign = 'left';
  if (plot.low > 0) pen.fillText('does not start at 0', LEFT + 4, plot.bottom - 8);
}

function paintTick(pen, plot, x, lines) {
  pen.textBaseline = 'top';
  pen.textAlign = 'center';
  pen.strokeStyle = colour('axis');
  pen.fillStyle = colour('quiet');
  stroke(pen, [[x, plot.bottom], [x, plot.bottom + 4]]);
  lines.forEach((text, line) => pen.fillText(text, x, plot.bottom + 7 + 14 * line));
}

// As many labels as fit, at least 84 pixels apart.
function paintLabels(pen, plot, labels) {
  const slot = (plot.right - LEFT) / (plot.to - plot.from);
  const every = max(1, ceil(84 / slot));
  for (let index = ceil(max(0, plot.from) / every) * every; index < min(labels.length, plot.to); index += every) {
    const x = plot.x(index);
    const room = min(every * slot - 10, 2 * (plot.right + RIGHT - x));
    paintTick(pen, plot, x, twoLines(pen, clean(labels[index], 120), max(room, 40)));
  }
}

function paintTimes(pen, plot) {
  for (const time of ticks(plot.from, plot.to, 'nanoseconds', max(2, (plot.right - LEFT) / 90))) {
    paintTick(pen, plot, plot.x(time), [tickText(time, 'nanoseconds')]);
  }
}

// The points in a part of x, with one more on each side.
function pointsIn(points, from, to) {
  return [max(0, firstFrom(points, from) - 1), min(points.length, firstFrom(points, to) + 1)];
}

// The corners of a step line. A moment lasts until the next checkpoint; an interval ends at its own.
function corners(points, plot, isArea, byTime) {
  const { xs, ys } = points;
  const [begin, end] = pointsIn(points, plot.from, plot.to);
  if (end - begin > 2 * (plot.right - LEFT)) return denseCorners(points, plot, isArea);
  const half = byTime ? 0 : 0.5;
  const found = [];
  for (let i = begin; i < end; i += 1) {
    const y = plot.y(ys[i]);
    const [from, to] = isArea ? [xs[i - 1] ?? xs[i] - half, xs[i]] : [xs[i], xs[i + 1] ?? xs[i] + half];
    found.push([plot.x(from), y], [plot.x(to), y]);
  }
  return found;
}

// With many points per pixel: the lowest and highest of each column, and only the highest of an area.
function denseCorners(points, plot, isArea) {
  const found = [];
  let first = firstFrom(points, plot.from);
  for (let x = LEFT; x < plot.right; x += 1) {
    const next = firstFrom(points, plot.value(x + 1));
    const [low, high] = extent(points, isArea ? first : max(0, first - 1), min(points.length, next + isArea));
    if (high > -Infinity) found.push([x, plot.y(high)], [isArea ? x + 1 : x, plot.y(isArea ? high : low)]);
    first = next;
  }
  return found;
}

function paintLayer(pen, plot, { ref, high, low, isArea }, byTime) {
  const line = corners(high, plot, isArea || Boolean(low), byTime);
  if (!line.length) return;
  const isDense = line.length > 2 * (plot.right - LEFT) - 4;
  pen.strokeStyle = pen.fillStyle = refColour(ref);
  pen.lineWidth = isArea || isDense ? 1 : 2;
  // Dense lines fill an area, in which the other ref's must still show.
  pen.globalAlpha = isDense && !isArea && !low ? 0.5 : 1;
  pen.lineJoin = 'round';
  pen.setLineDash(isDense ? [] : dashes(ref));
  stroke(pen, line);
  pen.globalAlpha = 1;
  pen.setLineDash([]);
  if (isArea || low) {
    const under = low ? corners(low, plot, true, byTime).reverse() : [[line.at(-1)[0], plot.bottom], [line[0][0], plot.bottom]];
    for (const [x, y] of under) pen.lineTo(x, y);
    pen.globalAlpha = low ? 0.25 : 0.13;
    pen.fill();
    pen.globalAlpha = 1;
  }
  pen.lineWidth = 1;
}

// A triangle up or down, else a diamond, above the line of a changed checkpoint.
function paintMark(pen, x, bottom, verdict) {
  const [tone, shape] = {
    regressed: ['up', [[-6, 14], [6, 14], [0, 4]]],
    improved: ['down', [[-6, 4], [6, 4], [0, 14]]],
  }[verdict] ?? ['quiet', [[-5, 9], [0, 4], [5, 9], [0, 14]]];
  pen.strokeStyle = pen.fillStyle = colour(tone);
  pen.setLineDash([2, 3]);
  stroke(pen, [[x, TOP - 2], [x, bottom]]);
  pen.setLineDash([]);
  pen.beginPath();
  for (const [dx, y] of shape) pen.lineTo(x + dx, y);
  pen.fill();
}
