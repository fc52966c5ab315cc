// Single runs as dots.

const MOST_DOTS = 1000;

function drawDots(test, host) {
  for (const entry of test.dots) {
    const all = entry.values.flat();
    if (!all.length || all.length > MOST_DOTS) continue;
    host.append(strip(test, entry, min(...all), max(...all)));
    host.hidden = false;
  }
}

// One line per ref: a dot per run, a bar at the median. Equal runs are stacked downwards.
function strip(test, entry, low, high) {
  const unit = report.units[entry.metric];
  const across = (value) => 2 + 96 * (high > low ? (value - low) / (high - low) : 0.5);
  const medians = entry.values.map((values) => (values.length ? median(values) : NaN));
  const rows = entry.values.map((values, ref) => [values, ref]).filter(([values]) => values.length).map(([values, ref]) => {
    const line = svg('svg', { height: 26, width: '100%', 'aria-hidden': 'true', class: refClass(ref) },
      svg('line', { x1: '0', x2: '100%', y1: 13, y2: 13, class: 'rule' }));
    values.forEach((value, run) => {
      const dot = svg('circle', { cx: `${across(value)}%`, cy: 13 + ((run % 3) - 1) * 3, r: 4 });
      dot.append(svg('title', {}, `run ${run + 1}: ${figure(value, unit)}`));
      line.append(dot);
    });
    line.append(svg('line', { x1: `${across(medians[ref])}%`, x2: `${across(medians[ref])}%`, y1: 2, y2: 24, class: 'median' }));
    return [element('bdi', { class: `ref ${refClass(ref)}` }, clean(report.refs[ref], 40)), line,
      element('span', { class: 'n' }, figure(medians[ref], unit))];
  });
  const label = test.labels?.[entry.label];
  return element('div', { class: 'strip' },
    element('p', {}, element('b', {}, clean(entry.metric)), label === undefined ? '' : ` at '${clean(label, 80)}'`, `: ${spread(entry, unit)}`),
    element('div', { class: 'rows' }, ...rows.flat()));
}

function spread({ low, high, limit, verdict }, unit) {
  const signed = (value) => (value > 0 ? '+' : '') + figure(value, unit);
  const parts = Number.isFinite(low) ? [`the difference lies between ${signed(low)} and ${signed(high)}`] : [];
  if (Number.isFinite(limit)) parts.push(`limit ${figure(limit, unit)}`);
  return [...parts, clean(verdict ?? 'a dot per run, a bar at the median')].join(', ');
}
