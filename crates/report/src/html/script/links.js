// Links to a test, a metric and a checkpoint.

function address(test, metric, index) {
  return '#' + [test.id, metric, test.labels[index]].map(encodeURIComponent).join('/');
}

function link(test, metric, index) {
  const next = address(test, metric, index);
  if (location.hash === next) follow();
  else location.hash = next;
}

function decoded(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

// Opens, draws, marks and scrolls to what the address names.
function follow() {
  for (const row of findAll('tr.marked')) {
    row.classList.remove('marked');
    row.removeAttribute('aria-current');
  }
  notice('');
  const hash = location.hash.slice(1);
  if (!hash) return;
  const [id, metric, label] = hash.split('/').map(decoded);
  const test = report.tests.find((one) => one.id === id);
  if (!test || !sectionOf(test)) return followElement(document.getElementById(decoded(hash)), id);
  open(sectionOf(test));
  drawTest(test);
  scrollTo(metric ? followMetric(test, metric, label) : sectionOf(test));
}

// Returns what to scroll to.
function followMetric(test, metric, label) {
  const chart = test.charts?.find((one) => one.metrics.includes(metric));
  const section = sectionOf(test);
  if (!test.series?.[metric]) {
    notice(`This link names the metric '${metric}', which '${test.title}' does not have.`);
    return section;
  }
  const index = label === undefined ? null : test.labels.indexOf(label);
  if (index === -1) {
    notice(`This link names the checkpoint '${label}', which '${test.title}' does not have.`);
    return section;
  }
  chart?.reveal(metric, index);
  if (index === null) return find('.charts', section) ?? section;
  const at = test.rows ? test.rows[index] : index;
  const row = rowOf(section, at, metric);
  if (!row) return find('.charts', section) ?? section;
  row.classList.add('marked');
  row.setAttribute('aria-current', 'true');
  return row;
}

// A test can have several tables: that of the metric is preferred.
function rowOf(section, number, metric) {
  const rows = findAll(`tr[data-row="${Number(number)}"]`, section);
  return rows.find((row) => row.closest('table').textContent.slice(0, 2000).includes(metric)) ?? rows[0];
}

function followElement(target, name) {
  if (!target) return notice(`This link names '${name}', which is not on this page.`);
  open(target);
  scrollTo(target);
}

function open(node) {
  const section = node.closest('section.test');
  if (section?.hidden) clearFilter();
  for (let at = node.matches('section.test') ? find('details', node) : node; at; at = at.parentElement) {
    if (at.matches('details')) at.open = true;
  }
}

function scrollTo(node) {
  const go = () => node.scrollIntoView({ block: node.matches('tr') ? 'center' : 'start' });
  go();
  // Sections get their true heights while they come into view.
  requestAnimationFrame(() => requestAnimationFrame(go));
}
